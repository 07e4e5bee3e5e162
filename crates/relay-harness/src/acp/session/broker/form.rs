//! A question of an agent as a permission request, and a decision as an answer to the agent. Pure.

use std::collections::HashSet;

use relay_protocol::ids::RunId;
use relay_protocol::limits::{
    CALL_ID_BYTES, PERMISSION_OPTIONS, PERMISSION_TITLE_BYTES, TOOL_NAME_BYTES,
};
use relay_protocol::permission::{
    AskPermission, PermissionOption, PermissionOptionKind, ToolParams,
};
use relay_sdk::Decision;
use serde_json::Value;

use super::CallFate;
use crate::acp::event::ToolCall;
use crate::acp::permission::{AgentOption, PermissionAnswer, PermissionQuestion, choose};

/// The request for a question; nothing when none of the agent's options is known for what it does.
pub(super) fn ask(
    question: &PermissionQuestion,
    id: String,
    run_id: Option<RunId>,
) -> Option<AskPermission> {
    let options = options(&question.options);
    if options.is_empty() {
        return None;
    }
    let call = &question.tool_call;
    let turn = question.turn;
    let turn_id = turn.map(|turn| format!("{}/{turn}", question.session_id));
    Some(AskPermission {
        tool: tool(call),
        params: params(call),
        tool_call_id: Some(id),
        options: Some(options),
        title: call
            .title
            .as_deref()
            .map(|title| beginning(title, PERMISSION_TITLE_BYTES).to_owned()),
        expires_in_ms: None,
        cwd: question.cwd.to_str().map(str::to_owned),
        run_id,
        turn_id: turn_id.filter(|id| id.len() <= CALL_ID_BYTES),
    })
}

/// The tool's name as rules have it.
fn tool(call: &ToolCall) -> String {
    let name = call.tool().replace(char::is_control, "");
    match beginning(&name, TOOL_NAME_BYTES) {
        "" => "tool".to_owned(),
        name => name.to_owned(),
    }
}

/// What it would be called with. The title is not among it: the model may have written it, and rules would believe it.
fn params(call: &ToolCall) -> ToolParams {
    match &call.input {
        Some(Value::Object(input)) => input.clone(),
        Some(input) => ToolParams::from_iter([("input".to_owned(), input.clone())]),
        None => match call.locations.as_slice() {
            [] => ToolParams::new(),
            [path] => ToolParams::from_iter([("path".to_owned(), path.as_str().into())]),
            paths => ToolParams::from_iter([("paths".to_owned(), paths.into())]),
        },
    }
}

/// The agent's own options, as far as the relay can show them.
fn options(options: &[AgentOption]) -> Vec<PermissionOption> {
    let mut seen = HashSet::new();
    let known = options.iter().filter_map(|option| {
        let fits = option.option_id.len() <= CALL_ID_BYTES && seen.insert(&option.option_id);
        let kind = option.kind.filter(|_| fits)?;
        Some(PermissionOption {
            option_id: option.option_id.clone(),
            kind,
            name: beginning(&option.name, PERMISSION_TITLE_BYTES).to_owned(),
        })
    });
    known.take(PERMISSION_OPTIONS).collect()
}

/// What a decision means for the agent.
#[derive(Debug, PartialEq)]
pub(super) struct Meaning {
    /// What the agent is told.
    pub(super) answer: PermissionAnswer,
    /// What runs then; nothing when nothing does.
    pub(super) runs: Option<ToolParams>,
    /// What becomes of the call.
    pub(super) fate: CallFate,
}

impl Meaning {
    pub(super) const fn not_run(answer: PermissionAnswer, fate: CallFate) -> Self {
        Self {
            answer,
            runs: None,
            fate,
        }
    }

    /// It was approved, but not in a way that this agent can follow.
    fn unfit(answer: PermissionAnswer, why: &str) -> Self {
        let reason = Some(why.to_owned());
        let stops = false;
        Self::not_run(answer, CallFate::Denied { reason, stops })
    }
}

