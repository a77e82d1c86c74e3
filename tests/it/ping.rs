//! `ta ping`.

use serde_json::Value;

use crate::run::{Done, Running};
use crate::support::{ClosedPort, Server, binary, ta, ta_to};

fn finish(command: std::process::Command) -> Done {
    Running::start(command).finish()
}

#[test]
fn it_tells_what_the_environment_is_wherever_that_is() {
    let server = Server::start();
    let via = format!("'{}' exec-server --stdio", binary().display());
    let ways = [
        ta_to(&server, &["ping"]),
        ta(&["ping", "--via", &via]),
        ta(&["ping"]),
        ta_to(&server, &["ping", "--epoch", "7"]),
    ];
    for command in ways {
        let done = finish(command);
        assert_eq!(done.code, 0, "{done:?}");
        let text = done.text();
        for word in ["round trip", "median", "protocol 1", std::env::consts::ARCH, "features"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.lines().count() < 24, "one screen: {text}");
    }
}

#[test]
fn json_is_for_programs() {
    let server = Server::start();
    let done = finish(ta_to(&server, &["ping", "-c", "5", "--json", "--epoch", "7"]));
    let report: Value = serde_json::from_str(&done.text()).unwrap();
    let times = &report["roundTripMs"];
    assert_eq!(times["count"], 5);
    let time = |name: &str| times[name].as_f64().unwrap();
    assert!(time("min") <= time("median") && time("median") <= time("max"), "{report}");
    assert_eq!(report["server"]["epoch"], 7);
    assert_eq!(report["server"]["serverName"], "ta");
    assert_eq!(report["server"]["protocolVersion"], report["clientProtocolVersion"]);
}

#[test]
fn what_is_wrong_is_one_line() {
    let port = ClosedPort::new();
    let url = format!("ws://127.0.0.1:{}/exec?token=secret", port.port);
    let done = finish(ta(&["ping", "--exec", &url]));
    done.assert_failed(125, "cannot reach");
    assert!(!done.stderr.contains("secret"), "{done:?}");
    finish(ta(&["ping", "-c", "0"])).assert_failed(2, "at least 1");
    finish(ta(&["ping", "--exec", "ws://x", "--via", "y"])).assert_failed(2, "both given");
    let mut wrong = ta_to(&Server::start(), &["ping"]);
    wrong.env("TA_EXEC_TOKEN", "wrong");
    assert_eq!(finish(wrong).code, 125);
}
