//! The LLM loop: providers' streams as they are and as they should not be, over real connections, and runs with tools.

mod broken;
mod http;
mod reading;
mod recorded;
