//! The mark that everything bears that has come of a connection.
//!
//! It is in the limit on file locks (`sys::limit`). Where this server is the outermost on its
//! machine, the hard limit tells server and connection, and nobody below can raise it again; the
//! soft one tells the process. A server that was itself started by one finds its own hard limit
//! taken and leaves it, so that the outer one still finds all that is its own: there the soft limit
//! alone carries all three.

use std::collections::HashSet;
use std::io;
use std::sync::{LazyLock, Mutex};

use crate::sync::lock;
use crate::sys;
use crate::sys::limit::{self, UNLIMITED, UnusedLimit};

const CONNECTION_BITS: u32 = 16;
/// Of a soft limit that carries all.
const PROCESS_BITS: u32 = 22;
const SERVER_BITS: u32 = 24;
/// Set in every hard mark; a limit that somebody has set for a reason is smaller.
const HARD: u64 = 1 << 63;
/// Set in every soft mark, and not in a hard one's place: a soft limit is at most the hard one.
const SOFT: u64 = 1 << 62;

/// How this server marks what it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The server's own number, of 47 bits.
    Both(u64),
    /// The server's own number, and the hard limit as it was found.
    SoftOnly(u64, u64),
}

/// Chosen once, before the server has a child.
static WAY: LazyLock<Option<Way>> = LazyLock::new(|| {
    let found = limit::of(0).ok()?;
    let number = sys::host::random_number();
    let way = match found.hard {
        UNLIMITED => Way::Both(number >> (1 + CONNECTION_BITS)),
        hard @ HARD.. => Way::SoftOnly(number >> (u64::BITS - SERVER_BITS) | 1, hard),
        _ => return None,
    };
    // Some sandboxes know the limit and let nobody set it.
    limit::set(UnusedLimit { soft: found.soft.min(found.hard - 1), hard: found.hard }).ok()?;
    limit::set(found).ok()?;
    Some(way)
});

/// Whether what this server starts can be marked.
pub(super) fn can_mark() -> bool {
    WAY.is_some()
}

/// A connection's number, used by no other connection at the same time.
#[derive(Debug)]
pub(super) struct Number(u64);

static NUMBERS: Mutex<Option<(u64, HashSet<u64>)>> = Mutex::new(None);

impl Number {
    /// A free one; `None` where all are in use.
    pub(super) fn new() -> Option<Self> {
        let mut numbers = lock(&NUMBERS);
        let (next, taken) = numbers.get_or_insert_default();
        let all = 1 << CONNECTION_BITS;
        let free =
            (0..all).map(|offset| (*next + offset) % all).find(|number| taken.insert(*number))?;
        *next = free + 1;
        Some(Self(free))
    }
}

impl Number {
    pub(super) fn get(&self) -> u64 {
        self.0
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some((_, taken)) = lock(&NUMBERS).as_mut() {
            taken.remove(&self.0);
        }
    }
}

/// What a limit must have in some of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    mask: u64,
    value: u64,
}

impl Bits {
    const ANY: Self = Self { mask: 0, value: 0 };

    /// All bits but the lowest so many.
    fn above(low: u32, value: u64) -> Self {
        let mask = u64::MAX << low;
        Self { mask, value: value & mask }
    }

    fn fit(self, number: u64) -> bool {
        number & self.mask == self.value
    }
}

/// By what those are known that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    hard: Bits,
    soft: Bits,
}

impl Pattern {
    /// Everything that this server has started.
    pub(super) fn of_server() -> Option<Self> {
        Some(match (*WAY)? {
            Way::Both(server) => Self {
                hard: Bits::above(CONNECTION_BITS, HARD | server << CONNECTION_BITS),
                soft: Bits::ANY,
            },
            Way::SoftOnly(server, hard) => Self {
                hard: Bits::above(0, hard),
                soft: Bits::above(
                    CONNECTION_BITS + PROCESS_BITS,
                    SOFT | server << (CONNECTION_BITS + PROCESS_BITS),
                ),
            },
        })
    }

