//! By TLS, which is how Codex tells its token to another machine.

use crate::codex::here::Here;
use crate::codex::model::{Model, exec};
use crate::support::{Server, TOKEN};
use crate::tls::authority::Authority;
use crate::tls::front::{Front, Kind};

#[test]
fn a_server_behind_tls_is_reached_with_a_token() {
    const NAME: &str = "a_server_behind_tls_is_reached_with_a_token";
    for kind in [Kind::Stunnel, Kind::Nginx, Kind::Caddy] {
        if !kind.is_missing(NAME) {
            behind(NAME, kind);
        }
    }
}

fn behind(test: &str, kind: Kind) {
    let Some(here) = Here::new(test) else { return };
    let (server, authority) = (Server::start(), Authority::new());
    let certificate = authority.certify("DNS:localhost");
    let front = Front::start(kind, server.address, &certificate);
    here.reached_at(&format!("wss://localhost:{}", front.address.port()), TOKEN);
    let model = Model::that(&[exec("echo hello; pwd")]);
    let mut command = here.command(&model, &["--dangerously-bypass-approvals-and-sandbox"]);
    command.env("SSL_CERT_FILE", authority.file());
    crate::codex::here::Session::start(command).finish();
    let answers = model.answers();
    let cwd = here.cwd.display();
    assert!(answers[0].ends_with(&format!("Output:\nhello\n{cwd}\n")), "{answers:?}");
}

/// It does not say it, and runs nothing elsewhere.
#[test]
fn codex_keeps_its_token_from_another_machine_without_tls() {
    const NAME: &str = "codex_keeps_its_token_from_another_machine_without_tls";
    let Some(here) = Here::new(NAME) else { return };
    let Some(environment) = here.there(NAME, &[]) else { return };
    here.reached_at(&format!("ws://{}", environment.there.address()), TOKEN);
    let model = Model::that(&[exec("touch it-ran")]);
    let command = here.command(&model, &["--dangerously-bypass-approvals-and-sandbox"]);
    let said = crate::codex::here::Session::start(command).fail();
    assert!(said.contains("require wss:// or a loopback destination"), "{said}");
    assert!(!here.cwd.join("it-ran").exists());
    assert!(!environment.path(&here.path("it-ran")).exists());
}
