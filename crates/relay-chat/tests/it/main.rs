//! Chats from the outside: what viewers see, what deciders may, what becomes of a chat that nobody looks at.

mod chats;
mod puppet;