/// What a decision means for an agent with these options. What is allowed for longer is a grant of the relay's: the agent is
/// told `allow_once`, unless its own option was chosen.
pub(super) fn meaning(decision: Decision, options: &[AgentOption]) -> Meaning {
    match decision {
        // The protocol has no way to run it with other parameters, and these were not allowed.
        Decision::Approved { edited: true, .. } => Meaning::unfit(
            PermissionAnswer::Reject,
            "it was approved with other parameters, which an agent can't be given",
        ),
        Decision::Approved {
            params, option_id, ..
        } => {
            let answer = chosen(option_id.as_deref(), options, true);
            let answer = answer.unwrap_or(PermissionAnswer::AllowOnce);
            match choose(&answer, options) {
                Some(_) => Meaning {
                    answer,
                    runs: Some(params),
                    fate: CallFate::Runs,
                },
                None => Meaning::unfit(
                    PermissionAnswer::Cancelled,
                    "the agent has no option to be allowed this once",
                ),
            }
        }
        Decision::Denied {
            option_id,
            stop: stops,
            reason,
            ..
        } => {
            let answer = chosen(option_id.as_deref(), options, false);
            let answer = answer.unwrap_or(PermissionAnswer::Reject);
            Meaning::not_run(answer, CallFate::Denied { reason, stops })
        }
        Decision::Expired => Meaning::not_run(PermissionAnswer::Cancelled, CallFate::Expired),
        Decision::Cancelled { reason } => {
            Meaning::not_run(PermissionAnswer::Cancelled, CallFate::Cancelled { reason })
        }
    }
}

/// The option that was chosen by its id, if it does what was decided: a denial never selects what allows.
fn chosen(id: Option<&str>, options: &[AgentOption], allows: bool) -> Option<PermissionAnswer> {
    use PermissionOptionKind::{AllowAlways, AllowOnce};
    let mut options = options.iter();
    let option = options.find(|option| Some(option.option_id.as_str()) == id)?;
    let does = matches!(option.kind?, AllowOnce | AllowAlways);
    (does == allows).then(|| PermissionAnswer::Option(option.option_id.clone()))
}

