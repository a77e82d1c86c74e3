//! What has come of a copy so far.

use std::sync::Arc;

use crate::cli::arguments::say_error;
use crate::cli::end::End;
use crate::cli::files::Temporaries;
use crate::cli::progress::Progress;

/// The exit code, and what is said on the way to it.
pub(super) struct Tally {
    pub(super) progress: Progress,
    pub(super) temporaries: Arc<Temporaries>,
    code: u8,
}

impl Tally {
    pub(super) fn new(temporaries: &Arc<Temporaries>) -> Self {
        let (progress, temporaries) = (Progress::new(), Arc::clone(temporaries));
        Self { progress, temporaries, code: 0 }
    }

    /// The exit code, if nothing else happens.
    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// Says what is no failure.
    pub(super) fn note(&mut self, what: &str) {
        self.progress.clear();
        say_error(&format!("note: {what}"));
    }

    /// Says what has failed, and goes on unless there is no use in that.
    pub(super) fn settle(&mut self, outcome: Result<(), End>) -> Result<(), End> {
        let Err(failure) = outcome else { return Ok(()) };
        self.progress.clear();
        if failure.is_final() || !self.temporaries.is_open() {
            return Err(failure);
        }
        self.code = failure.say();
        Ok(())
    }
}
