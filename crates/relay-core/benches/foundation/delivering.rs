//! What delivering costs in process: from a send to its stored receipt, at a boundary, while deliveries
//! wait, and while nothing happens.
//!
//! Memory is measured in processes of their own, which begin empty.

mod boundaries;
mod idle;
mod sessions;
mod settling;
mod silence;
mod waiting;

use std::io::Write;

use crate::Effort;

/// The first argument of a process that measures one figure for another one.
pub(crate) const CHILD: &str = "--child";

/// Measures something and prints it.
type Part<W> = fn(&mut W, Effort);

/// Prints the figures that are wanted.
pub(crate) fn run<W: Write>(out: &mut W, effort: Effort, wanted: impl Fn(&str) -> bool) {
    let parts: [(&str, Part<W>); 5] = [
        ("settling", settling::run),
        ("silence", silence::run),
        ("boundaries", boundaries::run),
        ("waiting", waiting::run),
        ("idle", idle::run),
    ];
    for (name, run) in parts {
        if wanted(name) {
            run(out, effort);
        }
    }
}

/// Measures what the arguments name and prints the values.
pub(crate) fn child(out: &mut impl Write, arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let values = match arguments.as_slice() {
        ["waiting", whose, depth] => waiting::measure(whose, depth.parse().unwrap()),
        ["idle", sessions] => idle::measure(sessions.parse().unwrap()),
        other => unreachable!("nothing is measured by {other:?}"),
    };
    let values: Vec<String> = values.iter().map(f64::to_string).collect();
    writeln!(out, "{}", values.join(" ")).unwrap();
}

/// Has another process measure something.
fn in_child(arguments: &[&str]) -> Vec<f64> {
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(program);
    command.arg(CHILD).args(arguments);
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{arguments:?} could not be measured"
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    let values = printed.split_whitespace();
    values.map(|value| value.parse().unwrap()).collect()
}

/// A runtime with timers, which the engine's runner needs.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}
