//! What has to do with ssh, beside the real programs of OpenSSH.

mod hosts;
mod hosts_files;
mod hosts_generated;
mod hosts_oracle;
