//! Actions: registered, called, run by handlers that come and go, and ended exactly once.

use std::sync::Arc;

use relay_core::link::{MemoryLink, Parcel};
use relay_core::{HandlerId, PageQuery, Result};
use relay_protocol::action::{
    ActionInfo, CompleteInvocation, FailInvocation, Invocation, InvocationState, InvokeAction,
    RegisterAction,
};
use relay_protocol::api::workspace::CreateChannel;
use relay_protocol::delivery::DeliveryReason;
use relay_protocol::ids::InvocationId;
use relay_protocol::limits::{ACTION_CALLS_OPEN, ACTION_TIMEOUT_MS};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::selector::Selector;
use relay_protocol::socket::InvokeFrame;
use relay_protocol::wire::decode_value;
use serde_json::{Value, json};

use super::kit::{Lab, now};

/// bob's action, with changes.
fn classify(changes: Value) -> RegisterAction {
    let mut body = json!({
        "name": "classify",
        "inputSchema": {
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
        },
    });
    for (name, value) in changes.as_object().unwrap() {
        body[name] = value.clone();
    }
    decode_value(body).unwrap()
}

fn text(text: &str) -> InvokeAction {
    InvokeAction {
        input: Some(json!({ "text": text })),
    }
}

impl Lab {
    fn offer(&self, who: &str, changes: Value) -> Result<ActionInfo> {
        let body = classify(changes);
        self.drive(self.engine().register_action(&self.who(who), body))
    }

    /// A process of bob's that runs the action.
    fn handler(&self, changes: Value) -> (HandlerId, Arc<MemoryLink>) {
        let link = MemoryLink::new();
        let bob = self.who("bob");
        let engine = self.engine();
        let handled = engine.handle_action(&bob, classify(changes), link.clone());
        let (_, id) = self.drive(handled).unwrap();
        (id, link)
    }

    fn call(&self, who: &str, input: InvokeAction) -> Result<InvocationId> {
        let caller = self.who(who);
        let called = self.drive(self.engine().invoke(&caller, "classify", input, None));
        called.map(|answer| answer.invocation_id)
    }

    fn called(&self, text_: &str) -> InvocationId {
        self.call("alice", text(text_)).unwrap()
    }

    fn complete(&self, who: &str, id: InvocationId, output: Value) -> Result<Invocation> {
        let body = CompleteInvocation {
            output: Some(output),
        };
        self.drive(self.engine().complete_invocation(&self.who(who), id, body))
    }

    fn fail(&self, who: &str, id: InvocationId, error: &str) -> Result<Invocation> {
        let body = FailInvocation {
            error: error.to_owned(),
            retryable: None,
        };
        self.drive(self.engine().fail_invocation(&self.who(who), id, body))
    }

    fn invocation(&self, id: InvocationId) -> Invocation {
        now(self.engine().invocation(&self.who("key"), id)).unwrap()
    }

    fn listed(&self, who: &str) -> Vec<ActionInfo> {
        let found = now(self.engine().actions(&self.who(who), PageQuery::default()));
        found.unwrap().items
    }

    /// What was told of calls, as JSON.
    fn told(&self) -> Vec<Value> {
        let seen = self.seen("key").into_iter();
        seen.filter(|event| !is_offer(event)).collect()
    }

