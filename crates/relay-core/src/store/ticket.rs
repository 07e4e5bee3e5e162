//! Tells whoever asked for a change when it is over, also when nobody waits for its reply any more.

/// Comes with a change and is called once: with true after it was stored and announced, with false when
/// it was refused or could not be stored. Dropping it counts as false.
#[derive(Default)]
pub struct Ticket(Option<Box<dyn FnOnce(bool) + Send>>);

impl Ticket {
    /// A ticket that calls back.
    pub fn new(done: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(done)))
    }

    /// Says how the change ended.
    pub fn finish(mut self, stored: bool) {
        if let Some(done) = self.0.take() {
            done(stored);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(false);
        }
    }
}
