//! Networks that go, people who stop waiting, and logins that cannot be shared.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use ta_exec::client::ClientOptions;
use ta_exec::protocol::ExecParams;
use ta_exec::ssh::SshHost;

use super::daemon::{Host, Setup, program};
use crate::run::pty::Pty;
use crate::run::{Done, Running};
use crate::support::proxy::{Act, Fault, Proxy, Way};
use crate::support::{DEADLINE, TempDir, Victim, alone, eventually, sys};

/// The client reaches the host through this.
fn behind(host: &Host) -> Proxy {
    let proxy = Proxy::to(([127, 0, 0, 1], host.port).into());
    let config = fs::read_to_string(host.dir.join("config")).unwrap();
    let port = |port: u16| format!("Port {port}\n");
    let config = config.replace(&port(host.port), &port(proxy.address.port()));
    fs::write(host.dir.join("config"), config).unwrap();
    proxy
}

#[test]
fn a_connection_that_is_cut_in_an_upload_leaves_nothing_half() {
    let test = "a_connection_that_is_cut_in_an_upload_leaves_nothing_half";
    let Some(host) = Setup::new().start(test) else { return };
    let proxy = behind(&host);
    for act in [Act::Cut, Act::Reset] {
        proxy.fault_next(Fault { way: Way::Up, at: 400_000, act });
        let done = host.run(&["true"]);
        done.assert_failed(125, "the upload did not come to its end");
        eventually(DEADLINE, "nothing is left there", || {
            host.partial().is_empty() && host.processes().is_empty()
        });
        eventually(DEADLINE, "nothing is left here", || host.clients().is_empty());
        assert!(host.servers().is_empty());
    }
    host.run(&["echo", "x"]).assert(0, "x\n", "");
}

#[test]
fn a_connection_that_is_cut_in_a_command_ends_it_and_the_next_call_makes_another() {
    let test = "a_connection_that_is_cut_in_a_command_ends_it_and_the_next_call_makes_another";
    let Some(host) = Setup::new().start(test) else { return };
    let proxy = behind(&host);
    let victim = Victim::new();
    let mut running = Running::start(host.ta("run", &["sleep", victim.argument()]));
    victim.await_alive();
    proxy.cut();
    assert_eq!(running.wait(), 125);
    running.stderr.wait_for("the ssh connection to box has ended");
    victim.await_gone();
    host.run(&["echo", "x"]).assert(0, "x\n", "");
    assert_eq!(host.logins(), 2);
    // The same of one client, which lives on.
    let run = host.dir.join("run").display().to_string();
    let config = host.dir.join("config").display().to_string();
    let port = proxy.address.port().to_string();
    let variables =
        [("XDG_RUNTIME_DIR", run.as_str()), ("TA_IT_RECONNECT", &config), ("TA_IT_PORT", &port)];
    alone("ssh::ends::the_client_reconnects", &variables);
}

#[test]
fn the_client_reconnects() {
    let Some(config) = std::env::var_os("TA_IT_RECONNECT") else { return };
    let host = SshHost::new("box").unwrap().config(config).program(program());
    let client = ClientOptions::new().epoch(None).ssh(host).unwrap();
    client.ping().unwrap();
    // Its server ends, as if by the network; what is in flight fails, and the next call is answered.
    let kill = client.exec(&ExecParams::new("kill -9 $PPID")).unwrap().wait(|_, _| {});
    assert_eq!(kill.unwrap_err().kind(), &ta_exec::ErrorKind::ConnectionLost);
    client.ping().unwrap();
}

/// A gzip of the far side that takes a little and then stands still: an upload that is under way.
fn slow_gzip() -> TempDir {
    let dir = TempDir::new();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir.program(
        "gzip",
        "#!/bin/sh\n[ \"$1\" = -h ] && exit 0\necho $$ >\"$HOME/standing\"\nkill -STOP $$\nexec cat\n",
    );
    dir
}

