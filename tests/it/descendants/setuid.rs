//! Programs that run as somebody else.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};

use super::{as_user, lacks_root, nobody_else};
use crate::support::{DEADLINE, Peer, TempDir, Victim, eventually, holds_within, skipped};

const NAME: &str = "set_user_id_programs";

/// A `sleep` that runs as root, whoever starts it.
fn sleep_of_root(dir: &TempDir) -> PathBuf {
    let path = env::var_os("PATH").unwrap();
    let sleep = env::split_paths(&path).map(|dir| dir.join("sleep")).find(|path| path.is_file());
    let copy = dir.join("sleep");
    fs::copy(sleep.unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    copy
}

/// In a session of its own, and an orphan, and one in the group.
fn start(peer: &mut Peer, program: &Path, more: &Value) -> Option<(String, Victim)> {
    let victim = Victim::new();
    let mut params = more.clone();
    params["command"] = json!("(setsid \"$SLEEP\" $N &); \"$SLEEP\" $N & sleep $N");
    params["env"] = json!({"N": victim.argument(), "SLEEP": program});
    let running = peer.start_exec(params);
    eventually(DEADLINE, "three run", || victim.traces().len() == 3);
    let of_root = |pid: &u32| {
        let owner = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
        owner.is_ok_and(|owner| owner == 0)
    };
    let are_of_root = || victim.traces().iter().filter(|pid| of_root(pid)).count() == 2;
    if !holds_within(DEADLINE, are_of_root) {
        assert!(skipped(NAME, "set-user-ID programs are nobody's here"));
        return None;
    }
    Some((running.process, victim))
}

#[test]
fn a_set_user_id_program_is_ended_by_a_server_that_may_signal_it() {
    if lacks_root(NAME) {
        return;
    }
    let dir = TempDir::new();
    let program = sleep_of_root(&dir);
    let server = as_user(nobody_else()).listen();
    let mut peer = server.connect();
    let Some((process, killed)) = start(&mut peer, &program, &json!({})) else { return };
    assert!(peer.kill(&process));
    super::assert_gone(&killed, "killed");
    let (process, timed) = start(&mut peer, &program, &json!({"timeoutMs": 2_000})).unwrap();
    peer.wait_until(DEADLINE, "its timeout", |peer| peer.is_over(&process));
    super::assert_gone(&timed, "timed out");
    let (_, ended) = start(&mut peer, &program, &json!({})).unwrap();
    peer.hang_up();
    super::assert_gone(&ended, "ended with the connection");
}
