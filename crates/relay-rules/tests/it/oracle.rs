//! Bash as a witness: what our reader says it understands, bash accepts and runs in the same way.
//!
//! Commands are made of a few letters that name no program and no builtin, and changed at random. Bash runs in an empty
//! folder and finds no program at all; what it would run it writes down.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use relay_rules::shell::{Operator, Reading, Segment, Word, read};

use crate::depth::{Random, rounds, seed, skipped};

/// Programs that fail end with `z`, so that both sides of `&&` and `||` are taken.
const PROGRAMS: &[&str] = &[
    "aa", "bb", "ab", "qz", "xz", "'aa'", "a\\b", "\"bb\"", "x''z", "$'aa'",
];
const ARGUMENTS: &[&str] = &[
    "x",
    "-a",
    "--b=x",
    "'a b'",
    "\"a b\"",
    "\"a\\\"b\"",
    "a\\ b",
    "\\a",
    "a''b",
    "\"\"",
    "''",
    "'*'",
    "\"\\$x\"",
    "x#b",
    "'#'",
    "$'a\\tb'",
    "$'\\x61\\142\\''",
    "a=b",
    "{x}",
    "{}",
    "@",
    "%",
    "^",
    "x~a",
    "!",
    "a!b",
    "x,a",
    "+",
    "\\\\",
    "\"\\\\\"",
    "\"a\\\nb\"",
    "a\\\nb",
    "é",
    "]",
    "1",
    "2",
    "a/b",
    "'\n'",
    "\"`\"",
    "'$(aa)'",
    "\\;",
    "';'",
    "\"&&\"",
    "\\#",
    "=",
    "\"\\a\"",
    "$",
    "\"$\"",
    "a$",
    "}",
    "a}",
];
const JOINERS: &[&str] = &[
    ";", " ; ", " && ", "||", "|", " | ", "|&", "&", " & ", "\n", "\n\n", "&&\n", "| \n", " # x\n",
    ";#a\n", " \\\n&& ", ";\n", "||#a\n",
];
const REDIRECTIONS: &[&str] = &[
    ">b",
    "2>&1",
    ">/dev/null",
    "&>b",
    ">>b",
    ">|b",
    "<a",
    "2>b",
    ">&2",
    "<>b",
    "1>&2",
    "<<<x",
    "&>>b",
    "2>/dev/null",
    "< a",
    "> 'b'",
    "2>&1>b",
];
const CHARACTERS: &str = " \t\n;&|<>'\"\\#=$(){}!~*?[]ab12-`,";

fn generate(random: &mut Random) -> String {
    let mut command = String::new();
    for segment in 0..=random.below(4) {
        if segment > 0 {
            command.push_str(random.pick(JOINERS));
        }
        command.push_str(random.pick(PROGRAMS));
        for _ in 0..random.below(4) {
            command.push_str(random.pick(&[" ", "  ", "\t", " \\\n"]));
            let redirects = random.below(5) == 0;
            command.push_str(random.pick(if redirects { REDIRECTIONS } else { ARGUMENTS }));
        }
    }
    for _ in 0..random.below(4).saturating_sub(1) {
        mutate(&mut command, random);
    }
    command
}

fn mutate(command: &mut String, random: &mut Random) {
    let mut characters: Vec<char> = command.chars().collect();
    let at = random.below(characters.len() as u64 + 1) as usize;
    let alphabet: Vec<char> = CHARACTERS.chars().collect();
    let new = alphabet[random.below(alphabet.len() as u64) as usize];
    match random.below(3) {
        0 => characters.insert(at, new),
        1 if at < characters.len() => drop(characters.remove(at)),
        _ if at < characters.len() => characters[at] = new,
        _ => {}
    }
    *command = characters.into_iter().collect();
}

/// What is run, when it can be told from the reading alone.
fn expected(reading: &Reading) -> Option<Vec<Vec<String>>> {
    let comparable = |word: &Word| {
        let mut expansions = word.expansions;
        expansions.dollar_quote = false;
        expansions == Default::default()
    };
    for segment in &reading.segments {
        let program = segment.words.first()?;
        let known = ["aa", "bb", "ab", "qz", "xz"].contains(&&*program.text);
        let reads = |one: &&str| matches!(*one, "<" | "<>" | "<&" | ">&");
        let redirected = segment.redirections.iter().all(|one| {
            let target = one.target.text.as_str();
            let found = match one.operator {
                "<" => matches!(target, "a" | "/dev/null"),
                ">&" => matches!(target, "1" | "2") && !one.target.quoted,
                operator => {
                    !reads(&operator)
                        && !target.is_empty()
                        && (target == "/dev/null" || !target.contains('/'))
                        || (operator == "<>" && target == "b")
                }
            };
            comparable(&one.target) && found && matches!(&*one.descriptor, "" | "1" | "2")
        });
        let words = segment.words.iter().all(comparable);
        if !known || !redirected || !words || !segment.assignments.is_empty() {
            return None;
        }
    }
    Some(simulate(&reading.segments))
}