#[test]
fn control_c_in_an_upload_leaves_nothing_on_either_side() {
    let test = "control_c_in_an_upload_leaves_nothing_on_either_side";
    let far = slow_gzip();
    let Some(host) = Setup::new().first_in_path(far.path()).start(test) else { return };
    let pty = Pty::new(100, 24);
    let mut running = pty.start(host.ta("run", &["true"]));
    eventually(DEADLINE, "the upload stands still", || host.home().join("standing").exists());
    eventually(DEADLINE, "some of it is there", || !host.partial().is_empty());
    pty.screen.wait_for("ta to box");
    pty.write("\u{3}");
    assert_eq!(running.wait(), 130, "{}", pty.screen.text());
    host.log_out();
    for pid in host.processes() {
        let _ = sys::signal(pid, libc::SIGCONT);
    }
    eventually(DEADLINE, "nothing is left there", || {
        host.partial().is_empty() && host.processes().is_empty()
    });
    eventually(DEADLINE, "nothing is left here", || host.clients().is_empty());
    assert!(host.servers().is_empty());
    // What an interrupted one leaves here is removed by the next.
    fs::remove_file(far.join("gzip")).unwrap();
    host.run(&["true"]).assert(0, "", "");
    let all = fs::read_dir(host.dir.join("run/ta")).unwrap().flatten();
    let is_desk = |name: &[u8]| name.starts_with(b"ask-") || name.starts_with(b".ask-");
    let left = all.filter(|entry| is_desk(entry.file_name().as_encoded_bytes())).count();
    assert_eq!(left, 0);
}

#[test]
fn a_login_that_hangs_ends_with_ta() {
    let test = "a_login_that_hangs_ends_with_ta";
    let Some(host) = Setup::new().start(test) else { return };
    let proxy = behind(&host);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        proxy.fault_next(Fault { way: Way::Down, at: 0, act: Act::Stall });
        let mut running = Running::start(host.ta("run", &["true"]));
        eventually(DEADLINE, "ssh logs in", || !host.clients().is_empty());
        running.signal(signal);
        assert_eq!(running.wait(), 128 + signal);
        eventually(DEADLINE, "no ssh is left", || host.clients().is_empty());
    }
}

/// What a command has started there ends with it, whatever ends it here.
#[test]
fn a_command_there_ends_with_ta() {
    let Some(host) = Setup::new().start("a_command_there_ends_with_ta") else { return };
    host.run(&["true"]).assert(0, "", "");
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let victim = Victim::new();
        let mut running = Running::start(host.ta("run", &["sleep", victim.argument()]));
        victim.await_alive();
        running.signal(signal);
        assert_eq!(running.wait(), 128 + signal);
        victim.await_gone();
    }
    assert_eq!(host.logins(), 1);
}

/// A client that waits for a server which is silent gives it up; the login is not asked for it again.
#[test]
fn a_server_that_is_silent_is_given_up() {
    let test = "a_server_that_is_silent_is_given_up";
    let Some(host) = Setup::new().start(test) else { return };
    let run = host.dir.join("run").display().to_string();
    let config = host.dir.join("config").display().to_string();
    let variables = [("XDG_RUNTIME_DIR", run.as_str()), ("TA_IT_SILENT", &config)];
    alone("ssh::ends::the_client_gives_up", &variables);
}

#[test]
fn the_client_gives_up() {
    let Some(config) = std::env::var_os("TA_IT_SILENT") else { return };
    let host = SshHost::new("box").unwrap().config(config).program(program());
    let options = ClientOptions::new().epoch(None).peer_timeout(Duration::from_secs(1));
    let client = options.ssh(host).unwrap();
    let stopped = client.exec(&ExecParams::new("kill -STOP $PPID; sleep 1000")).unwrap();
    let error = stopped.wait(|_, _| {}).unwrap_err();
    assert_eq!(error.kind(), &ta_exec::ErrorKind::ConnectionLost, "{error:?}");
    assert!(error.message().contains("silent"), "{error:?}");
    client.ping().unwrap();
}

/// Nothing comes through any more, and nobody is told: both sides notice within a minute, and a little
/// more for a busy machine. (It is the one test that takes so long: the times are those of real use.)
#[test]
fn a_network_that_is_silent_is_noticed_on_both_sides() {
    let test = "a_network_that_is_silent_is_noticed_on_both_sides";
    let Some(host) = Setup::new().start(test) else { return };
    let victim = Victim::new();
    let mut running = Running::start(host.ta("run", &["sleep", victim.argument()]));
    victim.await_alive();
    stop_sessions(&host);
    victim.assert_alive();
    let start = std::time::Instant::now();
    let limit = Duration::from_secs(75);
    eventually(limit, "this side has noticed", || !running.is_running());
    assert_eq!(running.wait(), 125, "{}", running.stderr.text());
    victim.await_gone_within(limit.saturating_sub(start.elapsed()));
    host.run(&["echo", "x"]).assert(0, "x\n", "");
}

/// The far ends of its logins answer nothing any more, as when a laptop has been carried elsewhere.
fn stop_sessions(host: &Host) {
    let is_session = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().starts_with(b"sshd")
    };
    let sessions: Vec<u32> = host.processes().into_iter().filter(is_session).collect();
    assert!(!sessions.is_empty());
    for pid in sessions {
        sys::signal(pid, libc::SIGSTOP).unwrap();
    }
}

