//! The head of an HTTP request: read with a limit and a deadline, routed, authorized.
//!
//! It is looked at before a byte of a WebSocket is, so that what is no WebSocket (a probe, a
//! browser, a stranger) gets a plain answer.

mod access;

pub(crate) use access::{Access, Token};

use std::io::{self, Read};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::protocol::MAX_EPOCH;
use access::{Headers, is_authorized};

/// A head longer than this is refused.
const MAX_HEAD: usize = 16 * 1024;
/// A head that takes longer than this is dropped.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Answer with this and go on as a WebSocket, of a host with this epoch.
    Upgrade { response: String, epoch: Option<u64>, dialect: Dialect },
    /// Answer with this and close. The reason is what metrics call it.
    Answer { response: String, status: u16, reason: &'static str },
    /// Answer with the metrics and close.
    Metrics,
}

/// The head's bytes, and what came behind them.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rest: Vec<u8>,
}

/// Reads a request's head; the inner error is the answer to one that is too long.
///
/// # Errors
/// The peer has left, or has taken longer than [`HEAD_DEADLINE`].
pub(crate) fn read_head(mut socket: &TcpStream) -> io::Result<Result<Head, Route>> {
    let deadline = Instant::now() + HEAD_DEADLINE;
    let mut bytes = Vec::with_capacity(1024);
    let mut chunk = [0_u8; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Some(end) = end_of_head(&bytes).filter(|end| *end <= MAX_HEAD) {
            let rest = bytes.split_off(end);
            return Ok(Ok(Head { bytes, rest }));
        }
        if bytes.len() > MAX_HEAD {
            let text = "the request's head is longer than 16 KiB";
            return Ok(Err(answer(431, "Request Header Fields Too Large", "", text)));
        }
    }
}

/// How long a head is, once all of it has come; an answer's ends as a request's does.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|start| start + 4)
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    ExecRpc,
    /// That of the Codex exec-server.
    Codex,
}

/// Decides on a request that has come from this address. (Its array of headers is to be on the stack of the
/// connection's thread for no longer than that.)
#[inline(never)]
pub(crate) fn route(head: &[u8], access: &Access, peer: IpAddr) -> Route {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return answer(431, "Request Header Fields Too Large", "", "too many header fields");
        }
        _ => return answer(400, "Bad Request", "", "this is not an HTTP request"),
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_get = request.method == Some("GET");
    match path {
        "/" | "/readyz" if !access.codex => not_found(),
        "/healthz" | "/exec" | "/metrics" | "/" | "/readyz" if !is_get => {
            answer(405, "Method Not Allowed", "Allow: GET\r\n", "only GET is possible here")
        }
        "/healthz" => answer(200, "OK", "", "ok"),
        "/readyz" if Headers(request.headers).are_foreign(access) => forbidden(),
        "/readyz" => answer(200, "OK", "", "ok"),
        "/exec" => upgrade(&Headers(request.headers), query, access, Dialect::ExecRpc),
        "/" => upgrade(&Headers(request.headers), query, access, Dialect::Codex),
        "/metrics" => metrics(&Headers(request.headers), query, access, peer),
        _ => not_found(),
    }
}

fn not_found() -> Route {
    answer(404, "Not Found", "", "there is /exec, a WebSocket, /healthz, and /metrics")
}

/// The numbers are for whoever has the token, and for this machine's own.
fn metrics(headers: &Headers<'_>, query: &str, access: &Access, peer: IpAddr) -> Route {
    if headers.are_foreign(access) {
        return forbidden();
    }
    let Some(token) = &access.token else { return Route::Metrics };
    let brings_one = headers.all("Authorization").next().is_some()
        || query.split('&').any(|pair| pair.starts_with("token="));
    let is_own = peer.to_canonical().is_loopback() && !headers.may_be_of_others();
    if (is_own && !brings_one) || is_authorized(token, headers.all("Authorization"), query) {
        return Route::Metrics;
    }
    unauthorized()
}

