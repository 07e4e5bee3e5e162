//! The answer of a store call: a future that needs no particular runtime, or a call back.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::error::{Error, Result, StorageError};

/// An answer that is there, or will come once the change is on disk.
#[must_use = "a change is only known to be stored once its reply has come"]
pub struct Reply<T>(Inner<T>);

enum Inner<T> {
    Ready(Option<Result<T>>),
    Pending(Arc<Slot<T>>),
}

/// Gives an answer. Dropping it answers that the store was closed.
pub struct Replier<T>(Arc<Slot<T>>);

struct Slot<T>(Mutex<State<T>>);

enum State<T> {
    Empty,
    Awaited(Waker),
    CalledBack(Box<dyn FnOnce(Result<T>) + Send>),
    Answered(Result<T>),
    Taken,
}

impl<T> Reply<T> {
    /// An answer that is there already.
    pub const fn ready(result: Result<T>) -> Self {
        Self(Inner::Ready(Some(result)))
    }

    /// Somebody who will answer, and the answer.
    pub fn pending() -> (Replier<T>, Self) {
        let slot = Arc::new(Slot(Mutex::new(State::Empty)));
        (Replier(slot.clone()), Self(Inner::Pending(slot)))
    }

    /// Calls back with the answer: now if it is there, otherwise on the thread that gives it. The call
    /// must return at once and must not wait for the store.
    pub fn then(self, call: impl FnOnce(Result<T>) + Send + 'static) {
        let slot = match self.0 {
            Inner::Ready(result) => return call(result.unwrap_or_else(closed)),
            Inner::Pending(slot) => slot,
        };
        let mut state = slot.lock();
        if let State::Answered(_) = *state {
            let answered = std::mem::replace(&mut *state, State::Taken);
            drop(state);
            if let State::Answered(result) = answered {
                call(result);
            }
        } else {
            *state = State::CalledBack(Box::new(call));
        }
    }
}

impl<T: Unpin> Reply<T> {
    /// Waits for the answer on this thread.
    pub fn wait(mut self) -> Result<T> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = Pin::new(&mut self).poll(&mut context) {
                return result;
            }
            std::thread::park();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T> Replier<T> {
    /// Answers.
    pub fn send(self, result: Result<T>) {
        self.0.answer(result);
    }
}

impl<T> Drop for Replier<T> {
    fn drop(&mut self) {
        self.0.answer(closed());
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first answer; whoever waits for it is told outside of the lock.
    fn answer(&self, result: Result<T>) {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Empty => *state = State::Answered(result),
            State::Awaited(waker) => {
                *state = State::Answered(result);
                drop(state);
                waker.wake();
            }
            State::CalledBack(call) => {
                drop(state);
                call(result);
            }
            before @ (State::Answered(_) | State::Taken) => *state = before,
        }
    }
}

fn closed<T>() -> Result<T> {
    Err(Error::Storage(StorageError::Closed))
}

impl<T: Unpin> Future for Reply<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = match &mut self.0 {
            Inner::Ready(result) => return Poll::Ready(result.take().unwrap_or_else(closed)),
            Inner::Pending(slot) => slot,
        };
        let mut state = slot.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Answered(result) => Poll::Ready(result),
            State::Taken => Poll::Ready(closed()),
            State::Empty | State::Awaited(_) | State::CalledBack(_) => {
                *state = State::Awaited(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_answer_is_awaited_or_called_back_before_or_after_it_comes() {
        for early in [true, false] {
            let (replier, reply) = Reply::pending();
            let (told, hears) = channel();
            let mut replier = Some(replier);
            let mut answer = || replier.take().unwrap().send(Ok(7));
            if early {
                answer();
            }
            reply.then(move |result| told.send(result).unwrap());
            if !early {
                answer();
            }
            assert_eq!(hears.recv(), Ok(Ok(7)));
        }
        let (replier, reply) = Reply::pending();
        let thread = std::thread::spawn(move || replier.send(Ok("late")));
        assert_eq!(reply.wait(), Ok("late"));
        thread.join().unwrap();
    }

    #[test]
    fn whoever_was_to_answer_and_is_gone_has_closed() {
        let (replier, reply) = Reply::<()>::pending();
        drop(replier);
        assert_eq!(reply.wait(), Err(Error::Storage(StorageError::Closed)));
    }
}
