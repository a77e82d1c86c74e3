//! A control group for each connection, where one can be made: as root, or in a part of the tree
//! that has been delegated (systemd's `Delegate=yes`). The kernel then ends all of it in one go,
//! whatever it does. It comes beside the marks: a privileged command can move itself elsewhere.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::host;

/// How long those who have been killed may take to leave their group.
const DYING: Duration = Duration::from_millis(300);

/// The directory for this server's groups, in the group that the server is in. It is chosen once,
/// before the server has a child, and made when it is needed.
static HOME: LazyLock<Result<PathBuf, &'static str>> = LazyLock::new(|| {
    let read = |path| fs::read_to_string(path).map_err(|_| "/proc does not tell the own one");
    let mounts = read("/proc/self/mountinfo")?;
    let own = read("/proc/self/cgroup")?;
    let own = own_group(&mounts, &own).ok_or("no cgroup2 is mounted that this process is in")?;
    // Groups have been able to be killed since Linux 5.14; the topmost cannot be itself.
    // (Two servers in one group may have one number, each in its namespace.)
    let random = host::random_number();
    let home = own.join(format!("ta-{}-{random:016x}", std::process::id()));
    fs::create_dir(&home).map_err(|_| "the own one is not this user's to divide")?;
    let can_be_killed = fs::exists(home.join("cgroup.kill")).unwrap_or(false);
    let _ = fs::remove_dir(&home);
    if can_be_killed { Ok(home) } else { Err("the kernel cannot kill one (Linux 5.14 can)") }
});

/// The directory of the process's own group, of cgroup v2.
fn own_group(mounts: &str, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let is_v2 =
        |line: &&str| line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("cgroup2 "));
    mounts.lines().filter(is_v2).find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(mount_point).join(below))
    })
}

/// Chooses the directory.
pub(super) fn prepare() {
    LazyLock::force(&HOME);
}

/// The directory, or why there is none.
pub(super) fn home() -> Result<&'static Path, &'static str> {
    HOME.as_deref().map_err(|why| *why)
}

/// Kills everything in every group of this server.
pub(super) fn kill_all() {
    if let Some(home) = home().ok().filter(|home| home.exists()) {
        let _ = fs::write(home.join("cgroup.kill"), "1");
    }
}

/// Removes all groups of this server, which have been killed.
pub(super) fn remove_all() {
    let Ok(home) = home() else { return };
    let deadline = Instant::now() + DYING;
    remove(home);
    while home.exists() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
        remove(home);
    }
}

/// A connection's group. Dropped, it is removed, if nothing is in it any more.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
}

impl Group {
    /// One of that name.
    pub(super) fn new(name: u64) -> Option<Self> {
        let home = home().ok()?;
        Self::make(&home.join(name.to_string())).ok()
    }

    fn make(path: &Path) -> io::Result<Self> {
        // Twice, because the last of the other groups may just be taking the directory along.
        fs::create_dir_all(path).or_else(|_| fs::create_dir_all(path))?;
        Ok(Self { path: path.to_owned() })
    }

    /// What a process is put into it by. (Keeping it open would cost each connection a descriptor.)
    pub(super) fn open(&self) -> Option<File> {
        File::open(&self.path).ok()
    }

    /// Removes it, if nothing is in it any more. The last one takes the directory of all along: a
    /// program that runs a command itself has no guardian to do that.
    pub(super) fn remove(&self) {
        remove(&self.path);
        if let Ok(home) = home() {
            let _ = fs::remove_dir(home);
        }
    }

    /// Kills everything in it. It takes no time; the processes are gone a little later.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes a group with those below it, which a command may have made; what is not empty stays.
fn remove(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_beside_version_1_and_below_a_root() {
        let mounts = "24 30 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 30 0:23 /a /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 none rw\n";
        let group = |own| own_group(mounts, own);
        let expected = Some(PathBuf::from("/sys/fs/cgroup/unified/b/c"));
        assert_eq!(group("4:cpu:/x\n0::/a/b/c\n"), expected);
        assert_eq!(group("0::/elsewhere\n"), None);
        assert_eq!(group("4:cpu:/a\n"), None);
    }
}