fn upgrade(headers: &Headers<'_>, query: &str, access: &Access, dialect: Dialect) -> Route {
    if !headers.has_word("Upgrade", "websocket") || !headers.has_word("Connection", "upgrade") {
        let text = "this is a WebSocket: connect with ws://";
        return answer(426, "Upgrade Required", UPGRADE, text);
    }
    if headers.are_foreign(access) {
        return forbidden();
    }
    if let Some(token) = &access.token
        && !is_authorized(token, headers.all("Authorization"), query)
    {
        return unauthorized();
    }
    if headers.all("Sec-WebSocket-Version").next() != Some(b"13") {
        let text = "only version 13 of the WebSocket protocol is spoken here";
        return answer(426, "Upgrade Required", UPGRADE, text);
    }
    let Some(key) = headers.all("Sec-WebSocket-Key").next() else {
        return answer(400, "Bad Request", "", "an upgrade needs a Sec-WebSocket-Key");
    };
    let epoch = match dialect {
        Dialect::ExecRpc => epoch_of(query),
        // It has none.
        Dialect::Codex => Ok(None),
    };
    let Ok(epoch) = epoch else {
        let text = "an epoch is a number from 0 to 9007199254740991, and there is one";
        return answer(400, "Bad Request", "", text);
    };
    let accept = tungstenite::handshake::derive_accept_key(key);
    Route::Upgrade {
        response: format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ),
        epoch,
        dialect,
    }
}

fn forbidden() -> Route {
    answer(403, "Forbidden", "", "no web page may connect (--allow-origin admits one)")
}

fn unauthorized() -> Route {
    let text = "a token is needed: Authorization: Bearer TOKEN";
    answer(401, "Unauthorized", "WWW-Authenticate: Bearer\r\n", text)
}

const UPGRADE: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";

/// Whether these `Authorization` headers give the token, and none of them another.
pub(crate) fn is_bearer<'a>(token: &Token, headers: impl Iterator<Item = &'a [u8]>) -> bool {
    is_authorized(token, headers, "")
}

/// The epoch that the query gives; all that it gives must be the same.
fn epoch_of(query: &str) -> Result<Option<u64>, ()> {
    let mut epoch = None;
    for given in query.split('&').filter_map(|pair| pair.strip_prefix("epoch=")) {
        let digits = given.bytes().all(|byte| byte.is_ascii_digit());
        let number = given.parse().ok().filter(|number| digits && *number <= MAX_EPOCH).ok_or(())?;
        if epoch.is_some_and(|epoch| epoch != number) {
            return Err(());
        }
        epoch = Some(number);
    }
    Ok(epoch)
}

/// An answer after which the connection is closed.
fn answer(status: u16, reason: &str, headers: &str, text: &str) -> Route {
    let response = response(&format!("{status} {reason}"), "", headers, &format!("{text}\n"));
    let reason = match status {
        400 => "400",
        401 => "401",
        403 => "403",
        404 => "404",
        405 => "405",
        426 => "426",
        431 => "431",
        _ => "",
    };
    Route::Answer { response, status, reason }
}

/// The bytes of an answer; `version` is a parameter of its type.
fn response(status: &str, version: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; {version}charset=utf-8\r\n\
         Content-Length: {length}\r\n{headers}Connection: close\r\n\r\n{body}"
    )
}

/// The answer to whoever may see the metrics, which are this page.
pub(crate) fn metrics_response(page: &str) -> String {
    response("200 OK", "version=0.0.4; ", "", page)
}

/// The answer where there is too little of something.
fn unavailable(reason: &'static str, text: &str) -> Route {
    match answer(503, "Service Unavailable", "", text) {
        Route::Answer { response, status, .. } => Route::Answer { response, status, reason },
        other => other,
    }
}

/// The answer to one connection more than there may be.
pub(crate) fn too_many_connections() -> Route {
    let text = "the limit on connections (--max-connections) is reached";
    unavailable("connections", text)
}

/// The answer while there are hardly any descriptors left.
pub(crate) fn out_of_descriptors() -> Route {
    unavailable("descriptors", "the server is nearly out of descriptors")
}

