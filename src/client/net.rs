//! One TCP or Unix connection that the environment has made, seen from the host.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::dispatch::Ticket;
use super::link::{CALL_TIMEOUT, Link};
use super::{Answer, ExecClient, dispatch};
use crate::buffers;
use crate::environment::{Allowance, Debt, Inbox, Missed, Pipeline, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    CloseParams, CloseResult, ConnectParams, ConnectResult, ConnectionId, Empty, NetAckParams,
    WirePath, chunk, method,
};

/// What happens to a connection.
#[derive(Debug)]
pub enum ConnectionEvent<'a> {
    /// The far end sent these bytes.
    Data(&'a [u8]),
    /// The far end has finished sending; it may still be written to.
    Eof,
    /// It is over, and what it failed of if it did; there are no more events.
    Closed(Option<Error>),
}

/// An event on its way from the reading thread.
#[derive(Debug)]
pub(super) enum Incoming {
    Data(Vec<u8>),
    Eof,
    Closed(Option<Error>),
    Failed(Error),
}

/// A connection made by the environment, to somewhere that it can reach. Its events must be taken
/// ([`RemoteConnection::next`]), or its data stop when its window is full. Dropping it closes it.
pub struct RemoteConnection {
    /// (It does not keep the way to the environment, which is the client's.)
    link: Weak<Link>,
    id: ConnectionId,
    ticket: Ticket,
    remote: WirePath,
    events: Inbox<Incoming>,
    allowance: Arc<Allowance>,
    debt: Debt,
    current: Vec<u8>,
    over: bool,
}

impl ExecClient {
    /// Connects, from where the environment is, to a TCP port or a Unix socket.
    ///
    /// # Errors
    /// What the server answers: `Os(ECONNREFUSED)`, `Os(ETIMEDOUT)`, `Os(ENOENT)` for a name or a
    /// path that does not exist, other errnos, `Limit`; `ConnectionLost`, `DuplicateId`.
    pub fn connect(&self, params: &ConnectParams) -> Result<RemoteConnection> {
        let link = self.link()?;
        let (sender, events) = Inbox::new(Some(link.reader()));
        let (id, allowance) = (&params.connection_id, Allowance::new(params.window));
        let ticket = link.dispatch().subscribe_to_connection(id, sender, &allowance)?;
        // From here on it is closed, and its id given up, by being dropped.
        let mut connection = RemoteConnection {
            link: Arc::downgrade(&link),
            id: id.clone(),
            ticket,
            allowance,
            remote: WirePath::known(Path::new("").to_owned()),
            events,
            debt: Debt::new(params.window),
            current: Vec::new(),
            over: false,
        };
        // The server keeps to the timeout; this is for one that does not.
        let timeout = params.timeout_ms.map_or(10_000, Into::into);
        let limit = Duration::from_millis(timeout).saturating_add(CALL_TIMEOUT);
        let deadline = Instant::now().checked_add(limit);
        let answer: Answer<ConnectResult> = link.begin(method::CONNECT, params)?;
        let answered = match deadline {
            Some(deadline) => answer.wait_until(deadline),
            None => answer.wait().map(Some),
        };
        match answered {
            Ok(Some(ConnectResult { remote_address })) => {
                connection.remote = remote_address;
                Ok(connection)
            }
            Ok(None) => {
                let message = format!("{} was not answered in time", method::CONNECT);
                Err(Error::new(ErrorKind::TimedOut, message))
            }
            Err(error) => {
                connection.over = true;
                Err(error)
            }
        }
    }
}

impl RemoteConnection {
    /// Where it leads: `IP:PORT`, `[IP6]:PORT`, or the path of the Unix socket.
    #[must_use]
    pub fn remote_address(&self) -> &Path {
        self.remote.as_path()
    }

