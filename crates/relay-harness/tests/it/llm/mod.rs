//! The LLM loop: providers' streams as they are and as they should not be, over real connections, and runs with tools.

mod broken;
mod contents;
mod desk;
mod http;
mod mailbox;
mod nested;
mod office;
mod reading;
mod recorded;
mod relay;
mod runs;
mod tools;
mod world;
