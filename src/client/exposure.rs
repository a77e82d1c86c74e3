//! What others on the way could read, and who is told of it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes a sentence for a person.
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Who is told of a token that goes in the clear. It is told once, however often the connection is
/// made anew.
#[derive(Clone)]
pub(super) struct Exposure {
    tell: Option<Tell>,
    told: Arc<AtomicBool>,
}

impl Exposure {
    pub(super) fn told_to(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Arc::new(tell)), told: Arc::default() }
    }

    pub(super) fn told_to_nobody() -> Self {
        Self { tell: None, told: Arc::default() }
    }

    /// A token is about to be sent in the clear to this address.
    pub(super) fn mind(&self, address: SocketAddr, shown: &str) {
        let Some(tell) = self.tell.as_ref().filter(|_| leaves_the_machine(address.ip())) else {
            return;
        };
        if !self.told.swap(true, Ordering::Relaxed) {
            tell(&format!(
                "the token for {shown} goes over the network in the clear, and whoever sees it can \
                 run commands there (use wss://, or a tunnel)"
            ));
        }
    }
}

fn leaves_the_machine(address: IpAddr) -> bool {
    !address.to_canonical().is_loopback()
}

impl fmt::Debug for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposure").field("told", &self.told).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sync::lock;

    #[test]
    fn only_what_leaves_the_machine_is_told_of_and_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = Arc::clone(&told);
        let exposure = Exposure::told_to(move |text| lock(&telling).push(text.to_owned()));
        for near in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            exposure.mind(near.parse().unwrap(), "ws://near/exec");
        }
        assert!(lock(&told).is_empty(), "{:?}", lock(&told));
        for far in ["10.0.0.7:1", "[fe80::1]:1", "192.0.2.1:1"] {
            exposure.clone().mind(far.parse().unwrap(), "ws://far/exec");
        }
        let told = lock(&told);
        assert!(told.len() == 1 && told[0].contains("ws://far/exec"), "{told:?}");
    }
}
