//! Credentials that do not suffice, and policies that can't be applied.

use relay_core::{Caller, KeepSince};
use relay_protocol::agent::Metadata;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::limits::PENDING_DELIVERIES_PER_AGENT;
use relay_protocol::policy::{Policy, PolicyPatch, RetryPolicy, RunawayPolicy};
use relay_protocol::problem::ErrorCode;
use relay_protocol::selector::Selector;

use super::{Lab, channel, post};
use crate::support::{all, named};

#[tokio::test]
async fn credentials_that_do_not_suffice() {
    let lab = Lab::new().await;
    let (engine, alice, bob, key) = (&lab.engine, &lab.alice, &lab.bob, &lab.key);
    use ErrorCode::{Forbidden, Unauthorized};
    for token in ["", "at_", "rk_0000", "bearer"] {
        lab.refuses(token, Unauthorized, engine.authenticate(token))
            .await;
    }
    let owner = Caller::process_owner();
    let sent = engine.send(alice, post("mine")).await.unwrap();
    let id = sent.message_id;
    let selector = Selector::all();
    let data = Metadata::new;
    let patch = PolicyPatch::default;
    let path = lab.world.directory().join("backup.db");
    for (who, caller) in [("an agent", alice), ("the server", &owner)] {
        lab.refuses(who, Forbidden, engine.register_agent(caller, named("x")))
            .await;
        lab.refuses(who, Forbidden, engine.rename_workspace(caller, "x"))
            .await;
        lab.refuses(who, Forbidden, engine.update_policy(caller, patch()))
            .await;
        lab.refuses(who, Forbidden, engine.rotate_token(caller, "bob"))
            .await;
        lab.refuses(who, Forbidden, engine.update_agent(caller, "bob", data()))
            .await;
        lab.refuses(who, Forbidden, engine.release_agent(caller, "bob", None))
            .await;
        lab.refuses(who, Forbidden, engine.audit_head(caller)).await;
        lab.refuses(who, Forbidden, engine.audit_verify(caller))
            .await;
        lab.refuses(who, Forbidden, engine.audit_erase(caller, vec![1], "x"))
            .await;
        lab.refuses(who, Forbidden, engine.retain(caller, KeepSince::default()))
            .await;
    }
    // Agents follow the log, too; what they see of it is in `visibility`.
    let (who, events) = ("the server", engine.events(&owner, &selector, 0, None));
    lab.refuses(who, Forbidden, events).await;
    let followed = engine.subscribe(&owner, selector.clone(), None);
    lab.refuses(who, Forbidden, followed).await;
    for (who, caller) in [("the workspace", key), ("the server", &owner)] {
        lab.refuses(who, Forbidden, engine.inbox(caller, all()))
            .await;
        lab.refuses(who, Forbidden, engine.take_inbox(caller, all()))
            .await;
        lab.refuses(who, Forbidden, engine.conversations(caller, all()))
            .await;
        lab.refuses(who, Forbidden, engine.mark_read(caller, id))
            .await;
        lab.refuses(who, Forbidden, engine.react(caller, id, ":x:"))
            .await;
        lab.refuses(who, Forbidden, engine.unreact(caller, id, ":x:"))
            .await;
        lab.refuses(who, Forbidden, engine.join_channel(caller, "dev"))
            .await;
        lab.refuses(who, Forbidden, engine.leave_channel(caller, "dev"))
            .await;
    }
    for (who, caller) in [("an agent", alice), ("the workspace", key)] {
        lab.refuses(who, Forbidden, engine.create_workspace(caller, "x"))
            .await;
        lab.refuses(who, Forbidden, engine.create_admin_key(caller))
            .await;
        lab.refuses(
            who,
            Forbidden,
            engine.open_workspace(caller, lab.workspace_id),
        )
        .await;
        lab.refuses(who, Forbidden, engine.collect_garbage(caller))
            .await;
        lab.refuses(who, Forbidden, engine.check_integrity(caller))
            .await;
        lab.refuses(who, Forbidden, engine.backup(caller, &path))
            .await;
    }
    let who = "the server";
    lab.refuses(who, Forbidden, engine.send(&owner, post("x")))
        .await;
    lab.refuses(who, Forbidden, engine.message(&owner, id))
        .await;
    lab.refuses(who, Forbidden, engine.channel(&owner, "dev"))
        .await;
    lab.refuses(who, Forbidden, engine.create_channel(&owner, channel("x")))
        .await;
    lab.refuses(who, Forbidden, async { engine.policy(&owner) })
        .await;
    for (who, caller) in [("another agent", bob), ("the workspace", key)] {
        let edit = engine.edit_message(caller, id, "theirs".to_owned());
        lab.refuses(who, Forbidden, edit).await;
    }
    let existing = lab.world.path();
    let backup = engine.backup(&owner, &existing);
    lab.refuses("a file that is there", ErrorCode::InvalidRequest, backup)
        .await;
}

