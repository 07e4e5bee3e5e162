//! Permissions with the SDK: a program asks, another one decides, and the tool runs at most once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use relay_sdk::protocol::ids::PermissionId;
use relay_sdk::protocol::permission::{DeciderKind, Permissions as Rules, RuleDecision};
use relay_sdk::{
    AgentClient, AgentType, AskPermission, CallbackSession, CreateRun, Decision, ErrorCode,
    EvaluatePermission, ExecutionState, GrantQuery, GrantScope, PermissionQuery, PermissionState,
    Question, Ran, Relay, ResolvePermission, ToolParams, delivered, events,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{World, next, soon};

pub(crate) fn params(command: &str) -> ToolParams {
    ToolParams::from_iter([("command".to_owned(), command.into())])
}

pub(crate) fn bash(command: &str) -> AskPermission {
    AskPermission {
        tool: "bash".to_owned(),
        params: params(command),
        ..AskPermission::default()
    }
}

/// Somebody who may decide.
pub(crate) async fn person(relay: &Relay, name: &str) -> AgentClient {
    let person = relay.register(name).agent_type(AgentType::Human);
    person.await.unwrap()
}

/// Hears of what is asked.
async fn questions(client: &AgentClient) -> mpsc::UnboundedReceiver<(PermissionId, String)> {
    let (tell, told) = mpsc::unbounded_channel();
    client
        .add_listener(events::PERMISSION_REQUESTED, move |event| {
            let asked = &event.permission;
            let command = asked.params["command"].as_str().unwrap_or_default();
            let _ = tell.send((asked.permission_id, command.to_owned()));
            async {}
        })
        .await
        .unwrap();
    told
}

/// Waits for the decision in a task of its own.
fn waiting(question: &Question) -> tokio::task::JoinHandle<Decision> {
    let question = question.clone();
    tokio::spawn(async move { question.wait().await.unwrap() })
}

/// A tool that counts how often it runs and says with what.
fn counted(
    runs: &Arc<AtomicUsize>,
) -> impl FnOnce(ToolParams) -> std::future::Ready<Result<Value, String>> + use<> {
    let runs = runs.clone();
    move |params| {
        runs.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(params["command"].clone()))
    }
}

#[tokio::test]
async fn one_asks_another_approves_and_the_tool_runs() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let ann = person(&relay, "ann").await;
    let mut asked = questions(&ann).await;
    let session = CallbackSession::new(bob.identity().clone(), |_, ctx| async move {
        Ok(delivered(ctx.id))
    });
    let session = bob.attach(session).await.unwrap();
    let question = session.ask_permission(bash("cargo test")).await.unwrap();
    let record = question.record();
    assert_eq!(record.session_id, Some(session.session_id().unwrap()));
    assert!(record.tool_call_id.is_some());
    let waiter = waiting(&question);
    let (id, command) = next("the question", &mut asked).await;
    assert_eq!((id, command.as_str()), (question.id(), "cargo test"));
    ann.permissions().seen(id).await.unwrap();
    let decided = ann.permissions().approve(id).await.unwrap();
    assert_eq!(decided.state, PermissionState::Approved);
    let Decision::Approved {
        params: allowed,
        edited,
        by,
        ..
    } = soon("the decision", waiter).await.unwrap()
    else {
        panic!("not approved");
    };
    assert_eq!((allowed, edited), (params("cargo test"), false));
    let by = by.unwrap();
    assert_eq!(
        (by.kind, by.name.as_deref()),
        (DeciderKind::Human, Some("ann"))
    );
    let ran = question.run(|params| async move { Ok::<_, String>(params) });
    let Ran::Ran { output, reported } = ran.await.unwrap() else {
        panic!("it did not run");
    };
    assert_eq!(output.unwrap(), params("cargo test"));
    reported.unwrap();
    let execution = question.record().execution.unwrap();
    assert_eq!(execution.state, ExecutionState::Completed);
    let seen = bob.permissions().get(id).await.unwrap();
    assert_eq!(seen, question.record());
}

