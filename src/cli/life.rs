//! What the server's own life hangs on: signals, and its guardian.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::fs;
use crate::guardian::{Acts, Guardian, Meaning, News};
use crate::log;
use crate::server::wait_for_none;
use crate::sys::signal::{self, Signals};

/// How long the processes may take to be gone after a second signal, where no guardian ends them.
const HURRIED: Duration = Duration::from_secs(3);

/// How long removing files that are half written may take then.
const ABANDON_AT_ONCE: Duration = Duration::from_millis(300);

/// What the server's own life hangs on.
pub(super) struct Life {
    pub(super) signals: Signals,
    pub(super) guardian: Arc<Guardian>,
}

impl Life {
    /// Calls `stop` when somebody wants the server to stop, or its guardian has died. At a second
    /// time it ends at once; without a guardian only when nothing is left that must not outlive
    /// it. At a third not even that is waited for.
    pub(super) fn on_signal(self, stop: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let wait = move || self.wait(stop);
        thread::Builder::new().name("signals".to_owned()).stack_size(64 * 1024).spawn(wait)?;
        Ok(())
    }

    fn wait(self, stop: impl FnOnce()) {
        let mut acts = Acts::default();
        let mut stop = Some(stop);
        let (mut alone, mut hurried) = (0, false);
        while let Ok(arrival) = self.signals.next() {
            let name = signal::name(arrival.signal);
            let (times, why) = match self.guardian.meaning(&arrival, &mut acts) {
                Meaning::Stop(count) => (count + alone, ("signal", name.as_str())),
                Meaning::Alone => {
                    alone = 1;
                    (1, ("why", "the guardian has died"))
                }
                Meaning::Nothing => continue,
            };
            if let Some(stop) = stop.take() {
                log::info("stopping", &[(why.0, &why.1)]);
                self.guardian.tell(News::Stopping);
                stop();
            }
            if times > 2 {
                signal::die_of(arrival.signal);
            }
            if times == 2 && !hurried {
                hurried = true;
                log::info("stopping at once", &[("signal", &name)]);
                self.exit_soon();
            }
        }
    }

    /// On a thread of its own: removing a file may hang.
    fn exit_soon(&self) {
        let guardian = Arc::clone(&self.guardian);
        let last = thread::Builder::new().name("exit".to_owned()).spawn(move || {
            // A guardian ends them all as soon as this process is gone.
            if !guardian.is_there() {
                wait_for_none(HURRIED);
            }
            fs::abandon_staged(ABANDON_AT_ONCE);
            std::process::exit(0);
        });
        if last.is_err() {
            std::process::exit(1);
        }
    }
}
