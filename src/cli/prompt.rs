//! What ssh asks, put to the person at the terminal, and how far an upload is.

use std::io;
use std::sync::Mutex;

use super::progress::Progress;
use crate::ssh::{Question, QuestionKind, SshHost};
use crate::sync::lock;
use crate::sys::pty::{self, Typing};
use crate::sys::signal;

/// How far an upload is, while one is under way.
static SHOWN: Mutex<Option<Progress>> = Mutex::new(None);

/// The host, with the person at this program's terminal to answer for it. Where there is no terminal,
/// there is nobody.
pub(super) fn asking(host: SshHost) -> SshHost {
    let host = match std::fs::File::options().read(true).write(true).open("/dev/tty") {
        Ok(_) => host.asking(ask),
        Err(_) => host,
    };
    let name = host.to_string();
    host.on_upload(move |done, size| {
        let mut shown = lock(&SHOWN);
        let progress = shown.get_or_insert_with(|| {
            let mut progress = Progress::new();
            progress.start(&format!("ta to {name}"), size);
            progress
        });
        progress.reach(done);
        if done >= size {
            *shown = None;
        }
    })
}

/// Leaves the terminal to what comes next, whether or not an upload or a question has come to its end.
pub(super) fn leave_terminal() {
    pty::stop_asking();
    *lock(&SHOWN) = None;
}

fn ask(question: &Question) -> Option<String> {
    put(question).ok().flatten()
}

fn put(question: &Question) -> io::Result<Option<String>> {
    let mut typing = Typing::begin(question.kind == QuestionKind::YesOrNo)?;
    typing.show(&cleaned(&question.text))?;
    if question.kind == QuestionKind::Notice {
        typing.show("\n")?;
        return Ok(None);
    }
    let line = typing.line();
    // What was typed and not shown has not ended the line there.
    if !matches!(line, Ok(Some(_))) || question.kind != QuestionKind::YesOrNo {
        typing.show("\n")?;
    }
    drop(typing);
    let Some(line) = line? else {
        // As if it had been the terminal itself that was told to stop.
        pty::stop_asking();
        signal::to_self(signal::INT);
        return Ok(None);
    };
    Ok(String::from_utf8(line).ok())
}

/// The far side chooses some of the words: what would do something to the terminal is left out.
fn cleaned(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_question_does_nothing_to_the_terminal() {
        assert_eq!(super::cleaned("a\u{1b}[2J\r\nb: "), "a[2J\nb: ");
    }
}
