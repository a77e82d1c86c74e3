//! Where a coding agent's commands run.
//!
//! An agent's loop stays on its host; its commands go to an execution environment: a container,
//! a sandbox, another machine. This crate is that environment (`ta exec-server`) and the way to
//! it.
//!
//! Whoever writes an agent begins with [`environment`]: one interface,
//! [`ExecEnvironment`](environment::ExecEnvironment), to this machine and to any other. [`client`]
//! leads to another one ([`ExecClient`](client::ExecClient)), and [`protocol`] has the params and
//! results of both. [`tools`] are the tools that a model is given, on any environment. [`ssh`] has the
//! hosts of ~/.ssh/config, and what it takes to work on one.
//!
//! Whoever reads the code, in this order: [`protocol`] says what travels; `transport` carries it;
//! `server` serves a connection; [`environment`] resolves what a request names; `process` runs one
//! child, `fs` touches files, `net` is one connection; `descendants` ends what comes of them; `sys`
//! makes the system calls. [`client`] is the other end. No module of these calls one to its left (but
//! an environment may be at the other end of a client); what comes back goes through the connection's
//! one outbox.

#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(doctest, doc = include_str!("../docs/guide.md"))]
// Gated are whole modules; what only they call is dropped by the linker.
#![cfg_attr(
    not(feature = "host"),
    allow(dead_code, unused_imports, reason = "the server-only build has fewer callers")
)]
#![cfg_attr(doctest, doc = include_str!("../docs/ssh.md"))]

mod buffers;
pub mod cli;
pub mod client;
mod descendants;
pub mod environment;
mod error;
mod fs;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
mod guardian;
mod log;
mod mailbox;
#[cfg(feature = "host")]
mod mcp;
mod metrics;
mod net;
mod process;
pub mod protocol;
mod registry;
mod search;
mod server;
#[cfg(feature = "host")]
pub mod ssh;
mod supervision;
mod sync;
mod sys;
mod threads;
#[cfg(feature = "host")]
pub mod tools;
mod transport;
mod window;
mod writes;

pub use error::{Epochs, Error, ErrorKind, Result, StartStep};
