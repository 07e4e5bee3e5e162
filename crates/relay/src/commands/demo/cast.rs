//! The three agents of the demo, and what each can do.

use relay_protocol::delivery::DeliveryMode;
use relay_sdk::AgentStatus;

use super::narrator::{Narrator, Told};
use crate::failure::Outcome;
use crate::throwaway::{Part, Player, Stage};

use DeliveryMode::{Immediate, Manual, NextMessage, NextToolCall, OnIdle};

const PLANNER: Part = Part {
    harness: "relay-demo",
    modes: &[NextMessage, Immediate],
    queues: true,
    status: AgentStatus::Idle,
};

/// It begins in the middle of its work.
const CODER: Part = Part {
    harness: "relay-demo",
    modes: &[Immediate, NextToolCall, OnIdle],
    queues: false,
    status: AgentStatus::Active,
};

const REVIEWER: Part = Part {
    harness: "relay-demo",
    modes: &[OnIdle, Manual],
    queues: false,
    status: AgentStatus::Idle,
};

/// All of them.
pub(super) struct Cast {
    pub(super) planner: Player,
    pub(super) coder: Player,
    pub(super) reviewer: Player,
}

impl Cast {
    /// Makes the agents and attaches their sessions.
    pub(super) async fn assemble(stage: &mut Stage) -> Outcome<Self> {
        Ok(Self {
            planner: enter(stage, "planner", PLANNER).await?,
            coder: enter(stage, "coder", CODER).await?,
            reviewer: enter(stage, "reviewer", REVIEWER).await?,
        })
    }

    pub(super) async fn introduce(&self, narrator: &Narrator<'_>) -> Outcome {
        narrator
            .begin("Three agents attach. Each says what it can do, and Relay keeps to that:")
            .await?;
        let lines = [
            (
                &self.planner,
                PLANNER,
                "takes messages into a queue of its own and shows them when its person types next",
            ),
            (
                &self.coder,
                CODER,
                "works; it can be interrupted, reached between two tool calls, or when it is idle",
            ),
            (
                &self.reviewer,
                REVIEWER,
                "reads when it is idle, or when somebody flushes what waits for it",
            ),
        ];
        for (player, part, text) in lines {
            let told = Told::Agent {
                agent: player.handle(),
                modes: part.modes,
                queues: part.queues,
                text,
            };
            narrator.tell(&told).await?;
        }
        Ok(())
    }
}

/// Among the agents of others, those of the demo can be told apart.
async fn enter(stage: &mut Stage, name: &str, part: Part) -> Outcome<Player> {
    let name = match stage.own_data() {
        Some(_) => name.to_owned(),
        None => format!("demo-{name}"),
    };
    let client = stage.register(&name).await?;
    Player::attach(client, part).await
}
