//! `ta connect`: the protocol on stdin and stdout, to whatever environment.

mod bridge;
mod room;

use std::process::ExitCode;

use crossbeam_channel::bounded;

use super::end::End;
use super::lost_thread;
use super::place::{self, Place, Variables};
use super::thread::{spawn, watch};
use crate::sys::signal::{self, Signals};
use bridge::{NEWS, News};

place::command! {
    /// Speak ExecRpc on stdin and stdout, for programs in any language.
    #[argh(
        name = "connect",
        example = "{command_name} --exec ws://box:4200/exec",
        example = "{command_name} --via 'docker exec -i NAME /ta exec-server --stdio'",
        example = "echo '{{\"id\":1,\"method\":\"ping\"}}' | {command_name}",
        note = "A program starts this as its child and writes one JSON message a line;
answers and notifications come back in the same way (docs/protocol.md).
Messages pass unchanged, ids and all. The pings that keep a connection alive are
seen to here.

At the end of stdin the answers that are due are waited for; then all that was
started ends, and this exits with 0. SIGINT and SIGTERM end it at once.",
        error_code(1, "the connection was lost, or a newer host has taken over"),
        error_code(2, "an option is not as it must be"),
        error_code(125, "the environment cannot be reached")
    )]
    struct Connect {}
}

impl Connect {
    /// Passes messages on to the end of either side.
    pub(super) fn run(mut self) -> ExitCode {
        // Before any thread is there: both are the whole process's.
        let variables = Variables::take();
        let signals = Signals::block(&[signal::INT, signal::QUIT, signal::TERM, signal::HUP]);
        let place = self.place_options().place(variables).map_err(End::Usage);
        let end = place.and_then(|place| end(place, signals));
        end.unwrap_or_else(|end| end).exit()
    }
}

fn end(place: Place, signals: Signals) -> Result<End, End> {
    let epoch = place.epoch();
    let (sender, news) = bounded(NEWS);
    let told = sender.clone();
    let tell = move |signal| drop(told.send(News::Signal(signal)));
    watch(signals, tell).map_err(End::Failed)?;
    let (opening, opened) = bounded(1);
    spawn("connect", move || drop(opening.send(place.open()))).map_err(End::Failed)?;
    let opened = crossbeam_channel::select! {
        recv(opened) -> opened => opened,
        recv(news) -> told => return Err(match told {
            Ok(News::Signal(signal)) => End::Signal(signal),
            _ => End::Failed(lost_thread()),
        }),
    };
    let opened = opened.map_err(|_| End::Failed(lost_thread()))?.map_err(End::Failed)?;
    bridge::run((opened, epoch), &sender, &news)
}
