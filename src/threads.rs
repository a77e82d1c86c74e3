//! Threads for whatever waits on its own (a process, a connection, a file), used again: starting
//! one costs as much as a tenth of starting a small program, and stopping it as much again.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sync::lock;

/// A worker's stack: it formats messages and lends 16 KiB to the child it starts.
const STACK: usize = 256 * 1024;
/// How many threads wait for another job at most, and for how long: enough for a host that
/// runs one command after another on each of its connections, and gone when it pauses.
const IDLE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// Threads that wait for another job, the last one at the end: it is the one whose memory and
/// processor are still warm.
static WAITING: Mutex<Vec<Arc<Seat>>> = Mutex::new(Vec::new());

/// Where one thread waits.
#[derive(Default)]
struct Seat {
    job: Mutex<Option<Job>>,
    given: Condvar,
}

/// Runs a job on a thread of its own.
///
/// # Errors
/// `EAGAIN` where there can be no more threads; the job has been dropped.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let job: Job = Box::new(job);
    let mut waiting = lock(&WAITING);
    if let Some(seat) = waiting.pop() {
        // Under the lock: whoever is not in the list any more has its job.
        *lock(&seat.job) = Some(job);
        drop(waiting);
        seat.given.notify_one();
        return Ok(());
    }
    drop(waiting);
    let thread = thread::Builder::new().name("worker".to_owned()).stack_size(STACK);
    thread.spawn(move || work(job)).map(drop)
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
    let seat = Arc::new(Seat::default());
    let mut next = Some(first);
    while let Some(job) = next {
        job();
        next = wait(&seat);
    }
}

/// Waits for another job; `None` where enough others wait, or none has come for a while.
fn wait(seat: &Arc<Seat>) -> Option<Job> {
    let mut waiting = lock(&WAITING);
    if waiting.len() >= IDLE {
        return None;
    }
    waiting.push(Arc::clone(seat));
    drop(waiting);
    let is_empty = |job: &mut Option<Job>| job.is_none();
    let waited = seat.given.wait_timeout_while(lock(&seat.job), PATIENCE, is_empty);
    let (mut job, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if job.is_some() {
        return job.take();
    }
    drop(job);
    lock(&WAITING).retain(|other| !Arc::ptr_eq(other, seat));
    // It may have come just before that.
    lock(&seat.job).take()
}
