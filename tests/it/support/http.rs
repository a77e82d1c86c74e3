//! HTTP by hand: a request as bytes, and what came back until the server closed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::DEADLINE;
use super::wire::is_timeout;

/// The key of RFC 6455, section 1.3, and its answer.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A connection after its 101, and the bytes that came behind it.
pub(crate) type Upgraded = (TcpStream, Vec<u8>);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.trim().eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Self { status, head: head.to_owned(), body: body.to_owned() })
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Sends a request and reads until the server closes, which it must.
#[track_caller]
pub(crate) fn talk(address: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    let mut stream = connect(address);
    // A server may answer and close before it has read all of a request that is too long.
    let _ = stream.write_all(request.as_ref());
    let bytes = read_to_end(&mut stream, DEADLINE).expect("the server closes after its answer");
    Answer::parse(&bytes)
        .unwrap_or_else(|| panic!("not HTTP: {:?}", String::from_utf8_lossy(&bytes)))
}

#[track_caller]
pub(crate) fn get(address: SocketAddr, target: &str) -> Answer {
    talk(address, format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

/// What arrived until the far end closed or reset; `None` if it did neither in time.
pub(crate) fn read_to_end(stream: &mut TcpStream, limit: Duration) -> Option<Vec<u8>> {
    let end = Instant::now() + limit;
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        stream.set_read_timeout(Some(left)).unwrap();
        match stream.read(&mut chunk) {
            Ok(0) => return Some(bytes),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if is_timeout(&error) => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(_) => return Some(bytes),
        }
    }
}

pub(crate) fn upgrade_request(target: &str, headers: &[String]) -> String {
    let mut request = format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
    );
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request + "\r\n"
}

/// Asks for a WebSocket; an answer that is not 101 is the error.
pub(crate) fn upgrade(
    address: SocketAddr,
    target: &str,
    headers: &[String],
) -> Result<Upgraded, Answer> {
    let mut stream = connect(address);
    stream.write_all(upgrade_request(target, headers).as_bytes()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut chunk) {
            Ok(count @ 1..) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            other => panic!("no answer to the upgrade: {other:?}, after {bytes:?}"),
        }
    };
    let rest = bytes.split_off(head);
    let mut answer = Answer::parse(&bytes).expect("an HTTP answer");
    if answer.status != 101 {
        let body = read_to_end(&mut stream, DEADLINE).expect("closed after a refusal");
        answer.body = String::from_utf8_lossy(&[rest, body].concat()).into_owned();
        return Err(answer);
    }
    assert_eq!(answer.header("sec-websocket-accept"), Some(ACCEPT), "{answer:?}");
    Ok((stream, rest))
}

/// The status of the answer to an upgrade.
pub(crate) fn upgrade_status(address: SocketAddr, target: &str, headers: &[&str]) -> u16 {
    let headers: Vec<_> = headers.iter().map(|header| (*header).to_owned()).collect();
    upgrade(address, target, &headers).map_or_else(|answer| answer.status, |_| 101)
}
