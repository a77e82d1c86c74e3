//! The commands over ssh, and the configurations that they have to work with.

use std::fs;
use std::process::Stdio;

use super::daemon::{Host, Setup};
use crate::run::{Done, Running};
use crate::support::{DEADLINE, eventually};

#[test]
fn a_command_runs_there_and_the_next_ones_share_its_login() {
    let test = "a_command_runs_there_and_the_next_ones_share_its_login";
    let Some(host) = Setup::new().start(test) else { return };
    host.run(&["-c", "id -u; echo err >&2; exit 3"]).assert(3, &format!("{}\n", host.uid), "err\n");
    assert_eq!(host.servers().len(), 1, "it was placed there");
    for number in 0..5 {
        let line = format!("echo {number}");
        host.run(&["-c", &line]).assert(0, &format!("{number}\n"), "");
    }
    host.run(&["--", "/bin/sh", "-c", "kill -9 $$"]).assert(137, "", "");
    assert_eq!(host.logins(), 1, "{}", host.log());
    // What was placed there is found by the next login.
    host.log_out();
    let placed = fs::metadata(&host.servers()[0]).unwrap().modified().unwrap();
    host.run(&["true"]).assert(0, "", "");
    assert_eq!(host.logins(), 2);
    assert_eq!(fs::metadata(&host.servers()[0]).unwrap().modified().unwrap(), placed);
}

#[test]
fn the_login_ends_with_the_session_and_nothing_is_left() {
    let test = "the_login_ends_with_the_session_and_nothing_is_left";
    let Some(host) = Setup::new().start(test) else { return };
    host.run(&["true"]).assert(0, "", "");
    host.log_out();
    eventually(DEADLINE, "no process of the user is left", || host.processes().is_empty());
    eventually(DEADLINE, "no ssh is left here", || host.clients().is_empty());
}

#[test]
fn the_directory_of_the_login_is_this_users_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let test = "the_directory_of_the_login_is_this_users_alone";
    let Some(host) = Setup::new().start(test) else { return };
    host.run(&["true"]).assert(0, "", "");
    let private = host.dir.join("run/ta");
    assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&private).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.as_os_str().len() <= 120, "{path:?}");
        assert!(!path.file_name().unwrap().as_encoded_bytes().starts_with(b"ask-"), "{path:?}");
    }
    // One that others can look into is not used.
    fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    host.log_out();
    let mut ta = host.ta("run", &["true"]);
    ta.env("TMPDIR", host.dir.join("run"));
    Done::of(ta).assert(0, "", "");
    assert!(fs::read_dir(host.dir.join("run")).unwrap().count() == 2);
}

fn works(host: &Host) {
    for _ in 0..2 {
        host.run(&["-c", "cd /; pwd"]).assert(0, "/\n", "");
    }
}

#[test]
fn a_remote_command_and_a_terminal_in_the_configuration_are_left_out() {
    let test = "a_remote_command_and_a_terminal_in_the_configuration_are_left_out";
    let setup = Setup::new().client("RemoteCommand tmux new -A").client("RequestTTY force");
    let Some(host) = setup.client("LocalForward 127.0.0.1:1 127.0.0.1:1").start(test) else {
        return;
    };
    works(&host);
    assert_eq!(host.logins(), 1);
}

#[test]
fn a_control_master_of_the_users_own_is_left_alone() {
    let test = "a_control_master_of_the_users_own_is_left_alone";
    let setup = Setup::new().client("ControlMaster auto").client("ControlPath none");
    let Some(host) = setup.client("SessionType none").client("BatchMode yes").start(test) else {
        return;
    };
    works(&host);
    assert_eq!(host.logins(), 1);
}

#[test]
fn one_session_a_login_is_enough() {
    let Some(host) = Setup::new().server("MaxSessions 1").start("one_session_a_login_is_enough")
    else {
        return;
    };
    works(&host);
    // Two at once: the second makes a login of its own.
    let mut ta = host.ta("run", &["-i", "cat"]);
    ta.stdin(Stdio::piped());
    let mut first = Running::start(ta);
    first.write(b"first\n");
    first.stdout.wait_for("first");
    host.run(&["echo", "second"]).assert(0, "second\n", "");
    drop(first.stdin.take());
    assert_eq!(first.wait(), 0);
}

#[test]
fn a_server_that_forwards_and_shares_nothing_is_worked_with_all_the_same() {
    let test = "a_server_that_forwards_and_shares_nothing_is_worked_with_all_the_same";
    let Some(host) = Setup::new().server("DisableForwarding yes").start(test) else { return };
    works(&host);
}

