//! Threads for whatever waits on its own (a process, a connection, a file), used again: starting
//! one costs as much as a tenth of starting a small program, and stopping it as much again.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::sync::lock;

/// A worker's stack: it formats messages and lends 32 KiB to the child it starts.
const STACK: usize = 256 * 1024;
/// How many threads wait for another job at most, and for how long: enough for a host that
/// runs one command after another on each of its connections, and gone when it pauses.
const IDLE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// Holds nothing: a job is handed to a thread that waits, or is not taken.
static HANDOVER: LazyLock<(Sender<Job>, Receiver<Job>)> = LazyLock::new(|| bounded(0));
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Runs a job on a thread of its own.
///
/// # Errors
/// `EAGAIN` where there can be no more threads; the job has been dropped.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    match HANDOVER.0.try_send(Box::new(job)) {
        Ok(()) => Ok(()),
        Err(refused) => {
            let job = refused.into_inner();
            let thread = thread::Builder::new().name("worker".to_owned()).stack_size(STACK);
            thread.spawn(move || work(job)).map(drop)
        }
    }
}

/// Runs a job on something that is wanted back if there is no thread for it.
///
/// # Errors
/// Those of [`run`], and what the job was to run on.
pub(crate) fn run_on<T: Send + 'static>(
    value: T,
    job: impl FnOnce(T) + Send + 'static,
) -> Result<(), (io::Error, Option<T>)> {
    let value = Arc::new(Mutex::new(Some(value)));
    let threads_value = Arc::clone(&value);
    let run_it = move || {
        let value = lock(&threads_value).take();
        if let Some(value) = value {
            job(value);
        }
    };
    run(run_it).map_err(|error| (error, lock(&value).take()))
}

fn work(first: Job) {
    let mut next = Some(first);
    while let Some(job) = next {
        job();
        let waiting = WAITING.fetch_add(1, Ordering::Relaxed);
        next = if waiting < IDLE { HANDOVER.1.recv_timeout(PATIENCE).ok() } else { None };
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}