    /// What somebody is told of actions that come and go: the events' names.
    fn offers(&self, who: &str) -> Vec<String> {
        let seen = self.seen(who).into_iter().filter(is_offer);
        seen.map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What somebody sees of actions, as JSON.
    fn seen(&self, who: &str) -> Vec<Value> {
        let actions = Selector::parse("action.*").unwrap();
        let page = now(self.engine().events(&self.who(who), &actions, 0, None)).unwrap();
        let events = page.events.iter().map(|stored| json!(stored.event));
        events.collect()
    }

    fn told_types(&self) -> Vec<String> {
        let told = self.told().into_iter();
        told.map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    fn handed(&self, link: &MemoryLink) -> Vec<InvokeFrame> {
        self.step();
        let mut frames = Vec::new();
        while let Some(parcel) = link.try_take() {
            match parcel {
                Parcel::Invoke(frame) => frames.push(*frame),
                other => panic!("{other:?}"),
            }
        }
        frames
    }
}

fn is_offer(event: &Value) -> bool {
    event["type"] == "action.registered" || event["type"] == "action.removed"
}

fn problem<T: std::fmt::Debug>(result: Result<T>) -> Problem {
    result.unwrap_err().problem()
}

#[test]
fn a_call_is_recorded_run_and_told() {
    let lab = Lab::pair();
    let (_, link) = lab.handler(json!({}));
    let id = lab.called("hello");
    let frames = lab.handed(&link);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].invocation_id, id);
    assert_eq!(frames[0].agent.name, "alice");
    assert_eq!(frames[0].input, Some(json!({ "text": "hello" })));
    let open = lab.invocation(id);
    assert_eq!((open.state, open.offers), (InvocationState::Invoked, 1));

    lab.pass(1_500);
    let ended = lab.complete("bob", id, json!({ "label": "spam" })).unwrap();
    assert_eq!(ended.state, InvocationState::Completed);
    assert_eq!(ended.duration_ms, Some(1_500));
    let told = lab.told();
    assert_eq!(lab.told_types(), ["action.invoked", "action.completed"]);
    assert_eq!(told[0]["invocationId"], json!(id));
    assert_eq!(told[1]["invocationId"], json!(id));
    assert_eq!(told[1]["agent"]["name"], "alice");
    assert_eq!(told[1]["agent"]["type"], "agent");
    assert_eq!(told[1]["input"], json!({ "text": "hello" }));
    assert_eq!(told[1]["output"], json!({ "label": "spam" }));
    assert_eq!(told[1]["durationMs"], 1_500);
}

#[test]
fn one_answer_counts() {
    let lab = Lab::pair();
    lab.offer("bob", json!({})).unwrap();
    let id = lab.called("x");
    lab.complete("bob", id, json!(1)).unwrap();
    // The same again, as after a lost connection, is fine.
    let again = lab.complete("bob", id, json!(1)).unwrap();
    assert_eq!(again.output, Some(json!(1)));
    for other in [lab.complete("bob", id, json!(2)), lab.fail("bob", id, "no")] {
        assert_eq!(problem(other).code, ErrorCode::IllegalTransition);
    }
    assert_eq!(lab.invocation(id).output, Some(json!(1)));
    assert_eq!(lab.told_types(), ["action.invoked", "action.completed"]);
}

#[test]
fn the_owner_answers_and_those_concerned_see_it() {
    let lab = Lab::new(["alice", "bob", "eve"]);
    lab.offer("bob", json!({})).unwrap();
    let id = lab.called("x");
    assert_eq!(
        problem(lab.fail("alice", id, "x")).code,
        ErrorCode::Forbidden
    );
    let unknown = problem(lab.fail("eve", id, "x")).code;
    assert_eq!(unknown, ErrorCode::UnknownInvocation);
    for who in ["alice", "bob", "key"] {
        now(lab.engine().invocation(&lab.who(who), id)).unwrap();
    }
    let seen = now(lab.engine().invocation(&lab.who("eve"), id));
    assert_eq!(problem(seen).code, ErrorCode::UnknownInvocation);
    // The workspace's key may answer, too.
    lab.fail("key", id, "not today").unwrap();
    let told = lab.told();
    assert_eq!(told[1]["error"], "not today");
}

