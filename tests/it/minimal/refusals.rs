//! System calls that a sandbox refuses: by ENOSYS, as gVisor and old kernels do, and by EPERM, as
//! Docker once did.

use super::{assert_said_once, everything_works};
use crate::support::sandbox::{self, refusing, refusing_static};
use crate::support::{Peer, TempDir, over_both_with, skipped};

const ERRNOS: [&str; 2] = ["ENOSYS", "EPERM"];

#[test]
fn without_pidfds_everything_works() {
    for errno in ERRNOS {
        let setup = || refusing(&["pidfd", "clone-pidfd"], errno);
        over_both_with(setup, |peer| {
            everything_works(peer, &TempDir::new());
            assert_said_once(peer, "there are no pidfds");
        });
    }
}

#[test]
fn without_orphans_for_the_guardian_everything_works() {
    for errno in ERRNOS {
        let setup = || refusing(&["subreaper"], errno);
        over_both_with(setup, |peer| {
            everything_works(peer, &TempDir::new());
            assert_said_once(peer, "the guardian is handed no orphans");
        });
    }
}

#[test]
fn without_what_newer_kernels_brought_everything_works() {
    for errno in ERRNOS {
        let setup = || refusing(&["new", "files"], errno);
        over_both_with(setup, |peer| everything_works(peer, &TempDir::new()));
    }
}

#[test]
fn what_is_refused_is_told_by_check() {
    const TOLD: [(&str, &str); 4] =
        [("pidfd", "pidfd"), ("clone3", "clone3"), ("mark", "marks"), ("subreaper", "subreaper")];
    for errno in ERRNOS {
        for (rule, _) in TOLD {
            let value = sandbox::check(&[rule], errno);
            for (other, member) in TOLD {
                assert_eq!(value[member], other != rule, "{member} without {rule}: {value}");
            }
        }
    }
}

/// All of it at once.
#[test]
fn in_a_sandbox_that_knows_little_everything_works() {
    const NAME: &str = "in_a_sandbox_that_knows_little_everything_works";
    const ALL: [&str; 7] = ["pidfd", "clone3", "clone-pidfd", "mark", "subreaper", "new", "files"];
    let works = |peer: &mut Peer| {
        everything_works(peer, &TempDir::new());
        for what in ["no limit to mark them by", "no pidfds", "is handed no orphans"] {
            assert_said_once(peer, what);
        }
    };
    over_both_with(|| refusing(&ALL, "ENOSYS"), works);
    if refusing_static(&ALL, "EPERM").is_none() {
        skipped(NAME, "there is no static binary, and it cannot be built");
        return;
    }
    over_both_with(|| refusing_static(&ALL, "EPERM").unwrap(), works);
}
