//! What becomes of a delivery: pure decisions and transitions, without a store, a link or a clock.
//!
//! - [`decide`]: may this session have this delivery now, and in which mode?
//! - [`apply`]: what a step (a receipt, silence, a deadline, a cancellation, …) makes of a delivery.
//!   The store calls it inside the transaction that writes the result, so nothing comes between.
//! - [`lane`] and [`shelf`]: which waiting deliveries are kept in memory, and in which order they go.
//! - [`pace`]: how fast one sender and one conversation may go.
//! - [`waiting`]: what a delivery that has not ended waits for.
//! - [`story`]: all of it in plain words.

pub mod apply;
pub mod backoff;
pub mod decide;
pub mod history;
pub mod lane;
pub mod pace;
pub mod reading;
pub mod shelf;
pub mod story;
pub mod waiting;
