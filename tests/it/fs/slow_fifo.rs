//! A FIFO that is read, but slowly.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{content, merged, mkfifo, path};
use crate::support::{Server, TempDir};

/// Takes 4 KiB every 150 ms.
pub(super) struct SlowReader {
    over: Arc<AtomicBool>,
    reader: JoinHandle<usize>,
}

impl SlowReader {
    pub(super) fn of(fifo: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let mut file =
            File::options().read(true).custom_flags(libc::O_NONBLOCK).open(fifo).unwrap();
        let read = move || {
            let (mut taken, mut part) = (0, [0; 4096]);
            let end = Instant::now() + Duration::from_secs(60);
            while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                thread::sleep(Duration::from_millis(150));
                taken += file.read(&mut part).unwrap_or(0);
            }
            while let Ok(count @ 1..) = file.read(&mut part) {
                taken += count;
            }
            taken
        };
        let reader = thread::Builder::new().name("slow reader".into()).spawn(read).unwrap();
        Self { over, reader }
    }

    /// How much it was given in all.
    pub(super) fn finish(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.reader.join().unwrap()
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends the reader of a test that fails.
struct Stopped<'a>(&'a AtomicBool);

#[test]
fn a_fifo_that_is_read_slowly_holds_up_no_other_connection() {
    let dir = TempDir::new();
    let server = Server::start();
    let (mut writing, mut other) = (server.connect(), server.connect());
    for more in [json!({}), json!({"append": true})] {
        let fifo = mkfifo(dir.join("fifo"));
        let reader = SlowReader::of(&fifo);
        let over = Arc::clone(&reader.over);
        let _stopped = Stopped(&over);
        let since = Instant::now();
        let params = merged(content(&fifo, vec![b'x'; 1_000_000]), &more);
        let write = writing.request("fs/writeFile", &params);
        writing.pump(Duration::from_millis(500));
        for (method, params) in [
            ("fs/stat", path(&fifo)),
            ("fs/stat", path(dir.path())),
            ("fs/writeFile", content(dir.join("beside"), "x")),
            ("fs/remove", path(&fifo)),
            ("fs/readdir", path(dir.path())),
        ] {
            let asked = Instant::now();
            other.ok(method, &params);
            assert!(asked.elapsed() < Duration::from_secs(1), "{method}: {:?}", asked.elapsed());
        }
        assert!(!writing.has_answer(&write), "the write is over");
        let error = writing.answer_within(&write, Duration::from_secs(20)).unwrap_err();
        let took = since.elapsed();
        assert_eq!(error.data_code(), "EAGAIN", "{error:?}");
        assert!(took < Duration::from_millis(6_500), "{took:?}");
        let taken = reader.finish().to_string();
        let said = format!("{} {}", error.message, error.data).replace([',', '_'], "");
        assert!(said.contains(&taken), "{taken} bytes were taken: {error:?}");
    }
}
