//! The unit: judged by systemd, and, since there is none to run it here, its restrictions put on by
//! hand as far as they can be: no new privileges, no capabilities, another user, all files but its own
//! read-only.

use std::process::{Command, Output};

use serde_json::json;

use super::{changed, install};
use crate::support::{Setup, TempDir, lacks, skipped, sys};

#[track_caller]
fn assert_silent(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
}

#[test]
fn systemd_has_nothing_to_object_to() {
    if lacks("systemd_has_nothing_to_object_to", "systemd-analyze") {
        return;
    }
    let dir = TempDir::new();
    let there = std::env::current_exe().unwrap();
    let change = [("/usr/local/bin/ta", there.to_str().unwrap())];
    let service = dir.write("ta-exec.service", changed("ta-exec.service", &change));
    let socket = dir.write("ta-exec.socket", changed("ta-exec.socket", &[]));
    let analyze = |args: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(args).arg(&service);
        if args == ["verify"] {
            command.arg(&socket);
        }
        command.output().unwrap()
    };
    assert_silent(&analyze(&["verify"]));
    // From 0, that nothing can harm, to 100.
    assert_silent(&analyze(&["security", "--offline=true", "--threshold=20"]));
}

#[test]
fn a_server_serves_under_the_restrictions_of_the_unit() {
    const NAME: &str = "a_server_serves_under_the_restrictions_of_the_unit";
    if lacks(NAME, "unshare") || lacks(NAME, "setpriv") {
        return;
    }
    if !sys::is_root() {
        skipped(NAME, "only root may mount");
        return;
    }
    let dir = TempDir::new();
    let program = install(&dir);
    let own = dir.join("own");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
    let (program, place) = (program.to_str().unwrap(), own.to_str().unwrap());
    let enter = format!(
        "set -e; mount --bind {place} {place}; mount -o remount,bind,ro /; shift; umask 0077; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs \
         --bounding-set=-all --inh-caps=-all {program} \"$@\""
    );
    let words = ["unshare", "--mount", "sh", "-c", &enter, "sh"];
    let server = Setup::new().under(&words).args(["--cwd", place]).listen();
    let mut peer = server.connect();
    let line = "touch own && stat -c %a own && grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status && \
        ! touch /etc/not-own 2>&1";
    let done = peer.run(json!({"command": "sh", "args": ["-c", line]}));
    let text = done.text();
    let expected = ["600", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Read-only file system"];
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
}
