//! A real OpenSSH server on loopback: in namespaces of its own, with users, homes and keys of its own,
//! so that nothing of this machine is changed and all of it is gone with the test.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::run::Done;
use crate::support::{DEADLINE, TempDir, binary, eventually, lacks, skipped};

const SSHD: &str = "/usr/sbin/sshd";
/// What the user's password is, where there is one.
pub(crate) const PASSWORD: &str = "staple battery";

/// How the far side is to be.
#[derive(Default)]
pub(crate) struct Setup {
    shell: Option<PathBuf>,
    home_files: Vec<(String, String)>,
    server_lines: String,
    host_lines: String,
    prepare: String,
    no_key: bool,
    dropbear: bool,
    shell_path: Option<String>,
    only_path: bool,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The user's login shell.
    pub(crate) fn shell(self, path: impl Into<PathBuf>) -> Self {
        Self { shell: Some(path.into()), ..self }
    }

    /// A file in the user's home.
    pub(crate) fn home_file(mut self, name: &str, content: &str) -> Self {
        self.home_files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// A line of sshd_config.
    pub(crate) fn server(mut self, line: &str) -> Self {
        self.server_lines.push_str(&format!("{line}\n"));
        self
    }

    /// A line of the host's block in the client's configuration.
    pub(crate) fn client(mut self, line: &str) -> Self {
        self.host_lines.push_str(&format!("  {line}\n"));
        self
    }

    /// What a shell does before the server starts, in its namespaces. `$H` is the user's home, `$D` the
    /// test's directory, `$U` the user's number.
    pub(crate) fn prepare(mut self, lines: &str) -> Self {
        self.prepare.push_str(lines);
        self.prepare.push('\n');
        self
    }

    /// The user's key opens nothing: a password does.
    pub(crate) fn by_password(self) -> Self {
        Self { no_key: true, ..self }
    }

    /// Dropbear in the place of OpenSSH.
    pub(crate) fn dropbear(self) -> Self {
        Self { dropbear: true, ..self }
    }

    /// Programs that come first in the far side's PATH: a directory with them.
    pub(crate) fn first_in_path(self, directory: &Path) -> Self {
        Self { shell_path: Some(directory.display().to_string()), ..self }
    }

    /// All programs that the far side has.
    pub(crate) fn only_these_programs(self, directory: &Path) -> Self {
        Self { only_path: true, ..self.first_in_path(directory) }
    }

    /// Starts it. `None` (and says so) where that cannot be done.
    pub(crate) fn start(self, test: &str) -> Option<Host> {
        let needed = ["ssh", "unshare", "strip"];
        if needed.iter().any(|program| lacks(test, program)) {
            return None;
        }
        if fs::metadata("/proc/self").map_or(1, |found| std::os::unix::fs::MetadataExt::uid(&found))
            != 0
        {
            skipped(test, "only root can give a server users of its own");
            return None;
        }
        if !Path::new(SSHD).exists() || (self.dropbear && lacks(test, "dropbear")) {
            assert!(skipped(test, "sshd or dropbear is not installed"));
            return None;
        }
        Some(Host::start(&self))
    }
}

/// A host that can be reached by ssh, and the client's side of it.
pub(crate) struct Host {
    pub(crate) dir: TempDir,
    pub(crate) port: u16,
    pub(crate) uid: u32,
    daemon: Child,
}

impl Host {
    fn start(setup: &Setup) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir = TempDir::new();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let uid = 40_000 + std::process::id() % 10_000 * 2 + NEXT.fetch_add(1, Ordering::Relaxed);
        for name in ["run", "client", "home"] {
            fs::create_dir(dir.join(name)).unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        for key in ["host", "user"] {
            keygen(&dir.join(key), "");
        }
        let home = dir.join("home");
        for (name, content) in &setup.home_files {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
        }
        own_all(&home, uid);
        let port = free_port();
        let shell = setup.shell.clone().unwrap_or_else(|| "/bin/bash".into());
        dir.write("passwd", passwd(&home, &shell, uid));
        dir.write("shadow", format!("root:*:1::::::\nu:{}:19000:0:99999:7:::\n", hash()));
        dir.write("sshd_config", sshd_config(setup, &dir, port));
        dir.write("prepare", &setup.prepare);
        let run = if setup.dropbear {
            format!(
                "dropbearconvert openssh dropbear \"$D/host\" \"$D/dropbear_key\" 2>/dev/null; \
                 mkdir -p \"$H/.ssh\"; cp \"$D/user.pub\" \"$H/.ssh/authorized_keys\"; \
                 chown -R $U \"$H/.ssh\"; chmod 700 \"$H/.ssh\"; chmod 755 \"$H\"; \
                 exec dropbear -F -E -p 127.0.0.1:{port} -r \"$D/dropbear_key\" -P \"$D/pid\""
            )
        } else {
            format!("exec {SSHD} -D -e -f \"$D/sshd_config\"")
        };
        let line = format!(
            "D=$1 H=$1/home U={uid}; mount --bind $D/passwd /etc/passwd; \
             mount --bind $D/shadow /etc/shadow; mount -t tmpfs -o mode=1777 none /var/tmp; \
             mount -t tmpfs -o mode=1777 none /dev/shm; . $D/prepare; {run}"
        );
        // (As root the server wants the directory that its package makes when it starts.)
        let _ = fs::create_dir_all("/run/sshd");
        let mut daemon = Command::new("unshare");
        daemon.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        daemon.args(["sh", "-c", &line, "sh"]).arg(dir.path()).stdin(Stdio::null());
        let log = fs::File::create(dir.join("log")).unwrap();
        daemon.stdout(log.try_clone().unwrap()).stderr(log);
        let daemon = daemon.spawn().unwrap();
        let host = Self { dir, port, uid, daemon };
        host.configure(&[host.block("box", &setup.host_lines)]);
        eventually(DEADLINE, "the server listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        host
    }

    /// A block of the client's configuration.
    pub(crate) fn block(&self, name: &str, more: &str) -> String {
        let dir = self.dir.path().display();
        format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {}\n  User u\n  IdentityFile {dir}/user\n  \
             IdentitiesOnly yes\n  UserKnownHostsFile {dir}/known\n  GlobalKnownHostsFile none\n{more}  \
             StrictHostKeyChecking no\n",
            self.port
        )
    }