    /// Everything that has come of a connection.
    pub(super) fn of_connection(number: &Number) -> Option<Self> {
        let Self { hard, soft } = Self::of_server()?;
        Some(match (*WAY)? {
            Way::Both(_) => Self { hard: Bits::above(0, hard.value | number.0), soft },
            Way::SoftOnly(..) => Self {
                hard,
                soft: Bits::above(PROCESS_BITS, soft.value | number.0 << PROCESS_BITS),
            },
        })
    }

    /// Everything that has come of one process of the connection whose pattern this is.
    pub(super) fn of_process(self, process: u64) -> Self {
        let soft = match *WAY {
            Some(Way::SoftOnly(..)) => self.soft.value | (process % (1 << PROCESS_BITS)),
            _ => SOFT | (process % SOFT),
        };
        Self { soft: Bits::above(0, soft), ..self }
    }

    /// Everything of the connection whose pattern this is, or the pattern of one of its processes.
    pub(super) fn any_process(self) -> Self {
        let soft = match *WAY {
            Some(Way::SoftOnly(..)) => Bits::above(PROCESS_BITS, self.soft.value),
            _ => Bits::ANY,
        };
        Self { soft, ..self }
    }

    /// The mark of what this is the whole pattern of.
    pub(super) fn mark(self) -> UnusedLimit {
        UnusedLimit { soft: self.soft.value, hard: self.hard.value }
    }

    /// Whether the process with this number bears such a mark.
    pub(super) fn fits(self, pid: i32) -> bool {
        let limit = match limit::of(pid) {
            // What cannot be signalled need not be known.
            Err(error)
                if sys::errno::of(&error) == sys::errno::EPERM && sys::child::may_signal(pid) =>
            {
                written_limit(pid)
            }
            limit => limit,
        };
        limit.is_ok_and(|limit| self.hard.fit(limit.hard) && self.soft.fit(limit.soft))
    }
}

/// The same from /proc, which tells everybody: asking the kernel wants more rights than sending a
/// signal does.
fn written_limit(pid: i32) -> io::Result<UnusedLimit> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    parse_limits(&limits).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse_limits(limits: &str) -> Option<UnusedLimit> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    let mut numbers = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    });
    Some(UnusedLimit { soft: numbers.next()??, hard: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_proc_is_read() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(parse_limits(&limits), Some(limit::of(0).unwrap()));
        let line =
            "Max file locks            4611686018427387905  unlimited            locks     \n";
        let expected = UnusedLimit { soft: SOFT + 1, hard: UNLIMITED };
        assert_eq!(parse_limits(line), Some(expected));
    }

    #[test]
    fn a_mark_fits_its_own_patterns_and_no_others() {
        let (one, other) = (Number::new().unwrap(), Number::new().unwrap());
        let [one, other] = [&one, &other].map(|number| Pattern::of_connection(number).unwrap());
        let fits = |pattern: Pattern, mark: UnusedLimit| {
            pattern.hard.fit(mark.hard) && pattern.soft.fit(mark.soft)
        };
        let mark = one.of_process(7).mark();
        assert!(fits(Pattern::of_server().unwrap(), mark));
        assert!(fits(one, mark) && !fits(other, mark));
        assert!(fits(one.of_process(7), mark) && !fits(one.of_process(8), mark));
        assert!(!fits(other.of_process(7), mark));
        assert!(fits(one.of_process(8).any_process(), mark));
        assert!(!fits(other.of_process(7).any_process(), mark));
        assert!(mark.soft <= mark.hard && mark.hard < UNLIMITED);
        let stranger = UnusedLimit { soft: UNLIMITED, hard: UNLIMITED };
        assert!(!fits(Pattern::of_server().unwrap(), stranger));
    }

    #[test]
    fn a_number_is_nobody_elses_while_it_is_held() {
        let held = Number::new().unwrap();
        for _ in 0..(2 << CONNECTION_BITS) {
            assert_ne!(Number::new().unwrap().0, held.0);
        }
    }
}
