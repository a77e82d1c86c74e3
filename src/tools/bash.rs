//! `bash`: a command line, its output as it comes, its end.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::spill::Spill;
use super::text::Decoder;
use super::truncate::{self, MAX_BYTES, MAX_LINES};
use super::{Call, Content, Failure, Outcome, Progress, Tools, arguments, path};
use crate::environment::{Process, ProcessEvent, ProcessExit};
use crate::error::{Error, ErrorKind};
use crate::protocol::{ExecParams, WirePath};
use crate::sys::signal;

/// How often progress is told.
const TELLING: Duration = Duration::from_millis(100);
/// How often it is looked whether the call has been cancelled for too long.
const GLANCE: Duration = Duration::from_secs(1);
/// How long a command that was aborted may take to be over; it is answered without it then.
const ABORTING: Duration = Duration::from_secs(3);
/// The longest timeout, in seconds: the largest number of milliseconds that a timer of 31 bits has.
const LONGEST: f64 = 2_147_483.647;
/// The most text of one progress.
const MOST_TOLD: usize = 8 * 1024;

#[derive(Deserialize)]
struct Args {
    command: String,
    timeout: Option<f64>,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>, call: &Call) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let timeout = args.timeout.map(milliseconds).transpose()?;
    let environment = &**tools.environment();
    let process = environment.exec(&ExecParams {
        merge_stderr: Some(true),
        timeout_ms: timeout,
        ..ExecParams::new(args.command)
    })?;
    let control = process.control();
    let abort = call.cancel.on_cancel(move || control.abort());
    let mut output = Output::new(Spill::new(environment));
    let end = follow(process, &mut output, call);
    drop(abort);
    // It could not be started.
    if let End::Failed(error) = &end
        && output.total == 0
        && !is_loss(error)
    {
        return Err(error.clone().into());
    }
    Ok(output.outcome(&end, args.timeout))
}

