//! The user's own terminal, while a command on another one has it.

use std::io::{self, IsTerminal};
use std::num::NonZeroU16;
use std::os::fd::AsFd;

use crate::client::ProcessControl;
use crate::error::{Error, Result};
use crate::protocol::PtySize;
use crate::sys::pty::{self, RawMode};
use crate::sys::signal::{self, Signals};

/// What a terminal has that does not tell its size.
const COLS: NonZeroU16 = NonZeroU16::new(80).unwrap();
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();

/// The size for the command's terminal.
///
/// # Errors
/// stdin is no terminal. (docker and kubectl refuse `-it` then, and ssh takes two -t to insist:
/// who asks for a terminal in a script mostly did not mean to.)
pub(super) fn window_to_use() -> Result<PtySize> {
    if io::stdin().is_terminal() {
        return Ok(window());
    }
    Err(Error::params("--tty needs a terminal on stdin, and stdin is none: leave --tty out"))
}

/// The size of the window that shows the output, else of the one that has the keyboard.
fn window() -> PtySize {
    let size = pty::size(io::stdout().as_fd()).or_else(|| pty::size(io::stdin().as_fd()));
    let (cols, rows) = size.map_or((0, 0), |size| (size.cols, size.rows));
    let or = |number, default| NonZeroU16::new(number).unwrap_or(default);
    PtySize { cols: or(cols, COLS), rows: or(rows, ROWS) }
}

/// The terminal in raw mode. Dropping it puts the terminal back.
pub(super) struct Terminal(RawMode);

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// It has gone.
    pub(super) fn take_over() -> Result<Self> {
        let raw = RawMode::enter();
        raw.map(Self).map_err(|error| Error::io(&error, "cannot use the terminal on stdin"))
    }

    /// Stops this program, as somebody else has asked by signal: the user's own Ctrl-Z goes to
    /// the command.
    pub(super) fn suspend(&self) {
        self.0.leave();
        signal::to_self(signal::STOP);
    }

    /// This program goes on. The shell that had the terminal meanwhile has set its own mode, and
    /// the window may have another size.
    pub(super) fn resume(&self) {
        let _ = self.0.again();
        signal::to_self(signal::WINCH);
    }
}

/// Follows the window's size, of which the command knows `last`. Resizes that come while one is
/// on its way are one more.
pub(super) fn follow_window(changes: &Signals, control: &ProcessControl, mut last: PtySize) {
    loop {
        // Before the first wait too: it may have changed since the command was started.
        let size = window();
        if size != last {
            // A command that is over needs no other size.
            let _ = control.resize(size);
            last = size;
        }
        if changes.wait().is_err() {
            return;
        }
    }
}
