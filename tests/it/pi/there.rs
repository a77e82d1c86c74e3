//! The environment: a server in a network namespace of its own, with a root of its own, that this
//! machine reaches over a link between the two.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Server, Setup, TOKEN, TempDir, lacks, skipped, sys};

/// Where everything of it is, by the names that it has within.
pub(crate) const HOME: &str = "/there";
pub(crate) const PROJECT: &str = "/there/project";

/// Binds into the new root what programs need, read-only, and what is to be the server there.
const ENTER: &str = r#"set -e
root=$0 packages=$1 ta=$2
shift 2
mount --bind "$root" "$root"
for dir in usr bin sbin lib lib64 etc; do
    [ -d /$dir ] || continue
    mkdir -p "$root/$dir"
    mount --bind /$dir "$root/$dir"
    mount -o remount,bind,ro "$root/$dir"
done
mkdir -p "$root/proc" "$root/dev" "$root/packages"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$packages" "$root/packages"
touch "$root/ta"
mount --bind "$ta" "$root/ta"
exec chroot "$root" /ta "$@"
"#;

pub(crate) struct There {
    // (Stopped before its root is removed.)
    pub(crate) server: Option<Server>,
    root: TempDir,
    address: String,
}

impl There {
    /// One with this directory to work in; nothing where the test is skipped.
    pub(crate) fn start_in(test: &str, cwd: &str) -> Option<Self> {
        Self::start_with(test, cwd, &super::packages(test, "real")?, &[])
    }

    /// The same with these packages and these arguments of the server's.
    pub(crate) fn start_with(
        test: &str,
        cwd: &str,
        packages: &Path,
        args: &[&str],
    ) -> Option<Self> {
        if ["unshare", "chroot", "mount", "ip", "nsenter"].iter().any(|it| lacks(test, it)) {
            return None;
        }
        if !sys::is_root() {
            skipped(test, "namespaces and links need root");
            return None;
        }
        let root = TempDir::new();
        for directory in ["/tmp", HOME, PROJECT, cwd] {
            fs::create_dir_all(inside(&root, directory)).unwrap();
        }
        let launcher = [
            "unshare",
            "-m",
            "-n",
            "sh",
            "-c",
            ENTER,
            root.path().to_str().unwrap(),
            packages.to_str().unwrap(),
        ];
        let setup = Setup::new().under(&launcher).host("0.0.0.0").env("HOME", HOME);
        let server = setup.args(["--cwd", cwd]).args(args).env("TMPDIR", "/tmp").listen();
        let address = link(server.pid());
        let address = format!("{address}:{}", server.address.port());
        Some(Self { server: Some(server), root, address })
    }

    pub(crate) fn start(test: &str) -> Option<Self> {
        let there = Self::start_in(test, PROJECT)?;
        there.write("marker.txt", "the environment's\n");
        Some(there)
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/exec", self.address)
    }

    /// Where it is reached.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.parse().unwrap()
    }

    /// What a path within is called here.
    pub(crate) fn path(&self, within: &str) -> PathBuf {
        inside(&self.root, within)
    }

    /// A file of the project, or one that is named by its whole path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(&within(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(&within(name));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        [("TA_EXEC_URL", self.url()), ("TA_EXEC_TOKEN", TOKEN.to_owned())]
    }
}

fn within(name: &str) -> String {
    if name.starts_with('/') { name.to_owned() } else { format!("{PROJECT}/{name}") }
}

fn inside(root: &TempDir, path: &str) -> PathBuf {
    root.path().join(Path::new(path).strip_prefix("/").unwrap())
}

/// Links the network of a process to this one; answers its address. The link goes with the namespace.
fn link(pid: u32) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // (Of the range that carriers have for themselves; other tests have other pids.)
    let own = std::process::id().wrapping_mul(64) + NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, third, second, first] =
        (own.wrapping_mul(2) & 0x003f_ffff).to_be_bytes().map(u32::from);
    let near = format!("100.{}.{second}.{}", 64 + third, first & !1);
    let far = format!("100.{}.{second}.{}", 64 + third, first | 1);
    let name = format!("ta{:x}", own & 0x0fff_ffff);
    let pid = pid.to_string();
    run(&["ip", "link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
    run(&["ip", "addr", "add", &format!("{near}/31"), "dev", &name]);
    run(&["ip", "link", "set", &name, "up"]);
    let there = ["nsenter", "-t", &pid, "-n"];
    let add = ["ip", "addr", "add", &format!("{far}/31"), "dev", "eth0"];
    run(&[&there[..], &add].concat());
    run(&[&there[..], &["ip", "link", "set", "eth0", "up"]].concat());
    far
}

#[track_caller]
fn run(words: &[&str]) {
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}
