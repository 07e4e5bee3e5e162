//! Permissions: asked, decided for good, run, and taken back.

use relay_protocol::permission::{
    AskPermission, ExecutionState, FinishPermission, PermissionState, ResolvePermission,
    StartPermission,
};
use serde_json::json;

use super::{Cast, REGISTERED, Tale};

impl Tale {
    pub(super) async fn permissions_are_decided(&mut self, cast: &Cast) {
        let ana = self.person("ana").await;
        self.logs(REGISTERED).await;
        let params = json!({ "command": "git status" });
        let ask = AskPermission {
            tool: "bash".to_owned(),
            params: params.as_object().unwrap().clone(),
            ..AskPermission::default()
        };
        let asked = self
            .engine
            .ask_permission(&cast.alice, None, ask.clone())
            .await;
        let asked = asked.unwrap();
        self.logs(&[
            "message.created",
            "delivery.created",
            "permission.requested",
        ])
        .await;
        let id = asked.permission_id;
        let always = ResolvePermission::approve_always();
        let engine = &self.world.engine;
        let decided = engine.resolve_permission(&ana, id, always).await.unwrap();
        let grant = decided.outcome.unwrap().grant_id.unwrap();
        self.logs(&["grant.created", "permission.resolved"]).await;
        let start = StartPermission {
            args_hash: asked.args_hash,
            start_id: None,
        };
        self.engine
            .start_permission(&cast.alice, id, start)
            .await
            .unwrap();
        self.logs(&["permission.started"]).await;
        let end = FinishPermission {
            state: ExecutionState::Completed,
            error: None,
        };
        self.engine
            .finish_permission(&cast.alice, id, end)
            .await
            .unwrap();
        self.logs(&["permission.finished"]).await;
        let again = self
            .engine
            .ask_permission(&cast.alice, None, ask)
            .await
            .unwrap();
        assert_eq!(again.state, PermissionState::Approved);
        self.logs(&["permission.requested", "permission.resolved"])
            .await;
        self.engine.revoke_grant(&ana, grant).await.unwrap();
        self.logs(&["grant.revoked"]).await;
    }
}
