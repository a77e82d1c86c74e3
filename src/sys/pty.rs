//! Terminals: a new one for a child, and the user's own.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use super::{check, fd};
use crate::sync::lock;

/// A window's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// A new terminal of that size: (the master, ours; the terminal, the child's).
///
/// # Errors
/// `ENOENT` where there is no /dev/ptmx, `ENOSPC` where there are no more terminals.
pub(crate) fn open(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    // SAFETY: takes flags only.
    let master = check(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) })?;
    // SAFETY: the call made this descriptor and nobody else knows it.
    let master = unsafe { OwnedFd::from_raw_fd(master) };
    // SAFETY: sets a flag on an open descriptor.
    check(unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: an open master.
    check(unsafe { libc::grantpt(master.as_raw_fd()) })?;
    // SAFETY: an open master.
    check(unsafe { libc::unlockpt(master.as_raw_fd()) })?;
    let terminal = open_terminal(master.as_fd())?;
    resize(master.as_fd(), size)?;
    Ok((master, terminal))
}

fn open_terminal(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        // Finds the terminal whatever is mounted at /dev/pts. Since Linux 4.13.
        // SAFETY: the ioctl takes open flags and answers a new descriptor.
        let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) };
        if result >= 0 {
            // SAFETY: the call made this descriptor and nobody else knows it.
            return Ok(unsafe { OwnedFd::from_raw_fd(result) });
        }
    }
    // SAFETY: answers a pointer to a static buffer, or NULL. Only the fallback uses it, and
    // the name is used before any other call could change it.
    let name = unsafe { libc::ptsname(master.as_raw_fd()) };
    if name.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: ptsname answered a NUL-terminated string.
    let terminal = check(unsafe { libc::open(name, flags) })?;
    // SAFETY: the call made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(terminal) })
}

/// Gives the terminal another size; its foreground processes get SIGWINCH.
pub(crate) fn resize(master: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    Ok(())
}

/// The size of the terminal behind a descriptor, if it is one and knows.
pub(crate) fn size(terminal: BorrowedFd<'_>) -> Option<Size> {
    // SAFETY: winsize is plain integers.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ stores one winsize.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { cols: size.ws_col, rows: size.ws_row })
}

/// The character that ends input (VEOF), usually ^D; `None` where it has been switched off.
pub(crate) fn end_of_file(master: BorrowedFd<'_>) -> io::Result<Option<u8>> {
    let character = attributes(master)?.c_cc[libc::VEOF];
    Ok((character != libc::_POSIX_VDISABLE).then_some(character))
}

fn attributes(terminal: BorrowedFd<'_>) -> io::Result<libc::termios> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: tcgetattr stores one termios where it succeeds.
    check(unsafe { libc::tcgetattr(terminal.as_raw_fd(), attributes.as_mut_ptr()) })?;
    // SAFETY: it succeeded.
    Ok(unsafe { attributes.assume_init() })
}

/// The user's terminal in raw mode: every key is passed on as it is. Dropping it puts the
/// terminal back.
pub(crate) struct RawMode {
    terminal: OwnedFd,
    before: libc::termios,
}

impl RawMode {
    /// Puts the terminal on stdin into raw mode.
    ///
    /// # Errors
    /// `ENOTTY` where stdin is none.
    pub(crate) fn enter() -> io::Result<Self> {
        let terminal = fd::duplicate_standard(0)?;
        let before = attributes(terminal.as_fd())?;
        let mode = Self { terminal, before };
        mode.again()?;
        Ok(mode)
    }

    /// Puts it into raw mode again, after [`RawMode::leave`] or because somebody else has had it.
    pub(crate) fn again(&self) -> io::Result<()> {
        let mut raw = self.before;
        // SAFETY: changes an initialised termios.
        unsafe { libc::cfmakeraw(&raw mut raw) };
        // What was written before is shown in the mode that it was written for.
        set_attributes(self.terminal.as_fd(), &raw, libc::TCSADRAIN)
    }

    /// Puts it back for as long as this program does not use it. At once: a terminal that takes
    /// no output any more must not keep the program that has used it.
    pub(crate) fn leave(&self) {
        let _ = set_attributes(self.terminal.as_fd(), &self.before, libc::TCSANOW);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A terminal where a line is typed that is not shown, or is; Ctrl-C and Ctrl-\\ end the line in place
/// of signalling, so that whoever asks can put the terminal back first.
pub(crate) struct Typing {
    terminal: std::fs::File,
}

/// What the terminal was before somebody was asked, for whoever ends the program meanwhile.
static ASKED: Mutex<Option<(OwnedFd, libc::termios)>> = Mutex::new(None);

impl Typing {
    /// Takes this program's own terminal.
    ///
    /// # Errors
    /// `ENXIO` where there is none.
    pub(crate) fn begin(shown: bool) -> io::Result<Self> {
        let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty")?;
        let before = attributes(terminal.as_fd())?;
        let mut typing = before;
        typing.c_lflag |= libc::ICANON;
        typing.c_lflag &= !libc::ISIG;
        typing.c_iflag |= libc::ICRNL;
        if !shown {
            typing.c_lflag &= !(libc::ECHO | libc::ECHONL);
        }
        typing.c_cc[libc::VEOL] = before.c_cc[libc::VINTR];
        typing.c_cc[libc::VEOL2] = before.c_cc[libc::VQUIT];
        *lock(&ASKED) = Some((terminal.as_fd().try_clone_to_owned()?, before));
        set_attributes(terminal.as_fd(), &typing, libc::TCSAFLUSH)?;
        Ok(Self { terminal })
    }

    /// Shows what is asked.
    pub(crate) fn show(&mut self, text: &str) -> io::Result<()> {
        self.terminal.write_all(text.as_bytes())
    }

    /// The line that is typed; `None` where it was ended by Ctrl-C or Ctrl-\.
    ///
    /// # Errors
    /// `UnexpectedEof` where there is no line (Ctrl-D).
    pub(crate) fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let special = attributes(self.terminal.as_fd())?.c_cc;
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            if self.terminal.read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match byte[0] {
                b'\n' | b'\r' => return Ok(Some(line)),
                end if [libc::VEOL, libc::VEOL2].iter().any(|place| special[*place] == end) => {
                    return Ok(None);
                }
                other => line.push(other),
            }
        }
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        stop_asking();
    }
}

/// Puts back a terminal on which somebody is being asked, if there is one.
pub(crate) fn stop_asking() {
    let asked = lock(&ASKED).take();
    if let Some((terminal, before)) = asked {
        let _ = set_attributes(terminal.as_fd(), &before, libc::TCSANOW);
    }
}

fn set_attributes(
    terminal: BorrowedFd<'_>,
    attributes: &libc::termios,
    when: libc::c_int,
) -> io::Result<()> {
    super::retry(|| {
        // SAFETY: reads one initialised termios.
        check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), when, &raw const *attributes) })
    })?;
    Ok(())
}
