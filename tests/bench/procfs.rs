//! What /proc says of the server: memory, threads, descriptors, time on the processor.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::figures::float;

/// The process that serves: the one child of the one that was started, which itself serves where it
/// has none (an earlier revision).
pub(crate) fn serving(guardian: u32) -> Outcome<u32> {
    let children = fs::read_to_string(format!("/proc/{guardian}/task/{guardian}/children"))?;
    let first = children.split_ascii_whitespace().next();
    Ok(first.map_or(Ok(guardian), str::parse)?)
}

/// Resident memory now, in bytes.
pub(crate) fn resident(pid: u32) -> Outcome<f64> {
    status(pid, "VmRSS:")
}

/// The most resident memory that there has been, in bytes.
pub(crate) fn peak_resident(pid: u32) -> Outcome<f64> {
    status(pid, "VmHWM:")
}

fn status(pid: u32, field: &str) -> Outcome<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(float(kib.ok_or_else(|| format!("/proc/{pid}/status has no {field}"))?) * 1024.0)
}

/// Resident memory in bytes, of which each process that shares a page has its part.
pub(crate) fn proportional(pid: u32) -> Outcome<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path)?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = kib.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(float(kib.ok_or_else(|| format!("{path} has no Pss"))?) * 1024.0)
}

/// A process and those below it that run the same program, or another one of its family (sshd has
/// several, whose names begin alike).
pub(crate) fn same_program(root: u32) -> Outcome<Vec<u32>> {
    let name = |pid: u32| {
        let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let family = name(root);
    let (mut all, mut at) = (vec![root], 0);
    while let Some(pid) = all.get(at).copied() {
        at += 1;
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        // (Each thread has the children that it has started itself.)
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            all.extend(children.filter(|child| name(*child).starts_with(&family)));
        }
    }
    Ok(all)
}

/// How many threads it has and how many descriptors are open in it.
pub(crate) fn threads_and_descriptors(pid: u32) -> Outcome<(usize, usize)> {
    let entries = |name| Ok::<_, std::io::Error>(fs::read_dir(name)?.count());
    Ok((entries(format!("/proc/{pid}/task"))?, entries(format!("/proc/{pid}/fd"))?))
}

/// The same, once it has been the same for 100 ms.
pub(crate) fn settled(pid: u32) -> Outcome<(usize, usize)> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut last, mut since) = (threads_and_descriptors(pid)?, Instant::now());
    while since.elapsed() < Duration::from_millis(100) {
        if Instant::now() > deadline {
            return Err(format!("the server is not at rest: {last:?} threads, descriptors").into());
        }
        thread::sleep(Duration::from_millis(5));
        let now = threads_and_descriptors(pid)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// Seconds on the processor so far, in user mode and in the kernel, its children's not counted.
pub(crate) fn processor_time(pid: u32) -> Outcome<f64> {
    processor_times(pid, 2)
}

/// The same with those of the children that it has seen the end of.
pub(crate) fn processor_time_of_all(pid: u32) -> Outcome<f64> {
    processor_times(pid, 4)
}

fn processor_times(pid: u32, fields_from_14th: usize) -> Outcome<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = text.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
    // utime, stime, cutime and cstime, in hundredths on every architecture there is.
    let ticks =
        fields.skip(11).take(fields_from_14th).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(float(ticks) / 100.0)
}

/// The most resident memory seen every few milliseconds while `work` runs, beside its result.
pub(crate) fn watch_resident<T>(pid: u32, work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let done = AtomicBool::new(false);
    let watch = || {
        let mut most = 0.0_f64;
        while !done.load(Ordering::Acquire) {
            most = most.max(resident(pid)?);
            thread::sleep(Duration::from_millis(10));
        }
        Ok(most)
    };
    thread::scope(|scope| {
        let watcher =
            thread::Builder::new().name("watcher".to_owned()).spawn_scoped(scope, watch)?;
        let result = work();
        done.store(true, Ordering::Release);
        let most: Outcome<f64> = watcher.join().map_err(|_| "the watcher has panicked")?;
        Ok((result?, most?))
    })
}
