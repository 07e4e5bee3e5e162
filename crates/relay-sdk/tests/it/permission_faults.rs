//! Permissions while others decide, too, and while connections and servers go: no decision is lost or made twice, and
//! no tool runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_sdk::{
    AskPermission, CallbackSession, Decision, ErrorCode, ExecutionState, PermissionQuery,
    PermissionState, Ran, Relay, ResolvePermission, delivered,
};

use crate::permissions::{bash, params, person};
use crate::support::{Proxy, Weather, World, attentive, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_decide_at_once_one_does_a_thousand_times() {
    const ROUNDS: usize = 1_000;
    let world = World::start().await;
    world.unhurried().await;
    let (relay, _, bob) = world.pair().await;
    let (ann, ben) = (person(&relay, "ann").await, person(&relay, "ben").await);
    let (mut allowed, mut ran) = (0, 0);
    for round in 0..ROUNDS {
        let question = bob.ask_permission(bash("make deploy")).await.unwrap();
        let id = question.id();
        let runs = Arc::new(AtomicUsize::new(0));
        // Two of them wait for the decision, and one at most runs the tool.
        let running: Vec<_> = (0..2)
            .map(|_| {
                let (question, runs) = (question.clone(), runs.clone());
                tokio::spawn(async move {
                    let tool = |_| async move {
                        runs.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, String>(())
                    };
                    question.run(tool).await
                })
            })
            .collect();
        let deciding: Vec<_> = [(&ann, "ann"), (&ben, "ben")]
            .into_iter()
            .map(|(client, name)| {
                let permissions = client.permissions();
                let approves = (round % 2 == 0) == (name == "ann");
                let answer = ResolvePermission {
                    approved: approves,
                    ..ResolvePermission::default()
                };
                let decide = async move { (name, permissions.resolve(id, answer).await) };
                tokio::spawn(decide)
            })
            .collect();
        let mut winners = Vec::new();
        let mut losers = Vec::new();
        for decided in deciding {
            match decided.await.unwrap() {
                (name, Ok(record)) => winners.push((name, record)),
                (_, Err(error)) => losers.push(error),
            }
        }
        assert_eq!((winners.len(), losers.len()), (1, 1), "{losers:?}");
        let (name, record) = winners.pop().unwrap();
        let loser = losers.pop().unwrap();
        assert_eq!(loser.code(), Some(ErrorCode::PermissionResolved));
        let outcome = loser.outcome().unwrap();
        assert_eq!(Some(outcome), record.outcome.as_ref());
        assert_eq!(outcome.by.as_ref().unwrap().name.as_deref(), Some(name));
        assert!(loser.to_string().contains(name), "{loser}");

        let is_allowed = record.state == PermissionState::Approved;
        let mut began = 0;
        for running in running {
            match soon("the end of a run", running).await.unwrap() {
                Ok(Ran::Ran { reported, .. }) => {
                    reported.unwrap();
                    began += 1;
                }
                Ok(Ran::NotAllowed(decision)) => {
                    assert!(!is_allowed, "{decision:?}");
                    assert!(matches!(decision, Decision::Denied { .. }), "{decision:?}");
                }
                Err(error) => assert_eq!(error.code(), Some(ErrorCode::AlreadyStarted)),
            }
        }
        assert_eq!(began, usize::from(is_allowed));
        assert_eq!(runs.load(Ordering::SeqCst), began);
        allowed += usize::from(is_allowed);
        ran += began;
    }
    assert_eq!(allowed, ran);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_after_a_restart_releases_whoever_waited_before() {
    let mut world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let session = CallbackSession::new(bob.identity().clone(), |_, ctx| async move {
        Ok(delivered(ctx.id))
    });
    let session = bob.attach(session).await.unwrap();
    let of_session = session.ask_permission(bash("make")).await.unwrap();
    let of_agent = bob.ask_permission(bash("make")).await.unwrap();
    let waiting: Vec<_> = [&of_session, &of_agent]
        .into_iter()
        .map(|question| {
            let question = question.clone();
            let tool = |params| async move { Ok::<_, String>(params) };
            tokio::spawn(async move { question.run(tool).await.unwrap() })
        })
        .collect();
    let watching = {
        let (permissions, id) = (relay.permissions(), of_agent.id());
        tokio::spawn(async move { permissions.wait(id, None).await.unwrap() })
    };
    for _ in 0..2 {
        world.kill().await;
        world.revive().await;
    }
    for question in [&of_session, &of_agent] {
        let record = relay.permissions().approve(question.id()).await.unwrap();
        assert_eq!(record.state, PermissionState::Approved);
    }
    for waiting in waiting {
        let Ran::Ran { output, reported } = soon("the decision", waiting).await.unwrap() else {
            panic!("it did not run");
        };
        assert_eq!(output.unwrap(), params("make"));
        reported.unwrap();
    }
    let seen = soon("the decision", watching).await.unwrap();
    assert_eq!(seen.state, PermissionState::Approved);

    // Nothing decided or done is forgotten.
    world.kill().await;
    world.revive().await;
    for question in [&of_session, &of_agent] {
        let record = relay.permissions().get(question.id()).await.unwrap();
        let execution = record.execution.unwrap();
        assert_eq!(execution.state, ExecutionState::Completed);
        let again = question.start(&params("make")).await.unwrap_err();
        assert_eq!(again.code(), Some(ErrorCode::AlreadyStarted));
    }
}

/// What was asked is done, and its answer is lost on the way: the SDK asks again, and it is not done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_does_nothing_twice() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).await;
    let (relay, _, bob) = world.pair().await;
    let far = Relay::with_options(&proxy.url(), &world.key, attentive()).unwrap();
    let far_bob = far.reconnect(bob.token()).await.unwrap();
    let near = relay.permissions();

    proxy.set(Weather::Deaf);
    let asking = tokio::spawn({
        let far_bob = far_bob.clone();
        async move { far_bob.ask_permission(bash("make")).await.unwrap() }
    });
    let query = PermissionQuery::default();
    let stored = async || near.list(&query).await.unwrap().items;
    soon("the question", async {
        while stored().await.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.set(Weather::Fine);
    let question = soon("the answer", asking).await.unwrap();
    assert_eq!(stored().await.len(), 1);
    let id = question.id();

    proxy.set(Weather::Deaf);
    let deciding = tokio::spawn({
        let far = far.permissions();
        async move { far.approve(id).await.unwrap() }
    });
    let decided = soon("the decision", near.wait(id, None)).await.unwrap();
    proxy.set(Weather::Fine);
    assert_eq!(soon("the answer", deciding).await.unwrap(), decided);

    proxy.set(Weather::Deaf);
    let starting = tokio::spawn({
        let question = question.clone();
        async move { question.start(&params("make")).await.unwrap() }
    });
    let started = soon("the start", async {
        loop {
            let record = near.get(id).await.unwrap();
            if record.execution.is_some() {
                return record;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.set(Weather::Fine);
    assert_eq!(soon("the answer", starting).await.unwrap(), started);
    let other = bob.ask_permission(AskPermission {
        tool_call_id: started.tool_call_id,
        ..bash("make")
    });
    let again = other.await.unwrap().start(&params("make")).await;
    assert_eq!(again.unwrap_err().code(), Some(ErrorCode::AlreadyStarted));
}
