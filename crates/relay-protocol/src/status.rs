//! The ten states of a session and which may follow which.

use crate::wire::literals;

literals! {
    /// What a session is doing.
    pub enum AgentStatus {
        /// The harness is creating or attaching to the session.
        Starting = "starting",
        /// The session is actively working or generating output.
        Active = "active",
        /// The session is ready for more work.
        Idle = "idle",
        /// The session is waiting on a tool, user input, network, or external result.
        Waiting = "waiting",
        /// The session cannot continue without intervention.
        Blocked = "blocked",
        /// The session is intentionally paused.
        Paused = "paused",
        /// Release has started but is not complete.
        Releasing = "releasing",
        /// The session boundary has been released.
        Released = "released",
        /// The adapter cannot currently reach the session.
        Offline = "offline",
        /// The session or harness failed unexpectedly.
        Failed = "failed",
    }
}
