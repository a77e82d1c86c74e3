//! `ta run` as a person has it: a program that starts, reaches a server, runs something, and ends.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::Unit;
use crate::peers::openssh::{Ssh, checked};
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 5;
const TURN: usize = 40;
/// How much longer than ssh's client over a login that stands.
const MOST_MORE: f64 = 5e-3;

/// `true` by `ta run`, beside ssh with a warm ControlMaster and beside no way at all.
pub(super) fn command(arena: &Arena) -> Outcome<Vec<Row>> {
    let title = "`true`, as a command of its own against a server that runs";
    let Some(ssh) = Ssh::start()? else {
        return Ok(vec![Row::left_out(title, "OpenSSH's client or server is not installed")]);
    };
    let server = Server::start(&arena.binary)?;
    let turn = arena.scaled(TURN);
    let repeat = |make: &dyn Fn() -> Command| -> Outcome<Vec<f64>> {
        let time = |_| {
            let start = Instant::now();
            checked(make().stdout(Stdio::null()))?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..turn).map(time).collect()
    };
    let ta = |via: &[&str]| {
        let mut command = Command::new(&arena.binary);
        command.arg("run").args(via).args(["--", "true"]);
        command.env_remove("TA_EXEC_URL").env("TA_EXEC_TOKEN", server.token());
        command
    };
    let url = server.url();
    let all = take_turns(
        vec![
            Contender::new("ssh, warm ControlMaster", || repeat(&|| ssh.run("true"))),
            Contender::new("ta run --exec", || repeat(&|| ta(&["--exec", &url]))),
            Contender::new("ta run, this machine", || repeat(&|| ta(&[]))),
            Contender::new("true, by itself", || repeat(&|| Command::new("true"))),
        ],
        ROUNDS,
    )?;
    let row = Row::beside_floor(title, Unit::Time, all);
    Ok(vec![row.bound(1, Bound::AboveFloor(MOST_MORE))])
}