/// The beginning of a text.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(call: Value, options: Value) -> PermissionQuestion {
        PermissionQuestion {
            agent: "fake".to_owned(),
            session_id: "s".to_owned(),
            turn: Some(3),
            cwd: "/w".into(),
            tool_call: ToolCall::read(&call).unwrap(),
            options: AgentOption::read_all(&options),
        }
    }

    fn option(id: &str, kind: &str) -> Value {
        json!({"optionId": id, "name": id, "kind": kind})
    }

    fn standard() -> Vec<AgentOption> {
        let options = [
            ("always", "allow_always"),
            ("once", "allow_once"),
            ("no", "reject_once"),
            ("never", "reject_always"),
        ];
        AgentOption::read_all(&options.map(|(id, kind)| option(id, kind)).into())
    }

    #[test]
    fn what_is_asked_is_what_rules_know() {
        let table = [
            (
                json!({"name": "Bash", "kind": "execute", "rawInput": {"command": "git status"}}),
                "Bash",
                json!({"command": "git status"}),
            ),
            (
                json!({"kind": "execute", "rawInput": {"command": ["ls"]}, "title": "rm -rf /"}),
                "execute",
                json!({"command": ["ls"]}),
            ),
            // A title is nothing to decide by.
            (
                json!({"kind": "execute", "title": "git status"}),
                "execute",
                json!({}),
            ),
            (
                json!({"kind": "edit", "locations": [{"path": "/w/a"}]}),
                "edit",
                json!({"path": "/w/a"}),
            ),
            (
                json!({"kind": "edit", "locations": [{"path": "/w/a"}, {"path": "/w/b"}]}),
                "edit",
                json!({"paths": ["/w/a", "/w/b"]}),
            ),
            (
                json!({"_meta": {"x": {"toolName": "run\u{7}"}}, "rawInput": "words"}),
                "run",
                json!({"input": "words"}),
            ),
            (
                json!({"_meta": {"toolName": "run_shell_command"}, "kind": "execute", "title": "ls"}),
                "run_shell_command",
                json!({}),
            ),
            (
                json!({"_meta": {"goose": {"toolCall": {"toolName": "developer__shell"}}}, "title": "shell"}),
                "developer__shell",
                json!({}),
            ),
            (json!({}), "tool", json!({})),
        ];
        for (mut call, tool, params) in table {
            call["toolCallId"] = "c".into();
            let asked = question(call.clone(), json!([option("yes", "allow_once")]));
            let ask = ask(&asked, "c".to_owned(), None).unwrap();
            assert_eq!((ask.tool.as_str(), Value::from(ask.params)), (tool, params));
            assert_eq!(ask.title.as_deref(), call["title"].as_str());
            assert_eq!(ask.turn_id.as_deref(), Some("s/3"));
            assert_eq!(ask.cwd.as_deref(), Some("/w"));
        }
    }

    #[test]
    fn options_are_the_agents_own_within_the_relays_bounds() {
        let call = json!({"toolCallId": "c"});
        let mut many: Vec<Value> = (0..40)
            .map(|n| option(&format!("o{n}"), "allow_once"))
            .collect();
        many.insert(0, option("o0", "reject_once"));
        many.insert(0, option("odd", "allow_galaxy"));
        many.insert(0, option(&"x".repeat(300), "allow_once"));
        let ask_with = |options: Value| ask(&question(call.clone(), options), "c".to_owned(), None);
        let shown = ask_with(many.into()).unwrap().options.unwrap();
        assert_eq!(shown.len(), PERMISSION_OPTIONS);
        assert_eq!(
            (shown[0].option_id.as_str(), shown[0].kind),
            ("o0", PermissionOptionKind::RejectOnce)
        );
        assert!(ask_with(json!([option("odd", "allow_galaxy")])).is_none());
        assert!(ask_with(Value::Null).is_none());
    }

    fn approved(option_id: Option<&str>, edited: bool) -> Decision {
        Decision::Approved {
            params: ToolParams::new(),
            edited,
            option_id: option_id.map(str::to_owned),
            grant_id: None,
            by: None,
        }
    }

    fn denied(option_id: Option<&str>, stop: bool) -> Decision {
        Decision::Denied {
            reason: None,
            stop,
            option_id: option_id.map(str::to_owned),
            by: None,
        }
    }

    #[test]
    fn decisions_become_options() {
        let by_id = |id: &str| PermissionAnswer::Option(id.to_owned());
        let cancelled = Decision::Cancelled { reason: None };
        let table = [
            (approved(None, false), PermissionAnswer::AllowOnce, true),
            (approved(Some("always"), false), by_id("always"), true),
            (approved(Some("once"), false), by_id("once"), true),
            // Ids of nobody's, or of what does the opposite.
            (
                approved(Some("x"), false),
                PermissionAnswer::AllowOnce,
                true,
            ),
            (
                approved(Some("no"), false),
                PermissionAnswer::AllowOnce,
                true,
            ),
            (approved(None, true), PermissionAnswer::Reject, false),
            (denied(None, false), PermissionAnswer::Reject, false),
            (denied(Some("never"), false), by_id("never"), false),
            (
                denied(Some("always"), false),
                PermissionAnswer::Reject,
                false,
            ),
            (Decision::Expired, PermissionAnswer::Cancelled, false),
            (cancelled, PermissionAnswer::Cancelled, false),
        ];
        for (decision, answer, runs) in table {
            let shown = format!("{decision:?}");
            let found = meaning(decision, &standard());
            assert_eq!(
                (&found.answer, found.runs.is_some()),
                (&answer, runs),
                "{shown}"
            );
            assert_eq!(found.fate == CallFate::Runs, runs, "{shown}");
            assert!(!found.fate.stops(), "{shown}");
        }
        assert!(meaning(denied(None, true), &standard()).fate.stops());
        // Allowed once is not for ever because the agent has no other option.
        let only_always = &standard()[..1];
        let found = meaning(approved(None, false), only_always);
        assert_eq!(
            (found.answer, found.runs),
            (PermissionAnswer::Cancelled, None)
        );
    }
}
