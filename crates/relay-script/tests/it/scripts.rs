//! Scripts by themselves: what is read, which turn is played when, and what is refused.

use relay_script::{
    Message, Part, Piece, Player, Refusal, Reply, Request, Role, Script, Stop, Tool, Turn, Usage,
};
use serde_json::{Value, json};

use crate::support::script;

fn asked(text: &str) -> Request {
    Request {
        messages: vec![Message::text(Role::User, text)],
        ..Request::default()
    }
}

fn offering(request: Request, tools: &[&str]) -> Request {
    let tools = tools.iter().map(|name| Tool {
        name: (*name).to_owned(),
        description: String::new(),
        schema: Value::Null,
    });
    Request {
        tools: tools.collect(),
        ..request
    }
}

fn reply(turn: Turn) -> Reply {
    match turn {
        Turn::Reply(reply) => reply,
        Turn::Refusal(refusal) => panic!("{refusal:?}"),
    }
}

fn refusal(turn: Turn) -> Refusal {
    match turn {
        Turn::Refusal(refusal) => refusal,
        Turn::Reply(reply) => panic!("{reply:?}"),
    }
}

fn text(turn: Turn) -> String {
    let pieces = reply(turn).pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        other => format!("<{other:?}>"),
    });
    pieces.collect()
}

/// The conversation with what was just played added to it, and a result for each call.
fn go_on(mut request: Request, turn: Turn) -> Request {
    let (mut parts, mut results) = (Vec::new(), Vec::new());
    for piece in reply(turn).pieces {
        match piece {
            Piece::Text(text) => parts.push(Part::Text(text)),
            Piece::ToolCall(call) => {
                results.push(Part::ToolResult {
                    id: call.id.clone(),
                    text: format!("result of {}", call.name),
                });
                parts.push(Part::ToolCall {
                    arguments: call.arguments_value(),
                    id: call.id,
                    name: call.name,
                });
            }
            _ => {}
        }
    }
    let role = Role::Assistant;
    request.messages.push(Message { role, parts });
    if !results.is_empty() {
        request.messages.push(Message {
            role: Role::Tool,
            parts: results,
        });
    }
    request
}

#[test]
fn a_plain_list_is_played_from_start_to_end_and_then_the_request_is_refused() {
    let mut player = Player::new(script(json!(["one", ["t", "wo"], { "reply": "three" }])));
    for expected in ["one", "two", "three"] {
        assert_eq!(text(player.next(&asked("?"))), expected);
    }
    let refused = refusal(player.next(&asked("?")));
    assert_eq!(refused.status, 400);
    assert!(refused.body.to_string().contains("no turn"), "{refused:?}");
}

#[test]
fn the_first_rule_that_fits_is_played_as_often_as_it_may() {
    let mut player = Player::new(script(json!({
        "turns": [
            { "when": { "user": "cat" }, "times": 2, "reply": "meow" },
            { "when": { "user": "a" }, "reply": "something with an a" },
            "once",
        ],
        "otherwise": "no idea",
    })));
    let said: Vec<String> = ["cat", "dog", "cat", "cat", "dog", "dog"]
        .iter()
        .map(|word| text(player.next(&asked(word))))
        .collect();
    let expected = [
        "meow",
        "once",
        "meow",
        "something with an a",
        "no idea",
        "no idea",
    ];
    assert_eq!(said, expected);
}

