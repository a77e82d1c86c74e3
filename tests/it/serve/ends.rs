//! However it ends, nothing stays on the environment, and a newer one takes over.

use std::time::Duration;

use serde_json::json;

use super::{Agent, Place, over_both};
use crate::support::{Victim, sys, ta};

/// A command that runs there, and another that it has left in the background.
fn busy(agent: &mut Agent) -> [Victim; 2] {
    agent.hello();
    let victims = [Victim::new(), Victim::new()];
    let line = format!("setsid {} > /dev/null 2>&1 & echo left", victims[0].command());
    assert_eq!(agent.call("bash", &json!({"command": line})).as_deref(), Ok("left\n"));
    agent.ask(
        "tools/call",
        &json!({"name": "bash", "arguments": {"command": victims[1].command()}}),
    );
    for victim in &victims {
        victim.await_alive();
    }
    victims
}

#[test]
fn at_the_end_of_stdin_all_of_it_ends() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        let victims = busy(&mut agent);
        agent.close_stdin();
        assert_eq!(agent.exit(Duration::from_secs(8)).code(), Some(0));
        victims.iter().for_each(Victim::await_gone);
    });
}

#[test]
fn what_is_about_to_be_done_is_answered_at_the_end_of_stdin() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        agent.hello();
        let id = agent.ask("tools/call", &json!({"name": "ls"}));
        agent.close_stdin();
        assert_eq!(agent.answer(id)["result"]["isError"], json!(false));
    });
}

#[test]
fn a_signal_ends_it_in_order() {
    over_both(|place| {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            let mut agent = place.serve(&[]);
            let victims = busy(&mut agent);
            sys::signal(agent.child.id(), signal).unwrap();
            assert_eq!(agent.exit(Duration::from_secs(8)).code(), Some(0));
            victims.iter().for_each(Victim::await_gone);
        }
    });
}

#[test]
fn killed_it_leaves_nothing_there() {
    over_both(|place| {
        let mut agent = place.serve(&[]);
        let victims = busy(&mut agent);
        sys::signal(agent.child.id(), libc::SIGKILL).unwrap();
        victims.iter().for_each(Victim::await_gone);
    });
}

/// Without a server it is this machine, and the same holds.
#[test]
fn killed_it_leaves_nothing_here() {
    let mut agent = Agent::start(ta(&["serve"]));
    let victims = busy(&mut agent);
    sys::signal(agent.child.id(), libc::SIGKILL).unwrap();
    victims.iter().for_each(Victim::await_gone);
}

#[test]
fn a_newer_one_takes_over() {
    let place = Place::websocket();
    let mut old = place.serve(&["--epoch", "1000"]);
    let victims = busy(&mut old);
    // Its epoch is its start.
    let mut new = place.serve(&[]);
    new.hello();
    assert_eq!(new.call("bash", &json!({"command": "echo new"})).as_deref(), Ok("new\n"));
    victims.iter().for_each(Victim::await_gone);
    let told = old.call("write", &json!({"path": "x", "content": "old"})).unwrap_err();
    assert!(told.contains("another host has taken over"), "{told}");
    assert!(!place.dir.join("x").exists());
    new.close();
}

/// The next call makes a new connection.
#[test]
fn a_lost_connection_is_told_and_made_again() {
    let place = Place::websocket();
    let mut agent = place.serve(&[]);
    agent.hello();
    let victim = Victim::new();
    let command = format!("echo so far; {}", victim.command());
    let call = json!({
        "name": "bash", "arguments": {"command": command}, "_meta": {"progressToken": 1},
    });
    let id = agent.ask("tools/call", &call);
    assert_eq!(agent.message()["params"]["message"], "so far\n");
    victim.await_alive();
    let port = place.server.as_ref().unwrap().address.port();
    drop(place);
    let text = super::text_of(&agent.answer(id)["result"]).unwrap_err();
    assert!(text.starts_with("so far\n\n"), "{text}");
    let failed = agent.call("ls", &json!({})).unwrap_err();
    assert!(failed.contains("cannot reach") || failed.contains("connection"), "{failed}");
    let _again = crate::support::Setup::new().port(port).listen();
    let mut last = Err(String::new());
    crate::support::eventually(Duration::from_secs(10), "it is reached again", || {
        last = agent.call("bash", &json!({"command": "echo back"}));
        last.is_ok()
    });
    assert_eq!(last.as_deref(), Ok("back\n"));
}