    /// Writes the client's configuration.
    pub(crate) fn configure(&self, blocks: &[String]) {
        self.dir.write("config", blocks.concat());
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// `ta COMMAND --ssh box ARGS…` of this client.
    pub(crate) fn ta(&self, command: &str, args: &[&str]) -> Command {
        let mut ta = self.ta_alone(&[command, "--ssh", "box", "--ssh-config"]);
        ta.arg(self.dir.join("config")).args(args);
        ta
    }

    /// `ta` in this client's environment.
    pub(crate) fn ta_alone(&self, args: &[&str]) -> Command {
        let mut ta = Command::new(program());
        for (name, _) in std::env::vars_os() {
            let name_bytes = name.as_encoded_bytes();
            if name_bytes.starts_with(b"TA_") || name_bytes.starts_with(b"SSH_") {
                ta.env_remove(name);
            }
        }
        ta.env("XDG_RUNTIME_DIR", self.dir.join("run")).env("HOME", self.dir.join("client"));
        ta.args(args).stdin(Stdio::null());
        ta
    }

    /// `ta run --ssh box ARGS…` to its end. It has no terminal.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(self.ta("run", args))
    }

    /// What the server has written down.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// How many logins there have been.
    pub(crate) fn logins(&self) -> usize {
        self.log().lines().filter(|line| line.contains("Accepted ")).count()
    }

