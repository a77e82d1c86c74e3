//! Commands through the library's client, each checked to have run.

use std::time::{Duration, Instant};

use ta_exec::client::{ExecClient, Process, ProcessEvent};
use ta_exec::protocol::{ExecParams, SpawnParams};

use crate::Outcome;

/// A command that takes longer has hung.
const DEADLINE: Duration = Duration::from_secs(60);

/// A program, with the window that a host gives unless it says otherwise.
pub(crate) fn program(command: &str, arguments: &[&str]) -> SpawnParams {
    arguments.iter().fold(SpawnParams::new(command), |params, argument| params.arg(*argument))
}

/// Spawns /bin/true and waits for its exit.
pub(crate) fn spawn_true(client: &ExecClient) -> Outcome<()> {
    finish(client.spawn(&program("/bin/true", &[]))?, |_| {}).map(drop)
}

/// Runs `true` in the shell.
pub(crate) fn exec_true(client: &ExecClient) -> Outcome<()> {
    finish(client.exec(&ExecParams::new("true"))?, |_| {}).map(drop)
}

/// Waits for a process's exit, which must be a success, and answers how many bytes came: as
/// many as the server says that it sent.
pub(crate) fn finish(mut process: Process, mut on_output: impl FnMut(&[u8])) -> Outcome<u64> {
    let deadline = Instant::now() + DEADLINE;
    let mut count = 0;
    loop {
        match process.next(Some(deadline))? {
            Some(ProcessEvent::Output(_, bytes)) => {
                count += bytes.len() as u64;
                on_output(bytes);
            }
            Some(ProcessEvent::Exit(exit)) => {
                let sent = exit.stdout_bytes + exit.stderr_bytes;
                let fine = exit.exit_code == Some(0) && !exit.output_held && sent == count;
                let wrong = || format!("{count} bytes came, and then {exit:?}").into();
                return fine.then_some(count).ok_or_else(wrong);
            }
            None => return Err("a command did not end in time".into()),
        }
    }
}
