//! `initialize` and `ping`.

use serde_json::json;

use crate::support::{Setup, TempDir, over_both, over_both_with, procfs};

#[test]
fn initialize_describes_the_server_and_its_machine() {
    over_both(|peer| {
        let result = peer.ok("initialize", &json!({"clientName": "it", "clientVersion": "1"}));
        assert_eq!(result["protocolVersion"], 1);
        assert_eq!(result["serverName"], "ta");
        assert_eq!(result["serverVersion"], env!("CARGO_PKG_VERSION"));
        assert_eq!(result["os"], "linux");
        assert_eq!(result["arch"], std::env::consts::ARCH);
        assert_eq!(result["maxMessageBytes"], 64 << 20);
        assert_eq!(result["epoch"], json!(null));
        for path in ["cwd", "home", "tmpdir", "shell"] {
            let value = result[path].as_str().unwrap_or_else(|| panic!("{path} in {result}"));
            assert!(value.starts_with('/'), "{path} is absolute: {result}");
        }
        let hostname = procfs::read_lossy("/proc/sys/kernel/hostname");
        assert_eq!(result["hostname"], hostname.trim());
        let features = result["features"].as_array().expect("features");
        assert!(features.iter().all(serde_json::Value::is_string), "{result}");
    });
}

#[test]
fn initialize_names_the_serving_process() {
    over_both(|peer| {
        let pid = peer.server_pid();
        let name = procfs::read_lossy(format!("/proc/{pid}/cmdline"));
        assert!(name.contains("exec-server"), "pid {pid} is {name:?}");
        let child = peer.run(json!({"command": "sh", "args": ["-c", "echo $PPID"]}));
        assert_eq!(child.text().trim(), pid.to_string());
    });
}

#[test]
fn initialize_may_be_called_again_and_never() {
    over_both(|peer| {
        assert_eq!(peer.sh("echo before").text(), "before\n");
        let first = peer.ok("initialize", &json!({}));
        assert_eq!(peer.ok("initialize", &json!({})), first);
    });
}

#[test]
fn initialize_tells_the_limits_and_places_the_server_was_given() {
    let dir = TempDir::new();
    let home = TempDir::new();
    let setup = || {
        let cwd = dir.path().to_str().unwrap();
        Setup::new()
            .args(["--cwd", cwd, "--max-message-bytes", "100000", "--shell", "/bin/sh"])
            .env("HOME", home.path().to_str().unwrap())
            .env("TMPDIR", home.path().to_str().unwrap())
    };
    over_both_with(setup, |peer| {
        let result = peer.ok("initialize", &json!({}));
        assert_eq!(result["cwd"], json!(dir.path()));
        assert_eq!(result["home"], json!(home.path()));
        assert_eq!(result["tmpdir"], json!(home.path()));
        assert_eq!(result["maxMessageBytes"], 100_000);
        assert_eq!(result["shell"], "/bin/sh");
    });
}

#[test]
fn a_relative_cwd_of_the_server_is_made_absolute() {
    over_both_with(
        || Setup::new().args(["--cwd", "."]),
        |peer| {
            let cwd = std::env::current_dir().unwrap().canonicalize().unwrap();
            assert_eq!(peer.ok("initialize", &json!({}))["cwd"], json!(cwd));
            assert_eq!(peer.sh("pwd -P").text().trim(), cwd.to_str().unwrap());
        },
    );
}

#[test]
fn a_server_whose_cwd_does_not_exist_refuses_to_start() {
    for cwd in ["/no/such/dir", "/etc/passwd"] {
        let refusal = Setup::new().args(["--cwd", cwd]).refused();
        assert!(!refusal.status.success());
        assert!(refusal.stderr.contains(cwd), "{}", refusal.stderr);
    }
}

#[test]
fn pings_are_answered_with_an_empty_object() {
    over_both(|peer| {
        for _ in 0..200 {
            peer.ping();
        }
    });
}

#[test]
fn many_requests_at_once_are_each_answered_once() {
    over_both(|peer| {
        let ids: Vec<_> = (0..500).map(|_| peer.request("ping", &json!({}))).collect();
        for id in ids {
            assert_eq!(peer.answer(&id).unwrap(), json!({}));
        }
        peer.assert_quiet();
    });
}