    /// Waits for the next event, until the deadline if there is one; `None` is the deadline.
    ///
    /// # Errors
    /// `ConnectionLost` where the way to the environment has broken, and the connection with it.
    pub fn next(&mut self, deadline: Option<Instant>) -> Result<Option<ConnectionEvent<'_>>> {
        buffers::give(std::mem::take(&mut self.current));
        match self.events.receive(deadline) {
            Ok(Incoming::Data(bytes)) => {
                if let Some(bytes) = self.debt.add(bytes.len()) {
                    self.allowance.acknowledge(bytes);
                    let params = NetAckParams { connection_id: self.id.clone(), bytes };
                    if let Some(link) = self.link.upgrade() {
                        link.notify(method::NET_ACK, &params);
                    }
                }
                self.current = bytes;
                Ok(Some(ConnectionEvent::Data(&self.current)))
            }
            Ok(Incoming::Eof) => Ok(Some(ConnectionEvent::Eof)),
            Ok(Incoming::Closed(error)) => {
                self.over = true;
                Ok(Some(ConnectionEvent::Closed(error)))
            }
            Ok(Incoming::Failed(error)) => {
                self.over = true;
                Err(error)
            }
            Err(Missed::Deadline) => Ok(None),
            Err(Missed::Gone) => Err(dispatch::lost("the connection is over")),
        }
    }

    /// A handle to write with, for another thread. There should be one at a time: what several
    /// write is mixed.
    #[must_use]
    pub fn writer(&self) -> ConnectionWriter {
        let (link, id) = (Weak::clone(&self.link), self.id.clone());
        ConnectionWriter { link, id, pipeline: Pipeline::default() }
    }

    /// Closes both halves at once; what has not been written yet is given up. The last event
    /// still comes. `false` if it is over already.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`].
    pub fn close(&self) -> Result<bool> {
        let params = CloseParams { connection_id: self.id.clone() };
        let link = self.link.upgrade().ok_or_else(closed)?;
        link.call(method::CLOSE, &params).map(|CloseResult { closed }| closed)
    }
}

impl Drop for RemoteConnection {
    fn drop(&mut self) {
        let Some(link) = self.link.upgrade() else { return };
        // (Where its last word has come the id may be that of another.)
        let is_open = link.dispatch().unsubscribe_from_connection(&self.id, self.ticket);
        if is_open && !self.over {
            let params = CloseParams { connection_id: self.id.clone() };
            // Nobody waits for the answer; where the way is broken it is closed already.
            if let Ok((id, _)) = link.begin_numbered::<CloseResult>(method::CLOSE, &params) {
                link.dispatch().forget(id);
            }
        }
    }
}

/// Writes to a connection, one write after the other without a round trip in between.
pub struct ConnectionWriter {
    link: Weak<Link>,
    id: ConnectionId,
    pipeline: Pipeline,
}

impl ConnectionWriter {
    /// Sends the bytes on their way, one call a chunk. Waits while too many before them are not
    /// in the socket yet, so it goes at the pace of whoever reads at the far end.
    ///
    /// # Errors
    /// Of this write or of an earlier one: `Os(EPIPE)`, `Os(ECONNRESET)` and the like where the
    /// far end has gone, `Os(ECONNABORTED)` where the connection was closed from this side,
    /// `UnknownConnection` where it is over; `ConnectionLost`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { link, id, pipeline } = self;
        pipeline.send(bytes, |chunk| begin_write(link, id, chunk, false))
    }

    /// Closes the sending half after all that was written, and waits until that has happened.
    ///
    /// # Errors
    /// Those of [`ConnectionWriter::write`].
    pub fn finish(mut self) -> Result<()> {
        let Self { link, id, pipeline } = &mut self;
        pipeline.finish(|| begin_write(link, id, &[], true))
    }

    /// Closes both halves at once, as [`RemoteConnection::close`] does, and does not wait for the
    /// answer: whoever takes the events sees the last one.
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn close(self) -> Result<()> {
        let params = CloseParams { connection_id: self.id.clone() };
        let link = self.link.upgrade().ok_or_else(closed)?;
        let (id, _) = link.begin_numbered::<CloseResult>(method::CLOSE, &params)?;
        link.dispatch().forget(id);
        Ok(())
    }
}

