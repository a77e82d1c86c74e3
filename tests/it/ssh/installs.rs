//! What is placed on a host, where, and what happens to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::daemon::{Setup, own_all, program};
use crate::run::{Done, Running};
use crate::support::TempDir;

const TARGET: &str = "x86_64-unknown-linux-musl";

fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn a_truncated_and_a_corrupted_server_are_replaced() {
    let test = "a_truncated_and_a_corrupted_server_are_replaced";
    let Some(host) = Setup::new().start(test) else { return };
    host.run(&["true"]).assert(0, "", "");
    let placed = host.servers().remove(0);
    let whole = fs::read(&placed).unwrap();
    let mut corrupted = whole.clone();
    let middle = corrupted.len() / 2;
    corrupted[middle] ^= 1;
    let spoiled: [&[u8]; 3] = [&whole[..whole.len() / 3], &corrupted, b""];
    for content in spoiled {
        host.log_out();
        fs::write(&placed, content).unwrap();
        host.run(&["echo", "x"]).assert(0, "x\n", "");
        assert!(fs::read(&placed).unwrap() == whole, "it is whole again");
    }
    // One that is gone while the login stands.
    fs::remove_dir_all(placed.parent().unwrap()).unwrap();
    host.run(&["echo", "x"]).assert(0, "x\n", "");
    assert!(placed.exists());
}

#[test]
fn ten_at_once_share_one_login() {
    let Some(host) = Setup::new().start("ten_at_once_share_one_login") else { return };
    let all: Vec<_> = (0..10).map(|_| Running::start(host.ta("run", &["echo", "x"]))).collect();
    for running in all {
        running.finish().assert(0, "x\n", "");
    }
    assert_eq!((host.logins(), host.servers().len()), (1, 1));
}

#[test]
fn ten_that_share_nothing_place_it_at_once() {
    let test = "ten_that_share_nothing_place_it_at_once";
    let Some(host) = Setup::new().start(test) else { return };
    let start = |number: usize| {
        let run = host.dir.join(&format!("run-{number}"));
        fs::create_dir(&run).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
        let mut ta = host.ta("run", &["echo", "x"]);
        ta.env("XDG_RUNTIME_DIR", run);
        Running::start(ta)
    };
    let all: Vec<_> = (0..10).map(start).collect();
    for mut running in all {
        let code =
            crate::support::holds_within(crate::support::DEADLINE * 3, || !running.is_running());
        assert!(code, "it has ended");
        running.finish().assert(0, "x\n", "");
    }
    assert_eq!((host.logins(), host.servers().len()), (10, 1));
    assert_eq!(host.partial(), [] as [PathBuf; 0]);
    assert_eq!(size(&host.servers()[0]), size(&program()));
}

/// Home cannot be used in this way: another directory is.
fn assert_elsewhere(test: &str, prepare: &str) {
    let setup = Setup::new().prepare(prepare);
    let Some(host) = setup.start(test) else { return };
    for _ in 0..2 {
        let line = "readlink /proc/$PPID/exe; true";
        let done = host.run(&["-c", line]);
        let text = done.text();
        assert!(text.starts_with(&format!("/var/tmp/ta-{}/server/", host.uid)), "{done:?}");
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
        host.log_out();
    }
}

#[test]
fn a_home_that_is_read_only() {
    assert_elsewhere("a_home_that_is_read_only", "mount --bind $H $H; mount -o remount,bind,ro $H");
}

#[test]
fn a_home_where_nothing_may_be_run() {
    let prepare = "mount -t tmpfs -o noexec,uid=$U,mode=700 none $H";
    assert_elsewhere("a_home_where_nothing_may_be_run", prepare);
}

#[test]
fn a_home_that_is_missing() {
    assert_elsewhere("a_home_that_is_missing", "rmdir $H");
}

#[test]
fn a_home_that_is_full() {
    let prepare = "mount -t tmpfs -o size=1m,uid=$U,mode=700 none $H";
    assert_elsewhere("a_home_that_is_full", prepare);
}

/// Somebody else has been there first.
#[test]
fn a_directory_of_somebody_elses_is_not_used() {
    let test = "a_directory_of_somebody_elses_is_not_used";
    let prepare = "mount --bind $H $H; mount -o remount,bind,ro $H; \
                   mkdir -p /var/tmp/ta-$U/server; chmod -R 777 /var/tmp/ta-$U; mkdir /dev/shm/x; \
                   chown $U /dev/shm/x";
    let Some(host) = Setup::new().prepare(prepare).start(test) else { return };
    let done = host.run(&["-c", "readlink /proc/$PPID/exe; true"]);
    assert!(done.text().starts_with(&format!("/dev/shm/ta-{}/server/", host.uid)), "{done:?}");
}

