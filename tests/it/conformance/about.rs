use std::num::NonZeroU16;

use ta_exec::ErrorKind;
use ta_exec::client::ConnectionEvent;
use ta_exec::protocol::{ConnectParams, PathParams};

use super::{over_all, over_all_places, path};

#[test]
fn the_directory_is_the_one_it_was_given() {
    over_all_places(|place| {
        let environment = place.environment();
        assert_eq!(environment.cwd(), place.dir.path());
        let real = environment.realpath(&PathParams { path: path(".") }).unwrap();
        assert_eq!(real.path.as_path(), environment.cwd());
    });
}

#[test]
fn it_says_what_it_is() {
    over_all(|environment| {
        let about = environment.about().unwrap();
        assert_eq!(about.cwd, environment.cwd().to_str().unwrap());
        let epoch = (!environment.local()).then(ta_exec::client::host_epoch);
        assert_eq!(about.epoch, epoch);
        (about.server_name, about.server_version, about.os, about.arch, about.hostname, about.shell)
    });
}

#[test]
fn only_this_machine_is_local_and_the_others_connect() {
    over_all(|environment| {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        match environment.connect(&ConnectParams::tcp("127.0.0.1", port)) {
            Err(error) => {
                assert!(environment.local());
                assert_eq!(*error.kind(), ErrorKind::Unsupported);
            }
            Ok(mut connection) => {
                assert!(!environment.local());
                drop(listener.accept().unwrap());
                let event = connection.next(None).unwrap();
                assert!(matches!(event, Some(ConnectionEvent::Eof)), "{event:?}");
            }
        }
    });
}
