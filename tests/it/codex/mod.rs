//! The dialect of Codex's exec-server: by a client of the tests' own (`wire`), beside Codex's own server
//! (`differential`), and by the real `codex exec` in an environment with another network and another
//! root (`client`). tests/real.sh installs Codex.

mod client;
mod differential;
mod here;
mod model;
mod peer;
mod wire;

use std::path::PathBuf;

/// The program itself: what npm has for it is started by a launcher, which a signal would not reach
/// it through.
fn codex(test: &str) -> Option<PathBuf> {
    let package = crate::pi::packages(test, "real-codex")?.join("node_modules/codex/vendor");
    let targets = std::fs::read_dir(&package).unwrap().map(|entry| entry.unwrap().path());
    let found = targets.map(|target| target.join("bin/codex")).find(|codex| codex.is_file());
    Some(found.unwrap_or_else(|| panic!("there is no program in {}", package.display())))
}