#[test]
fn names_belong_to_who_registered_them() {
    let lab = Lab::pair();
    lab.offer("bob", json!({})).unwrap();
    for who in ["alice", "key"] {
        let refused = problem(lab.offer(who, json!({})));
        assert_eq!(refused.code, ErrorCode::NameTaken, "{who}");
    }
    // Its owner may say something else, and take it back.
    let changed = lab.offer("bob", json!({ "description": "labels text" }));
    assert_eq!(changed.unwrap().description.as_deref(), Some("labels text"));
    let engine = lab.engine();
    let taken = lab.drive(engine.remove_action(&lab.who("alice"), "classify"));
    assert_eq!(problem(taken).code, ErrorCode::Forbidden);
    let id = lab.called("x");
    lab.drive(engine.remove_action(&lab.who("bob"), "classify"))
        .unwrap();
    assert_eq!(lab.invocation(id).state, InvocationState::Failed);
    let gone = problem(lab.call("alice", text("x")));
    assert_eq!(gone.code, ErrorCode::UnknownAction);
    lab.offer("alice", json!({})).unwrap();
    let near = lab.drive(engine.invoke(&lab.who("bob"), "clasify", text("x"), None));
    let near = problem(near);
    assert_eq!(near.suggestions, Some(vec!["classify".to_owned()]));
}

#[test]
fn what_comes_changes_and_goes_is_told_and_nothing_else() {
    let lab = Lab::pair();
    let (registered, removed) = ("action.registered", "action.removed");
    lab.offer("bob", json!({})).unwrap();
    let told = lab.seen("key");
    let bob = &told[0]["agent"];
    assert_eq!(told[0]["type"], registered);
    assert_eq!(told[0]["action"], "classify");
    assert_eq!(
        (&bob["name"], &bob["type"]),
        (&json!("bob"), &json!("agent"))
    );
    assert!(told[0].get("availableTo").is_none());
    // What an SDK does when it is back is no news, with or without a handler.
    lab.offer("bob", json!({})).unwrap();
    lab.handler(json!({}));
    assert_eq!(lab.offers("key"), [registered]);
    // Another description is.
    lab.offer("bob", json!({ "description": "labels" }))
        .unwrap();
    assert_eq!(lab.offers("alice"), [registered, registered]);
    let engine = lab.engine();
    lab.drive(engine.remove_action(&lab.who("bob"), "classify"))
        .unwrap();
    for who in ["alice", "bob", "key"] {
        assert_eq!(lab.offers(who), [registered, registered, removed], "{who}");
    }
    // The workspace's own has no agent.
    lab.offer("key", json!({})).unwrap();
    assert_eq!(lab.seen("alice").last().unwrap().get("agent"), None);
}

#[test]
fn those_who_can_not_call_it_any_more_are_told_and_the_others_are_not() {
    let lab = Lab::new(["alice", "bob", "eve"]);
    let (registered, removed) = ("action.registered", "action.removed");
    let to = |name: &str| json!({ "availableTo": [{ "name": name }] });
    lab.offer("bob", to("alice")).unwrap();
    assert_eq!(lab.offers("alice"), [registered]);
    assert!(lab.offers("eve").is_empty());
    lab.offer("bob", to("eve")).unwrap();
    assert_eq!(lab.offers("alice"), [registered, removed]);
    assert_eq!(lab.offers("eve"), [registered]);
    assert_eq!(lab.offers("bob"), [registered, removed, registered]);
    assert_eq!(lab.seen("alice")[1]["availableTo"][0]["name"], "alice");
    // A call that is open when its action goes fails before that.
    let id = lab.call("eve", text("x")).unwrap();
    let engine = lab.engine();
    lab.drive(engine.release_agent(&lab.who("key"), "bob", None))
        .unwrap();
    assert_eq!(lab.invocation(id).state, InvocationState::Failed);
    let last: Vec<Value> = lab.seen("eve").into_iter().rev().take(2).collect();
    assert_eq!(
        (&last[0]["type"], &last[1]["type"]),
        (&json!(removed), &json!("action.failed"))
    );
    assert_eq!(lab.offers("alice"), [registered, removed]);
}

