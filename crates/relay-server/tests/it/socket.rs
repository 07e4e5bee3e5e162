//! The socket: who may speak, what is answered, and that nobody disturbs anybody else.

mod hostile;
mod listening;
mod speaking;
