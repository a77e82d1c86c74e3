//! The server as its users meet it: the real binary, over WebSocket and over stdio, against
//! docs/protocol.md. What speaks to it shares no code with it; only `client` and `conformance` use the
//! library, whose callers they are.
//!
//! `TA_BIN=path/to/ta cargo test --test it` runs the same against another build, such as the
//! static one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what was skipped, and what the server said before a failure"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a poisoned lock means that a test has failed already, and no thread here takes signals"
)]

mod bridge;
mod builds;
mod client;
mod codex;
mod completions;
mod conformance;
mod demo;
mod deploy;
mod descendants;
mod endings;
mod epochs;
mod files_cli;
mod forward;
mod fs;
mod fuzz;
mod guardian;
mod healthcheck;
mod hostile;
mod http;
mod load;
mod mcp;
mod minimal;
mod net;
mod pi;
mod ping;
mod process;
mod real;
mod run;
mod search;
mod serve;
mod ssh;
mod stdio;
mod support;
mod tidy;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod wire;
