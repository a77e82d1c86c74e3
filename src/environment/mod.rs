//! Places where programs run.

mod local;

pub(crate) use local::{LocalExecEnvironment, LocalOptions};