/// Runs the segments as a shell would: lists of pipelines, joined by `&&` and `||`.
fn simulate(segments: &[Segment]) -> Vec<Vec<String>> {
    let mut run = Vec::new();
    let mut succeeded = true;
    let mut skipping = false;
    for segment in segments {
        skipping = match segment.operator {
            Some(Operator::And) => !succeeded,
            Some(Operator::Or) => succeeded,
            Some(Operator::Pipe | Operator::PipeAll) => skipping,
            _ => false,
        };
        if !skipping {
            let words: Vec<String> = segment.words.iter().map(|word| word.text.clone()).collect();
            succeeded = !words[0].ends_with('z');
            run.push(words);
        }
    }
    run.sort();
    run
}

const SCRIPT: &str = r#"
exec 9>>"$1"
mapfile -d '' -t commands < "$2"
shift 2
# Bash writes line by line, and others write at the same time: a record must have no line in it.
command_not_found_handle() { printf '%s\0' "$case" "$#" "${@//$'\n'/$'\x01'}" >&9; [[ $1 != *z ]]; }
for case in "${!commands[@]}"; do
    command=${commands[case]:1}
    if (eval "if false; then"$'\n'"$command"$'\n'":"$'\n'"fi") 2>/dev/null; then accepted=yes; else accepted=no; fi
    printf '%s\0' "$case" "$accepted" >&9
    [[ ${commands[case]} == +* ]] && (eval "$command"; wait) </dev/null >/dev/null 2>/dev/null
done
exit 0
"#;

/// What bash says of each command: whether it accepts it, and what it ran. Only what begins with `+` is run.
fn witness(bash: &Path, commands: &[String]) -> Vec<(bool, Vec<Vec<String>>)> {
    let folder = tempfile::tempdir().unwrap();
    let (out, list, place) = (
        folder.path().join("out"),
        folder.path().join("list"),
        folder.path().join("place"),
    );
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("a"), "").unwrap();
    std::fs::write(
        &list,
        commands
            .iter()
            .map(|command| format!("{command}\0"))
            .collect::<String>(),
    )
    .unwrap();
    let status = Command::new(bash)
        .args(["--norc", "--noprofile", "-c", SCRIPT, "bash"])
        .args([&out, &list])
        .env_clear()
        .env("PATH", folder.path().join("none"))
        .env("LC_ALL", "C.UTF-8")
        .current_dir(&place)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "bash ended with {status}");
    let written = std::fs::read_to_string(&out).unwrap();
    let mut fields = written.split('\0');
    let mut answers = vec![(false, Vec::new()); commands.len()];
    while let (Some(case), Some(what)) =
        (fields.next().filter(|case| !case.is_empty()), fields.next())
    {
        let answer: &mut (bool, Vec<Vec<String>>) = &mut answers[case.parse::<usize>().unwrap()];
        match what {
            "yes" | "no" => answer.0 = what == "yes",
            count => answer.1.push(
                fields
                    .by_ref()
                    .take(count.parse().unwrap())
                    .map(|word| word.replace('\x01', "\n"))
                    .collect(),
            ),
        }
    }
    let rest: Vec<&str> = fields.take(8).collect();
    assert!(rest.is_empty(), "not all was read: {rest:?}");
    answers.iter_mut().for_each(|(_, run)| run.sort());
    answers
}

fn bash() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("bash"))
        .find(|bash| bash.is_file())
}

#[test]
fn bash_runs_what_was_read() {
    let Some(bash) = bash() else {
        return skipped("oracle::bash_runs_what_was_read", "there is no bash");
    };
    let mut random = Random::new(seed());
    let wanted = rounds(600) as usize;
    let mut understood = Vec::new();
    let mut refused = 0;
    while understood.len() < wanted {
        let command = generate(&mut random);
        let reading = read(&command);
        match reading.understood() && !reading.segments.is_empty() {
            true => understood.push((command, reading)),
            false => refused += 1,
        }
    }
    let marked = understood
        .iter()
        .map(|(command, reading)| match expected(reading) {
            Some(_) => format!("+{command}"),
            None => format!("-{command}"),
        });
    let commands: Vec<String> = marked.collect();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for ((command, reading), (accepted, ran)) in understood.iter().zip(witness(&bash, &commands)) {
        if !accepted {
            wrong.push(format!("bash does not accept {command:?}"));
        } else if let Some(expected) = expected(reading) {
            compared += 1;
            if ran != expected {
                wrong.push(format!("{command:?} runs {ran:?}, not {expected:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{wanted} understood, of which {compared} ran; {refused} not understood");
    assert!(
        compared * 2 > wanted,
        "only {compared} of {wanted} were compared"
    );
    assert!(refused > 0, "nothing hard was tried");
}

#[test]
fn bash_accepts_what_was_understood_of_the_corpus() {
    let Some(bash) = bash() else {
        return skipped(
            "oracle::bash_accepts_what_was_understood_of_the_corpus",
            "there is no bash",
        );
    };
    let commands = crate::corpus::lines().into_iter().map(|line| line.command);
    let understood: Vec<String> = commands
        .filter(|command| read(command).understood())
        .map(|command| format!("-{command}"))
        .collect();
    assert!(
        understood.len() > 250,
        "only {} were understood",
        understood.len()
    );
    for (command, (accepted, ran)) in understood.iter().zip(witness(&bash, &understood)) {
        assert!(accepted, "bash does not accept {command:?}");
        assert!(ran.is_empty(), "{command:?} was run");
    }
}
