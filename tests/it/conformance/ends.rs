//! The end of an environment.

use std::time::Instant;

use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{await_output, over_all_places};
use crate::support::{DEADLINE, Victim};

/// What has left its group, its session and its parents goes with the environment, whoever still holds
/// the process; and he is told.
#[test]
fn all_that_came_of_it_ends_with_the_environment() {
    over_all_places(|place| {
        let victim = Victim::new();
        let environment = place.environment();
        let escape = format!("setsid setsid {} & echo up; sleep 60", victim.command());
        let mut exec = environment.exec(&ExecParams::new(escape.as_str())).unwrap();
        await_output(&mut exec, "up");
        let mut spawn =
            environment.spawn(&SpawnParams::new("sleep").arg(victim.argument())).unwrap();
        victim.await_count(2);
        let control = spawn.control();
        place.environment = None;
        victim.await_gone();
        let deadline = Some(Instant::now() + DEADLINE);
        let told = [exec.next(deadline).unwrap_err(), spawn.next(deadline).unwrap_err()];
        let late =
            [control.write(b"x", true).unwrap_err(), control.kill("TERM", None).unwrap_err()];
        let all = told.into_iter().chain(late);
        all.map(|error| (error.kind().clone(), error.message().to_owned())).collect::<Vec<_>>()
    });
}

#[test]
fn an_environment_that_is_dropped_with_nothing_in_it_is_gone_at_once() {
    over_all_places(|place| {
        let start = Instant::now();
        place.environment = None;
        assert!(start.elapsed() < DEADLINE / 4, "{:?}", start.elapsed());
    });
}
