//! The way in for the fuzz targets (`tests/fuzz`); built under `cfg(fuzzing)` alone. Whatever a
//! request asks to run, `sys::spawn` then runs `/bin/true`, and whatever host it names is this one.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::environment::{Machine, MachineOptions};
use crate::server::{Config, Fence, Host, Session};
use crate::sys::poll::Waker;
use crate::transport::http::{self, Access, Token};
use crate::transport::stdio::LineSource;
use crate::transport::{Framing, Outbox, Patience};

/// The head of an HTTP request.
pub fn head(data: &[u8]) {
    let (token, origins) = (Some(Token::new("token")), vec!["null".to_owned()]);
    let access = Access { token, origins, codex: true };
    let _ = http::route(data, &access, std::net::Ipv4Addr::LOCALHOST.into());
}

struct Nobody;

impl Host for Nobody {
    fn wake(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

/// A whole conversation, a message a line.
///
/// # Panics
/// Where this machine has no pipes, threads or /dev/null.
#[expect(clippy::unwrap_used, reason = "a fuzz target fails by panicking")]
pub fn session(data: &[u8]) {
    crate::sys::signal::ignore_broken_pipes();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let data = data.to_vec();
    let feed = move || drop(writer.write_all(&data));
    let feeder = std::thread::Builder::new().spawn(feed).unwrap();
    let null = Box::new(File::options().write(true).open("/dev/null").unwrap());
    let (outbox, thread) = Outbox::start(null, Framing::Lines, || {}, || false).unwrap();
    let config = Config {
        access: Access::default(),
        peer_timeout: Duration::from_secs(10),
        max_message_bytes: 4096,
        max_processes: 4,
        max_connections: 1,
        epochs: Arc::default(),
        codex: None,
    };
    let stop = Arc::new(Waker::new().unwrap());
    let mut source = LineSource::new(reader.into(), stop, Patience::new(config.peer_timeout), 4096);
    let environment = Machine::new(MachineOptions::default()).unwrap();
    let fence = Fence::new(Nobody);
    let session =
        Session::new(&Arc::new(config), &Arc::new(environment), outbox.clone(), fence, None);
    drop(session.run(&mut source, &|| false));
    outbox.stop();
    thread.join().unwrap();
    feeder.join().unwrap();
}
