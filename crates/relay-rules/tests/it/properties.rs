//! What holds for any text, any rules and any layers.

use std::path::Path;

use proptest::prelude::*;
use relay_protocol::permission::{RuleDecision, ToolParams};
use relay_rules::shell::{marks, read};
use relay_rules::{Call, Policy, Rule, decide, suggestions};
use serde_json::json;

use crate::depth::rounds;
use crate::support::{PlainFiles, on_bash, params, policy};

/// Everything that puts a second command behind, into or around a first one.
const INJECTIONS: &[&str] = &[
    "{}; id",
    "{};id",
    "{} && id",
    "{}&&id",
    "{} || id",
    "{} | id",
    "{}|id",
    "{} |& id",
    "{} & id",
    "{}&id",
    "{}\nid",
    "{}\n\n\tid",
    "{} \\\n; id",
    "{} $(id)",
    "{} `id`",
    "{} \"$(id)\"",
    "{} \"`id`\"",
    "{} <(id)",
    "{} >(id)",
    "{} ${x:-$(id)}",
    "{} $((x[$(id)]))",
    "id; {}",
    "id && {}",
    "id | {}",
    "id & {}",
    "id\n{}",
    "(id); {}",
    "{}; (id)",
    "{ id; }; {}",
    "! id; {}",
    "{} # \nid",
    "{}<<E\n$(id)\nE",
    "{} <<< $(id)",
    "{} > $(id)",
    "{} 2>&1; id",
    "sudo {}; id",
    "if {}; then id; fi",
    "{} || (id)",
    "{} &>x; id",
    "{}\\\n;id",
    "{} '' ;id",
    "{} \"\";id",
    "{} $'';id",
    "{} \\;;id",
    "x=$(id) {}",
    "x=1; id; {}",
    "{} {a,b};id",
    "{} ~;id",
    "{} *;id",
    "{}\r\nid",
    "{} -exec id \\;| id",
    "coproc id; {}",
    "time id; {}",
    "{} ;; id",
    "{}|&id",
    "{} >&2;id",
    "{} 2>/dev/null&id",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}",
        "-[a-z]{1,3}",
        "'[ -&(-~]{0,6}'",
        "\"[a-z ;&|#]{0,6}\"",
        "[a-z]\\\\[ ;&|]",
        "[a-z/.]{1,8}",
    ]
}

/// Text that looks like shell more often than not.
fn shellish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        word(),
        prop::sample::select(vec![
            " ", "\t", "\n", ";", "&", "&&", "|", "||", "(", ")", "{", "}", "$(", "`", "${", "$((",
            "<<", "<<<", "<(", ">", ">>", "2>&1", "\\", "'", "\"", "$'", "#", "*", "=", "!", "[[",
            "if", "fi", "rm", "sudo", "sh -c", "é", "\0",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    let rule = prop::sample::select(vec![
        "bash",
        "bash:*",
        "bash:ls **",
        "bash:git **",
        "bash:git status *",
        "bash:cat *",
        "bash:rm **",
        "bash:rm x",
        "bash:echo *",
        "read",
        "bash:* x",
        "bash:sh -c 'rm x'",
        "bash:ls; rm x",
    ]);
    prop::collection::vec(rule.prop_map(str::to_owned), 0..4)
}

fn layer() -> impl Strategy<Value = Policy> {
    (rules(), rules(), rules(), rules()).prop_map(|(allow, ask, deny, once)| {
        // Mostly without rules that refuse, or everything would be refused.
        let some = |rules: Vec<String>| if rules.len() > 2 { rules } else { Vec::new() };
        policy(
            json!({ "allowlist": allow, "ask": some(ask), "deny": some(deny), "allowOnce": once }),
        )
    })
}

fn some_command() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "ls",
        "ls -la",
        "git status",
        "git status x",
        "rm x",
        "cat a; ls",
        "echo $(rm x)",
        "sh -c 'rm x'",
        "ls; rm x",
        "cat <<E\nE",
        "git log | cat -",
        "echo x",
    ]);
    prop_oneof![3 => known.prop_map(str::to_owned), 1 => shellish()]
}

fn strictness(decision: RuleDecision) -> u8 {
    match decision {
        RuleDecision::Allow => 0,
        RuleDecision::Ask => 1,
        RuleDecision::Deny => 2,
    }
}

