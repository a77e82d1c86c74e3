//! What the server's own life hangs on: signals, and its guardian.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::fs;
use crate::guardian::{Acts, Guardian, Meaning, News};
use crate::log;
use crate::server::wait_for_none;
use crate::sync::lock;
use crate::sys::signal::{self, Signals};

/// How long the processes may take to be gone after a second signal, where no guardian ends them.
const HURRIED: Duration = Duration::from_secs(3);

/// How long removing files that are half written may take then.
const ABANDON_AT_ONCE: Duration = Duration::from_millis(300);

/// What the server's own life hangs on.
pub(super) struct Life {
    pub(super) guardian: Arc<Guardian>,
    phase: Arc<Mutex<Phase>>,
}

/// How far the server has come.
enum Phase {
    /// It has started nothing yet.
    Starting,
    /// This is what stops it.
    Serving(Box<dyn FnOnce() + Send>),
    /// It has been stopped.
    Stopping,
}

impl Life {
    /// Takes signals from now on, on a thread of its own. While the server is still starting it
    /// ends at the first one: a file or a name server may keep it from ever getting further, and
    /// the signals are blocked.
    pub(super) fn watch(signals: Signals, guardian: Guardian) -> io::Result<Self> {
        let guardian = Arc::new(guardian);
        let phase = Arc::new(Mutex::new(Phase::Starting));
        let life = Self { guardian: Arc::clone(&guardian), phase: Arc::clone(&phase) };
        let watch = Watch { signals, guardian, phase };
        let thread = thread::Builder::new().name("signals".to_owned()).stack_size(64 * 1024);
        thread.spawn(move || watch.wait())?;
        Ok(life)
    }

    /// Calls `stop` when somebody wants the server to stop, or its guardian has died. At a second
    /// time it ends at once; without a guardian only when nothing is left that must not outlive
    /// it. At a third not even that is waited for.
    pub(super) fn on_signal(&self, stop: impl FnOnce() + Send + 'static) {
        let mut phase = lock(&self.phase);
        // (Else it is about to exit.)
        if matches!(*phase, Phase::Starting) {
            *phase = Phase::Serving(Box::new(stop));
        }
    }
}

/// The thread that takes signals.
struct Watch {
    signals: Signals,
    guardian: Arc<Guardian>,
    phase: Arc<Mutex<Phase>>,
}

impl Watch {
    fn wait(self) {
        let mut acts = Acts::default();
        let (mut stopping, mut alone, mut hurried) = (false, 0, false);
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
            if !stopping {
                stopping = true;
                log::info("stopping", &[(why.0, &why.1)]);
                self.guardian.tell(News::Stopping);
                hurried = !self.stop();
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

    /// Stops it. `false` if it had not begun to serve, and exits.
    fn stop(&self) -> bool {
        // (Taken first: what stops it must not be called under the lock.)
        let phase = std::mem::replace(&mut *lock(&self.phase), Phase::Stopping);
        if let Phase::Serving(stop) = phase {
            stop();
            return true;
        }
        self.exit_soon();
        false
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
