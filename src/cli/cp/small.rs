//! The files of one directory: those that fit into one message several at a time, since each of them
//! takes two round trips; the others one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::bounded;

use super::item::Item;
use super::tally::Tally;
use crate::cli::end::End;
use crate::cli::files::{Store, wire};
use crate::cli::progress::Progress;
use crate::error::{Error, Result};
use crate::protocol::{StatParams, StatResult};

/// Small files that are under way at once.
const AT_ONCE: usize = 8;

/// Copies files.
///
/// # Errors
/// There is no use in going on; all else has been said.
pub(super) fn copy(
    files: &[Item<'_>],
    stores: &[Store; 2],
    part: usize,
    tally: &mut Tally,
) -> Result<(), End> {
    let next = AtomicUsize::new(0);
    let (sender, outcomes) = bounded(AT_ONCE);
    let mut large = Vec::new();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(files.len()) {
            let (sender, next) = (sender.clone(), &next);
            let work = move || {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Whoever has stopped listening has seen a failure that ends it all.
                    if sender.send((file, copy_small(file, stores, part))).is_err() {
                        return;
                    }
                }
            };
            let started = thread::Builder::new().name("copy".to_owned()).spawn_scoped(scope, work);
            started.map_err(|error| Error::io(&error, "cannot make a thread"))?;
        }
        drop(sender);
        for (file, outcome) in outcomes {
            match outcome {
                Ok(Copied::Whole(size)) => {
                    tally.progress.start(&file.shown(), size);
                    tally.progress.add(usize::try_from(size).unwrap_or(0));
                }
                Ok(Copied::TooLarge(stat)) => large.push((file, stat)),
                Err(failure) => tally.settle(Err(failure))?,
            }
        }
        Ok::<_, End>(())
    })?;
    for (file, stat) in large {
        let copied = file.copy(stores, part, &stat, &mut tally.progress);
        tally.settle(copied)?;
    }
    Ok(())
}

/// What has become of a file.
enum Copied {
    /// It has been copied, so many bytes.
    Whole(u64),
    /// It fits into no message.
    TooLarge(StatResult),
}

fn copy_small(file: &Item<'_>, stores: &[Store; 2], part: usize) -> Result<Copied, End> {
    let params = StatParams { path: wire(&file.path)?, follow_symlinks: None };
    let stat = file.from.stat(&params)?;
    if stat.size >= part as u64 {
        return Ok(Copied::TooLarge(stat));
    }
    file.copy(stores, part, &stat, &mut Progress::silent())?;
    Ok(Copied::Whole(stat.size))
}
