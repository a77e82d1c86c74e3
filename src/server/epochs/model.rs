//! Every order in which the steps of all who take part can happen: old hosts with a file change and
//! a process on their way, new ones of equal and larger epochs, one that comes too late. They move
//! the real [`Order`] and the real [`Entrance`]; each step is what happens under one lock, or one
//! effect.

use std::collections::HashSet;

use super::{Arrival, Order};
use crate::gate::Entrance;

/// A mistake that could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    AnswersUnsettled,
    LeavesBeforeItsProcesses,
    LeavesBeforeItsFiles,
    ComesInThroughAClosedGate,
    SettlesForItsOwnRaiseOnly,
}

const OLD: usize = 0;

/// Epochs of the connections, by number.
const EPOCHS: [u64; 5] = [1, 2, 2, 3, 1];

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Connection {
    step: u8,
    fenced: bool,
    /// Whom it has to fence yet.
    to_fence: Vec<u64>,
    gate: Entrance,
    /// Its processes that are started or about to be.
    entries: u8,
    ended: bool,
    raiser: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    order: Order,
    connections: [Connection; 5],
    /// The old host's worker threads: one that changes a file, one that starts a process.
    file: u8,
    process: u8,
    /// The largest epoch that has been answered.
    answered: u64,
    violated: bool,
}

/// A step was taken, cannot be taken yet, or there are no more.
#[derive(PartialEq, Eq)]
enum Taken {
    Yes,
    Blocked,
    Over,
}

/// Who comes while the old host works: two of one epoch and a newer one; a newer one and one that
/// comes too late. (All at once take ten times as long and show nothing more.)
const SCENES: [&[usize]; 2] = [&[1, 2, 3], &[1, 3, 4]];

const OVER: u8 = 99;
const ENDS: u8 = 10;

impl World {
    fn new() -> Self {
        let mut order = Order::new(0);
        assert_eq!(order.arrive(OLD as u64, 1), Arrival::Raises);
        assert!(order.raised(OLD as u64, 1).is_empty());
        let mut connections: [Connection; 5] = Default::default();
        connections[OLD].step = ENDS;
        connections[OLD].entries = 1;
        Self { order, connections, file: 0, process: 0, answered: 0, violated: false }
    }

    fn effect(&mut self, connection: usize) {
        self.violated |= EPOCHS[connection] < self.answered;
    }

    fn step(&mut self, actor: usize, fault: Fault) -> Taken {
        match actor {
            0..5 => self.host(actor, fault),
            5 => self.file(fault),
            _ => self.process(),
        }
    }

    /// A change of a file: in, out while the content is written, in again, the effect, out.
    fn file(&mut self, fault: Fault) -> Taken {
        let gate = &mut self.connections[OLD].gate;
        self.file = match self.file {
            0 if gate.enter() => 1,
            1 => {
                gate.step_out();
                2
            }
            2 if gate.come_in() => 3,
            2 if fault == Fault::ComesInThroughAClosedGate => 5,
            3 | 5 => {
                self.effect(OLD);
                self.file + 1
            }
            4 => {
                gate.leave();
                OVER
            }
            OVER => return Taken::Over,
            _ => OVER,
        };
        Taken::Yes
    }

    /// A process: it is looked whether the connection has ended, it starts, has effects, is gone.
    fn process(&mut self) -> Taken {
        self.process = match self.process {
            0 if self.connections[OLD].ended => 2,
            0 => 1,
            // It runs until it is ended; every look at it is an effect.
            1 => {
                self.effect(OLD);
                if self.connections[OLD].ended { 2 } else { return Taken::Blocked }
            }
            2 => {
                self.connections[OLD].entries -= 1;
                OVER
            }
            _ => return Taken::Over,
        };
        Taken::Yes
    }

    /// A connection's own thread.
    fn host(&mut self, number: usize, fault: Fault) -> Taken {
        let (id, epoch) = (number as u64, EPOCHS[number]);
        let settled = self.order.is_settled(epoch);
        let order = &mut self.order;
        let me = &mut self.connections[number];
        let next = match me.step {
            0 => match order.arrive(id, epoch) {
                Arrival::Joined => 3,
                Arrival::Raises => 1,
                Arrival::Waits => return Taken::Blocked,
                Arrival::Stale(_) => OVER,
            },
            // (The file is written between these two.)
            1 => {
                me.to_fence = order.raised(id, epoch);
                me.raiser = true;
                2
            }
            2 => match me.to_fence.pop() {
                Some(other) => {
                    let other = &mut self.connections[usize::try_from(other).unwrap()];
                    other.fenced = true;
                    other.gate.close();
                    2
                }
                None => 3,
            },
            3 if me.fenced => ENDS,
            3 if settled || fault == Fault::AnswersUnsettled => 4,
            3 if fault == Fault::SettlesForItsOwnRaiseOnly && !me.raiser => 4,
            3 => return Taken::Blocked,
            4 => {
                self.answered = self.answered.max(epoch);
                5
            }
            // The next message is taken, and carried out, unless it is fenced.
            5 if me.fenced => ENDS,
            5 => 6,
            6 => {
                self.effect(number);
                ENDS
            }
            // It is fenced, or its peer has gone before that.
            ENDS => ENDS + 1,
            11 => {
                me.ended = true;
                12
            }
            12 if me.entries > 0 && fault != Fault::LeavesBeforeItsProcesses => {
                return Taken::Blocked;
            }
            12 => 13,
            13 if !me.gate.finish() && fault != Fault::LeavesBeforeItsFiles => {
                return Taken::Blocked;
            }
            13 => {
                order.left(id);
                OVER
            }
            _ => return Taken::Over,
        };
        self.connections[number].step = next;
        Taken::Yes
    }
}

/// Goes through all orders until one of them breaks the promise; answers whether one does, and how
/// many states there were.
fn explore(fault: Fault, hosts: &[usize]) -> (bool, usize) {
    let mut seen = HashSet::new();
    let mut left = vec![World::new()];
    while let Some(world) = left.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if world.violated {
            return (true, seen.len());
        }
        let (mut moved, mut all_over) = (false, true);
        for actor in hosts.iter().copied().chain([OLD, 5, 6]) {
            let mut next = world.clone();
            let taken = next.step(actor, fault);
            all_over &= taken == Taken::Over;
            // (A step that is blocked may have been an effect.)
            if next != world {
                moved = true;
                left.push(next);
            }
        }
        assert!(moved || all_over || fault != Fault::None, "a schedule in which nobody can go on");
    }
    (false, seen.len())
}

#[test]
fn in_no_order_an_old_effect_follows_the_first_answer_of_a_newer_host() {
    for hosts in SCENES {
        let (violated, states) = explore(Fault::None, hosts);
        assert!(!violated, "{hosts:?}");
        assert!(states > 5_000, "only {states} states with {hosts:?}");
    }
}

#[test]
fn the_model_finds_every_mistake_that_is_made_in_it() {
    for fault in [
        Fault::AnswersUnsettled,
        Fault::LeavesBeforeItsProcesses,
        Fault::LeavesBeforeItsFiles,
        Fault::ComesInThroughAClosedGate,
        Fault::SettlesForItsOwnRaiseOnly,
    ] {
        let found = SCENES.iter().any(|hosts| explore(fault, hosts).0);
        assert!(found, "{fault:?} was not found");
    }
}
