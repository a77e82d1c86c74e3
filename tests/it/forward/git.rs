//! git and ssh, the real ones, by way of a forward and of `ta run -i`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{DEADLINE, Server, TOKEN, TempDir, binary, eventually, lacks, skipped, ta_to};

/// A child that ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn await_port(port: u16) {
    eventually(DEADLINE, "it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

/// git that knows of nobody's settings.
fn git(server: &Server, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["30", "git"]).args(args).current_dir(dir);
    command.env("HOME", dir).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@t");
    }
    command.env("TA_EXEC_URL", crate::run::url(server)).env("TA_EXEC_TOKEN", TOKEN);
    command
}

#[track_caller]
fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A repository with something in it, `DIR/far.git`.
fn repository(server: &Server, dir: &TempDir) {
    let git = |args: &[&str]| run(git(server, dir.path(), args));
    git(&["init", "-q", "--bare", "-b", "main", "far.git"]);
    git(&["clone", "-q", "far.git", "first"]);
    dir.write("first/file", vec![b'x'; 200_000]);
    git(&["-C", "first", "add", "."]);
    git(&["-C", "first", "commit", "-qm", "one"]);
    git(&["-C", "first", "push", "-q", "origin", "HEAD:main"]);
}

/// Clones, pushes and fetches.
fn use_it(server: &Server, dir: &TempDir, url: &str, options: &[&str], env: &[(&str, &str)]) {
    let git = |args: &[&str]| {
        let mut command = git(server, dir.path(), &[options, args].concat());
        command.envs(env.iter().copied());
        run(command)
    };
    git(&["clone", "-q", url, "second"]);
    assert_eq!(fs::read(dir.join("second/file")).unwrap().len(), 200_000);
    dir.write("second/file", "changed");
    git(&["-C", "second", "commit", "-qam", "two"]);
    git(&["-C", "second", "push", "-q", "origin", "HEAD:main"]);
    run(self::git(server, dir.path(), &["-C", "first", "pull", "-q", "origin", "main"]));
    assert_eq!(fs::read(dir.join("first/file")).unwrap(), b"changed");
    dir.write("first/file", "again");
    run(self::git(server, dir.path(), &["-C", "first", "commit", "-qam", "three"]));
    run(self::git(server, dir.path(), &["-C", "first", "push", "-q", "origin", "HEAD:main"]));
    git(&["-C", "second", "fetch", "-q"]);
    assert!(git(&["-C", "second", "log", "--format=%s", "origin/main"]).starts_with("three"));
}

#[test]
fn git_clones_pushes_and_fetches_through_a_proxy_of_stdin_and_stdout() {
    if lacks("git_clones_pushes_and_fetches_through_a_proxy_of_stdin_and_stdout", "git") {
        return;
    }
    let (server, dir, port) = (Server::start(), TempDir::new(), free_port());
    repository(&server, &dir);
    // (Not `git daemon`, which may start it as a child that outlives it.)
    let programs = run(git(&server, dir.path(), &["--exec-path"]));
    let mut daemon = Command::new(Path::new(programs.trim()).join("git-daemon"));
    daemon.args(["--reuseaddr", "--export-all", "--enable=receive-pack"]);
    daemon.args(["--listen=127.0.0.1", &format!("--port={port}"), "--base-path=."]);
    daemon.current_dir(dir.path()).stderr(Stdio::null());
    let _daemon = Daemon(daemon.spawn().unwrap());
    await_port(port);
    let proxy = dir.program(
        "proxy",
        format!("#!/bin/sh\nexec '{}' forward \"-:$1:$2\"\n", binary().display()),
    );
    let url = format!("git://127.0.0.1:{port}/far.git");
    use_it(&server, &dir, &url, &[], &[("GIT_PROXY_COMMAND", proxy.to_str().unwrap())]);
}

#[test]
fn git_clones_pushes_and_fetches_through_a_command_there() {
    if lacks("git_clones_pushes_and_fetches_through_a_command_there", "git") {
        return;
    }
    let (server, dir) = (Server::start(), TempDir::new());
    repository(&server, &dir);
    let far = dir.join("far.git");
    // %S is git-upload-pack or git-receive-pack.
    let url = format!("ext::{} run -i -- %S {}", binary().display(), far.display());
    use_it(&server, &dir, &url, &["-c", "protocol.ext.allow=always"], &[]);
}

#[test]
fn ssh_goes_through_it_as_a_proxy_command() {
    const NAME: &str = "ssh_goes_through_it_as_a_proxy_command";
    let sshd = Path::new("/usr/sbin/sshd");
    if lacks(NAME, "ssh") || lacks(NAME, "ssh-keygen") {
        return;
    }
    if !sshd.exists() {
        skipped(NAME, "sshd is not installed");
        return;
    }
    let (server, dir, port) = (Server::start(), TempDir::new(), free_port());
    let generate = |name: &str| {
        let file = dir.join(name);
        run({
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file);
            command
        });
        file
    };
    let (host, user) = (generate("host"), generate("user"));
    fs::copy(dir.join("user.pub"), dir.join("keys")).unwrap();
    // (As root it wants the directory that its package makes when it starts.)
    let _ = fs::create_dir_all("/run/sshd");
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         PidFile none\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n",
        host.display(),
        dir.join("keys").display()
    );
    let config = dir.write("sshd_config", config);
    let mut daemon = Command::new(sshd);
    daemon.arg("-D").arg("-e").arg("-f").arg(config).stderr(Stdio::null());
    let _daemon = Daemon(daemon.spawn().unwrap());
    await_port(port);
    let proxy = format!("ProxyCommand={} forward -:%h:%p", binary().display());
    let ssh = |line: &str| {
        let mut command = Command::new("timeout");
        command.args(["30", "ssh", "-F", "none", "-o", "BatchMode=yes", "-o"]).arg(&proxy);
        command.args(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]);
        command.arg("-i").arg(&user).args(["-p", &port.to_string(), "127.0.0.1", line]);
        let known = ta_to(&server, &[]);
        command.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let output = ssh("head -c 3000000 /dev/zero; exit 7");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(7), 3_000_000), "{output:?}");
}
