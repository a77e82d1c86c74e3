//! What leaves the host.

use std::env;

use ta_exec::client::{ClientOptions, ExecClient};
use ta_exec::environment::{ExecEnvironment as _, RemoteExecEnvironment};
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::finish;
use crate::support::proxy::{Proxy, after_head, unmasked_payloads};
use crate::support::{DEADLINE, Server, TOKEN, TempDir, alone, binary, eventually};

const NAME: &str = "MY_PROVIDER_API_KEY";
const VALUE: &str = "sk-do-not-send-this-0123456789";

fn pairs(variables: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Runs a command and a program with this host's environment and a little more.
fn use_it(client: ExecClient) {
    let own: Vec<(String, String)> = env::vars().collect();
    assert!(own.iter().any(|(name, value)| name == NAME && value == VALUE));
    let mut wanted = own.clone();
    wanted.push(("ADDED".to_owned(), "only-this-is-new".to_owned()));
    for (name, value) in &mut wanted {
        if name == "CHANGED" {
            "after-it-changed".clone_into(value);
        }
    }
    let delta = RemoteExecEnvironment::delta(pairs(&wanted), pairs(&own)).unwrap();
    let environment = RemoteExecEnvironment::new(client).unwrap();
    let mut exec = ExecParams::new("echo $ADDED $CHANGED");
    exec.env = Some(delta.clone());
    let (output, _) = finish(&mut environment.exec(&exec).unwrap()).unwrap();
    assert_eq!(output, b"only-this-is-new after-it-changed\n");
    let mut spawn = SpawnParams::new("env");
    spawn.env = Some(delta);
    let (output, _) = finish(&mut environment.spawn(&spawn).unwrap()).unwrap();
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(output.contains("ADDED=only-this-is-new\n"), "{output}");
}

#[track_caller]
fn assert_kept_back(sent: &str) {
    assert!(sent.contains("ADDED") && sent.contains("after-it-changed"), "{sent}");
    for secret in [NAME, VALUE, "API_KEY", "before-it-changed", "STAYS", "as-it-was"] {
        assert!(!sent.contains(secret), "{secret} was sent: {sent}");
    }
    for (name, _) in env::vars().filter(|(name, _)| name != "CHANGED" && name.len() > 3) {
        assert!(!sent.contains(&format!("\"{name}\"")), "{name} was sent: {sent}");
    }
}

const OF_THE_HOST: [(&str, &str); 3] =
    [(NAME, VALUE), ("CHANGED", "before-it-changed"), ("STAYS", "as-it-was")];

#[test]
fn a_variable_of_the_host_s_is_never_on_the_wire() {
    if !alone("client::wire::a_variable_of_the_host_s_is_never_on_the_wire", &OF_THE_HOST) {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::to(server.address);
    use_it(ExecClient::websocket(&proxy.url(), Some(TOKEN)).unwrap());
    let sent = proxy.passed(0).up;
    let (head, frames) = after_head(&sent);
    let payloads = unmasked_payloads(frames);
    assert_kept_back(&String::from_utf8_lossy(&[head, &payloads].concat()));
    // Masked or not, as bytes.
    assert!(!sent.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()));
}

#[test]
fn a_variable_of_the_host_s_is_never_on_the_pipe() {
    if !alone("client::wire::a_variable_of_the_host_s_is_never_on_the_pipe", &OF_THE_HOST) {
        return;
    }
    let dir = TempDir::new();
    let sent = dir.join("sent");
    // (A child on a pipe that is on this machine has the variables of whoever starts it; what is
    // looked at is what is sent.)
    let clean = format!("unset {NAME} CHANGED STAYS");
    let (sent_to, server) = (sent.display(), binary());
    let line = format!("{clean}; tee {sent_to} | {} exec-server --stdio", server.display());
    use_it(ClientOptions::new().stdio(&["sh", "-c", &line]).unwrap());
    let read = || std::fs::read_to_string(&sent).unwrap_or_default();
    eventually(DEADLINE, "all is noted down", || read().contains("process/spawn"));
    assert_kept_back(&read());
}
