//! Hosts that are reached by the system's `ssh`.
//!
//! [`config`] lists them, from the files alone. [`SshHost`] is one that is to be worked on
//! ([`ClientOptions::ssh`](crate::client::ClientOptions::ssh)); docs/ssh.md tells what then happens.
//!
//! `login` is the one login that all commands share, `ask` the way of its questions to a person;
//! `session` finds the server there, places it (`binary` says which) and starts it, by the scripts of
//! remote/ (`dialogue`); `channel` is one program run there, by `ssh` itself or, over a login that
//! stands, by the socket of its master (`mux`); `said` is its stderr.

pub(crate) mod ask;
mod binary;
mod channel;
pub mod config;
mod dialogue;
mod fetch;
mod host;
mod login;
mod mux;
mod private;
mod said;
mod session;

pub use host::{Question, QuestionKind, SshHost};

pub(crate) use channel::Carried;
pub(crate) use session::{clean, reach};
