//! `ta hosts` beside `ssh -G`, on configurations that are made from a seed.
//!
//! `TA_HOSTS_SEED=N` repeats one of them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use super::hosts::Home;
use super::hosts_generated::Maker;
use crate::support::lacks;
use crate::support::random::Random;

const CONFIGURATIONS: u64 = 400;
const THREADS: u64 = 4;

#[test]
fn every_host_leads_where_ssh_says() {
    if lacks("every_host_leads_where_ssh_says", "ssh") {
        return;
    }
    if let Some(seed) = std::env::var("TA_HOSTS_SEED").ok().and_then(|seed| seed.parse().ok()) {
        compare(seed);
        return;
    }
    let compared: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                let seeds = (1 + first..=CONFIGURATIONS).step_by(usize::try_from(THREADS).unwrap());
                let body = move || seeds.map(compare).sum::<usize>();
                thread::Builder::new()
                    .name(format!("seeds {first}"))
                    .spawn_scoped(scope, body)
                    .unwrap()
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // So that a generator of nothing would be found out.
    assert!(compared > 1000, "{compared}");
}

/// Makes one configuration and compares all its hosts; answers how many there were.
fn compare(seed: u64) -> usize {
    let home = Home::new();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let expected = Maker::new(&mut random, &home).file("config", 0);
    let mut seen = HashSet::new();
    let expected: Vec<_> = expected.into_iter().filter(|name| seen.insert(name.clone())).collect();

    let report = home.report();
    let told = || format!("TA_HOSTS_SEED={seed}\n{}\n{report:#}", files(&home.file("")));
    let hosts = report["hosts"].as_array().unwrap();
    let names: Vec<_> = hosts.iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert_eq!(names, expected, "{}", told());
    assert_eq!(report["warnings"], json!([]), "{}", told());
    for host in hosts {
        let name = host["name"].as_str().unwrap();
        let oracle = ssh(&home, name).unwrap_or_else(|error| panic!("ssh: {error}\n{}", told()));
        for member in ["hostName", "user", "port", "proxyJump"] {
            assert_eq!(host[member], oracle[member], "{name} {member}\n{}", told());
        }
    }
    hosts.len()
}

/// What `ssh -G` says of a host.
fn ssh(home: &Home, name: &str) -> Result<Value, String> {
    let mut command = Command::new("ssh");
    command.args(["-G", "-F"]).arg(home.file("config")).arg(name);
    let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |keyword: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == keyword).map(|(_, value)| value)
    };
    let port: u16 = value("port").unwrap_or_default().parse().map_err(|_| "no port".to_owned())?;
    let jumps = value("proxyjump").map(|jumps| jumps.split(',').collect()).unwrap_or_else(Vec::new);
    Ok(json!({
        "hostName": value("hostname"),
        "user": value("user"),
        "port": port,
        "proxyJump": jumps,
    }))
}

/// All files below a directory, to be read by whoever has to find the fault.
fn files(directory: &Path) -> String {
    let mut entries: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let text = entries.iter().map(|path| match path.is_dir() {
        true => files(path),
        false => format!("--- {}\n{}", path.display(), fs::read_to_string(path).unwrap()),
    });
    text.collect()
}