#[test]
fn without_any_place_that_is_said() {
    let test = "without_any_place_that_is_said";
    let prepare = "mount --bind $H $H; mount -o remount,bind,ro $H; \
                   mount -o remount,noexec /var/tmp; mount -o remount,ro /dev/shm";
    let Some(host) = Setup::new().prepare(prepare).start(test) else { return };
    host.run(&["true"]).assert_failed(125, "no directory where a program can be placed and run");
}

/// Programs of the far side: a directory with these, which are scripts.
fn programs(all: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in all {
        dir.program(name, text);
    }
    dir
}

fn uname(machine: &str) -> TempDir {
    let text = format!("#!/bin/sh\ncase $1 in -s) echo Linux;; -m) echo {machine};; esac\n");
    programs(&[("uname", &text)])
}

#[test]
fn another_architecture_gets_its_own_server_or_an_error_that_names_it() {
    let test = "another_architecture_gets_its_own_server_or_an_error_that_names_it";
    let far = uname("aarch64");
    let Some(host) = Setup::new().first_in_path(far.path()).start(test) else { return };
    let servers = TempDir::new();
    let done = host.run(&["true"]);
    done.assert_failed(125, "Linux aarch64");
    assert!(done.stderr.contains("ta-server-aarch64-unknown-linux-musl"), "{done:?}");
    assert!(done.stderr.contains(&format!("this ta ({TARGET})")), "what there is: {done:?}");
    // (This machine can run it, whatever it says of itself.)
    let name = "ta-server-aarch64-unknown-linux-musl";
    fs::copy(program(), servers.join(name)).unwrap();
    servers.write("ta-aarch64-unknown-linux-musl", "not this one");
    let directory = servers.path().to_str().unwrap();
    let done = host.run(&["--server-dir", directory, "echo", "x"]);
    done.assert(0, "x\n", "");
    // The same by the variable.
    host.log_out();
    let mut ta = host.ta("run", &["echo", "x"]);
    Done::of({
        ta.env("TA_SERVER_DIR", directory);
        ta
    })
    .assert(0, "x\n", "");
}

#[test]
fn an_architecture_that_nobody_serves_is_named() {
    let test = "an_architecture_that_nobody_serves_is_named";
    let far = uname("riscv64");
    let Some(host) = Setup::new().first_in_path(far.path()).start(test) else { return };
    let servers = TempDir::new();
    servers.write("ta-server-aarch64-unknown-linux-musl", "x");
    let done = host.run(&["--server-dir", servers.path().to_str().unwrap(), "true"]);
    done.assert_failed(125, "Linux riscv64");
    assert!(done.stderr.contains("ta-server-aarch64-unknown-linux-musl"), "{done:?}");
}

fn sum_line(path: &Path, name: &str) -> String {
    let done = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    format!("{}  {name}\n", &text[..64])
}

#[test]
fn a_directorys_servers_are_what_its_list_says() {
    let test = "a_directorys_servers_are_what_its_list_says";
    let Some(host) = Setup::new().start(test) else { return };
    let servers = TempDir::new();
    let name = format!("ta-server-{TARGET}");
    fs::copy(program(), servers.join(&name)).unwrap();
    let directory = servers.path().to_str().unwrap();
    let right = sum_line(&program(), &name);
    for wrong in [format!("{}  {name}\n", "0".repeat(64)), right.replace("ta-server-", "ta-")] {
        servers.write("SHA256SUMS", wrong);
        let done = host.run(&["--server-dir", directory, "true"]);
        done.assert_failed(125, "is not what it should be");
    }
    assert_eq!(host.servers(), [] as [PathBuf; 0]);
    servers.write("SHA256SUMS", right);
    host.run(&["--server-dir", directory, "echo", "x"]).assert(0, "x\n", "");
}

#[test]
fn one_that_does_not_run_there_is_not_placed() {
    let test = "one_that_does_not_run_there_is_not_placed";
    let Some(host) = Setup::new().start(test) else { return };
    let servers = TempDir::new();
    let text = "#!/bin/sh\necho 'this is no ta'; exit 1\n";
    servers.write(&format!("ta-server-{TARGET}"), text);
    let done = host.run(&["--server-dir", servers.path().to_str().unwrap(), "true"]);
    done.assert_failed(125, "ta does not run on box: this is no ta");
    assert_eq!((host.servers(), host.partial()), (vec![], vec![]));
}

