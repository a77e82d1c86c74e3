//! The real Codex, headless, in an environment with another network and another root.

mod commands;
mod files;
mod links;
mod refusals;
mod stdio;
#[cfg(feature = "tls")]
mod tls;
