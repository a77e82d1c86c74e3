//! Control groups: where one can be made, nothing gets out of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{nobody_else, without_groups};
use crate::support::{DEADLINE, Peer, Server, Setup, Victim, eventually, skipped, sys, unique};

/// The directory of this process's own group, where a group can be made in it.
fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_v2 = |line: &&str| line.contains(" - cgroup2 ");
    let mount = mounts.lines().find(is_v2)?.split(' ').nth(4)?.to_owned();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = Path::new(&mount).join(own);
    let probe = group.join(format!("test-{}", unique()));
    fs::create_dir(&probe).ok()?;
    let can_be_killed = probe.join("cgroup.kill").exists();
    fs::remove_dir(&probe).unwrap();
    can_be_killed.then_some(group)
}

/// The same, or says why the test cannot run.
fn group_or_skip(test: &str) -> Option<PathBuf> {
    let group = own_group();
    if group.is_none() {
        skipped(test, "no control group can be made here");
    }
    group
}

/// The group that a command of this peer is in, below that of the server.
fn group_of_command(peer: &mut Peer) -> String {
    let groups = peer.sh("cat /proc/self/cgroup").text();
    groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap().to_owned()
}

/// Nothing is left that it could be known by.
fn give_up_everything(peer: &mut Peer) -> Victim {
    let victim = Victim::new();
    let escape = format!("(setsid env -i bash -c 'ulimit -x 5; exec {}' &)", victim.command());
    peer.start_exec(json!({"command": format!("{escape}; sleep 300")}));
    victim.await_alive();
    victim
}

#[test]
fn what_has_given_up_all_that_it_could_be_known_by_ends_with_its_connection() {
    if group_or_skip("what_has_given_up_all_that_it_could_be_known_by").is_none() {
        return;
    }
    let server = Server::start();
    let (mut watcher, mut peer) = (server.connect(), server.connect());
    let (theirs, victim) = (give_up_everything(&mut watcher), give_up_everything(&mut peer));
    peer.hang_up();
    victim.await_gone();
    theirs.assert_alive();
}

#[test]
fn a_connection_has_a_group_of_its_own_and_none_is_left_behind() {
    let Some(own) = group_or_skip("a_connection_has_a_group_of_its_own") else { return };
    let mut server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let groups = [&mut one, &mut other].map(group_of_command).map(|group| own.join(group));
    assert_ne!(groups[0], groups[1]);
    let home = groups[0].parent().unwrap().to_owned();
    assert!(home.file_name().unwrap().to_str().unwrap().starts_with("ta-"), "{home:?}");
    assert_eq!(group_of_command(&mut one), groups[0].strip_prefix(&own).unwrap().to_str().unwrap());
    one.hang_up();
    eventually(DEADLINE, "its group is removed", || !groups[0].exists());
    assert!(groups[1].exists());
    server.signal(libc::SIGTERM);
    server.wait(DEADLINE);
    assert!(!home.exists(), "{home:?} is left behind");
}

#[test]
fn a_server_that_is_killed_leaves_no_group_behind() {
    let Some(own) = group_or_skip("a_server_that_is_killed_leaves_no_group_behind") else { return };
    let mut server = Server::start();
    let mut peer = server.connect();
    let home = own.join(group_of_command(&mut peer)).parent().unwrap().to_owned();
    // A command may make groups, too.
    let inner = home.join("0/inner");
    peer.sh(&format!("mkdir {}", inner.display())).assert_success();
    let victim = give_up_everything(&mut peer);
    sys::signal(server.pid(), libc::SIGKILL).unwrap();
    server.wait(DEADLINE);
    victim.await_gone();
    assert!(!home.exists(), "{home:?} is left behind");
}

/// As systemd does for a unit with `Delegate=yes`.
#[test]
fn in_a_delegated_group_it_needs_no_privileges() {
    let Some(own) = group_or_skip("in_a_delegated_group_it_needs_no_privileges") else { return };
    let uid = nobody_else();
    let delegated = Delegated::new(&own, uid);
    let enter = format!(
        "echo $$ >{}/cgroup.procs && exec setpriv --reuid {uid} --regid {uid} \
                         --clear-groups \"$0\" \"$@\"",
        delegated.0.display()
    );
    let mut peer = Setup::new().under(&["sh", "-c", &enter]).stdio();
    assert_eq!(peer.sh("id -u").text().trim(), uid.to_string());
    assert!(group_of_command(&mut peer).contains("/ta-"), "it is in a group of its own");
    let victim = give_up_everything(&mut peer);
    // (Over stdio the server would end with the connection, and all orphans with the server.)
    let inner = victim.await_alive();
    let group = fs::read_to_string(format!("/proc/{inner}/cgroup")).unwrap();
    assert!(group.contains("/ta-"), "{group}");
    peer.hang_up();
    victim.await_gone();
}

/// A group that belongs to a user; removed with its last process.
struct Delegated(PathBuf);

impl Delegated {
    fn new(own: &Path, uid: u32) -> Self {
        let path = own.join(format!("test-{}", unique()));
        fs::create_dir(&path).unwrap();
        for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            std::os::unix::fs::chown(path.join(name), Some(uid), Some(uid)).unwrap();
        }
        Self(path)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        eventually(DEADLINE, "the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn without_groups_commands_are_where_the_server_is() {
    if !sys::is_root() && skipped("without_groups", "only root can hide control groups") {
        return;
    }
    let mut peer = without_groups().stdio();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert_eq!(peer.sh("cat /proc/self/cgroup").text(), own);
}
