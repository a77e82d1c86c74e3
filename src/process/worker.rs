//! The thread of one process: it starts the program, waits in one place for whatever comes next
//! (output, room in stdin, the exit, an order, a deadline), and tells the sink.
//!
//! The order of the end is what matters here. The exit is first only seen (`WNOWAIT`); while the
//! process is unreaped its number, and so its group's, can belong to nobody else, so signals are
//! safe. It is reaped once it is over, just before the sink is told.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::command::{Command, Input, Started};
use super::deadlines::{Deadlines, take_due};
use super::order::{Mailbox, Order, has_ended};
use super::output::Outputs;
use super::stdin::Stdin;
use super::{Ending, Sink, Terms};
use crate::descendants::Branch;
use crate::error::{Error, ErrorKind};
use crate::sys;
use crate::sys::child::{Group, Status};
use crate::sys::poll::{Interest, Poll};
use crate::sys::signal;
use crate::threads;

pub(super) fn start<S: Sink>(
    command: Command,
    terms: Terms,
    branch: Branch,
    mailbox: Arc<Mailbox>,
    sink: S,
) {
    let name = command.name.clone();
    let started = threads::run_on(sink, move |sink| run(command, terms, branch, &mailbox, sink));
    if let Err((error, Some(mut sink))) = started {
        sink.failed(Error::io(&error, format!("cannot make a thread for {name:?}")));
    }
}

fn run(
    command: Command,
    terms: Terms,
    branch: Branch,
    mailbox: &Arc<Mailbox>,
    mut sink: impl Sink,
) {
    // Whoever ends all waits for this thread, so that nothing starts once that wait is over.
    if mailbox.has_ended() {
        mailbox.close();
        let message = format!("the connection has ended before {:?} was started", command.name);
        return sink.failed(Error::new(ErrorKind::Internal, message));
    }
    match Worker::new(&command, terms, branch, mailbox) {
        Ok(mut worker) => {
            sink.started(&worker.group);
            if let Input::Bytes(bytes) = command.input {
                worker.stdin.feed(bytes);
            }
            worker.run(&mut sink);
        }
        Err(error) => {
            mailbox.close();
            sink.failed(error);
        }
    }
}

struct Worker<'a> {
    mailbox: &'a Arc<Mailbox>,
    pid: i32,
    group: Arc<Group>,
    /// It and all that comes of it.
    branch: Branch,
    stdin: Stdin,
    has_terminal: bool,
    outputs: Outputs,
    deadlines: Deadlines,
    start: Instant,
    /// It has exited.
    exited: bool,
    /// What wait(2) said; nothing if somebody else has reaped it, as the kernel does for whoever
    /// ignores SIGCHLD.
    status: Option<Status>,
    reaped: bool,
    timed_out: bool,
    /// The host has signalled it.
    killed: bool,
    /// Signals it has been sent, by the host or because its time was up: a bit for each number.
    sent: u128,
    /// It is over and waits for the sink to take that in.
    over: bool,
    /// The connection has ended: nobody is told anything.
    abandoned: bool,
    poll: Poll,
}

impl<'a> Worker<'a> {
    fn new(
        command: &Command,
        terms: Terms,
        branch: Branch,
        mailbox: &'a Arc<Mailbox>,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let Started { spawned, stdin, outputs } = command.start(&branch)?;
        let group = Arc::new(Group::new(spawned.pid, spawned.pidfd));
        if group.leader().is_none() {
            watch_exit(spawned.pid, mailbox).map_err(|error| {
                group.signal(signal::KILL);
                sys::child::reap(spawned.pid);
                Error::io(&error, format!("cannot watch over {:?}", command.name))
            })?;
        }
        let has_terminal = command.pty.is_some();
        Ok(Self {
            mailbox,
            pid: spawned.pid,
            group,
            branch,
            stdin: Stdin::new(stdin, has_terminal, Arc::clone(mailbox)),
            has_terminal,
            outputs: Outputs::new(outputs, terms.window),
            deadlines: Deadlines::new(&terms, start),
            start,
            exited: false,
            status: None,
            reaped: false,
            timed_out: false,
            killed: false,
            sent: 0,
            over: false,
            abandoned: false,
            poll: Poll::default(),
        })
    }

    fn run(&mut self, sink: &mut impl Sink) {
        self.run_until_over(sink);
        self.reap();
        self.stdin.close();
        // From here on no order is taken: an id is free again before the host learns that.
        self.mailbox.close();
        // So is its place, where nothing of it is left: the host may start the next at once. (Who starts
        // and starts and does not read is stopped by what waits to be told to him.)
        let gone_before_told = self.leaves_nothing();
        if gone_before_told {
            sink.gone(self.remaining());
        }
        if !self.abandoned {
            sink.ended(&self.ending());
        }
        self.linger(sink);
        if !gone_before_told {
            sink.gone(self.remaining());
        }
        if self.abandoned {
            let id = self.mailbox.id();
            let message = format!("the connection is lost, and process {id:?} has ended with it");
            sink.failed(Error::new(ErrorKind::Internal, message));
        }
    }

