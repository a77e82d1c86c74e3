//! The dialect by itself: what a client can rely on, beyond the answers that `differential` compares.

mod endings;
mod files;
mod held;
mod hostile;
mod lifecycle;
mod processes;
mod resume;
mod routes;