#[test]
fn two_jumps_lead_there() {
    let Some(host) = Setup::new().start("two_jumps_lead_there") else { return };
    let jump = |name: &str, to: &str| host.block(name, &format!("  ProxyJump {to}\n"));
    host.configure(&[jump("box", "second"), jump("second", "first"), host.block("first", "")]);
    works(&host);
    assert_eq!(host.logins(), 3, "one at each host");
}

#[test]
fn dropbear_is_worked_with_too() {
    let Some(host) = Setup::new().dropbear().start("dropbear_is_worked_with_too") else { return };
    works(&host);
}

#[test]
fn files_are_copied_and_listed() {
    let Some(host) = Setup::new().start("files_are_copied_and_listed") else { return };
    let file = host.dir.write("near", vec![7; 3 << 20]);
    let near = file.to_str().unwrap();
    Done::of(host.ta("cp", &[near, ":far"])).assert(0, "", "");
    assert_eq!(fs::read(host.home().join("far")).unwrap(), vec![7; 3 << 20]);
    let back = host.dir.join("back");
    Done::of(host.ta("cp", &[":far", back.to_str().unwrap()])).assert(0, "", "");
    assert_eq!(fs::read(back).unwrap(), vec![7; 3 << 20]);
    let listed = Done::of(host.ta_alone(&[
        "fs",
        "ls",
        "--ssh",
        "box",
        "--ssh-config",
        host.dir.join("config").to_str().unwrap(),
        ".",
    ]));
    assert!(listed.text().contains("far"), "{listed:?}");
}

#[test]
fn a_port_is_forwarded() {
    use std::io::{Read as _, Write as _};
    let Some(host) = Setup::new().start("a_port_is_forwarded") else { return };
    let mut ta = host.ta("forward", &[&format!("-:127.0.0.1:{}", host.port)]);
    ta.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = ta.spawn().unwrap();
    let mut banner = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"SSH-2.0-");
    child.stdin.take().unwrap().write_all(b"no ssh at all\r\n").unwrap();
    assert!(crate::support::server::wait(&mut child, DEADLINE).is_some());
}

#[test]
fn the_protocol_itself_is_spoken_by_connect_and_ping() {
    let test = "the_protocol_itself_is_spoken_by_connect_and_ping";
    let Some(host) = Setup::new().start(test) else { return };
    let mut ta = host.ta("connect", &[]);
    ta.stdin(Stdio::piped());
    let mut running = Running::start(ta);
    running.write(b"{\"id\":1,\"method\":\"ping\",\"params\":{}}\n");
    running.stdout.wait_for("\"id\":1,\"result\":{}");
    drop(running.stdin.take());
    assert_eq!(running.wait(), 0);
    let ping = Done::of(host.ta("ping", &["-c", "2"]));
    assert!(ping.code == 0 && ping.text().contains("box by ssh"), "{ping:?}");
}

/// The login is asked for the agent; what the login shell's files say of the environment is there, and
/// what the session says too.
#[test]
fn the_environment_is_that_of_the_login_shell_and_of_the_session() {
    let test = "the_environment_is_that_of_the_login_shell_and_of_the_session";
    let setup = Setup::new().server("AcceptEnv LC_TA").client("SetEnv LC_TA=sent");
    let setup = setup.home_file(".profile", "export PATH=/of/profile:$PATH MULTI='a\nb'\n");
    let Some(host) = setup.start(test) else { return };
    for _ in 0..2 {
        let done = host.run(&["-c", "echo \"$PATH|$MULTI|$LC_TA|${SSH_CONNECTION%% *}|$PWD\""]);
        let text = done.text();
        assert!(text.starts_with("/of/profile:"), "{done:?}");
        let home = host.home();
        assert!(text.ends_with(&format!("|a\nb|sent|127.0.0.1|{}\n", home.display())), "{done:?}");
    }
}

#[test]
fn a_name_that_ssh_would_take_for_an_option_is_refused() {
    let Some(host) = Setup::new().start("a_name_that_ssh_would_take_for_an_option_is_refused")
    else {
        return;
    };
    let done = Done::of(host.ta_alone(&["run", "--ssh=-oProxyCommand=touch x", "true"]));
    done.assert_failed(125, "is no name of a host");
    let done = Done::of(host.ta_alone(&["run", "--ssh", "nowhere.invalid", "true"]));
    done.assert_failed(125, "cannot log in to nowhere.invalid");
    let alone = ["run", "--ssh-config", "x", "true"];
    Done::of(host.ta_alone(&alone)).assert_failed(125, "and no --ssh");
    // An epoch is told to the server before anything else.
    host.run(&["--epoch", "7", "echo", "x"]).assert(0, "x\n", "");
    let both = ["run", "--ssh", "a", "--exec", "ws://b/exec", "true"];
    Done::of(host.ta_alone(&both)).assert_failed(125, "--exec and --ssh are both given");
}