#[test]
fn bad_input_is_a_failure_that_names_the_place() {
    let lab = Lab::pair();
    lab.offer("bob", json!({})).unwrap();
    let input = Some(json!({ "text": 7 }));
    let refused = problem(lab.call("alice", InvokeAction { input }));
    assert_eq!(refused.code, ErrorCode::InvalidRequest);
    assert_eq!(refused.path.as_deref(), Some("input.text"));
    let none = problem(lab.call("alice", InvokeAction::default()));
    assert!(none.detail.contains("text"), "{}", none.detail);
    assert_eq!(lab.told_types(), ["action.failed", "action.failed"]);
    let told = lab.told();
    assert!(
        told[0]["error"]
            .as_str()
            .unwrap()
            .starts_with("input.text: ")
    );
}

#[test]
fn an_output_that_does_not_fit_is_a_failure() {
    let lab = Lab::pair();
    let schema = json!({ "outputSchema": { "required": ["label"] } });
    lab.offer("bob", schema).unwrap();
    let id = lab.called("x");
    let ended = lab.complete("bob", id, json!({})).unwrap();
    assert_eq!(ended.state, InvocationState::Failed);
    assert!(ended.error.unwrap().starts_with("output: "));
}

#[test]
fn only_those_it_is_for_may_call() {
    let lab = Lab::new(["alice", "bob", "eve"]);
    let ops = CreateChannel {
        name: "ops".to_owned(),
        topic: None,
    };
    lab.drive(lab.engine().create_channel(&lab.who("eve"), ops))
        .unwrap();
    let cases = [
        (json!([]), [false, false, false]),
        (json!([{ "name": "Alice" }]), [true, false, false]),
        (json!([{ "channel": "#Ops" }]), [false, true, false]),
        (json!([{ "type": "agent" }]), [true, true, false]),
        (json!([{ "type": "system" }]), [false, false, true]),
    ];
    for (selectors, expected) in cases {
        lab.offer("bob", json!({ "availableTo": selectors }))
            .unwrap();
        for (who, may) in ["alice", "eve", "key"].into_iter().zip(expected) {
            let called = lab.call(who, text("x"));
            assert_eq!(called.is_ok(), may, "{selectors} {who}");
            let is_shown = lab.listed(who).len() == 1;
            assert_eq!(is_shown, may || who == "key", "{selectors} {who}");
            if !may {
                assert_eq!(problem(called).code, ErrorCode::Forbidden);
                assert_eq!(lab.told().last().unwrap()["type"], "action.denied");
            }
        }
        assert_eq!(lab.listed("bob").len(), 1, "its owner sees it");
    }
    // Who may not call does not learn what would fit.
    lab.offer("bob", json!({ "availableTo": [] })).unwrap();
    lab.call("alice", InvokeAction::default()).unwrap_err();
    let told = lab.told();
    let reason = told.last().unwrap()["reason"].as_str().unwrap();
    assert_eq!(reason, "classify is not available to alice");
}

#[test]
fn schemas_that_can_harm_are_refused() {
    let lab = Lab::pair();
    let bombs = [
        json!({ "inputSchema": { "pattern": "(?:a{1000}){1000}" } }),
        json!({ "inputSchema": { "pattern": "(unclosed" } }),
        json!({ "inputSchema": { "type": "nonsense" } }),
        json!({ "inputSchema": { "$ref": "file:///etc/passwd" } }),
        json!({ "outputSchema": { "$ref": "http://127.0.0.1/" } }),
        json!({ "inputSchema": { "items": { "$ref": "#" } } }),
    ];
    for bomb in bombs {
        let refused = problem(lab.offer("bob", bomb.clone()));
        assert_eq!(refused.code, ErrorCode::InvalidRequest, "{bomb}");
        let path = refused.path.unwrap();
        assert!(
            path.ends_with("Schema") || path.contains("Schema."),
            "{bomb}: {path}"
        );
    }
    // A pattern that makes others run for ages takes no time.
    let evil = json!({ "inputSchema": {
        "properties": { "text": { "pattern": "^(a+)+$" } },
    } });
    lab.offer("bob", evil).unwrap();
    let long = format!("{}!", "a".repeat(20_000));
    lab.call("alice", text(&long)).unwrap_err();
}

