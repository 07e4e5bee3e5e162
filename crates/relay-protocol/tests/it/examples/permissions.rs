//! Permission requests and their answers. From spec/resolve-relay.txt.

use relay_protocol::permission::*;

use super::{Example, has_literals, shows_every_tag};

pub(super) const RECORD: &str = r#"{"permissionId":"%3","state":"pending","agentId":"%2","agentName":"engineer",
    "sessionId":"%6","tool":"bash","params":{"command":"rm -rf ./temp"},"masked":true,"cwd":"/w","runId":"%8","turnId":"t1",
    "toolCallId":"call_abc123","title":"t",
    "createdAt":"%T","expiresAt":"%T","argsHash":"h",
    "options":[{"optionId":"o","kind":"allow_once","name":"Allow"}],
    "suggestions":[{"rule":"bash:rm *","scope":"session","covers":"rm x"}],
    "messageId":"%4",
    "outcome":{"decision":"approved","by":{"kind":"human","name":"ana"},"via":"cli","at":"%T","reason":"r",
        "grantId":"%7","rule":"bash:rm **","optionId":"o","updatedParams":{},"guidanceMessageId":"%4","stop":false},
    "execution":{"state":"failed","startedAt":"%T","endedAt":"%T","error":"e"}}"#;

pub(super) const GRANT: &str = r#"{"grantId":"%7","rule":"bash:ls *","effect":"allow","scope":"workspace","agentName":"a",
    "sessionId":"%6","turnId":"t1","permissionId":"%3","by":{"kind":"chat"},"createdAt":"%T","expiresAt":"%T","lastUsedAt":"%T",
    "revokedAt":"%T","revokedBy":{"kind":"workspace"}}"#;

pub(super) fn examples() -> Vec<Example> {
    super::examples![
        RelayRequest:
            r#"{"type":"relay","kind":"permission","runId":"01963a5c-7891-7abc-def0-123456789abc",
                "id":"01963a5c-7893-7abc-def0-123456789abc","agentId":"01963a5c-7892-7abc-def0-123456789abc",
                "toolCallId":"call_abc123","tool":"bash","params":{"command":"rm -rf ./temp"}}"#,
            r#"{"type":"relay","kind":"permission","runId":"r","id":"%3","agentId":"a","toolCallId":"c",
                "tool":"bash","params":{},"title":"t","createdAt":"%T","expiresAt":"%T","argsHash":"h",
                "options":[{"optionId":"o","kind":"reject_always","name":"No"}],
                "suggestions":[{"rule":"r","scope":"turn","covers":"c"}]}"#;
        ResolveRelay:
            r#"{"sessionId":"01963a5c-7890-7abc-def0-123456789abc","response":{"approved":true}}"#,
            r#"{"sessionId":"01963a5c-7890-7abc-def0-123456789abc",
                "response":{"approved":true,"always":true}}"#,
            r#"{"sessionId":"01963a5c-7890-7abc-def0-123456789abc",
                "response":{"approved":false,"reason":"This operation could delete important files"}}"#,
            r#"{"sessionId":"%6","response":{"approved":true,"optionId":"o","updatedParams":{},"stop":true,
                "argsHash":"h"},"responseId":"x"}"#;
        PermissionRecord: RECORD;
        ResolvePermission: r#"{"approved":true,"always":true,"optionId":"o","reason":"r",
            "updatedParams":{},"stop":false,"guidance":"g","argsHash":"h","rule":"bash","scope":"turn","grantExpiresInMs":5,
            "via":"cli","policy":"p","responseId":"x"}"#;
        CancelPermission: r#"{"reason":"r"}"#, "{}";
        StartPermission: r#"{"argsHash":"h","startId":"x"}"#;
        FinishPermission: r#"{"state":"failed","error":"e"}"#;
        CreateRun: r#"{"parentRunId":"%8","permissions":{"allowlist":["read"]}}"#, "{}";
        PermissionRun: r#"{"runId":"%8","agentName":"a","sessionId":"%6","parentRunId":"%8","depth":1,
            "permissions":{},"createdAt":"%T","endedAt":"%T"}"#;
        AskPermission: r#"{"tool":"bash","params":{},"toolCallId":"c",
            "options":[{"optionId":"o","kind":"allow_always","name":"Yes"}],"title":"t","expiresInMs":5,"cwd":"/w",
            "runId":"%8","turnId":"t1"}"#;
        EvaluatePermission: r#"{"tool":"bash","params":{"command":"ls"},"permissions":{
            "allowlist":["read","bash:ls *",{"tool":"bash"},{"tool":"bash","params":{"command":"ls"}}],
            "ask":[],"deny":["bash:rm *",{"tool":"write"},{"toolCallId":"call_1","reason":"no"},{"toolCallId":"c"}],
            "allowOnce":[]},"sessionId":"%6","runId":"%8","cwd":"/w"}"#;
        Evaluation: r#"{"decision":"ask","rule":"bash:ls *","reason":"r",
            "suggestions":[{"rule":"r","scope":"agent","covers":"c"}]}"#;
        Grant: GRANT;
    ]
}

#[test]
fn every_tag_is_shown() {
    shows_every_tag("RelayRequest", "kind", RelayRequest::TAGS);
}

#[test]
fn literals() {
    has_literals::<RelayEventTag>(&["relay"]);
    has_literals::<PermissionState>(&["pending", "approved", "denied", "expired", "cancelled"]);
    has_literals::<PermissionOptionKind>(&[
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]);
    has_literals::<GrantScope>(&["turn", "session", "agent", "workspace"]);
    has_literals::<DeciderKind>(&["human", "workspace", "policy", "chat", "agent"]);
    has_literals::<GrantEffect>(&["allow", "deny"]);
    has_literals::<ExecutionState>(&["started", "completed", "failed", "unknown", "cancelled"]);
    has_literals::<RuleDecision>(&["allow", "ask", "deny"]);
}

#[test]
fn a_rule_is_refused_where_it_is_wrong() {
    let cases = [
        (
            r#"{"deny":[{"toolCallId":"c","tool":"bash"}]}"#,
            "deny[0].tool: unknown field `tool`, expected `toolCallId` or `reason`",
        ),
        (
            r#"{"deny":[{"toolCallId":1}]}"#,
            "deny[0].toolCallId: invalid type: integer `1`, expected a string",
        ),
        (r#"{"deny":[{}]}"#, "deny[0]: missing field `tool`"),
        (
            r#"{"allowlist":[{"toolCallId":"c"}]}"#,
            "allowlist[0].toolCallId: unknown field `toolCallId`, expected `tool` or `params`",
        ),
        (
            r#"{"ask":[{"tool":"bash","params":{"command":1}}]}"#,
            "ask[0].params.command: invalid type: integer `1`, expected a string",
        ),
    ];
    for (json, expected) in cases {
        let error = relay_protocol::wire::decode::<Permissions>(json.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