#[tokio::test]
async fn a_refusal_says_why_and_whether_to_stop() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    for stop in [None, Some(true)] {
        let question = bob.ask_permission(bash("rm -rf build")).await.unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let running = {
            let (question, tool) = (question.clone(), counted(&runs));
            tokio::spawn(async move { question.run(tool).await.unwrap() })
        };
        let answer = ResolvePermission {
            stop,
            ..ResolvePermission::deny("use cargo clean")
        };
        relay
            .permissions()
            .resolve(question.id(), answer)
            .await
            .unwrap();
        let ran = soon("the decision", running).await.unwrap();
        let Ran::NotAllowed(Decision::Denied {
            reason, stop: ends, ..
        }) = ran
        else {
            panic!("{ran:?}");
        };
        assert_eq!(reason.as_deref(), Some("use cargo clean"));
        assert_eq!(ends, stop.is_some());
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        let refused = question.start(&params("rm -rf build")).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::PermissionNotGranted));
    }
}

#[tokio::test]
async fn the_tool_runs_with_what_was_allowed() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let question = bob.ask_permission(bash("git push -f")).await.unwrap();
    let answer = ResolvePermission {
        updated_params: Some(params("git push")),
        ..ResolvePermission::approve()
    };
    relay
        .permissions()
        .resolve(question.id(), answer)
        .await
        .unwrap();
    let refused = question.start(&params("git push -f")).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::PermissionNotGranted));
    let runs = Arc::new(AtomicUsize::new(0));
    let Ran::Ran { output, .. } = question.run(counted(&runs)).await.unwrap() else {
        panic!("it did not run");
    };
    assert_eq!(output.unwrap(), "git push");
    // A second time it does not run, nor does it for whoever asks the same again.
    let again = question.run(counted(&runs)).await.unwrap_err();
    assert_eq!(again.code(), Some(ErrorCode::AlreadyStarted));
    let same = AskPermission {
        tool_call_id: question.record().tool_call_id,
        ..bash("git push -f")
    };
    let same = bob.ask_permission(same).await.unwrap();
    assert_eq!(same.id(), question.id());
    let again = same.run(counted(&runs)).await.unwrap_err();
    assert_eq!(again.code(), Some(ErrorCode::AlreadyStarted));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_secret_is_shown_to_nobody_and_reaches_the_tool() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let command = format!("curl -H 'Authorization: Bearer {token}' https://api.github.com");
    let question = bob.ask_permission(bash(&command)).await.unwrap();
    let shown = relay.permissions().get(question.id()).await.unwrap();
    assert_eq!(shown.masked, Some(true));
    assert!(!format!("{shown:?}").contains(&token), "{shown:?}");
    relay.permissions().approve(question.id()).await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let Ran::Ran { output, .. } = question.run(counted(&runs)).await.unwrap() else {
        panic!("it did not run");
    };
    assert_eq!(output.unwrap(), command);
}

#[tokio::test]
async fn how_a_tool_ended_is_known() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let approved = async || {
        let question = bob.ask_permission(bash("make")).await.unwrap();
        relay.permissions().approve(question.id()).await.unwrap();
        question
    };
    let question = approved().await;
    let complaint = format!("exit code 2: {}", "é".repeat(10_000));
    let ran = question.run(|_| async { Err::<(), _>(complaint.clone()) });
    let Ran::Ran { output, reported } = ran.await.unwrap() else {
        panic!("it did not run");
    };
    assert_eq!(output.unwrap_err(), complaint);
    reported.unwrap();
    let execution = question.record().execution.unwrap();
    assert_eq!(execution.state, ExecutionState::Failed);
    let kept = execution.error.unwrap();
    assert!(kept.starts_with("exit code 2: é") && complaint.starts_with(&kept));

    let question = approved().await;
    let panicking = {
        let question = question.clone();
        tokio::spawn(async move {
            let tool = |_: ToolParams| async { panic!("a tool that fails") };
            let _: Ran<(), String> = question.run(tool).await.unwrap();
        })
    };
    assert!(panicking.await.unwrap_err().is_panic());
    let execution = question.record().execution.unwrap();
    assert_eq!(execution.state, ExecutionState::Failed);

    let question = approved().await;
    question.wait().await.unwrap();
    let dropped = question.finish(ExecutionState::Cancelled, Some("the turn ended"));
    let execution = dropped.await.unwrap().execution.unwrap();
    assert_eq!(execution.state, ExecutionState::Cancelled);
    let late = question.start(&params("make")).await.unwrap_err();
    assert_eq!(late.code(), Some(ErrorCode::AlreadyStarted));
}

