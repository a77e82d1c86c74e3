//! What a server wrote to stderr, followed by a thread so that the pipe never fills.

use std::io::Read as _;
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl Log {
    pub(crate) fn follow(mut stderr: ChildStderr) -> Self {
        let log = Self::default();
        let shared = Arc::clone(&log.0);
        let follow = move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                shared.state.lock().unwrap().bytes.extend_from_slice(&buffer[..count]);
                shared.changed.notify_all();
            }
            shared.state.lock().unwrap().ended = true;
            shared.changed.notify_all();
        };
        thread::Builder::new().name("server stderr".into()).spawn(follow).unwrap();
        log
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.state.lock().unwrap().bytes).into_owned()
    }

    /// Waits for a text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let has_it = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
        let bytes = self.wait(super::DEADLINE, |state| state.ended || has_it(&state.bytes));
        assert!(has_it(&bytes), "no {text:?} came: {}", self.text());
    }

    /// Waits for the first line, or for the end of a server that wrote none.
    pub(crate) fn first_line(&self, limit: Duration) -> Option<String> {
        let done = |state: &State| state.ended || state.bytes.contains(&b'\n');
        let bytes = self.wait(limit, done);
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Waits until the server, and all that inherited its stderr, have closed it.
    pub(crate) fn to_end(&self, limit: Duration) -> String {
        String::from_utf8_lossy(&self.wait(limit, |state| state.ended)).into_owned()
    }

    fn wait(&self, limit: Duration, done: impl Fn(&State) -> bool) -> Vec<u8> {
        let end = Instant::now() + limit;
        let mut state = self.0.state.lock().unwrap();
        while !done(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap().0;
        }
        state.bytes.clone()
    }
}
