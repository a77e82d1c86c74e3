use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use ta_exec::environment::ProcessEvent;
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{finish, over_all, shell};
use crate::support::{DEADLINE, procfs};

#[test]
fn whoever_is_not_read_stops_alone() {
    over_all(|environment| {
        let mut params = SpawnParams::new("sh").arg("-c").arg("exec yes");
        params.window = NonZeroU64::new(100_000);
        let unread = environment.spawn(&params).unwrap();
        procfs::await_stalled(&[u32::try_from(unread.pid().unwrap()).unwrap()]);
        let mut other = ExecParams::new("head -c 3000000 /dev/zero | wc -c; seq 100000");
        other.window = NonZeroU64::new(4096);
        let ran = finish(environment.exec(&other).unwrap()).unwrap();
        assert!(ran.stdout.ends_with("\n100000\n"));
        let small = shell(environment, "echo fine");
        unread.control().abort();
        let end = finish(unread).unwrap().exit;
        (small, end.signal)
    });
}

#[test]
fn whoever_is_read_again_goes_on() {
    over_all(|environment| {
        let mut params = ExecParams::new("seq 200000");
        params.window = NonZeroU64::new(10_000);
        let mut process = environment.exec(&params).unwrap();
        let first = process.next(Some(Instant::now() + DEADLINE)).unwrap();
        let Some(ProcessEvent::Output(_, bytes)) = first else { panic!("{first:?}") };
        let first = bytes.len();
        std::thread::sleep(Duration::from_millis(300));
        let rest = finish(process).unwrap();
        assert_eq!(first + rest.stdout.len(), 1_288_895);
        rest.exit
    });
}
