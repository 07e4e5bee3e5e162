//! Sessions over the socket.

mod attaching;
mod controls;
mod delivering;
mod reporting;
mod returning;
