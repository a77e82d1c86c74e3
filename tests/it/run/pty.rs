//! A terminal of the test's own, with the test where the person sits.
#![expect(unsafe_code, reason = "std has no terminals")]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use super::{Followed, Running};
use crate::support::{DEADLINE, eventually};

pub(crate) struct Pty {
    master: File,
    /// Kept open, so that its mode can be looked at before and after.
    terminal: File,
    /// What is shown on it.
    pub(crate) screen: Followed,
}

/// A terminal's mode, comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    flags: [libc::tcflag_t; 4],
    characters: Vec<libc::cc_t>,
}

impl Mode {
    pub(crate) fn is_raw(&self) -> bool {
        let [input, output, _, local] = self.flags;
        input & (libc::ICRNL | libc::IXON) == 0
            && output & libc::OPOST == 0
            && local & (libc::ICANON | libc::ECHO | libc::ISIG) == 0
    }
}

impl Pty {
    pub(crate) fn new(cols: u16, rows: u16) -> Self {
        // SAFETY: takes flags only.
        let master = checked(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) }).unwrap();
        // SAFETY: the call made this descriptor and nobody else knows it.
        let master = File::from(unsafe { OwnedFd::from_raw_fd(master) });
        // SAFETY: sets a flag on an open descriptor.
        checked(unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })
            .unwrap();
        // SAFETY: an open master.
        checked(unsafe { libc::unlockpt(master.as_raw_fd()) }).unwrap();
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: the ioctl takes open flags and answers a new descriptor.
        let terminal =
            checked(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) }).unwrap();
        // SAFETY: the call made this descriptor and nobody else knows it.
        let terminal = File::from(unsafe { OwnedFd::from_raw_fd(terminal) });
        let screen = Followed::new(master.try_clone().unwrap());
        let pty = Self { master, terminal, screen };
        pty.resize(cols, rows);
        pty
    }

    /// Starts a program that has this terminal as its own and as stdin, stdout and stderr.
    pub(crate) fn start(&self, mut command: Command) -> Running {
        let stdio = || Stdio::from(self.terminal.try_clone().unwrap());
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        self.spawn(command, &self.screen)
    }

    /// The same with its stdout on a pipe.
    pub(crate) fn start_piped(&self, mut command: Command) -> Running {
        let stdio = || Stdio::from(self.terminal.try_clone().unwrap());
        command.stdin(stdio()).stdout(Stdio::piped()).stderr(stdio());
        self.spawn(command, &Followed::default())
    }

    fn spawn(&self, mut command: Command, screen: &Followed) -> Running {
        let own_terminal = || {
            // SAFETY: async-signal-safe calls on integers.
            checked(unsafe { libc::setsid() })?;
            // SAFETY: as above; descriptor 0 is the terminal by now.
            checked(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }).map(drop)
        };
        // SAFETY: the closure makes two system calls and touches no memory.
        unsafe { command.pre_exec(own_terminal) };
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map_or_else(|| screen.clone(), Followed::new);
        Running { child, stdin: None, stdout, stderr: self.screen.clone() }
    }

    /// Types.
    pub(crate) fn write(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCSWINSZ reads one winsize.
        checked(unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })
            .unwrap();
    }

    pub(crate) fn mode(&self) -> Mode {
        // SAFETY: termios is plain integers.
        let mut found: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: tcgetattr stores one termios.
        checked(unsafe { libc::tcgetattr(self.terminal.as_raw_fd(), &raw mut found) }).unwrap();
        let flags = [found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag];
        Mode { flags, characters: found.c_cc.to_vec() }
    }

    #[track_caller]
    pub(crate) fn await_raw(&self) {
        eventually(DEADLINE, "the terminal is in raw mode", || self.mode().is_raw());
    }
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
