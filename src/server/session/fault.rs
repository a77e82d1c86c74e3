//! A session that a fault ends.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};

use super::super::epochs::{Host, Settled};
use super::*;
use crate::environment::MachineOptions;
use crate::transport::http::Access;
use crate::transport::{Framing, SharedSocket};

struct Nobody;

impl Host for Nobody {
    fn wake(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

/// Says so when it is asked, and fails.
struct Faulty(Sender<()>);

impl Source for Faulty {
    fn next(&mut self) -> Event<'_> {
        let _ = self.0.send(());
        panic!("a fault")
    }
}

#[test]
fn a_fault_while_a_change_is_on_its_way_does_not_keep_newer_hosts_out_for_ever() {
    let config = Arc::new(Config {
        access: Access::default(),
        peer_timeout: Duration::from_secs(60),
        max_message_bytes: 4096,
        max_processes: 4,
        max_connections: 4,
        epochs: Arc::default(),
        codex: None,
    });
    let epochs = Arc::clone(&config.epochs);
    let arrive = |epoch| {
        let fence = Fence::new(Nobody);
        let member = Member::arrive(&epochs, &fence, epoch, &|| false).unwrap().unwrap();
        (fence, member)
    };
    let (fence, member) = arrive(1);
    let change = fence.gate().enter().unwrap();
    let (sender, failing) = bounded(1);
    let run = move || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let target = Box::new(SharedSocket(Arc::new(near)));
        let (outbox, _writer) =
            Outbox::start(target, Framing::WebSocketServer, || {}, || false).unwrap();
        let environment = Arc::new(Machine::new(MachineOptions::default()).unwrap());
        drop(
            Session::new(&config, &environment, outbox, fence, Some(member))
                .run(&mut Faulty(sender), &|| false),
        );
    };
    let session = thread::Builder::new().spawn(run).unwrap();
    failing.recv().unwrap();
    let (_fence, new) = arrive(2);
    let settled_within = |time: Duration| {
        let since = Instant::now();
        new.settle(&|| since.elapsed() >= time)
    };
    assert_eq!(settled_within(Duration::from_millis(500)), Settled::Gone, "it may still land");
    drop(change);
    assert_eq!(settled_within(Duration::from_secs(20)), Settled::Yes);
    assert!(session.join().is_err());
}
