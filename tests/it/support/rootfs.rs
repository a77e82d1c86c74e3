//! A root directory with nothing in it but the program, which is a container's first process there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{DEADLINE, Peer, Setup, TempDir, binary, eventually, lacks, procfs, skipped, sys};

/// `unshare` runs it as PID 1 of a namespace of its own, and exits as it does.
pub(crate) const OWN_PIDS: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];

/// True, and says so, where there is no PID namespace to be had.
pub(crate) fn cannot(test: &str) -> bool {
    lacks(test, "unshare")
        || (!sys::is_root() && skipped(test, "a PID namespace of its own needs root"))
}

/// The number out here of the guardian that `unshare` runs.
pub(crate) fn guardian(peer: &mut Peer) -> u32 {
    let unshare = peer.pipes().guardian();
    let mut found = None;
    eventually(DEADLINE, "PID 1 runs", || {
        found = procfs::children(unshare).first().copied();
        found.is_some()
    });
    found.unwrap()
}

/// Nothing but the program is there: no /proc, no /dev, no /etc, no /tmp, no shell.
pub(crate) struct Root {
    dir: TempDir,
}

impl Root {
    pub(crate) fn new(test: &str) -> Option<Self> {
        if cannot(test) || lacks(test, "chroot") {
            return None;
        }
        let Some(program) = static_binary() else {
            skipped(test, "there is no static binary, and it cannot be built");
            return None;
        };
        let dir = TempDir::new();
        copy_program(program, &dir.join("ta"));
        Some(Self { dir })
    }

    /// What is in it, from out here.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A server as PID 1 in it.
    pub(crate) fn setup(&self) -> Setup {
        self.after("")
    }

    /// The same where nothing can be written.
    pub(crate) fn read_only(&self) -> Setup {
        self.after("mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 9;")
    }

    pub(crate) fn stdio(&self) -> Peer {
        self.setup().stdio()
    }

    fn after(&self, commands: &str) -> Setup {
        // The root's own /ta in place of the one out here.
        let enter = format!("shift; {commands} exec chroot \"$0\" /ta \"$@\"");
        let root = self.dir.path().to_str().unwrap();
        Setup::new().under(&[&OWN_PIDS[..], &["--mount", "--", "sh", "-c", &enter, root]].concat())
    }
}

/// The binary under test if it is static, else that of `TA_STATIC`, which has been built before (a
/// compiler that runs beside the tests takes the time that they count), else one that is built for it.
pub(crate) fn static_binary() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let is_static = |path: &Path| {
                let bytes = std::fs::read(path).unwrap_or_default();
                let loader = b"/lib64/ld-linux".as_slice();
                !bytes.is_empty() && !bytes.windows(loader.len()).any(|part| part == loader)
            };
            let own = binary();
            if is_static(&own) {
                return Some(own);
            }
            if let Some(given) = std::env::var_os("TA_STATIC").map(PathBuf::from) {
                return Some(given).filter(|given| is_static(given));
            }
            let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--locked", "--quiet", "--bin", "ta", "--target", &triple]);
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            let built = build.status().is_ok_and(|status| status.success());
            let target = own.parent()?.parent()?;
            let path = target.join(triple).join("debug/ta");
            (built && is_static(&path)).then_some(path)
        })
        .as_deref()
}

/// Copies a program. Another process does it: a descriptor of this one, open for writing, may be
/// inherited by what another test starts just then, and nobody can run the program meanwhile.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
}
