//! Files: whether they are there, can be read, and by nobody else.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Layer};
use super::report::Report;
use crate::commands::serve::{self, StartArguments};
use crate::config::{Layers, Settings};
use crate::credentials::Credentials;
use crate::data::{DataDirectory, path_in_shell};
use crate::failure::Outcome;
use crate::hints;
use crate::models::missing_keys;
use crate::platform::{self, FOR_WHOM};
use crate::words::counted;

pub(super) fn look(data: &DataDirectory, report: &mut Report<'_>) -> Outcome {
    let layer = Layer::Files;
    report.check("data directory", layer, || directory(data.path()))?;
    if !data.path().is_dir() {
        return Ok(());
    }
    report.check("credentials.json", layer, || {
        credentials(&data.credentials())
    })?;
    report.check("database files", layer, || database(&data.database()))?;
    report.check("agent tokens", layer, || agent_tokens(&data.agents()))?;
    report.check("settings", layer, || settings(data))
}

fn directory(path: &Path) -> Finding {
    let shown = path.display();
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let up = hints::command("up");
            return Finding::skipped(format!("{shown} is not there yet; `{up}` makes it"));
        }
        Err(error) => {
            let next = "see that you may enter the directories above it";
            return Finding::failed(format!("{shown} can't be looked at: {error}"), next);
        }
    };
    if !found.is_dir() {
        let next = "move that file away, or choose another place with --data";
        return Finding::failed(format!("expected a directory, found {shown}"), next);
    }
    match open_to_others(path) {
        Some(mode) => Finding::warning(
            format!("{shown} can be looked into by others (mode {mode:03o})"),
            format!("chmod 700 {}", path_in_shell(path)),
        ),
        None => Finding::ok(format!("there, {FOR_WHOM}")),
    }
}

fn credentials(path: &Path) -> Finding {
    match Credentials::read(path) {
        Ok(None) => return Finding::skipped("not there: no server was started over this data"),
        Err(error) => {
            let anew = hints::command("up --new-workspace");
            let next = format!("restore it from a backup, or start with `{anew}`");
            return Finding::failed(format!("{error:#}"), next);
        }
        Ok(Some(_)) => {}
    }
    closed(&[path.to_owned()]).unwrap_or_else(|| Finding::ok(format!("there, {FOR_WHOM}")))
}

fn database(path: &Path) -> Finding {
    let files = match beside(path) {
        Ok(files) if files.is_empty() => return Finding::skipped("no database yet"),
        Ok(files) => files,
        Err(error) => {
            let next = "see that you may read the data directory";
            return Finding::failed(format!("{} can't be found: {error}", path.display()), next);
        }
    };
    let bytes = files.iter().filter_map(|file| file.metadata().ok());
    let bytes: u64 = bytes.map(|file| file.len()).sum();
    closed(&files).unwrap_or_else(|| Finding::ok(format!("{}, {FOR_WHOM}", size(bytes))))
}

/// The database and what lies beside it: its log, the search index. The lock has nothing to hide.
fn beside(database: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (database.parent(), database.file_name()) else {
        return Ok(Vec::new());
    };
    let name = name.to_string_lossy();
    let belongs = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&*name) && !file.ends_with(".lock")
    };
    let mut files = entries(folder)?;
    files.retain(belongs);
    files.sort();
    Ok(files)
}

fn agent_tokens(folder: &Path) -> Finding {
    match files_in_folders(folder) {
        Ok(files) if files.is_empty() => Finding::ok("none are kept"),
        Ok(files) => closed(&files).unwrap_or_else(|| {
            let kept = counted(files.len() as u64, "token", "tokens");
            Finding::ok(format!("{kept}, {FOR_WHOM}"))
        }),
        Err(error) => Finding::failed(
            format!("{} can't be read: {error}", folder.display()),
            format!("see that you own it: ls -ld {}", path_in_shell(folder)),
        ),
    }
}

/// The files in the folders of a folder; none if it is not there.
fn files_in_folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for inner in entries(folder)? {
        files.extend(entries(&inner)?);
    }
    Ok(files)
}

/// What is in a folder; nothing if it is not there.
fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect(),
    }
}

fn settings(data: &DataDirectory) -> Finding {
    let all = Layers::defaults()
        .and_then(|layers| serve::layered(layers, &StartArguments::default(), data))
        .and_then(Layers::finish);
    match all {
        Ok((settings, _)) => providers(&settings),
        Err(error) => Finding::failed(
            format!("{error:#}"),
            format!(
                "mend that setting; `{}` tells where each comes from",
                hints::command("config show")
            ),
        ),
    }
}

