//! A token in the clear.

use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use ta_exec::client::ClientOptions;

use super::text;
use crate::support::{Server, Setup, TOKEN, skipped, ta};

/// An address of this machine that is not loopback. (Nothing is sent.)
fn outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

fn url(server: &Server, address: IpAddr) -> String {
    format!("ws://{address}:{}/exec", server.address.port())
}

#[test]
fn a_token_over_ws_to_another_machine_is_warned_of_once() {
    let Some(address) = outside() else {
        skipped("a_token_over_ws_to_another_machine_is_warned_of_once", "there is no network");
        return;
    };
    let server = Setup::new().host("0.0.0.0").listen();
    let url = url(&server, address);
    let mut command = ta(&["run", "--exec", &url, "sh", "-c", "echo hello"]);
    let output = command.env("TA_EXEC_TOKEN", TOKEN).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "hello\n".to_owned()));
    assert!(stderr.starts_with("ta: warning: ") && stderr.contains("in the clear"), "{stderr}");
    assert_eq!((stderr.lines().count(), stderr.contains(TOKEN)), (1, false), "{stderr}");
    let in_query = format!("{url}?token={TOKEN}");
    let output = ta(&["run", "--exec", &in_query, "true"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("in the clear") && !stderr.contains(TOKEN), "{stderr}");
}

#[test]
fn loopback_and_a_server_without_a_token_are_not_warned_of() {
    let server = Server::start();
    let url = format!("ws://localhost:{}/exec", server.address.port());
    let mut command = ta(&["run", "--exec", &url, "true"]);
    let output = command.env("TA_EXEC_TOKEN", TOKEN).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let Some(address) = outside() else { return };
    let open = Setup::new().without_token().args(["--no-auth"]).host("0.0.0.0").listen();
    let output = ta(&["run", "--exec", &self::url(&open, address), "true"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_program_is_told_once_however_often_it_connects() {
    let Some(address) = outside() else {
        skipped("a_program_is_told_once_however_often_it_connects", "there is no network");
        return;
    };
    let server = Setup::new().host("0.0.0.0").listen();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let options = ClientOptions::new()
        .epoch(None)
        .on_warning(move |text| telling.lock().unwrap().push(text.to_owned()));
    for _ in 0..2 {
        let client = options.clone().websocket(&url(&server, address), Some(TOKEN)).unwrap();
        client.ping().unwrap();
    }
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("wss://"), "{told:?}");
}