    /// Runs until the process is over and the sink is ready to hear that, or it is abandoned.
    fn run_until_over(&mut self, sink: &mut impl Sink) {
        loop {
            self.obey();
            let now = Instant::now();
            self.act_on_deadlines(now);
            // On a busy machine this thread may come too late to its own deadline.
            if self.deadlines.is_quiet(now) && self.outputs.has_data() {
                self.deadlines.heard(now);
            }
            let ready = sink.ready(self.mailbox.waker());
            self.over = self.over || self.is_over(now);
            if self.abandoned || (self.over && ready) {
                return;
            }
            let reads = self.outputs.admits(ready);
            let held_back = !reads && !self.outputs.ended();
            self.deadlines.hold_back(held_back, now);
            self.wait(reads);
            if reads && self.outputs.read(sink, self.mailbox.waker()) {
                self.deadlines.heard(Instant::now());
            }
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        (self.exited && (self.outputs.ended() || self.deadlines.drained(now)))
            || self.deadlines.give_up.is_some_and(|give_up| now >= give_up)
    }

    /// Takes it off the process table, if its exit has been seen.
    fn reap(&mut self) {
        if self.exited && !self.reaped {
            if self.branch.mark().is_some() {
                // What is left is found by its mark.
                self.group.retire_number();
            }
            sys::child::reap(self.pid);
            self.reaped = true;
        }
    }

    fn obey(&mut self) {
        if self.mailbox.has_ended() {
            // Whoever ends the connection ends all of it.
            self.abandoned = true;
            return;
        }
        self.outputs.acknowledge(self.mailbox.take_acknowledged());
        let orders = self.mailbox.take_orders();
        let came = !orders.is_empty();
        for order in orders {
            match order {
                Order::Write { bytes, eof, reply } => self.stdin.push(bytes, eof, reply),
                Order::Kill { signal, grace, reply } => {
                    // What was sent before it gets its chance.
                    self.stdin.advance();
                    let now = Instant::now();
                    if let Some(grace) = grace {
                        self.deadlines.kill_after(now, grace);
                    }
                    self.killed = self.killed || signal != 0 || grace.is_some();
                    self.signal(signal, now);
                    reply(Ok(true));
                }
                Order::Resize { size, reply } => {
                    self.stdin.advance();
                    reply(self.resize(size));
                }
            }
        }
        if came {
            self.stdin.advance();
        }
    }

    fn signal(&mut self, signal: i32, now: Instant) {
        self.sent |= bit(signal);
        if signal == signal::KILL {
            self.branch.end(&self.group);
            self.deadlines.kill = None;
            self.deadlines.start_admission(now);
        } else {
            self.group.signal(signal);
        }
    }

    fn resize(&self, size: sys::pty::Size) -> Result<(), Error> {
        let what = format!("cannot resize the terminal of process {:?}", self.mailbox.id());
        if !self.has_terminal {
            return Err(Error::os(sys::errno::ENOTTY, what));
        }
        match self.stdin.terminal() {
            Some(master) => sys::pty::resize(master, size).map_err(|error| Error::io(&error, what)),
            None => Err(has_ended(self.mailbox.id())),
        }
    }

    fn act_on_deadlines(&mut self, now: Instant) {
        if self.over {
            // A SIGKILL for what it has left may still be due.
            if take_due(&mut self.deadlines.kill, now) {
                self.branch.end(&self.group);
            }
            return;
        }
        // Its time is that of all of it: one that has exited, and whose output is held or held
        // back, is not over yet.
        if take_due(&mut self.deadlines.timeout, now) {
            self.timed_out = true;
            let at_once = self.deadlines.time_is_up(now);
            self.signal(if at_once { signal::KILL } else { signal::TERM }, now);
        }
        if take_due(&mut self.deadlines.kill, now) {
            self.signal(signal::KILL, now);
        }
        if take_due(&mut self.deadlines.admission, now) {
            self.outputs.drop_the_rest();
        }
    }

    /// Waits for something to happen and takes note of the exit and of room in stdin.
    fn wait(&mut self, reads: bool) {
        self.poll.clear();
        let woken = self.poll.add(self.mailbox.waker().as_fd(), Interest::Read);
        let exit = match (self.exited, self.group.leader()) {
            (false, Some(leader)) => Some(self.poll.add(leader.as_fd(), Interest::Read)),
            _ => None,
        };
        let stdin = self.stdin.wants_room();
        let stdin = stdin.map(|stdin| self.poll.add(stdin, Interest::Write));
        self.outputs.add_to(&mut self.poll, reads);
        // What is over waits for the sink alone, and for a SIGKILL that is still to follow.
        let due = if self.over { self.deadlines.kill } else { self.deadlines.next() };
        let deadline = [due, self.outputs.look_again()].into_iter().flatten().min();
        if self.poll.wait(deadline).is_err() {
            // poll(2) fails for want of memory alone. Going on would spin, so give way first.
            thread::yield_now();
        }
        if self.poll.ready(woken).any() {
            self.mailbox.waker().reset();
        }
        let output_ended = self.outputs.note(&self.poll, reads);
        if stdin.is_some_and(|place| self.poll.ready(place).any()) {
            self.stdin.advance();
        }
        // Without a pidfd a thread waits and wakes this one, so every wake may be the exit.
        if !self.exited && exit.is_none_or(|place| self.poll.ready(place).any()) {
            match sys::child::exited(self.pid) {
                Ok(None) => {}
                Ok(status) => self.note_exit(status),
                Err(_) => self.note_exit(None),
            }
        }
        // A program that exits closes its outputs one after the other, and each wakes this thread, as
        // a rule on the processor that the program was about to exit on.
        if output_ended && !self.exited {
            thread::yield_now();
        }
    }

    fn note_exit(&mut self, status: Option<Status>) {
        let now = Instant::now();
        self.exited = true;
        self.outputs.child_exited();
        self.status = status;
        self.deadlines.start_drain(now);
        // What was asked to end, and did, has had its time; what caught the signal and ended by
        // itself has all the time of a natural end.
        if matches!(status, Some(Status::Signaled(signal)) if self.sent & bit(signal) != 0) {
            self.deadlines.start_admission(now);
        }
    }

    fn ending(&self) -> Ending {
        Ending {
            status: self.status,
            timed_out: self.timed_out,
            killed: self.killed,
            output_held: !self.outputs.ended(),
            stdout_bytes: self.outputs.stdout_bytes(),
            stderr_bytes: self.outputs.stderr_bytes(),
            seq: self.outputs.next_seq(),
            duration: self.start.elapsed(),
        }
    }

    /// What is left to do when the host has been told, or has gone: to reap what could not be
    /// reaped in time, to carry out a SIGKILL that is still due, and to read and drop what
    /// descendants write, so that they do not die of SIGPIPE; and to see the last word off.
    fn linger(&mut self, sink: &mut impl Sink) {
        self.outputs.drop_the_rest();
        self.deadlines.keep_only_kill();
        loop {
            let nobody_waits = self.mailbox.has_ended();
            if nobody_waits {
                self.outputs.close();
                self.deadlines.kill = None;
            }
            if take_due(&mut self.deadlines.kill, Instant::now()) {
                self.branch.end(&self.group);
            }
            self.reap();
            // Asked each time: it is what hands over the last word.
            let told = nobody_waits || sink.ready(self.mailbox.waker());
            if told && self.leaves_nothing() {
                return;
            }
            self.wait(true);
            self.outputs.read(sink, self.mailbox.waker());
        }
    }

    /// Whether there is nothing left that this thread has to wait for.
    fn leaves_nothing(&self) -> bool {
        self.reaped && self.outputs.ended() && !self.kill_is_due()
    }

    /// Whether a SIGKILL is still to follow, for somebody.
    fn kill_is_due(&self) -> bool {
        self.deadlines.kill.is_some() && (self.group.is_alive() || self.branch.is_alive())
    }

    /// The group, if it has members that outlive the process.
    fn remaining(&self) -> Option<Arc<Group>> {
        self.group.is_alive().then(|| Arc::clone(&self.group))
    }
}

/// Also when a fault has ended the thread: no child without an owner, and no zombie.
impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if !self.reaped {
            self.branch.end(&self.group);
            sys::child::reap(self.pid);
        }
    }
}

fn bit(signal: i32) -> u128 {
    u32::try_from(signal).ok().and_then(|signal| 1_u128.checked_shl(signal)).unwrap_or(0)
}

/// Where the kernel has no pidfd: a thread that waits for the exit and wakes the worker, which
/// then looks for itself.
fn watch_exit(pid: i32, mailbox: &Arc<Mailbox>) -> io::Result<()> {
    let waker = Arc::clone(mailbox.waker());
    let watch = move || {
        let _ = sys::child::wait_exit(pid);
        waker.wake();
    };
    thread::Builder::new().name("exit".to_owned()).stack_size(64 * 1024).spawn(watch)?;
    Ok(())
}
