//! The Model Context Protocol, from both sides: `server` offers the tools to an agent, over `stdio` or
//! `http`; `upstream` speaks with the stdio servers that run on the environment and whose tools are
//! offered too.
//!
//! The thing to know: whoever asks may cancel, and a call may take hours. So the thread that reads
//! never waits for a call; each has a thread of its own, and there is a bound on them.

mod config;
pub(crate) mod http;
mod message;
mod server;
mod sessions;
pub(crate) mod stdio;
mod upstream;

pub(crate) use config::Config;
pub(crate) use server::Server;
pub(crate) use upstream::Upstreams;
