//! A host that is reached by ssh, beside ssh itself: the first use, later ones, and a lot of output.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, per_second};
use crate::peers::openssh::{Ssh, checked};
use crate::report::{Bound, Row};

const ROUNDS: usize = 5;
const TURN: usize = 40;
const FIRST_TURN: usize = 3;
/// How much longer the first use may take than a login: a server is placed there meanwhile.
const MOST_MORE: f64 = 1.0;
/// How much longer a later command may take than ssh over a login that stands.
const MOST_TIMES: f64 = 1.2;
/// How much of ssh's rate output has at the least.
const LEAST_PART: f64 = 0.8;
const MIB: u64 = 1 << 20;

pub(super) fn ssh(arena: &Arena) -> Outcome<Vec<Row>> {
    let title = "over ssh";
    let Some(ssh) = Ssh::start()? else {
        return Ok(vec![Row::left_out(title, "OpenSSH's client or server is not installed")]);
    };
    let ta = |words: &[&str]| ssh.ta(&arena.binary, words);
    let plain = |line: &str| ssh.log_in_and_run(line);
    let first = take_turns(
        vec![
            Contender::new("ssh host true, a new login", || {
                repeat(arena.scaled(FIRST_TURN), || timed(&mut plain("true")))
            }),
            Contender::new("ta run --ssh host true, nothing there yet", || {
                repeat(arena.scaled(FIRST_TURN), || {
                    // (It says that there is nothing, the first time.)
                    checked(ssh.clean(&arena.binary).stdout(Stdio::null()))?;
                    timed(&mut ta(&["--", "true"]))
                })
            }),
        ],
        ROUNDS,
    )?;
    let turn = arena.scaled(TURN);
    let later = take_turns(
        vec![
            Contender::new("ssh, warm ControlMaster", || {
                repeat(turn, || timed(&mut ssh.run("true")))
            }),
            Contender::new("ta run --ssh, later", || {
                repeat(turn, || timed(&mut ta(&["--", "true"])))
            }),
        ],
        ROUNDS,
    )?;
    let size = if arena.quick { 64 * MIB } else { 1024 * MIB };
    let line = format!("head -c {size} /dev/zero");
    let rate = |mut command: Command| -> Outcome<Vec<f64>> {
        let seconds = timed(&mut command)?;
        Ok(vec![per_second(size, std::time::Duration::from_secs_f64(seconds))])
    };
    let output = take_turns(
        vec![
            Contender::new("ssh host, a login of its own", || rate(plain(&line))),
            Contender::new("ta run --ssh host -c", || rate(ta(&["-c", &line]))),
        ],
        if arena.quick { 2 } else { ROUNDS },
    )?;
    let first = Row::beside_floor("the first `true` over ssh", Unit::Time, first);
    let later = Row::beside_floor("a later `true` over ssh", Unit::Time, later);
    let output = Row::beside_floor("output over ssh", Unit::Rate, output);
    Ok(vec![
        first.bound(1, Bound::AboveFloor(MOST_MORE)),
        later.bound(1, Bound::TimesFloor(MOST_TIMES)),
        output.bound(1, Bound::PartOfFloor(LEAST_PART)),
    ])
}

fn repeat(times: usize, mut run: impl FnMut() -> Outcome<f64>) -> Outcome<Vec<f64>> {
    (0..times).map(|_| run()).collect()
}

fn timed(command: &mut Command) -> Outcome<f64> {
    let start = Instant::now();
    checked(command.stdout(Stdio::null()))?;
    Ok(start.elapsed().as_secs_f64())
}