#[test]
fn each_condition_holds_for_what_it_means_and_for_nothing_else() {
    let mut request = offering(asked("first words"), &["bash", "mcp__relay__send"]);
    request.system = "You are a tester.".to_owned();
    request.model = "scripted-mini".to_owned();
    let mut tool_result = request.clone();
    for (role, part) in [
        (Role::Assistant, Part::Text("I look.".to_owned())),
        (
            Role::Tool,
            Part::ToolResult {
                id: "call_1".to_owned(),
                text: "found it".to_owned(),
            },
        ),
    ] {
        let parts = vec![part];
        tool_result.messages.push(Message { role, parts });
    }
    for (when, before, after) in [
        (json!({}), true, true),
        (json!({ "user": "first" }), true, false),
        (json!({ "user": "second" }), false, false),
        (json!({ "result": "found" }), false, true),
        (json!({ "result": "" }), false, true),
        (json!({ "result": "lost" }), false, false),
        (json!({ "said": "first" }), true, true),
        (json!({ "said": "found" }), false, true),
        (json!({ "system": "tester" }), true, true),
        (json!({ "system": "cook" }), false, false),
        (json!({ "model": "mini" }), true, true),
        (json!({ "model": "maxi" }), false, false),
        (json!({ "offers": "bash" }), true, true),
        (json!({ "offers": "bas" }), false, false),
        (json!({ "offers": "*__send" }), true, true),
        (json!({ "offers": "mcp__*" }), true, true),
        (json!({ "offers": "*relay*" }), true, true),
        (json!({ "offers": "*" }), true, true),
        (json!({ "offers": "*x*" }), false, false),
        (json!({ "tools": true }), true, true),
        (json!({ "tools": false }), false, false),
        (json!({ "user": "first", "tools": false }), false, false),
    ] {
        let script = script(json!({
            "turns": [{ "when": when, "reply": "yes" }], "otherwise": "no",
        }));
        let says = |request: &Request| text(Player::new(script.clone()).next(request)) == "yes";
        assert_eq!(says(&request), before, "{when} before");
        assert_eq!(says(&tool_result), after, "{when} after");
    }
}

