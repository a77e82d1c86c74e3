//! How far a copy is, on one line of the terminal.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::sys::pty;

/// It is drawn anew no more often than that.
const PAUSE: Duration = Duration::from_millis(100);
/// The width of a terminal that does not tell its own.
const COLUMNS: u16 = 80;

/// A line on stderr where that is a terminal; nothing otherwise.
pub(super) struct Progress {
    is_shown: bool,
    name: String,
    size: u64,
    done: u64,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let mut progress = Self::silent();
        progress.is_shown = std::io::stderr().is_terminal();
        progress
    }

    /// One that nobody sees.
    pub(super) fn silent() -> Self {
        Self {
            is_shown: false,
            name: String::new(),
            size: 0,
            done: 0,
            started: Instant::now(),
            drawn: None,
        }
    }

    /// Another file begins.
    pub(super) fn start(&mut self, name: &str, size: u64) {
        if self.is_shown {
            name.clone_into(&mut self.name);
            (self.size, self.done, self.started) = (size, 0, Instant::now());
        }
    }

    /// So many more bytes of it are on their way.
    pub(super) fn add(&mut self, bytes: usize) {
        let now = Instant::now();
        self.done += bytes as u64;
        if self.is_shown && self.drawn.is_none_or(|drawn| now - drawn >= PAUSE) {
            self.drawn = Some(now);
            let size = pty::size(std::io::stderr().as_fd());
            let columns = size.map_or(COLUMNS, |size| size.cols).into();
            let line = line(&self.name, (self.done, self.size), now - self.started, columns);
            let _ = std::io::stderr().write_all(format!("\r\x1b[K{line}").as_bytes());
        }
    }

    /// So many bytes of it are on their way by now.
    pub(super) fn reach(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.done);
        self.add(usize::try_from(more).unwrap_or(usize::MAX));
    }

    /// Makes room for a message, or for what comes after `ta`.
    pub(super) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(name: &str, (done, size): (u64, u64), took: Duration, columns: usize) -> String {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = amount(done.saturating_mul(1000) / ms);
    // A file that grows is more than all of it.
    let percent = done.saturating_mul(100).checked_div(size).unwrap_or(100).min(100);
    let figures = format!("{percent:>3}%  {} of {}  {rate}/s", amount(done), amount(size));
    let room = columns.saturating_sub(figures.chars().count() + 3);
    let count = name.chars().count();
    let name: String = match count > room {
        true => std::iter::once('…').chain(name.chars().skip(count - room.max(1) + 1)).collect(),
        false => name.to_owned(),
    };
    format!("{name}  {figures}")
}

/// Bytes in three digits or so.
fn amount(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_the_terminal() {
        let second = Duration::from_secs(1);
        let shown = line("a.txt", (512 * 1024, 1024 * 1024), second, 80);
        assert_eq!(shown, "a.txt   50%  512.0 KiB of 1.0 MiB  512.0 KiB/s");
        for columns in 50..80 {
            let shown = line(&"ä".repeat(100), (5, 5), second, columns);
            assert!(shown.chars().count() < columns, "{columns}: {shown}");
        }
        assert_eq!(amount(1023), "1023 B");
        assert_eq!(amount(1 << 40), "1.0 TiB");
    }
}