/// The login stands on a network that has gone, and ssh has not noticed: another is made.
#[test]
fn a_login_that_stands_and_leads_nowhere_is_made_anew() {
    let test = "a_login_that_stands_and_leads_nowhere_is_made_anew";
    let Some(host) = Setup::new().start(test) else { return };
    host.run(&["true"]).assert(0, "", "");
    stop_sessions(&host);
    let mut running = Running::start(host.ta("run", &["echo", "x"]));
    eventually(Duration::from_secs(90), "it goes on", || !running.is_running());
    assert_eq!((running.wait(), running.stdout.text().as_str()), (0, "x\n"));
    assert_eq!(host.logins(), 2);
}

#[test]
fn where_no_session_is_let_in_it_is_said_and_not_tried_for_ever() {
    let test = "where_no_session_is_let_in_it_is_said_and_not_tried_for_ever";
    let Some(host) = Setup::new().server("MaxSessions 0").start(test) else { return };
    let done = host.run(&["true"]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(!done.stderr.is_empty(), "{done:?}");
}

/// An ssh in front of the real one.
fn ssh_that(host: &Host, script: &str) {
    let bin = host.dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = bin.join("ssh");
    fs::write(&path, format!("#!/bin/sh\n{script}\nexec /usr/bin/ssh \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_it(host: &Host, mut ta: Command) -> Command {
    let path = std::env::var("PATH").unwrap();
    ta.env("PATH", format!("{}:{path}", host.dir.join("bin").display()));
    ta
}

#[test]
fn where_a_login_cannot_be_shared_each_has_its_own() {
    let test = "where_a_login_cannot_be_shared_each_has_its_own";
    let Some(host) = Setup::new().start(test) else { return };
    let refusal = "case \" $* \" in *' -M '*) echo 'unix_listener: cannot bind to path x: \
                   Operation not supported' >&2; exit 255;; esac";
    ssh_that(&host, refusal);
    for _ in 0..2 {
        Done::of(with_it(&host, host.ta("run", &["echo", "x"]))).assert(0, "x\n", "");
    }
    // To look, to place it, to start it; then to start it.
    assert_eq!(host.logins(), 4);
    eventually(DEADLINE, "nothing is left", || host.processes().is_empty());
}

/// The login stands, and its socket speaks another protocol than the one we know.
#[test]
fn where_the_master_is_not_understood_ssh_itself_is_asked() {
    let test = "where_the_master_is_not_understood_ssh_itself_is_asked";
    let Some(host) = Setup::new().start(test) else { return };
    host.run(&["true"]).assert(0, "", "");
    let all = fs::read_dir(host.dir.join("run/ta")).unwrap().flatten();
    let socket = all.map(|entry| entry.path()).find(|path| path.extension().is_none()).unwrap();
    host.log_out();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let garbage = move || {
        for stream in listener.incoming() {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"\0\0\0\x08garbage!");
        }
    };
    std::thread::Builder::new().name("garbage".into()).spawn(garbage).unwrap();
    host.run(&["echo", "x"]).assert(0, "x\n", "");
}

#[test]
fn a_home_in_a_path_of_200_characters() {
    let test = "a_home_in_a_path_of_200_characters";
    let Some(host) = Setup::new().start(test) else { return };
    let mut home = host.dir.join("long");
    while home.as_os_str().len() < 200 {
        home.push("directory-in-a-long-path");
    }
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::copy(host.dir.join("config"), home.join(".ssh/config")).unwrap();
    let passwd = format!("root:x:0:0:root:{}:/bin/sh\n", home.display());
    let passwd = host.dir.write("own-passwd", passwd);
    // As where there is no runtime directory, or it is as long.
    let ta = host.ta_alone(&["run", "--ssh", "box", "echo", "x"]);
    let line = "mount --bind \"$0\" /etc/passwd; exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", line]).arg(passwd).arg(ta.get_program()).args(ta.get_args());
    unshare.env("HOME", &home).env("XDG_RUNTIME_DIR", home.join("run"));
    unshare.env("TMPDIR", host.dir.join("run")).stdin(std::process::Stdio::null());
    for name in ["TA_EXEC_URL", "TA_EXEC_TOKEN"] {
        unshare.env_remove(name);
    }
    fs::create_dir(home.join("run")).unwrap();
    Done::of(unshare).assert(0, "x\n", "");
    assert_eq!(fs::read_dir(host.dir.join("run")).unwrap().count(), 1);
}