#[test]
fn calls_wait_for_a_handler_and_go_to_one() {
    let lab = Lab::pair();
    lab.offer("bob", json!({})).unwrap();
    assert_eq!(lab.listed("alice")[0].handlers, 0);
    let first = lab.called("1");
    let (_, one) = lab.handler(json!({}));
    let frames = lab.handed(&one);
    assert_eq!(frames[0].invocation_id, first);
    let (_, other) = lab.handler(json!({}));
    assert_eq!(lab.listed("alice")[0].handlers, 2);
    for _ in 0..4 {
        lab.called("more");
    }
    assert_eq!((lab.handed(&one).len(), lab.handed(&other).len()), (2, 2));
}

#[test]
fn a_lost_handlers_calls_are_given_to_the_next_with_the_same_id() {
    let lab = Lab::pair();
    let (lost, one) = lab.handler(json!({}));
    let id = lab.called("x");
    assert_eq!(lab.handed(&one).len(), 1);
    lab.engine().handler_gone(lost);
    lab.step();
    let (_, next) = lab.handler(json!({}));
    let frames = lab.handed(&next);
    assert_eq!(frames[0].invocation_id, id);
    assert_eq!(lab.invocation(id).offers, 2);
    lab.complete("bob", id, json!(null)).unwrap();
}

#[test]
fn at_most_once_is_not_given_again() {
    let lab = Lab::pair();
    let once = json!({ "atMostOnce": true });
    let (lost, link) = lab.handler(once.clone());
    let id = lab.called("x");
    assert_eq!(lab.handed(&link).len(), 1);
    lab.engine().handler_gone(lost);
    let (_, next) = lab.handler(once);
    assert_eq!(lab.handed(&next), []);
    let ended = lab.invocation(id);
    assert_eq!(ended.state, InvocationState::Failed);
    assert_eq!(ended.retryable, Some(false));
}

#[test]
fn a_call_that_nobody_answers_ends_when_its_time_is_over() {
    let lab = Lab::pair();
    lab.offer("bob", json!({})).unwrap();
    let default = lab.called("x");
    lab.offer("bob", json!({ "timeoutMs": 1_000 })).unwrap();
    let (_, link) = lab.handler(json!({ "timeoutMs": 1_000 }));
    let own = lab.called("x");
    assert_eq!(lab.handed(&link).len(), 2);
    lab.pass(999);
    assert_eq!(lab.invocation(own).state, InvocationState::Invoked);
    lab.pass(1);
    let ended = lab.invocation(own);
    assert_eq!(ended.state, InvocationState::Failed);
    assert_eq!(ended.retryable, Some(true));
    assert_eq!(lab.invocation(default).state, InvocationState::Invoked);
    lab.pass(ACTION_TIMEOUT_MS as i64);
    assert_eq!(lab.invocation(default).state, InvocationState::Failed);
    // It is too late now.
    let late = problem(lab.complete("bob", own, json!(1)));
    assert_eq!(late.code, ErrorCode::IllegalTransition);
}

#[test]
fn calls_survive_a_restart() {
    let lab = Lab::pair();
    let (_, link) = lab.handler(json!({}));
    let given = lab.called("given");
    assert_eq!(lab.handed(&link).len(), 1);
    let lab = lab.restarted();
    let waiting = lab.called("waiting");
    assert_eq!(lab.listed("alice")[0].handlers, 0);
    let (_, link) = lab.handler(json!({}));
    let frames = lab.handed(&link);
    let ids: Vec<_> = frames.iter().map(|frame| frame.invocation_id).collect();
    assert_eq!(ids, [given, waiting]);
    lab.complete("bob", given, json!(1)).unwrap();
    lab.complete("bob", waiting, json!(2)).unwrap();

    // What may be given once only has been, before.
    let once = json!({ "atMostOnce": true });
    let (_, link) = lab.handler(once);
    let id = lab.called("once");
    lab.handed(&link);
    let lab = lab.restarted();
    lab.step();
    assert_eq!(lab.invocation(id).state, InvocationState::Failed);
    let lab = lab.restarted_after(1);
    assert_eq!(lab.told_types().len(), 6, "each was told once");
}