/// Whether every provider of models has its key.
fn providers(settings: &Settings) -> Finding {
    let missing = missing_keys(&settings.providers, |name| std::env::var(name).ok());
    if missing.is_empty() {
        return Finding::ok("a server can start with them");
    }
    Finding::warning(
        missing.join("; "),
        "set the variable where the server is started",
    )
}

/// What is wrong with files that only their owner may read.
fn closed(files: &[PathBuf]) -> Option<Finding> {
    let open = |path: &PathBuf| Some((path.clone(), open_to_others(path)?));
    let open: Vec<(PathBuf, u32)> = files.iter().filter_map(open).collect();
    let (first, mode) = open.first()?;
    let more = match open.len() {
        1 => String::new(),
        all => format!(" and {}", counted(all as u64 - 1, "other", "others")),
    };
    let paths: Vec<String> = open.iter().map(|(path, _)| path_in_shell(path)).collect();
    Some(Finding::failed(
        format!(
            "others can read {} (mode {mode:03o}){more}",
            first.display()
        ),
        format!("chmod 600 {}", paths.join(" ")),
    ))
}

/// The mode of a file, if it lets anybody in but its owner.
fn open_to_others(path: &Path) -> Option<u32> {
    let mode = platform::mode(&path.metadata().ok()?)?;
    (mode & 0o077 != 0).then_some(mode)
}

/// Bytes as people read them.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::commands::doctor::finding::Verdict;

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_there_and_closed() {
        let place = tempfile::tempdir().unwrap();
        set(place.path(), 0o700);
        assert_eq!(directory(place.path()).verdict, Verdict::Ok);
        set(place.path(), 0o755);
        let open = directory(place.path());
        assert_eq!(open.verdict, Verdict::Warning);
        assert!(open.next.unwrap().starts_with("chmod 700 "));
        assert_eq!(
            directory(&place.path().join("no")).verdict,
            Verdict::Skipped
        );
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(directory(&file).verdict, Verdict::Failed);
    }

    #[test]
    fn credentials_that_others_can_read_are_a_failure_with_its_remedy() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("credentials.json");
        assert_eq!(credentials(&path).verdict, Verdict::Skipped);
        std::fs::write(&path, "{}").unwrap();
        assert!(
            credentials(&path)
                .detail
                .contains("is not what Relay wrote")
        );
        let id = "01a1e393-8365-7f6e-b943-f323fd1cc0c8";
        let text = format!(
            r#"{{"url":"http://[::1]:1","adminKey":"ak_","workspaceId":"{id}","workspaceKey":"rk_"}}"#
        );
        std::fs::write(&path, text).unwrap();
        set(&path, 0o644);
        let open = credentials(&path);
        assert_eq!(open.verdict, Verdict::Failed);
        assert_eq!(open.next.unwrap(), format!("chmod 600 {}", path.display()));
        set(&path, 0o600);
        assert_eq!(credentials(&path).verdict, Verdict::Ok);
    }

    #[test]
    fn what_lies_beside_the_database_is_looked_at_but_for_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("relay.db");
        assert_eq!(database(&path).verdict, Verdict::Skipped);
        for (name, mode) in [
            ("relay.db", 0o600),
            ("relay.db.lock", 0o644),
            ("relay.db-wal", 0o640),
        ] {
            std::fs::write(place.path().join(name), "12345").unwrap();
            set(&place.path().join(name), mode);
        }
        let open = database(&path);
        assert!(open.detail.ends_with("relay.db-wal (mode 640)"), "{open:?}");
        set(&place.path().join("relay.db-wal"), 0o600);
        assert_eq!(database(&path), Finding::ok("10 bytes, for you only"));
    }

    #[test]
    fn every_kept_token_is_looked_at() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("agents");
        assert_eq!(agent_tokens(&folder).detail, "none are kept");
        let workspace = folder.join("workspace");
        std::fs::create_dir_all(&workspace).unwrap();
        for (name, mode) in [("ada.json", 0o600), ("bob.json", 0o640)] {
            std::fs::write(workspace.join(name), "{}").unwrap();
            set(&workspace.join(name), mode);
        }
        let open = agent_tokens(&folder);
        assert!(open.detail.contains("bob.json (mode 640)"), "{open:?}");
        set(&workspace.join("bob.json"), 0o600);
        assert_eq!(agent_tokens(&folder), Finding::ok("2 tokens, for you only"));
    }

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [(7, "7 bytes"), (2_048, "2.0 KiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
