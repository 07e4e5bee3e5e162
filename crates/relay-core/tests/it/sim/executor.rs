//! Runs futures one poll at a time, in an order that the seed decides.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::dice::Dice;

/// Futures that were begun and have not ended.
#[derive(Default)]
pub(super) struct Executor {
    tasks: Vec<Task>,
}

struct Task {
    name: String,
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Executor {
    /// Begins a future; it is first polled when the dice say so.
    pub(super) fn spawn(&mut self, name: String, future: impl Future<Output = ()> + 'static) {
        self.tasks.push(Task {
            name,
            future: Box::pin(future),
            woken: Arc::new(Woken(AtomicBool::new(true))),
        });
    }

    /// How many futures there are whose names begin like this.
    pub(super) fn count(&self, name: &str) -> u32 {
        let like_this = self.tasks.iter().filter(|task| task.name.starts_with(name));
        u32::try_from(like_this.count()).unwrap_or(u32::MAX)
    }

    /// Whether some future can go on.
    pub(super) fn has_woken(&self) -> bool {
        self.tasks.iter().any(Task::is_woken)
    }

    /// Polls one future that can go on; says which.
    pub(super) fn poll_one(&mut self, dice: &mut Dice) -> Option<String> {
        let woken: Vec<usize> = (0..self.tasks.len())
            .filter(|at| self.tasks[*at].is_woken())
            .collect();
        let at = *dice.pick(&woken)?;
        let task = &mut self.tasks[at];
        task.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(task.woken.clone());
        let name = task.name.clone();
        if let Poll::Ready(()) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.tasks.remove(at);
        }
        Some(name)
    }

    /// Drops some future that has not ended, as a caller that goes away does.
    pub(super) fn drop_one(&mut self, dice: &mut Dice) -> Option<String> {
        let all: Vec<usize> = (0..self.tasks.len()).collect();
        let at = *dice.pick(&all)?;
        Some(self.tasks.remove(at).name)
    }

    /// The process has died.
    pub(super) fn clear(&mut self) {
        self.tasks.clear();
    }
}

impl Task {
    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }
}