    /// The servers that are placed in the user's home.
    pub(crate) fn servers(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.home().join(".ta/server")).into_iter().flatten().flatten();
        all.map(|entry| entry.path().join("ta")).filter(|path| path.exists()).collect()
    }

    /// What an upload would leave behind.
    pub(crate) fn partial(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.home().join(".ta/server")).into_iter().flatten().flatten();
        let inside =
            all.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
        let is_partial = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".new-"))
        };
        inside.map(|entry| entry.path()).filter(is_partial).collect()
    }

    /// The processes of the user there.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let of_user = |pid: &u32| {
            use std::os::unix::fs::MetadataExt as _;
            fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == self.uid)
        };
        crate::support::procfs::all_pids().filter(of_user).collect()
    }

    /// The client's own processes: those that have this test's directory on their command line.
    pub(crate) fn clients(&self) -> Vec<u32> {
        let mark = self.dir.path().display().to_string();
        let is_client = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            // (A master shows its socket in the place of all else.)
            (line.starts_with("ssh\0") || line.starts_with("ssh:")) && line.contains(&mark)
        };
        crate::support::procfs::all_pids().filter(is_client).collect()
    }

    /// Ends the login that stands, so that the next command makes another.
    pub(crate) fn log_out(&self) {
        for socket in fs::read_dir(self.dir.join("run/ta")).into_iter().flatten().flatten() {
            let path = socket.path();
            if path.extension().is_none() && path.is_file() == path.is_dir() {
                let mut ssh = Command::new("ssh");
                ssh.arg("-F").arg(self.dir.join("config")).args(["-O", "exit", "-o"]);
                ssh.arg(format!("ControlPath={}", path.display())).arg("box");
                let _ = ssh.stderr(Stdio::null()).status();
                eventually(DEADLINE, "the master has ended", || !path.exists());
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log\n{}", self.log());
        }
        // All in its namespace end with it, and the client's masters with their connections.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        for pid in self.clients() {
            let _ = crate::support::sys::signal(pid, libc::SIGTERM);
        }
    }
}

/// The program under test, small enough to be sent again and again.
pub(crate) fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let of = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ssh-{}", std::process::id()));
        fs::create_dir_all(&of).unwrap();
        let stripped = of.join("ta");
        let done = Command::new("strip").arg("-o").arg(&stripped).arg(binary()).status().unwrap();
        assert!(done.success());
        stripped
    };
    PROGRAM.get_or_init(make).clone()
}

/// A key with that passphrase.
pub(crate) fn keygen(path: &Path, passphrase: &str) {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", passphrase, "-f"]).arg(path);
    assert!(keygen.status().unwrap().success());
}

pub(crate) fn own_all(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        own_all(&entry.path(), uid);
    }
}

/// One of the test's own process's numbers, so that tests side by side do not meet.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn hash() -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["passwd", "-6", PASSWORD]);
    let done = openssl.output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn passwd(home: &Path, shell: &Path, uid: u32) -> String {
    format!(
        "root:x:0:0:root:/:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n\
         u:x:{uid}:{uid}:u:{}:{}\n",
        home.display(),
        shell.display()
    )
}

fn sshd_config(setup: &Setup, dir: &TempDir, port: u16) -> String {
    let dir = dir.path().display();
    let keys = if setup.no_key { "none".to_owned() } else { format!("{dir}/user.pub") };
    let path = setup.shell_path.as_ref().map_or_else(String::new, |path| {
        let others = if setup.only_path { "" } else { ":/usr/local/bin:/usr/bin:/bin" };
        format!("SetEnv PATH={path}{others}\n")
    });
    format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {dir}/host\nAuthorizedKeysFile {keys}\n\
         StrictModes no\nPidFile none\nUsePAM no\nPasswordAuthentication {}\nMaxStartups 100\n\
         LogLevel INFO\n{path}{}",
        if setup.no_key { "yes" } else { "no" },
        setup.server_lines
    )
}
