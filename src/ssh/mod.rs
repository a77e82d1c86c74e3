//! Hosts that are reached by the system's `ssh`.

pub mod config;
