//! Where a program is installed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The program that a command starts, looked for in a `PATH`; nothing when it is not installed. That a program is there
/// says nothing about whether it works: ask it (`probe`).
#[must_use]
pub fn locate(command: &str, path: &OsStr) -> Option<PathBuf> {
    if command.contains(std::path::MAIN_SEPARATOR) {
        let program = PathBuf::from(command);
        return is_program(&program).then_some(program);
    }
    let endings: &[&str] = match cfg!(windows) {
        true => &["", ".exe", ".cmd", ".bat"],
        false => &[""],
    };
    std::env::split_paths(path).find_map(|folder| {
        let mut candidates = endings
            .iter()
            .map(|ending| folder.join(format!("{command}{ending}")));
        candidates.find(|program| is_program(program))
    })
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}
