//! One of several processes is not read.

use std::num::NonZeroU64;
use std::time::Duration;

use ta_exec::client::ClientOptions;
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{Host, finish, within};
use crate::support::procfs;

#[test]
fn whoever_is_not_read_holds_up_nobody_else_and_takes_no_more_than_its_window() {
    let host = Host::new(ClientOptions::new());
    let mut params = SpawnParams::new("yes");
    params.window = NonZeroU64::new(200_000);
    let mut unread = host.client.spawn(&params).unwrap();
    procfs::await_stalled(&[u32::try_from(unread.pid().unwrap()).unwrap()]);
    let came = host.proxy.passed(0).down_count;
    // In base64, with names around it.
    assert!((200_000..400_000).contains(&came), "{came} bytes came for a window of 200,000");
    let line = ExecParams::new("head -c 5000000 /dev/zero");
    let (output, _) = finish(&mut host.client.exec(&line).unwrap()).unwrap();
    assert_eq!(output.len(), 5_000_000);
    for _ in 0..20 {
        within(Duration::from_secs(2), || host.client.ping()).unwrap();
    }
    let all = host.proxy.passed(0).down_count;
    assert!(all < came + 5_000_000 / 3 * 4 + 500_000, "{all} bytes came");
    unread.control().abort();
    finish(&mut unread).unwrap();
}
