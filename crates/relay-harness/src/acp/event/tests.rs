use serde_json::json;

use super::*;

#[test]
fn known_updates_are_read() {
    let table = [
        (
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}),
            json!({"type": "text", "text": "hi"}),
        ),
        (
            json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
            json!({"type": "thought", "text": "hm"}),
        ),
        (
            json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "ls", "kind": "execute",
                "status": "pending", "rawInput": {"command": "ls"}, "locations": [{"path": "/a", "line": 3}],
                "_meta": {"claudeCode": {"toolName": "Bash"}}}),
            json!({"type": "tool-call", "id": "t1", "title": "ls", "name": "Bash", "kind": "execute",
                "status": "pending", "input": {"command": "ls"}, "locations": ["/a"]}),
        ),
        (
            json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "developer: shell", "kind": "execute",
                "_meta": {"goose": {"toolCall": {"toolName": "developer__shell", "extensionName": "developer"}}}}),
            json!({"type": "tool-call", "id": "t1", "title": "developer: shell", "name": "developer__shell",
                "kind": "execute"}),
        ),
        (
            json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "ls (list)", "kind": "execute",
                "_meta": {"toolName": "run_shell_command", "provenance": "builtin"}}),
            json!({"type": "tool-call", "id": "t1", "title": "ls (list)", "name": "run_shell_command",
                "kind": "execute"}),
        ),
        (
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "content": [
                {"type": "diff", "path": "/a", "oldText": null, "newText": "x"},
                {"type": "content", "content": {"type": "text", "text": "done"}},
                {"type": "terminal", "terminalId": "term"},
                {"type": "hologram"}]}),
            json!({"type": "tool-call-update", "id": "t1", "status": "completed", "content": [
                {"type": "diff", "path": "/a", "newText": "x"},
                {"type": "text", "text": "done"},
                {"type": "terminal", "terminalId": "term"},
                {"type": "raw", "content": {"type": "hologram"}}]}),
        ),
        (
            json!({"sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": {"amount": 0.5, "currency": "USD"}}),
            json!({"type": "usage", "used": 5, "size": 10, "costUsd": 0.5}),
        ),
        (
            json!({"sessionUpdate": "usage_update", "used": 5, "cost": {"amount": 3, "currency": "EUR"}}),
            json!({"type": "usage", "used": 5}),
        ),
        (
            json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
            json!({"type": "mode", "mode": "plan"}),
        ),
        (
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "init"}, {}]}),
            json!({"type": "commands", "names": ["init"]}),
        ),
    ];
    for (update, expected) in table {
        let event = Event::read(update);
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written, expected);
        assert_eq!(serde_json::from_value::<Event>(written).unwrap(), event);
    }
}

#[test]
fn what_is_not_known_comes_through_as_it_is() {
    let table = [
        json!({"sessionUpdate": "hologram", "x": [1, {"y": null}]}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "AA=="}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": 3}),
        json!({"sessionUpdate": "tool_call", "title": "no id"}),
        json!({"sessionUpdate": 7}),
        json!({}),
        json!(null),
        json!("text"),
    ];
    for update in table {
        assert_eq!(Event::read(update.clone()), Event::Raw { update });
    }
}

#[test]
fn tokens_are_found_where_agents_put_them() {
    let tokens = |answer: Value| Tokens::read(&answer).map(|t| (t.input, t.output, t.total));
    let usage = json!({"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 9}});
    assert_eq!(tokens(usage), Some((5, 2, 9)));
    let quota =
        json!({"_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 2}}}});
    assert_eq!(tokens(quota), Some((5, 2, 7)));
    assert_eq!(tokens(json!({"stopReason": "end_turn"})), None);
    assert_eq!(tokens(json!(null)), None);
}

#[test]
fn a_tool_is_not_called_by_what_the_model_wrote() {
    let call = |value| ToolCall::read(&value).unwrap();
    let titled = call(json!({"toolCallId": "1", "title": "rm -rf /", "kind": "execute"}));
    assert_eq!(titled.tool(), "execute");
    assert_eq!(
        call(json!({"toolCallId": "1", "title": "x"})).tool(),
        "tool"
    );
}
