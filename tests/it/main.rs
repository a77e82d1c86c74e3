//! The server as its users meet it: the real binary, over WebSocket and over stdio, against
//! docs/protocol.md. Nothing here uses the library.
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
    reason = "a poisoned lock means that a test has failed already"
)]

mod descendants;
mod endings;
mod epochs;
mod files_cli;
mod fs;
mod fuzz;
mod guardian;
mod hostile;
mod http;
mod load;
mod net;
mod process;
mod run;
mod stdio;
mod support;
mod tidy;
mod wire;