#[test]
fn the_tool_that_is_offered_is_called_and_calls_have_ids_of_their_own() {
    let mut player = Player::new(script(json!([
        [{ "call": [
            { "tool": "Bash", "arguments": { "command": "ls" } },
            { "tool": "*shell", "arguments": { "cmd": "ls" } },
        ] }, { "tool": "unknown", "arguments": "{\"broken", "id": "mine" }],
        [{ "tool": "again" }],
        [{ "call": [{ "tool": "Bash" }] }],
    ])));
    let request = offering(asked("go"), &["run_shell", "read"]);
    let turn = player.next(&request);
    let played = reply(turn.clone());
    let calls: Vec<_> = played.calls().collect();
    assert_eq!(calls[0].name, "run_shell");
    assert_eq!(calls[0].arguments, r#"{"cmd":"ls"}"#);
    assert_eq!(
        (calls[0].id.as_str(), calls[1].id.as_str()),
        ("call_1", "mine")
    );
    assert_eq!(calls[1].arguments, "{\"broken");
    assert_eq!(calls[1].arguments_value(), json!("{\"broken"));
    assert_eq!(played.stop, Stop::Tools);
    let request = go_on(request, turn);
    let next = reply(player.next(&request));
    assert_eq!(next.calls().next().unwrap().id, "call_3");
    let refused = refusal(player.next(&request)).body.to_string();
    assert!(
        refused.contains("[Bash]") && refused.contains("[run_shell, read]"),
        "{refused}"
    );
}

#[test]
fn a_script_in_the_last_message_is_played_without_memory() {
    let own = r#" script: ["I look.", [{"tool": "read"}], "Done."]"#;
    let mut request = asked("earlier");
    request
        .messages
        .push(Message::text(Role::Assistant, "Yes?"));
    request.messages.push(Message::text(Role::User, own));
    // Every step is played by another player: nothing but the conversation tells how far it is.
    let step = |request: &Request| Player::new(Script::saying("from the file")).next(request);
    assert_eq!(text(step(&request)), "I look.");
    request = go_on(request.clone(), step(&request));
    let call = reply(step(&request)).calls().next().unwrap().name.clone();
    assert_eq!(call, "read");
    request = go_on(request.clone(), step(&request));
    assert_eq!(text(step(&request)), "Done.");
    request = go_on(request.clone(), step(&request));
    assert_eq!(refusal(step(&request)).status, 400);
    request.messages.push(Message::text(Role::User, "thanks"));
    assert_eq!(text(step(&request)), "from the file");
    let refused = refusal(step(&asked("script: [1]"))).body.to_string();
    assert!(refused.contains("turns[0]"), "{refused}");
}

#[test]
fn what_is_not_given_is_filled_in() {
    let mut player = Player::new(script(json!([
        "12345678",
        { "reply": [{ "reasoning": "hm" }], "stop": "length", "cutAt": 7,
          "usage": { "input": 10, "cached": 4, "output": 2 } },
        { "reply": "", "stop": "model_context_window_exceeded" },
        { "refuse": { "status": 429, "headers": { "retry-after": "3" } } },
    ])));
    let first = reply(player.next(&asked("1234")));
    assert_eq!(first.stop, Stop::End);
    let usage = Usage {
        input: 1,
        cached: 0,
        output: 2,
    };
    assert_eq!(first.usage, usage);
    let second = reply(player.next(&asked("1234")));
    assert_eq!((second.stop, second.cut_at), (Stop::Length, Some(7)));
    assert_eq!(second.usage.cached, 4);
    let third = reply(player.next(&asked("1234")));
    assert_eq!(
        third.stop,
        Stop::Other("model_context_window_exceeded".to_owned())
    );
    let fourth = refusal(player.next(&asked("1234")));
    assert_eq!(fourth.status, 429);
    assert_eq!(fourth.headers, [("retry-after".to_owned(), "3".to_owned())]);
    assert!(fourth.body["error"]["message"].is_string());
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (value, place, problem) in [
        (json!(1), "top", "expected a list of turns"),
        (json!({ "turn": [] }), "top.turn", "unknown field"),
        (json!([7]), "turns[0]", "expected words"),
        (json!(["a", {}]), "turns[1]", "either `reply` or `refuse`"),
        (
            json!([{ "reply": "a", "refuse": { "status": 500 } }]),
            "turns[0]",
            "either",
        ),
        (
            json!([{ "reply": 1 }]),
            "turns[0].reply",
            "expected words or a list",
        ),
        (
            json!([{ "reply": "a", "when": { "use": "x" } }]),
            "turns[0].when.use",
            "unknown",
        ),
        (
            json!([{ "refuse": { "status": 200 } }]),
            "turns[0].refuse.status",
            "from 400",
        ),
        (json!([["a", 1]]), "turns[0].reply[1]", "expected words"),
        (json!([[{}]]), "turns[0].reply[0]", "exactly one of"),
        (
            json!([[{ "text": "a", "cut": true }]]),
            "turns[0].reply[0]",
            "exactly one of",
        ),
        (
            json!([[{ "tool": "a", "times": 2 }]]),
            "turns[0].reply[0]",
            "belongs to `text`",
        ),
        (
            json!([[{ "clock": 2, "times": 2 }]]),
            "turns[0].reply[0]",
            "belongs to `text`",
        ),
        (
            json!([[{ "reasoning": "a", "everyMs": 2 }]]),
            "turns[0].reply[0]",
            "belongs to `text` and `clock`",
        ),
        (
            json!([[{ "clock": 1_000_001 }]]),
            "turns[0].reply[0]",
            "at most",
        ),
        (
            json!([[{ "text": "a", "arguments": {} }]]),
            "turns[0].reply[0]",
            "belong to `tool`",
        ),
        (
            json!([[{ "text": "a", "times": 1_000_001 }]]),
            "turns[0].reply[0]",
            "at most",
        ),
        (
            json!([[{ "call": [] }]]),
            "turns[0].reply[0]",
            "a tool to call",
        ),
        (
            json!([[{ "cut": false }]]),
            "turns[0].reply[0]",
            "are only `true`",
        ),
        (
            json!([[{ "delayMs": "x" }]]),
            "turns[0].reply[0].delayMs",
            "invalid type",
        ),
        (
            json!({ "turns": [], "otherwise": [[]] }),
            "otherwise.reply[0]",
            "expected words",
        ),
    ] {
        let error = Script::from_value(value.clone()).unwrap_err();
        assert_eq!(error.place, place, "{value}");
        assert!(error.problem.contains(problem), "{value}: {error}");
    }
    let error = "[\n\"a\",\n".parse::<Script>().unwrap_err();
    assert!(error.to_string().starts_with("script, line "), "{error}");
}
