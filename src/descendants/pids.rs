//! Which processes there are.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::sys;

/// The highest number that Linux gives (`PID_MAX_LIMIT` of a 64-bit machine).
const HIGHEST: i32 = 4 << 20;
/// Where nobody has set another one.
const USUAL_HIGHEST: i32 = 32_768;
/// So many of the numbers given last are looked at first.
const NEAR: i32 = 65_536;

/// How many of the numbers that have been looked at already are looked at once more: a process is
/// given its number a moment before it can be found by it.
const AGAIN: i32 = 256;
/// So many looks in a row that find nothing are enough, although others go on starting processes.
const ENOUGH: u32 = 16;

/// Whether /proc is there and speaks of this process's namespace.
pub(crate) fn proc_is_usable() -> bool {
    let own = fs::read_link("/proc/self");
    own.is_ok_and(|own| own == Path::new(&std::process::id().to_string()))
}

/// Calls `visit` with the number of every process, and perhaps with numbers of none. Without a
/// usable /proc only those are looked at that are likely; [`each_far`] is the rest.
pub(super) fn each(visit: impl FnMut(i32)) {
    // (It may have been mounted or unmounted meanwhile, and there may be no descriptor for it.)
    let listed = if proc_is_usable() { fs::read_dir("/proc").ok() } else { None };
    let Some(entries) = listed else { return near().for_each(visit) };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.for_each(visit);
}

/// Where /proc does not tell: all other numbers, which takes a while. Answers whether `visit` has
/// found one.
pub(super) fn each_far(until: Instant, mut visit: impl FnMut(i32) -> bool) -> bool {
    if proc_is_usable() {
        return false;
    }
    let near = near();
    let far = (near.end() + 1..=HIGHEST).chain(1..*near.start());
    let mut found = false;
    for pid in far {
        found |= visit(pid);
        if pid % 1024 == 0 && Instant::now() >= until {
            break;
        }
    }
    found
}

/// The numbers given last, those of threads among them, and those that are always likely: numbers
/// are given in rising order until they are used up.
fn near() -> RangeInclusive<i32> {
    let thread = thread::Builder::new().name("number".to_owned()).stack_size(64 * 1024);
    let latest = thread.spawn(sys::host::thread_id).ok().and_then(|thread| thread.join().ok());
    // (Without a thread, as far as this process itself tells.)
    let own = || i32::try_from(std::process::id()).unwrap_or(USUAL_HIGHEST);
    let latest = latest.flatten().unwrap_or_else(own);
    latest.saturating_sub(NEAR).max(1)..=latest.clamp(USUAL_HIGHEST, HIGHEST)
}

/// The same, and then the numbers of what has been started meanwhile, until nothing is. What runs
/// away (its child goes on, and it exits) is never where a list says; but it has one of the latest
/// numbers, which are looked at first. `visit` answers whether it has found one.
pub(super) fn each_and_newer(until: Instant, mut visit: impl FnMut(i32) -> bool) {
    let before = latest();
    each(|pid| {
        visit(pid);
    });
    let Some(mut known) = before else { return };
    let mut in_vain = 0;
    while let Some(newest) = latest() {
        let mut found = false;
        for pid in (known.saturating_sub(AGAIN).max(1)..=newest).rev() {
            found |= visit(pid);
        }
        if newest < known {
            // They have been used up, and are given from the lowest again.
            each(|pid| found |= visit(pid));
        }
        in_vain = if found { 0 } else { in_vain + 1 };
        if (newest == known && !found) || in_vain >= ENOUGH || Instant::now() >= until {
            return;
        }
        known = newest;
    }
}

/// The number that was given last in this process's namespace, whose /proc ever this is.
fn latest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next_back()?.parse().ok()
}

/// The children of a process, as /proc tells them. Each of its threads may have some. While it is
/// stopped they stay its own; the kernel may lack the file (`CONFIG_PROC_CHILDREN`).
pub(super) fn children(pid: i32) -> Vec<i32> {
    // Another namespace's would tell numbers of strangers.
    if !proc_is_usable() {
        return Vec::new();
    }
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Its parent, as /proc tells it.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    parent_in(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The fourth field. The second is the program's name in parentheses, and may hold any byte.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_among_all_and_a_child_among_its_children() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = sys::child::command("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut all = Vec::new();
        each(|pid| all.push(pid));
        assert!(all.contains(&own) && all.contains(&pid));
        assert!(children(own).contains(&pid));
        assert_eq!(parent(pid), Some(own));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        assert_eq!(parent_in(b"12 (sh) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent_in(b"12 (a) S 1 (b) \xff) R 42 12"), Some(42));
        assert_eq!(parent_in(b"12 (a) S"), None);
        assert_eq!(parent_in(b""), None);
    }
}
