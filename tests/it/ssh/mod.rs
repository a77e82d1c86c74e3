//! What has to do with ssh, beside the real programs of OpenSSH.

pub(crate) mod daemon;
mod ends;
mod hosts;
mod hosts_files;
mod hosts_generated;
mod hosts_oracle;
mod installs;
mod prompts;
mod shells;
mod ways;