fn milliseconds(seconds: f64) -> Result<NonZeroU64, Failure> {
    if !(seconds.is_finite() && seconds > 0.0) {
        return Err(Failure(format!("a timeout is a number of seconds above 0, not {seconds}")));
    }
    if seconds > LONGEST {
        return Err(Failure(format!("a timeout has at most {LONGEST} seconds")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let whole = (seconds * 1000.0).ceil() as u64;
    Ok(NonZeroU64::new(whole).unwrap_or(NonZeroU64::MIN))
}

/// How a command has come to its end.
enum End {
    Exit(ProcessExit),
    Failed(Error),
    /// It was aborted, and whoever was to say that it is over has not.
    Abandoned,
}

fn is_loss(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::StaleEpoch | ErrorKind::Internal)
}

/// Takes the command's output until it is over.
fn follow(mut process: Process, output: &mut Output<'_>, call: &Call) -> End {
    let mut aborted_at = None;
    loop {
        let now = Instant::now();
        if call.cancel.is_cancelled() && now - *aborted_at.get_or_insert(now) > ABORTING {
            return End::Abandoned;
        }
        let due = if output.has_news() { output.told + TELLING } else { now + GLANCE };
        match process.next(Some(due)) {
            Ok(Some(ProcessEvent::Output(_, bytes))) => output.take(bytes, call.progress.is_some()),
            Ok(Some(ProcessEvent::Exit(exit))) => return End::Exit(exit),
            Ok(None) => {}
            Err(error) => return End::Failed(error),
        }
        if let Some(progress) = &call.progress {
            output.tell(progress);
        }
    }
}

/// What a command has written so far: the end of it here, all of it in a file if it is long.
struct Output<'a> {
    /// The last bytes.
    tail: Vec<u8>,
    total: u64,
    line_feeds: u64,
    spill: Spill<'a>,
    decoder: Decoder,
    /// Text that has not been told yet.
    news: String,
    told: Instant,
}

impl<'a> Output<'a> {
    /// Bytes that are kept at least: more than is shown, so that a line that is not whole is not.
    const KEPT: usize = 2 * MAX_BYTES;

    fn new(spill: Spill<'a>) -> Self {
        Self {
            tail: Vec::new(),
            total: 0,
            line_feeds: 0,
            spill,
            decoder: Decoder::default(),
            news: String::new(),
            told: Instant::now(),
        }
    }

    fn take(&mut self, bytes: &[u8], tells: bool) {
        self.total += bytes.len() as u64;
        self.line_feeds += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * Self::KEPT {
            self.tail.drain(..self.tail.len() - Self::KEPT);
        }
        let is_long = self.total > MAX_BYTES as u64 || self.lines() > MAX_LINES as u64;
        self.spill.push(bytes, is_long);
        if tells {
            self.decoder.push(bytes, &mut self.news);
            if self.news.len() > MOST_TOLD {
                let start = truncate::ceil(&self.news, self.news.len() - MOST_TOLD);
                self.news.drain(..start);
            }
        }
    }

    fn lines(&self) -> u64 {
        let is_open = self.tail.last().is_some_and(|byte| *byte != b'\n');
        self.line_feeds + u64::from(is_open)
    }

    fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    fn tell(&mut self, progress: &dyn Fn(Progress<'_>)) {
        if self.has_news() && self.told.elapsed() >= TELLING {
            progress(Progress { bytes: self.total, text: &self.news });
            self.news.clear();
            self.told = Instant::now();
        }
    }

    fn outcome(self, end: &End, timeout: Option<f64>) -> Outcome {
        let (total, lines) = (self.total, self.lines());
        let all = String::from_utf8_lossy(&self.tail);
        let part = truncate::tail(&all);
        let is_cut = part.text.len() < all.len() || self.tail.len() as u64 != total;
        let mut notes = Vec::new();
        let mut file = None;
        if is_cut {
            let kept = self.spill.finish();
            let shown = if part.is_of_a_line {
                format!("the end of line {lines} of {lines}")
            } else {
                format!("lines {}-{lines} of {lines}", lines - part.lines as u64 + 1)
            };
            let whole = truncate::size(total);
            notes.push(match &kept {
                Ok(file) => {
                    format!("[{shown} are shown; all {whole} are in {}]", path::shown(file))
                }
                Err(why) => format!("[{shown} are shown; {whole} could not be kept: {why}]"),
            });
            file = kept.ok();
        }
        let (is_error, note) = ending(end, timeout);
        notes.extend(note);
        let mut text = part.text.to_owned();
        if text.is_empty() {
            text.push_str("(no output)");
        }
        for note in notes {
            let bare = text.trim_end_matches('\n').len();
            text.truncate(bare);
            text.push_str("\n\n");
            text.push_str(&note);
        }
        Outcome {
            content: vec![Content::Text(text)],
            details: Some(details(end, file.as_ref())),
            is_error,
        }
    }
}

/// Whether it has failed, and what is said of its end.
fn ending(end: &End, timeout: Option<f64>) -> (bool, Option<String>) {
    let exit = match end {
        End::Exit(exit) => exit,
        End::Failed(error) => {
            let text = format!(
                "The environment was lost while the command ran. Its output may lack its end, and it \
                 has ended: {error}"
            );
            return (true, Some(text));
        }
        End::Abandoned => return (true, Some("Command aborted".to_owned())),
    };
    let text = match (exit.exit_code, exit.signal.as_deref()) {
        _ if exit.timed_out => {
            format!("Command timed out after {} seconds", timeout.unwrap_or_default())
        }
        _ if exit.killed => "Command aborted".to_owned(),
        (Some(0), _) => return (false, None),
        (Some(code), _) => format!("Command exited with code {code}"),
        (None, Some(name)) => match code_of(name) {
            Some(code) => format!("Command exited with code {code} ({name})"),
            None => format!("Command was ended by {name}"),
        },
        (None, None) => "Command ended, and how is not known".to_owned(),
    };
    (true, Some(text))
}

/// As a shell has it.
fn code_of(signal: &str) -> Option<i32> {
    signal::by_name(signal).map(|number| 128 + number)
}

fn details(end: &End, file: Option<&WirePath>) -> serde_json::Value {
    let exit = match end {
        End::Exit(exit) => Some(exit),
        _ => None,
    };
    let code = exit.and_then(|exit| exit.exit_code.or_else(|| code_of(exit.signal.as_deref()?)));
    json!({
        "exitCode": code,
        "signal": exit.and_then(|exit| exit.signal.as_deref()),
        "timedOut": exit.is_some_and(|exit| exit.timed_out),
        "aborted": exit.is_none_or(|exit| exit.killed),
        "fullOutputPath": file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_positive_number_of_seconds_in_whole_milliseconds() {
        assert_eq!(milliseconds(0.0001).unwrap().get(), 1);
        assert_eq!(milliseconds(1.5).unwrap().get(), 1500);
        assert_eq!(milliseconds(LONGEST).unwrap().get(), 2_147_483_647);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, LONGEST + 1.0] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_signal_is_128_more() {
        assert_eq!(code_of("SIGKILL"), Some(137));
        assert_eq!(code_of("SIGSEGV"), Some(139));
        assert_eq!(code_of("SIGNONE"), None);
    }
}
