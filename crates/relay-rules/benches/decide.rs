//! How fast calls are decided about: `cargo bench -p relay-rules`.
//!
//! Decisions per second with 1,000 rules about commands, beside the simplest thing that could be done with the same
//! rules: looking through all of them for one that the command starts with. An argument selects the rows whose names
//! contain it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use relay_protocol::permission::{PermissionRule, Permissions, RuleDecision, ToolParams};
use relay_rules::shell::read;
use relay_rules::{Call, NoFiles, Policy, decide, suggestions};
use serde_json::json;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(200);
const RULES: usize = 1_000;

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let prefixes: Vec<String> = (0..RULES).map(|n| format!("tool{n} sub{n} ")).collect();
    let patterns = |from: &[String]| -> Vec<PermissionRule> {
        let rule = |prefix: &String| PermissionRule::Short(format!("bash:{prefix}**"));
        from.iter().map(rule).collect()
    };
    let permissions = Permissions {
        allowlist: Some(patterns(&prefixes)),
        ..Permissions::default()
    };
    let same_program: Vec<String> = (0..RULES).map(|n| format!("git sub{n} ")).collect();
    let crowded = Permissions {
        allowlist: Some(patterns(&same_program)),
        ..Permissions::default()
    };
    let policy = compile(&permissions);
    let crowded = compile(&crowded);
    let chain = (0..50).map(|n| format!("tool{n} sub{n} --flag 'a b'"));
    let chain = chain.collect::<Vec<_>>().join(" && ");

    println!(
        "{:<44} {:>12} {:>12} {:>12}   per second, {ROUNDS} rounds",
        "", "median", "min", "max"
    );
    let row = |name: &str, run: &dyn Fn()| {
        if filter.as_deref().is_none_or(|part| name.contains(part)) {
            report(name, run);
        }
    };
    let decided = |policy: &Policy, command: &str, expected: RuleDecision| {
        let params = params(command);
        let policy = policy.clone();
        move || {
            let call = Call {
                tool: "bash",
                params: &params,
                tool_call_id: None,
                cwd: None,
            };
            assert_eq!(decide(&call, &[&policy], &[], &NoFiles).decision, expected);
        }
    };
    row(
        "decide, the first of 1,000 rules matches",
        &decided(&policy, "tool0 sub0 x", RuleDecision::Allow),
    );
    row(
        "decide, the last matches",
        &decided(&policy, "tool999 sub999 x", RuleDecision::Allow),
    );
    row(
        "decide, none matches",
        &decided(&policy, "other sub0 x", RuleDecision::Ask),
    );
    row(
        "decide, 1,000 rules for one program, none",
        &decided(&crowded, "git other x", RuleDecision::Ask),
    );
    row(
        "decide, 50 segments in a chain",
        &decided(&policy, &chain, RuleDecision::Allow),
    );
    for (name, command, expected) in [
        ("starts_with, the first matches", "tool0 sub0 x", true),
        ("starts_with, the last matches", "tool999 sub999 x", true),
        ("starts_with, none matches", "other sub0 x", false),
    ] {
        row(name, &|| {
            let command = black_box(command);
            let found = prefixes
                .iter()
                .any(|prefix| command.starts_with(prefix.as_str()));
            assert_eq!(found, expected);
        });
    }
    row("read, one segment", &|| {
        drop(black_box(read("git status --short src")));
    });
    row("read, 50 segments", &|| drop(black_box(read(&chain))));
    let params = params("git status --short src");
    row("suggest", &|| {
        let call = Call {
            tool: "bash",
            params: &params,
            tool_call_id: None,
            cwd: None,
        };
        drop(black_box(suggestions(&call, &NoFiles)));
    });
    row("compile 1,000 rules", &|| {
        drop(black_box(compile(&permissions)));
    });
}

fn compile(permissions: &Permissions) -> Policy {
    Policy::compile(permissions).expect("the rules are well formed")
}

fn params(command: &str) -> ToolParams {
    json!({ "command": command })
        .as_object()
        .cloned()
        .unwrap_or_default()
}

fn report(name: &str, run: &dyn Fn()) {
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| rate(run)).collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:<44} {:>12.0} {:>12.0} {:>12.0}",
        rates[ROUNDS / 2],
        rates[0],
        rates[ROUNDS - 1]
    );
}

fn rate(run: &dyn Fn()) -> f64 {
    let start = Instant::now();
    let mut runs = 0u64;
    while start.elapsed() < ROUND {
        for _ in 0..16 {
            run();
        }
        runs += 16;
    }
    runs as f64 / start.elapsed().as_secs_f64()
}