#[tokio::test]
async fn policies_that_can_not_be_applied() {
    let lab = Lab::new().await;
    let patch = PolicyPatch::default;
    let day = 24 * 60 * 60 * 1000;
    let retry = |attempts, min_ms, max_ms| PolicyPatch {
        retry: Some(RetryPolicy {
            attempts,
            min_ms,
            max_ms,
        }),
        ..patch()
    };
    let runaway = |per_minute, depth| PolicyPatch {
        runaway: Some(RunawayPolicy { per_minute, depth }),
        ..patch()
    };
    let boundaries = |modes: &[DeliveryMode]| PolicyPatch {
        boundaries: Some(modes.to_vec()),
        ..patch()
    };
    let queue = |limit| PolicyPatch {
        queue_limit: Some(limit),
        ..patch()
    };
    let cases = [
        (
            "version",
            PolicyPatch {
                version: Some(7),
                ..patch()
            },
        ),
        (
            "boundaries",
            boundaries(&[DeliveryMode::OnIdle, DeliveryMode::OnIdle]),
        ),
        ("boundaries", boundaries(&[DeliveryMode::Manual])),
        ("retry.attempts", retry(0, 1_000, 2_000)),
        ("retry.minMs", retry(1, 0, 2_000)),
        ("retry.maxMs", retry(1, 2_000, 1_000)),
        (
            "offerTimeoutMs",
            PolicyPatch {
                offer_timeout_ms: Some(1),
                ..patch()
            },
        ),
        (
            "acceptedLeaseMs",
            PolicyPatch {
                accepted_lease_ms: Some(1),
                ..patch()
            },
        ),
        (
            "offlineGraceMs",
            PolicyPatch {
                offline_grace_ms: Some(day + 1),
                ..patch()
            },
        ),
        (
            "defaultDeadlineMs",
            PolicyPatch {
                default_deadline_ms: Some(1),
                ..patch()
            },
        ),
        ("queueLimit", queue(0)),
        ("queueLimit", queue(PENDING_DELIVERIES_PER_AGENT + 1)),
        (
            "window",
            PolicyPatch {
                window: Some(0),
                ..patch()
            },
        ),
        (
            "backlogPerTurn",
            PolicyPatch {
                backlog_per_turn: Some(0),
                ..patch()
            },
        ),
        (
            "senderPerMinute",
            PolicyPatch {
                sender_per_minute: Some(0),
                ..patch()
            },
        ),
        ("runaway.perMinute", runaway(0, 1)),
        ("runaway.depth", runaway(1, 0)),
    ];
    for (path, patch) in cases {
        let update = lab.engine.update_policy(&lab.key, patch);
        let problem = lab.refuses(path, ErrorCode::BadPolicy, update).await;
        assert_eq!(problem.path.as_deref(), Some(path));
        assert_eq!(lab.engine.policy(&lab.key).unwrap(), Policy::default());
    }
    let most = queue(PENDING_DELIVERIES_PER_AGENT);
    lab.engine.update_policy(&lab.key, most).await.unwrap();
}