#[test]
fn the_caller_can_be_told_by_a_message() {
    let lab = Lab::pair();
    lab.offer("bob", json!({ "notifyCaller": true })).unwrap();
    let id = lab.called("x");
    let secret = "AKIAIOSFODNN7EXAMPLE";
    lab.complete("bob", id, json!({ "key": secret })).unwrap();
    let inbox = now(lab.engine().inbox(&lab.who("alice"), PageQuery::default())).unwrap();
    let item = &inbox.items[0];
    assert!(
        item.message
            .text
            .starts_with("The action classify completed: {")
    );
    assert!(!item.message.text.contains(secret), "{}", item.message.text);
    assert_eq!(
        item.message.metadata.as_ref().unwrap()["invocationId"],
        json!(id)
    );
    assert_eq!(item.reason, DeliveryReason::ActionResult);
    // The workspace has no inbox; it hears of it by the event.
    let id = lab.call("key", text("x")).unwrap();
    lab.fail("bob", id, "broken").unwrap();
    let inbox = now(lab.engine().inbox(&lab.who("alice"), PageQuery::default())).unwrap();
    assert_eq!(inbox.items.len(), 1);
}

#[test]
fn with_its_agent_an_action_goes() {
    let lab = Lab::pair();
    lab.offer("bob", json!({ "notifyCaller": true })).unwrap();
    let id = lab.called("x");
    let key = lab.who("key");
    lab.drive(lab.engine().release_agent(&key, "bob", None))
        .unwrap();
    let ended = lab.invocation(id);
    assert_eq!(ended.state, InvocationState::Failed);
    assert_eq!(ended.error.as_deref(), Some("the action was taken back"));
    assert_eq!(lab.listed("key").len(), 0);
}

#[test]
fn too_many_open_calls_are_refused() {
    let lab = Lab::pair();
    lab.offer("bob", json!({})).unwrap();
    for _ in 0..ACTION_CALLS_OPEN {
        lab.call("key", text("x")).unwrap();
    }
    let refused = problem(lab.call("key", text("x")));
    assert_eq!(refused.code, ErrorCode::LimitExceeded);
}

#[test]
fn lists_are_paged_by_name() {
    let lab = Lab::pair();
    for no in 0..7 {
        lab.offer("bob", json!({ "name": format!("a{no}") }))
            .unwrap();
    }
    lab.offer("key", json!({ "name": "a3b" })).unwrap();
    let page = |caller: &str, cursor: Option<String>, tools: bool| {
        let caller = lab.who(caller);
        let query = PageQuery {
            cursor,
            limit: Some(3),
        };
        let engine = lab.engine();
        let found = match tools {
            true => now(engine.tools(&caller, query)),
            false => now(engine.actions(&caller, query)),
        };
        let found = found.unwrap();
        let names: Vec<_> = found.items.into_iter().map(|item| item.name).collect();
        (names, found.next_cursor)
    };
    let (first, cursor) = page("alice", None, false);
    assert_eq!(first, ["a0", "a1", "a2"]);
    let (second, cursor) = page("alice", cursor, false);
    assert_eq!(second, ["a3", "a3b", "a4"]);
    assert_eq!(
        page("alice", cursor, false),
        (vec!["a5".into(), "a6".into()], None)
    );
    // What the workspace offers is no tool.
    let (_, cursor) = page("alice", None, true);
    assert_eq!(page("alice", cursor, true).0, ["a3", "a4", "a5"]);
}