/// The answer to a host whose epoch cannot be made to last.
pub(crate) fn refused_epoch(why: &str) -> Route {
    unavailable("epoch", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn status(request: &str, access: &Access) -> u16 {
        status_from(NEAR, request, access)
    }

    fn status_from(peer: IpAddr, request: &str, access: &Access) -> u16 {
        let head = format!("{}\r\n\r\n", request.replace('\n', "\r\n"));
        match route(head.as_bytes(), access, peer) {
            Route::Upgrade { .. } => 101,
            Route::Answer { status, .. } => status,
            Route::Metrics => 200,
        }
    }

    const UPGRADE_TO: &str = " HTTP/1.1\nHost: x\nConnection: keep-alive, Upgrade\n\
        Upgrade: WebSocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

    #[test]
    fn routes() {
        let open = Access::default();
        assert_eq!(status("GET /healthz HTTP/1.1", &open), 200);
        assert_eq!(status("GET /healthz?x HTTP/1.0", &open), 200);
        assert_eq!(status("POST /healthz HTTP/1.1", &open), 405);
        assert_eq!(status("GET / HTTP/1.1", &open), 404);
        assert_eq!(status("GET /readyz HTTP/1.1", &open), 404);
        let codex = Access { codex: true, ..Access::default() };
        assert_eq!(status(&format!("GET /{UPGRADE_TO}"), &codex), 101);
        assert_eq!(status("GET / HTTP/1.1", &codex), 426);
        assert_eq!(status("GET /readyz HTTP/1.1", &codex), 200);
        assert_eq!(status("GET /readyz HTTP/1.1\nOrigin: http://x", &codex), 403);
        assert_eq!(status("POST /readyz HTTP/1.1", &codex), 405);
        assert_eq!(status("GET /exec HTTP/1.1", &open), 426);
        assert_eq!(status("nonsense", &open), 400);
        assert_eq!(status(&format!("GET /exec{UPGRADE_TO}"), &open), 101);
        let old = UPGRADE_TO.replace("13", "8");
        assert_eq!(status(&format!("GET /exec{old}"), &open), 426);
    }

    #[test]
    fn an_epoch_is_a_number_in_range_and_is_looked_at_after_the_token() {
        let of = |query: &str| {
            let head = format!("GET /exec{query}{UPGRADE_TO}\n\n").replace('\n', "\r\n");
            match route(head.as_bytes(), &Access::default(), NEAR) {
                Route::Upgrade { epoch, .. } => Ok(epoch),
                Route::Answer { status, .. } => Err(status),
                Route::Metrics => Err(200),
            }
        };
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("?epochs=x"), Ok(None));
        assert_eq!(of("?epoch=0"), Ok(Some(0)));
        assert_eq!(of("?token=x&epoch=9007199254740991"), Ok(Some(MAX_EPOCH)));
        assert_eq!(of("?epoch=7&epoch=7"), Ok(Some(7)));
        for bad in ["", "-1", "+1", "1.0", "1e3", "x", "%31", "9007199254740992", "7&epoch=8"] {
            assert_eq!(of(&format!("?epoch={bad}")), Err(400), "{bad}");
        }
        let access = Access { token: Some(Token::new("t")), ..Access::default() };
        assert_eq!(status(&format!("GET /exec?epoch=x{UPGRADE_TO}"), &access), 401);
        assert_eq!(status(&format!("GET /exec?epoch=x{UPGRADE_TO}\nOrigin: x"), &access), 403);
    }

    #[test]
    fn the_accept_key_is_that_of_the_standard() {
        let head = format!("GET /exec{UPGRADE_TO}\n\n").replace('\n', "\r\n");
        let Route::Upgrade { response, .. } = route(head.as_bytes(), &Access::default(), NEAR)
        else {
            panic!("no upgrade")
        };
        assert!(response.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn metrics_are_for_this_machine_and_for_whoever_has_the_token() {
        let open = Access::default();
        let access = Access { token: Some(Token::new("t")), ..Access::default() };
        let from = |peer: &str, rest: &str, access: &Access| {
            status_from(peer.parse().unwrap(), &format!("GET /metrics{rest}"), access)
        };
        for near in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(from(near, " HTTP/1.0", &access), 200, "{near}");
        }
        for host in ["localhost", "LOCALHOST:4200", "127.0.0.1:4200", "[::1]:4200", "[::1]"] {
            let rest = format!(" HTTP/1.1\nHost: {host}");
            assert_eq!(from("::1", &rest, &access), 200, "{host}");
        }
        for host in
            ["evil.example:4200", "localhost.evil.example", "10.0.0.3:4200", "", "[::1", "::1:x]"]
        {
            let rest = format!(" HTTP/1.1\nHost: {host}");
            assert_eq!(from("::1", &rest, &access), 401, "{host}");
            assert_eq!(from("::1", &rest, &open), 200, "{host}");
        }
        for proxy in ["X-Forwarded-For: 1.2.3.4", "forwarded: for=x", "Via: 1.1 x", "X-Real-IP:"] {
            let rest = format!(" HTTP/1.1\nHost: localhost\n{proxy}");
            assert_eq!(from("127.0.0.1", &rest, &access), 401, "{proxy}");
            let rest = format!("{rest}\nAuthorization: Bearer t");
            assert_eq!(from("127.0.0.1", &rest, &access), 200, "{proxy}");
        }
        for (peer, rest, expected) in [
            ("10.0.0.1", " HTTP/1.1", 401),
            ("10.0.0.1", "?token=t HTTP/1.1", 200),
            ("10.0.0.1", " HTTP/1.1\nAuthorization: Bearer t", 200),
            ("127.0.0.1", "?token=x HTTP/1.1", 401),
            ("127.0.0.1", " HTTP/1.1\nAuthorization: Bearer x", 401),
            ("127.0.0.1", "?token=t HTTP/1.1\nOrigin: http://127.0.0.1", 403),
        ] {
            assert_eq!(from(peer, rest, &access), expected, "{peer} {rest}");
        }
        assert_eq!(from("10.0.0.1", " HTTP/1.1", &open), 200);
        assert_eq!(from("10.0.0.1", " HTTP/1.1\nOrigin: null", &open), 403);
        assert_eq!(status("HEAD /metrics HTTP/1.1", &open), 405);
        assert_eq!(status("GET /metrics/ HTTP/1.1", &open), 404);
    }

    #[test]
    fn a_token_comes_in_the_header_or_the_query_and_never_wrong_beside_right() {
        let access = Access { token: Some(Token::new("a+b/c=")), ..Access::default() };
        let with = |query: &str, header: &str| {
            status(&format!("GET /exec{query}{UPGRADE_TO}{header}"), &access)
        };
        assert_eq!(with("", ""), 401);
        assert_eq!(with("", "\nAuthorization: Bearer a+b/c="), 101);
        assert_eq!(with("", "\nauthorization: bearer a+b/c="), 101);
        assert_eq!(with("", "\nAuthorization: Basic a+b/c="), 401);
        assert_eq!(with("", "\nAuthorization: Bearer a+b/c=d"), 401);
        assert_eq!(with("", "\nAuthorization: Bearer "), 401);
        assert_eq!(with("?token=a+b/c=", ""), 101);
        assert_eq!(with("?x=1&token=a%2Bb%2fc%3D", ""), 101);
        assert_eq!(with("?token=", ""), 401);
        assert_eq!(with("?token=a%2", ""), 401);
        assert_eq!(with("?token=no", "\nAuthorization: Bearer a+b/c="), 401);
    }

    #[test]
    fn an_origin_is_refused_whatever_it_is_unless_it_is_allowed() {
        let mut access = Access::default();
        let with = |access: &Access, origin: &str| {
            status(&format!("GET /exec{UPGRADE_TO}\nOrigin: {origin}"), access)
        };
        for origin in ["https://x", "null", "http://localhost", ""] {
            assert_eq!(with(&access, origin), 403, "{origin}");
        }
        access.origins.push("https://x".to_owned());
        assert_eq!(with(&access, "https://x"), 101);
        assert_eq!(with(&access, "https://x.y"), 403);
        assert_eq!(with(&access, "https://x\nOrigin: https://y"), 403);
    }
}
