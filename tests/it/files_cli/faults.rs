//! Copies over a connection that breaks in the middle, either way: an error in time, the old content
//! under the name, and nothing half done on either side.

use std::fs;
use std::thread;
use std::time::Duration;

use super::{Done, Running, Site, noise, parts_in};
use crate::support::proxy::{Act, Fault, Proxy, Way};
use crate::support::{DEADLINE, Setup, eventually};

/// Several messages of what a part is, so that some have arrived and some have not.
const SIZE: usize = 8 << 20;
/// In the middle of the content.
const CONTENT: usize = 3 << 20;
/// In the middle of what goes the other way: requests, or answers to writes.
const TALK: usize = 1200;
/// A server that is not heard of for so long is given up by `ta`.
const SILENCE: Duration = Duration::from_secs(60);

/// Copies over a connection with that fault, and checks what is left.
fn copy(to: Way, fault: Fault, limit: Duration) {
    let what = format!("{to:?} with {fault:?}");
    // One that hears nothing more from us gives us up after that.
    let server = Setup::new().args(["--peer-timeout", "2"]).listen();
    let proxy = Proxy::to(server.address);
    let site = Site::new("proxy", Some(server), &["--exec", &proxy.url()]);
    let (source, target) = match to {
        Way::Up => (&site.here, &site.there),
        Way::Down => (&site.there, &site.here),
    };
    source.write("source", noise(SIZE));
    target.write("target", b"old");
    let args = match to {
        Way::Up => ["source".to_owned(), site.colon("target")],
        Way::Down => [site.colon("source"), "target".to_owned()],
    };
    proxy.fault_next(fault);
    let done: Done = Running::start(site.ta("cp", args)).finish_within(limit);
    assert_eq!(done.code, 125, "{what}: {done:?}");
    // It was removed on a new connection, where it was there; else a second line would say so.
    assert!(done.stderr.lines().count() == 1, "{what}: {done:?}");
    // (A server that is told to end answers what is in flight.)
    assert!(done.stderr.contains(" was lost"), "{what}: {done:?}");
    assert_eq!(fs::read(target.join("target")).unwrap(), b"old", "{what}");
    assert!(parts_in(site.here.path()).is_empty(), "{what}");
    let is_clean = || parts_in(site.there.path()).is_empty();
    eventually(DEADLINE, &format!("nothing is left there: {what}"), is_clean);
}

/// Both ways, with trouble in the content and in the talk about it.
fn copies(acts: &[Act], limit: Duration) {
    thread::scope(|scope| {
        for act in acts {
            for (to, way, at) in [
                (Way::Up, Way::Up, CONTENT),
                (Way::Up, Way::Down, TALK),
                (Way::Down, Way::Down, CONTENT),
                (Way::Down, Way::Up, TALK),
            ] {
                let run = move || copy(to, Fault { way, at, act: *act }, limit);
                thread::Builder::new().name("copy".into()).spawn_scoped(scope, run).unwrap();
            }
        }
    });
}

#[test]
fn a_connection_that_is_cut_in_the_middle_of_a_copy_leaves_nothing_half_done() {
    copies(&[Act::Cut, Act::Reset, Act::HalfClose], DEADLINE);
}

#[test]
fn a_connection_that_stalls_in_the_middle_of_a_copy_leaves_nothing_half_done() {
    copies(&[Act::Stall], SILENCE + DEADLINE);
}
