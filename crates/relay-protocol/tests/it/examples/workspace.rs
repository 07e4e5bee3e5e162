//! Workspaces, agents, channels and policy.

use relay_protocol::agent::{AgentIdentity, AgentPresence, AgentSummary, AgentType};
use relay_protocol::api::audit::{EraseEvents, EventsErased, EventsRetained, RetainEvents};
use relay_protocol::api::events::{EventList, EventQuery};
use relay_protocol::api::service::{Health, ServiceStatus};
use relay_protocol::api::workspace::*;
use relay_protocol::chat::ModelList;
use relay_protocol::policy::{Policy, PolicyPatch, RedactMessages};
use relay_protocol::problem::{ErrorCode, Problem};

use super::{Example, has_literals};

pub(super) fn examples() -> Vec<Example> {
    super::examples![
        AgentPresence: r#"{"status":"offline"}"#, r#"{"status":"idle","since":"%T","sessionId":"%6"}"#;
        AgentSummary:
            r#"{"id":"%2","name":"a","handle":"@a","type":"human","metadata":{"b":1},"presence":{"status":"offline"}}"#;
        AgentIdentity: "%A", r#"{"id":"%2","name":"a","handle":"@a","type":"human","metadata":{"b":1}}"#;
        CreateWorkspace: r#"{"name":"team"}"#;
        WorkspaceCreated: r#"{"workspaceId":"%5","name":"team","workspaceKey":"rk_x"}"#;
        UpdateWorkspace: r#"{}"#, r#"{"name":"team"}"#;
        Me:
            r#"{"kind":"admin"}"#,
            r#"{"kind":"agent","workspace":{"workspaceId":"%5","name":"team","createdAt":"%T"},"agent":%A}"#,
            r#"{"kind":"observer","scope":{}}"#;
        CreateObserverToken:
            r#"{}"#,
            r#"{"name":"wall","scope":{"channels":["team-*"],"events":["message.*"],"grants":["terminal"]}}"#;
        ObserverTokenCreated:
            r#"{"token":"ot_x","observer":{"tokenId":"%7","scope":{},"createdAt":"%T"}}"#,
            r#"{"token":"ot_x","observer":{"tokenId":"%7","name":"wall","scope":{},"createdAt":"%T"}}"#;
        Health: r#"{"status":"ok","version":"0.1.0","protocol":1}"#;
        EventQuery: r#"{}"#, r#"{"after":3,"types":"message.*","limit":2}"#;
        EventList:
            r#"{"items":[],"after":0}"#,
            r#"{"items":[{"seq":3,"id":"%8","at":"%T","workspaceId":"%5","type":"log","erased":true}],
                "after":3,"nextCursor":"3"}"#;
        EraseEvents: r#"{"seqs":[3,4],"reason":"a leaked key"}"#;
        EventsErased: r#"{"erased":2}"#;
        RetainEvents: r#"{}"#, r#"{"bulkyBefore":"%T","allBefore":"%T"}"#;
        EventsRetained: r#"{"erased":2,"cut":0}"#;
        Workspace: r#"{"workspaceId":"%5","name":"team","createdAt":"%T"}"#;
        RegisterAgent:
            r#"{"name":"engineer"}"#,
            r#"{"name":"engineer","type":"human","metadata":{},"adopt":true}"#;
        AgentRegistered: r#"{"agent":%A,"token":"at_x"}"#;
        TokenRotated: r#"{"token":"at_y","graceUntil":"%T"}"#;
        UpdateAgent: r#"{"metadata":{}}"#;
        ModelList: r#"{"models":["a/b"],"defaultModel":"a/b"}"#, r#"{"models":["a/b"],"warnings":["w"]}"#, r#"{"models":[]}"#;
        CreateChannel: r#"{"name":"ops"}"#, r#"{"name":"ops","topic":"t"}"#;
        UpdateChannel: r#"{}"#, r#"{"topic":"t","archived":true}"#;
        InviteAgents: r#"{"agents":["@bob"]}"#;
        ChannelMember: r#"{"agent":%A,"joinedAt":"%T"}"#;
        Policy: r#"{"boundaries":["on-idle"],"retry":{"attempts":8,"minMs":1000,"maxMs":300000},
            "offerTimeoutMs":30000,"acceptedLeaseMs":600000,"offlineGraceMs":10000,
            "defaultDeadlineMs":604800000,"queueLimit":10000,"window":32,"backlogPerTurn":20,
            "senderPerMinute":600,"runaway":{"perMinute":20,"depth":20},"messages":{"redact":"mask"},"permissions":{"deny":["bash:rm **"]},"version":1}"#;
        PolicyPatch: r#"{}"#, r#"{"boundaries":["manual"],"retry":{"attempts":1,"minMs":1,"maxMs":1},
            "offerTimeoutMs":1,"acceptedLeaseMs":1,"offlineGraceMs":1,"defaultDeadlineMs":1,"queueLimit":1,
            "window":1,"backlogPerTurn":1,"senderPerMinute":1,"runaway":{"perMinute":1,"depth":1},
            "messages":{"redact":"off"},"permissions":{"deny":["bash:rm **"]},"version":1}"#;
        Problem: r#"{"type":"urn:relay:problem:internal","title":"t","status":500,"detail":"d",
            "code":"internal","retryable":false}"#;
    ]
}

#[test]
fn literals() {
    has_literals::<AgentType>(&["agent", "human", "system"]);
    has_literals::<ObserverGrant>(&["transcript", "terminal", "permissions"]);
    has_literals::<ServiceStatus>(&["ok", "unavailable"]);
    has_literals::<RedactMessages>(&["off", "mask", "refuse"]);
    for code in ErrorCode::ALL {
        let (status, title, _) = code.facts();
        assert!((400..600).contains(&status) && !title.is_empty(), "{code}");
        assert_eq!(Problem::new(*code, "d").code, *code);
    }
}