#[tokio::test]
async fn questions_end_without_an_answer() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let question = bob.ask_permission(bash("ls")).await.unwrap();
    let brief = Duration::from_millis(50);
    assert_eq!(question.wait_within(brief).await.unwrap(), None);
    let pending = relay
        .permissions()
        .wait(question.id(), brief)
        .await
        .unwrap();
    assert_eq!(pending.state, PermissionState::Pending);
    let waiter = waiting(&question);
    for _ in 0..2 {
        // That it was said before changes nothing.
        let cancelled = question.cancel(Some("the turn ended")).await.unwrap();
        assert_eq!(cancelled.state, PermissionState::Cancelled);
    }
    let reason = Some("the turn ended".to_owned());
    let expected = Decision::Cancelled { reason };
    assert_eq!(soon("the end", waiter).await.unwrap(), expected);
    let late = relay.permissions().approve(question.id()).await;
    let late = late.unwrap_err();
    assert_eq!(late.code(), Some(ErrorCode::PermissionResolved));
    assert_eq!(late.outcome().unwrap().decision, PermissionState::Cancelled);

    let brief = AskPermission {
        expires_in_ms: Some(1),
        ..bash("ls")
    };
    let question = bob.ask_permission(brief).await.unwrap();
    let decision = soon("the end", question.wait()).await.unwrap();
    assert_eq!(decision, Decision::Expired);
    let ended = relay.permissions().wait(question.id(), None).await.unwrap();
    assert_eq!(ended.state, PermissionState::Expired);
}

#[tokio::test]
async fn nobody_answers_their_own_question_or_another_agents() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let question = bob.ask_permission(bash("ls")).await.unwrap();
    let own = bob.permissions().approve(question.id()).await.unwrap_err();
    assert_eq!(own.code(), Some(ErrorCode::Forbidden));
    let others = alice.permissions().approve(question.id()).await;
    let others = others.unwrap_err();
    assert_eq!(others.code(), Some(ErrorCode::UnknownPermission));
    let listed = alice.permissions().list(&PermissionQuery::pending()).await;
    assert!(listed.unwrap().items.is_empty());
    let query = PermissionQuery {
        agent: Some("bob".to_owned()),
        ..PermissionQuery::pending()
    };
    let listed = relay.permissions().list(&query).await.unwrap().items;
    assert_eq!(listed, [question.record()]);
}

#[tokio::test]
async fn an_answer_is_given_once_however_often_it_is_sent() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let permissions = relay.permissions();
    let question = bob.ask_permission(bash("ls")).await.unwrap();
    let answer = ResolvePermission {
        response_id: Some("r1".to_owned()),
        via: Some("test".to_owned()),
        ..ResolvePermission::approve()
    };
    let first = permissions.resolve(question.id(), answer.clone()).await;
    let again = permissions.resolve(question.id(), answer.clone()).await;
    assert_eq!(first.unwrap(), again.unwrap());
    let other = ResolvePermission {
        approved: false,
        ..answer
    };
    let conflict = permissions.resolve(question.id(), other).await;
    assert!(conflict.is_err(), "{conflict:?}");
    let fresh = permissions.approve(question.id()).await.unwrap_err();
    assert_eq!(fresh.code(), Some(ErrorCode::PermissionResolved));
    let outcome = fresh.outcome().unwrap();
    assert_eq!(outcome.via.as_deref(), Some("test"));
    assert_eq!(outcome.by.as_ref().unwrap().kind, DeciderKind::Workspace);
}

#[tokio::test]
async fn always_is_a_grant_that_can_be_taken_back() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let permissions = relay.permissions();
    let question = bob.ask_permission(bash("git status -s")).await.unwrap();
    let shown = question.record().suggestions[0].clone();
    permissions.approve_always(question.id()).await.unwrap();
    let grants = permissions.grants(&GrantQuery::default()).await.unwrap();
    let grant = &grants.items[0];
    assert_eq!((&grant.rule, grant.scope), (&shown.rule, shown.scope));
    let wide = ResolvePermission {
        scope: Some(GrantScope::Agent),
        ..ResolvePermission::approve_always()
    };
    let question = bob.ask_permission(bash("cargo test")).await.unwrap();
    let decided = permissions.resolve(question.id(), wide).await.unwrap();
    let covered = bob.ask_permission(bash("cargo test")).await.unwrap();
    let Decision::Approved { grant_id, by, .. } = covered.wait().await.unwrap() else {
        panic!("not covered");
    };
    assert_eq!(grant_id, decided.outcome.unwrap().grant_id);
    assert_eq!(by.unwrap().kind, DeciderKind::Policy);
    let revoked = permissions.revoke_grant(grant_id.unwrap()).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    let asked = bob.ask_permission(bash("cargo test")).await.unwrap();
    assert_eq!(asked.record().state, PermissionState::Pending);
    let query = GrantQuery {
        agent: Some("bob".to_owned()),
        ended: true,
        ..GrantQuery::default()
    };
    let all = permissions.grants(&query).await.unwrap().items;
    assert_eq!(all.len(), 2);
}