fn call(params: &ToolParams) -> Call<'_> {
    Call {
        tool: "bash",
        params,
        tool_call_id: None,
        cwd: Some(Path::new("/work")),
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: rounds(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_panics(text in shellish(), pattern in shellish()) {
        let _ = read(&text);
        let mut last = 0;
        for (range, _) in marks(&text) {
            prop_assert!(range.start >= last && text.get(range.clone()).is_some());
            last = range.end;
        }
        for rule in [format!("bash:{pattern}"), format!("read:{pattern}"), format!("fetch:{pattern}"), format!("x:{pattern}"), pattern] {
            if let Ok(rule) = Rule::parse(&rule) {
                let again = Rule::parse(rule.text()).unwrap();
                prop_assert_eq!(again.text(), rule.text());
            }
        }
        on_bash(&policy(json!({ "allowlist": ["bash:* x"], "deny": ["bash:rm **"], "ask": ["bash:*q*"] })), &text);
    }

    #[test]
    fn a_second_command_is_never_covered(
        arguments in prop::collection::vec(word(), 1..4),
        injection in prop::sample::select(INJECTIONS),
        program in prop::sample::select(vec!["ls", "git"]),
    ) {
        let rules = policy(json!({ "allowlist": ["bash:ls **", "bash:git **"] }));
        let first = format!("{program} {}", arguments.join(" "));
        let both = injection.replace("{}", &first);
        prop_assert_eq!(on_bash(&rules, &both), RuleDecision::Ask, "{:?}", both);
        let denies = policy(json!({ "allowlist": ["bash"], "deny": ["bash:id **"] }));
        prop_assert_ne!(on_bash(&denies, &both), RuleDecision::Allow, "{:?}", both);
    }

    #[test]
    fn a_layer_more_never_widens(
        layers in prop::collection::vec(layer(), 1..4),
        more in layer(),
        at in 0usize..4,
        grants in rules(),
        command in some_command(),
    ) {
        let params = params(json!({ "command": command }));
        let grants: Vec<Rule> = grants.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let grants: Vec<&Rule> = grants.iter().collect();
        let mut stack: Vec<&Policy> = layers.iter().collect();
        let before = decide(&call(&params), &stack, &grants, &PlainFiles);
        stack.insert(at.min(stack.len()), &more);
        let after = decide(&call(&params), &stack, &grants, &PlainFiles);
        prop_assert!(strictness(after.decision) >= strictness(before.decision), "{before:?} {after:?}");
    }

    #[test]
    fn deny_beats_everything(base in layer(), grants in rules(), command in some_command()) {
        let params = params(json!({ "command": command }));
        let mut grants: Vec<Rule> = grants.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        grants.push(Rule::parse("bash").unwrap());
        let grants: Vec<&Rule> = grants.iter().collect();
        let denies = policy(json!({ "allowlist": ["bash"], "allowOnce": ["bash"], "deny": ["bash"] }));
        for layers in [[&base, &denies], [&denies, &base]] {
            let found = decide(&call(&params), &layers, &grants, &PlainFiles);
            prop_assert_eq!(found.decision, RuleDecision::Deny);
        }
    }

    #[test]
    fn suggestions_cover_their_call(command in prop_oneof![some_command(), shellish()]) {
        let params = params(json!({ "command": command }));
        let offers = suggestions(&call(&params), &PlainFiles);
        prop_assert_eq!(offers.is_empty(), command.trim().is_empty(), "{:?}", command);
        for offer in offers {
            let rule = Rule::parse(&offer.rule).unwrap();
            prop_assert!(rule.covers(&call(&params), &PlainFiles), "{:?}", offer.rule);
            let injected = self::params(json!({ "command": format!("{command}; id") }));
            let is_comment = !read(&command).comments.is_empty();
            prop_assert!(is_comment || !rule.covers(&call(&injected), &PlainFiles), "{:?}", offer.rule);
        }
    }

    #[test]
    fn what_is_allowed_by_a_wildcard_was_understood(command in prop_oneof![some_command(), shellish()]) {
        let rules = policy(json!({ "allowlist": ["bash:*"] }));
        if on_bash(&rules, &command) == RuleDecision::Allow {
            let reading = read(&command);
            prop_assert!(reading.understood() && reading.nested.is_empty() && !reading.segments.is_empty());
            let words = reading.segments.iter().flat_map(|segment| &segment.words);
            for word in words {
                prop_assert!(!word.expansions.substitution && !word.expansions.parameter && !word.expansions.brace);
            }
        }
    }
}