fn begin_write(
    link: &Weak<Link>,
    id: &ConnectionId,
    bytes: &[u8],
    eof: bool,
) -> Result<Answer<Empty>> {
    let link = link.upgrade().ok_or_else(closed)?;
    let written = link.begin_with(buffers::for_chunk(bytes.len()), |buffer, number| {
        chunk::write_net(buffer, number, id, bytes, eof);
    });
    written.map(|(_, answer)| answer)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::num::{NonZeroU16, NonZeroU64};
    use std::sync::Arc;
    use std::thread::JoinHandle;

    use super::*;
    use crate::environment::{Machine, MachineOptions};
    use crate::server::{Config, Server, Stopper};
    use crate::sys::errno;
    use crate::sys::poll::Waker;
    use crate::transport::http::Access;

    /// A server on a thread of this program, ended when it is dropped.
    struct Environment {
        client: ExecClient,
        stopper: Stopper,
        thread: Option<JoinHandle<()>>,
    }

    impl Environment {
        fn start() -> Self {
            let config = Config {
                access: Access::default(),
                peer_timeout: Duration::from_secs(60),
                max_message_bytes: 1 << 20,
                max_processes: 4,
                max_connections: 4,
                epochs: Arc::default(),
                codex: None,
            };
            let local = Machine::new(MachineOptions::default()).unwrap();
            let server = Server::bind("127.0.0.1", 0, config, local).unwrap();
            let url = format!("ws://{}/exec", server.addresses().unwrap()[0]);
            let waker = Arc::new(Waker::new().unwrap());
            let stopper = server.stopper(&waker);
            let thread = std::thread::Builder::new().spawn(move || server.run(&waker)).unwrap();
            let client = ExecClient::websocket(&url, None).unwrap();
            Self { client, stopper, thread: Some(thread) }
        }

        fn connect(&self, window: u64) -> (RemoteConnection, TcpStream) {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let mut params = ConnectParams::tcp("127.0.0.1", port_of(&listener));
            params.window = NonZeroU64::new(window);
            let connection = self.client.connect(&params).unwrap();
            assert_eq!(connection.remote_address(), Path::new(&address.to_string()));
            let (far, _) = listener.accept().unwrap();
            far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            (connection, far)
        }
    }

    impl Drop for Environment {
        fn drop(&mut self) {
            self.client.close();
            self.stopper.stop();
            self.thread.take().unwrap().join().unwrap();
        }
    }

    fn port_of(listener: &TcpListener) -> NonZeroU16 {
        NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap()
    }

    /// All data up to their end.
    fn read_to_end(connection: &mut RemoteConnection) -> Vec<u8> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut all = Vec::new();
        loop {
            match connection.next(Some(deadline)).unwrap() {
                Some(ConnectionEvent::Data(bytes)) => all.extend_from_slice(bytes),
                Some(ConnectionEvent::Eof) => return all,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn much_passes_both_ways_and_each_half_ends_by_itself() {
        let environment = Environment::start();
        // Smaller than what comes: only acknowledgements keep it going.
        let (mut connection, mut far) = environment.connect(50_000);
        let sent: Vec<u8> = (0..251).cycle().take(1_000_000).collect();
        let echo = move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            far.write_all(&all).unwrap();
        };
        let echo = std::thread::Builder::new().spawn(echo).unwrap();
        let mut writer = connection.writer();
        sent.chunks(100_000).for_each(|part| writer.write(part).unwrap());
        writer.finish().unwrap();
        assert!(read_to_end(&mut connection) == sent, "the bytes differ");
        echo.join().unwrap();
        let last = connection.next(None).unwrap();
        assert!(matches!(last, Some(ConnectionEvent::Closed(None))), "{last:?}");
        assert!(!connection.close().unwrap());
        let late = connection.writer().write(b"late");
        late.and_then(|()| connection.writer().finish()).unwrap_err();
    }

    #[test]
    fn a_failure_is_told_by_its_errno() {
        let environment = Environment::start();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let params = ConnectParams::tcp("localhost", port_of(&listener));
        drop(listener);
        for _ in 0..2 {
            // The second time its id is free.
            let Err(error) = environment.client.connect(&params) else { panic!("connected") };
            assert!(error.message().contains("refused"), "{error}");
        }
        let path = WirePath::try_from(Path::new("/nope/nope").to_owned()).unwrap();
        let Err(error) = environment.client.connect(&ConnectParams::unix(path)) else {
            panic!("connected")
        };
        assert_eq!(*error.kind(), ErrorKind::Os(errno::ENOENT), "{error}");
    }

    #[test]
    fn dropping_it_closes_it_and_closing_it_gives_up_what_waits() {
        let environment = Environment::start();
        let (connection, mut far) = environment.connect(1000);
        drop(connection);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
        let (mut connection, mut far) = environment.connect(1000);
        assert!(connection.next(Some(Instant::now())).unwrap().is_none());
        assert!(connection.close().unwrap());
        let last = connection.next(None).unwrap();
        assert!(matches!(last, Some(ConnectionEvent::Closed(None))), "{last:?}");
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_lost_environment_ends_its_connections() {
        let environment = Environment::start();
        let (mut connection, far) = environment.connect(1000);
        far.shutdown(Shutdown::Write).unwrap();
        assert!(read_to_end(&mut connection).is_empty());
        environment.client.close();
        let error = connection.next(None).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
        let error = connection.writer().write(b"x").unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    }
}