/// Serves a directory over HTTP; counts what is asked for.
fn serve(dir: PathBuf) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/dist", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let answer = move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            for line in lines {
                if line.unwrap().is_empty() {
                    break;
                }
            }
            let name = first.split(' ').nth(1).unwrap().strip_prefix("/dist/").unwrap().to_owned();
            counted.fetch_add(usize::from(name != "SHA256SUMS"), Ordering::Relaxed);
            let (status, content) = match fs::read(dir.join(name)) {
                Ok(content) => ("200 OK", content),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                content.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content));
        }
    };
    thread::Builder::new().name("http".into()).spawn(answer).unwrap();
    (url, count)
}

#[test]
fn one_that_is_fetched_is_checked_and_kept() {
    let test = "one_that_is_fetched_is_checked_and_kept";
    let far = uname("aarch64");
    let Some(host) = Setup::new().first_in_path(far.path()).start(test) else { return };
    if crate::support::lacks(test, "curl") && crate::support::lacks(test, "wget") {
        return;
    }
    let servers = TempDir::new();
    let name = "ta-server-aarch64-unknown-linux-musl";
    fs::copy(program(), servers.join(name)).unwrap();
    servers.write("SHA256SUMS", format!("{}  {name}\n", "0".repeat(64)));
    let (url, count) = serve(servers.path().to_owned());
    let run = || {
        let mut ta = host.ta("run", &["echo", "x"]);
        ta.env("TA_SERVER_URL", &url);
        Done::of(ta)
    };
    run().assert_failed(125, "is not what it should be");
    servers.write("SHA256SUMS", sum_line(&program(), name));
    run().assert(0, "x\n", "");
    assert_eq!(count.load(Ordering::Relaxed), 2, "the wrong one and the right one");
    // It is kept on this side, and needed again on another host.
    host.log_out();
    fs::remove_dir_all(host.home().join(".ta")).unwrap();
    run().assert(0, "x\n", "");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    // One that is not there.
    servers.write("SHA256SUMS", "");
    host.log_out();
    run().assert_failed(125, "there is no ta for aarch64-unknown-linux-musl at http://127.0.0.1");
}

/// Whatever there is that tells a hash: at the least the server itself.
#[test]
fn hashes_are_told_by_what_there_is() {
    for tool in ["sha256sum", "shasum", "openssl", "none"] {
        let few = programs(&[]);
        for name in ["sh", "cat", "mkdir", "chmod", "rm", "rmdir", "mv", "uname", tool] {
            let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name));
            if let Some(found) = found.iter().find(|path| path.exists()) {
                std::os::unix::fs::symlink(found, few.join(name)).unwrap();
            }
        }
        let setup = Setup::new().only_these_programs(few.path());
        let Some(host) = setup.start("hashes_are_told_by_what_there_is") else { return };
        Done::of(host.ta("ping", &["-c", "1"])).assert_ok(tool);
        host.log_out();
        let placed = host.servers().remove(0);
        let whole = fs::read(&placed).unwrap();
        fs::write(&placed, &whole[..whole.len() / 2]).unwrap();
        Done::of(host.ta("ping", &["-c", "1"])).assert_ok(tool);
        assert!(fs::read(&placed).unwrap() == whole, "{tool}");
    }
}

#[test]
fn what_nobody_has_used_for_a_month_is_removed() {
    let test = "what_nobody_has_used_for_a_month_is_removed";
    let Some(host) = Setup::new().start(test) else { return };
    let server = |name: &str, age: &str| {
        let dir = host.home().join(".ta/server").join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("ta"), "x").unwrap();
        own_all(&host.home().join(".ta"), host.uid);
        let touched = Command::new("touch").args(["-d", age]).arg(&dir).status().unwrap();
        assert!(touched.success());
        dir
    };
    let old = server(&"a".repeat(64), "31 days ago");
    let recent = server(&"b".repeat(64), "29 days ago");
    let others = server("somebody-elses", "300 days ago");
    host.run(&["true"]).assert(0, "", "");
    assert!(!old.exists() && recent.exists() && others.exists());
}

#[test]
fn ssh_clean_removes_all_of_it() {
    let Some(host) = Setup::new().start("ssh_clean_removes_all_of_it") else { return };
    host.run(&["true"]).assert(0, "", "");
    let config = host.dir.join("config");
    let clean =
        || Done::of(host.ta_alone(&["ssh-clean", "--ssh-config", config.to_str().unwrap(), "box"]));
    let home = host.home();
    clean().assert(0, &format!("removed {}/.ta/server on box\n", home.display()), "");
    assert!(!home.join(".ta").exists());
    crate::support::eventually(crate::support::DEADLINE, "the login has ended", || {
        host.clients().is_empty()
    });
    clean().assert(0, "there is nothing of ta on box\n", "");
    host.run(&["echo", "x"]).assert(0, "x\n", "");
}
