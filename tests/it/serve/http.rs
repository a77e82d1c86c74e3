//! Agents that come by HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Agent, Place, text_of};
use crate::support::http::{Answer, connect, read_to_end, talk};
use crate::support::{DEADLINE, Victim, eventually, sys};

const SECRET: &str = "let-me-in-0123456789";

/// A server that listens.
struct Listening {
    agent: Agent,
    address: SocketAddr,
    token: Option<&'static str>,
}

impl Listening {
    fn start(place: &Place, token: Option<&'static str>) -> Self {
        let mut command = place.ta("serve", &["--listen", "127.0.0.1:0"]);
        if let Some(token) = token {
            command.env("TA_SERVE_TOKEN", token);
        }
        let agent = Agent::start(command);
        let line = agent.stderr.first_line(DEADLINE).unwrap_or_default();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.and_then(|address| address.parse().ok());
        Self { address: address.unwrap_or_else(|| panic!("no address: {line}")), agent, token }
    }

    fn head(&self, method: &str, headers: &[&str]) -> String {
        let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: x\r\n");
        if let Some(token) = self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
        head
    }

    fn post(&self, headers: &[&str], body: &Value) -> Answer {
        talk(self.address, self.request(headers, body))
    }

    fn request(&self, headers: &[&str], body: &Value) -> String {
        let (head, body) = (self.head("POST", headers), body.to_string());
        format!(
            "{head}Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// The header of a new session.
    #[track_caller]
    fn session(&self) -> String {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.post(&[], &hello);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let session = format!("Mcp-Session-Id: {}", answer.header("mcp-session-id").unwrap());
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = self.post(&[&session], &initialized);
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
        session
    }
}

fn bash(id: u64, command: &str, token: Option<u64>) -> Value {
    let mut params = json!({"name": "bash", "arguments": {"command": command}});
    if let Some(token) = token {
        params["_meta"] = json!({"progressToken": token});
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn a_session_from_its_beginning_to_its_end() {
    let place = Place::websocket();
    let server = Listening::start(&place, None);
    let session = server.session();
    let call =
        server.post(&[&session, "MCP-Protocol-Version: 2025-06-18"], &bash(1, "echo hi", None));
    assert_eq!(call.header("content-type"), Some("application/json"));
    let answer: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(text_of(&answer["result"]).as_deref(), Ok("hi\n"));
    // One that wants to hear of its progress is answered by events.
    let command = "printf a; sleep .4; printf b; sleep .4; printf c";
    let streamed = server.post(&[&session], &bash(2, command, Some(7)));
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
    let events: Vec<Value> = streamed
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let (answer, progress) = events.split_last().unwrap();
    assert_eq!(text_of(&answer["result"]).as_deref(), Ok("abc"));
    assert!(!progress.is_empty(), "{events:?}");
    assert!(progress.iter().all(|told| told["params"]["progressToken"] == json!(7)), "{events:?}");
    let delete = talk(server.address, server.head("DELETE", &[&session]) + "\r\n");
    assert_eq!(delete.status, 204);
    assert_eq!(server.post(&[&session], &bash(3, "true", None)).status, 404);
}

#[test]
fn who_may_not_come_is_turned_away() {
    let place = Place::websocket();
    let server = Listening::start(&place, Some(SECRET));
    let session = server.session();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (headers, status) in [
        (vec![session.as_str()], 200),
        (vec![session.as_str(), "Origin: http://127.0.0.1"], 403),
        (vec![session.as_str(), "Origin: null"], 403),
        (vec![session.as_str(), "Authorization: Bearer wrong"], 401),
        (vec![session.as_str(), "MCP-Protocol-Version: 2024-11-05"], 200),
        (vec![session.as_str(), "MCP-Protocol-Version: 1999-01-01"], 400),
        (vec!["Mcp-Session-Id: none"], 404),
        (vec![], 400),
    ] {
        assert_eq!(server.post(&headers, &ping).status, status, "{headers:?}");
    }
    let plain = |request: &str| talk(server.address, request);
    assert_eq!(plain("POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").status, 401);
    let authorization = format!("Authorization: Bearer {SECRET}\r\n");
    assert_eq!(plain(&format!("GET /mcp HTTP/1.1\r\n{authorization}\r\n")).status, 405);
    assert_eq!(plain(&format!("GET /other HTTP/1.1\r\n{authorization}\r\n")).status, 404);
    assert_eq!(plain(&format!("POST /mcp HTTP/1.1\r\n{authorization}\r\n")).status, 411);
    let huge = format!("POST /mcp HTTP/1.1\r\n{authorization}Content-Length: 99999999\r\n\r\n");
    assert_eq!(plain(&huge).status, 413);
    assert_eq!(plain("nonsense\r\n\r\n").status, 400);
    let bad =
        format!("POST /mcp HTTP/1.1\r\n{authorization}{session}\r\nContent-Length: 1\r\n\r\n{{");
    let bad = plain(&bad);
    assert_eq!(bad.status, 400);
    assert!(bad.body.contains("-32700"), "{}", bad.body);
    // The token reaches no command.
    let env = server.post(&[&session], &bash(2, "env", None));
    assert!(env.body.contains("PATH=") && !env.body.contains(SECRET), "{}", env.body);
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let place = Place::via();
    let refused = place.ta("serve", &["--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("TA_SERVE_TOKEN"));
    let refused = place.ta("serve", &["--listen", "nowhere"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_cancellation_ends_the_command_and_its_answer() {
    let place = Place::websocket();
    let server = Listening::start(&place, None);
    let session = server.session();
    let victim = Victim::new();
    let mut stream = connect(server.address);
    let request = server.request(&[&session], &bash(5, &victim.command(), Some(1)));
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    victim.await_alive();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(server.post(&[&session], &cancel).status, 202);
    victim.await_gone();
    let answer = String::from_utf8(read_to_end(&mut stream, DEADLINE).unwrap()).unwrap();
    assert!(answer.contains("Command aborted"), "{answer}");
}

#[test]
fn the_end_of_a_session_and_of_the_server_end_what_runs() {
    let place = Place::websocket();
    let mut server = Listening::start(&place, None);
    let (first, second) = (server.session(), server.session());
    let victims = [Victim::new(), Victim::new()];
    let streams = [&first, &second].map(|session| {
        let victim = if session == &first { &victims[0] } else { &victims[1] };
        let mut stream = connect(server.address);
        let request = server.request(&[session], &bash(1, &victim.command(), None));
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        victim.await_alive();
        stream
    });
    let delete = talk(server.address, server.head("DELETE", &[&first]) + "\r\n");
    assert_eq!(delete.status, 204);
    victims[0].await_gone();
    victims[1].assert_alive();
    sys::signal(server.agent.child.id(), libc::SIGTERM).unwrap();
    assert_eq!(server.agent.exit(Duration::from_secs(5)).code(), Some(0));
    victims[1].await_gone();
    drop(streams);
    eventually(DEADLINE, "nobody listens", || {
        std::net::TcpStream::connect(server.address).is_err()
    });
}
