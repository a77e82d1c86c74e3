//! The process that was started guards the one that serves: whatever happens to either, nothing
//! that was started is left, and whoever started the server learns how it ended.

mod codes;
mod deaths;
pub(crate) mod init;
mod quiet;
mod reserve;
mod signals;
mod starts;
mod supervisor;

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{Peer, Victim};

/// Starts one of each that the server itself can find: spawned, executed, on a terminal, in the
/// background, ignoring signals.
fn one_of_each(peer: &mut Peer) -> Vec<Victim> {
    let victims: Vec<_> = (0..4).map(|_| Victim::new()).collect();
    victims[0].spawn(peer);
    peer.start_exec(json!({"command": format!("{} & wait", victims[1].command())}));
    let args = [victims[2].argument()];
    peer.spawn(json!({"command": "sleep", "args": args, "pty": {"cols": 80, "rows": 24}}));
    let ignoring = format!("trap '' TERM HUP INT QUIT; {}; :", victims[3].command());
    peer.start_exec(json!({"command": ignoring}));
    await_all_alive(&victims);
    victims
}

/// Starts what has left its group, its session, its parents and its environment.
fn escaped(peer: &mut Peer) -> Vec<Victim> {
    let lines: [fn(&str) -> String; 4] = [
        |sleep| format!("setsid {sleep} & wait"),
        |sleep| format!("(setsid {sleep} >/dev/null 2>&1 &)"),
        |sleep| format!("(setsid env -i {sleep} >/dev/null 2>&1 &)"),
        |sleep| {
            let inner = format!("trap \"\" TERM HUP INT; {sleep}; :");
            format!("(setsid sh -c '{inner}' >/dev/null 2>&1 &)")
        },
    ];
    let victims: Vec<_> = lines.iter().map(|_| Victim::new()).collect();
    for (line, victim) in lines.iter().zip(&victims) {
        peer.start_exec(json!({"command": line(&victim.command())}));
    }
    await_all_alive(&victims);
    victims
}

fn await_all_alive(victims: &[Victim]) {
    for victim in victims {
        victim.await_alive();
    }
}

/// Copies a program. Another process does it: a descriptor of this one, open for writing, may be
/// inherited by what another test starts just then, and nobody can run the program meanwhile.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
}
