//! `process/*`: what runs, what it gets, what it writes, and how it ends.

mod backpressure;
mod cwd;
mod environment;
mod exec;
mod flow;
mod held;
mod isolation;
mod kill;
mod limits;
mod output;
mod shell;
mod spawn;
mod start_errors;
mod stdin;
mod terminal;
mod timeouts;
