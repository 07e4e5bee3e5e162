//! How much a model may say, how long it may be silent, and how far a run may go.

use std::time::Duration;

/// Most bytes of one line of a stream. Some providers repeat the whole answer in one line at the end.
pub const LINE_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes of one event of a stream, over all of its lines.
pub const EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes of an error's body that are read.
pub const ERROR_BODY_BYTES: usize = 64 * 1024;

/// Most bytes of what a provider says about an error that are passed on.
pub const ERROR_TEXT_BYTES: usize = 2 * 1024;

/// Most bytes of a tool call's id or name.
pub const CALL_NAME_BYTES: usize = 256;

/// How many events of a run wait for a slow reader.
pub const EVENT_QUEUE: usize = 256;

/// What is accepted of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Most bytes of the stream. Default: 64 MiB.
    pub bytes: usize,
    /// Most tool calls. Default: 128.
    pub calls: usize,
    /// Most bytes of the arguments of all calls. Default: 8 MiB.
    pub arguments_bytes: usize,
    /// Until the head of the answer is there. Default: 5 min; models that are loaded first take long.
    pub head: Duration,
    /// Between two pieces. Default: 5 min; some models think in silence.
    pub idle: Duration,
    /// For the whole answer. Default: 1 h.
    pub total: Duration,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            bytes: 64 * 1024 * 1024,
            calls: 128,
            arguments_bytes: 8 * 1024 * 1024,
            head: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(5 * 60),
            total: Duration::from_secs(60 * 60),
        }
    }
}

/// How far a run may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Most answers with tool calls; then one more is asked for, without tools. Default: 50.
    pub iterations: u32,
    /// How many runs may stand above each other, the outermost counted. Default: 4.
    pub depth: u32,
    /// Most nested runs at once below one outermost run. Default: 32.
    pub children: usize,
    /// Most calls that wait for a decision at once, in one outermost run and those below it. Default: 128, as many as one answer may have.
    pub questions: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            iterations: 50,
            depth: 4,
            children: 32,
            questions: 128,
        }
    }
}