#[tokio::test]
async fn runs_hand_their_rules_down() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let rules = |text: Value| serde_json::from_value::<Rules>(text).unwrap();
    let parent = CreateRun {
        parent_run_id: None,
        permissions: Some(rules(json!({ "allowlist": ["bash:ls *"] }))),
    };
    let parent = bob.create_run(&parent).await.unwrap();
    let child = CreateRun {
        parent_run_id: Some(parent.run_id),
        permissions: Some(rules(
            json!({ "allowlist": ["bash"], "deny": ["bash:ls /etc"] }),
        )),
    };
    let child = bob.create_run(&child).await.unwrap();
    assert_eq!(child.depth, 1);
    let evaluate = async |command: &str| {
        let call = EvaluatePermission {
            tool: "bash".to_owned(),
            params: params(command),
            permissions: None,
            session_id: None,
            run_id: Some(child.run_id),
            cwd: None,
        };
        bob.permissions().evaluate(&call).await.unwrap().decision
    };
    assert_eq!(evaluate("ls src").await, RuleDecision::Allow);
    assert_eq!(evaluate("ls /etc").await, RuleDecision::Deny);
    assert_eq!(evaluate("cat src").await, RuleDecision::Ask);
    let ask = AskPermission {
        run_id: Some(child.run_id),
        ..bash("cat src")
    };
    let question = bob.ask_permission(ask).await.unwrap();
    let permissions = relay.permissions();
    assert_eq!(permissions.run(child.run_id).await.unwrap(), child);
    let ended = bob.permissions().end_run(parent.run_id, Some("done")).await;
    assert!(ended.unwrap().ended_at.is_some());
    let reason = Some("done".to_owned());
    let decision = soon("the end", question.wait()).await.unwrap();
    assert_eq!(decision, Decision::Cancelled { reason });
}

#[tokio::test]
async fn listeners_hear_what_happens_to_permissions() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let names = tell.clone();
    for pattern in ["permission.*", "grant.*"] {
        let names = names.clone();
        relay
            .add_listener(pattern, move |event| {
                let _ = names.send(event.event_type);
                async {}
            })
            .await
            .unwrap();
    }
    let (tell, mut narrowed) = mpsc::unbounded_channel();
    let ends = tell.clone();
    relay
        .add_listener(events::PERMISSION_RESOLVED, move |event| {
            let _ = ends.send(format!(
                "{} {}",
                event.permission_id, event.outcome.decision
            ));
            async {}
        })
        .await
        .unwrap();
    relay
        .add_listener(events::PERMISSION_FINISHED, move |event| {
            let _ = tell.send(format!("{} {}", event.permission_id, event.execution.state));
            async {}
        })
        .await
        .unwrap();
    let question = bob.ask_permission(bash("git log")).await.unwrap();
    let id = question.id();
    let running = {
        let question = question.clone();
        tokio::spawn(async move {
            let tool = |_| async { Ok::<_, String>(()) };
            question.run(tool).await.unwrap();
        })
    };
    relay.permissions().seen(id).await.unwrap();
    bob.permissions().approve(id).await.unwrap_err();
    let decided = relay.permissions().approve_always(id).await.unwrap();
    soon("the run", running).await.unwrap();
    let grant = decided.outcome.unwrap().grant_id.unwrap();
    relay.permissions().revoke_grant(grant).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 8 {
        heard.push(next("an event", &mut told).await);
    }
    heard.sort();
    let expected = [
        "grant.created",
        "grant.revoked",
        "permission.finished",
        "permission.refused",
        "permission.requested",
        "permission.resolved",
        "permission.seen",
        "permission.started",
    ];
    assert_eq!(heard, expected);
    for end in ["approved", "completed"] {
        let event = next("an end", &mut narrowed).await;
        assert_eq!(event, format!("{id} {end}"));
    }
}
