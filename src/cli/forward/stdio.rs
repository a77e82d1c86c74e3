//! A forward that has stdin and stdout for its near end: what ssh calls a ProxyCommand.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::relay::{self, Stopped};
use super::spec::To;
use super::{News, Shared};
use crate::cli::end::End;
use crate::cli::thread::spawn;
use crate::client::{ConnectionEvent, ConnectionWriter, RemoteConnection};
use crate::error::{Error, ErrorKind};
use crate::sys;
use crate::sys::signal;

/// Starts it; its end comes as news.
pub(super) fn start(shared: &Arc<Shared>, to: To) -> Result<(), End> {
    let shared = Arc::clone(shared);
    let run = move || {
        let end = match shared.client.connect(&to.params()) {
            Ok(connection) => pass(connection).unwrap_or_else(|end| end),
            Err(error) => ended(error),
        };
        let _ = shared.news.send(News::End(end));
    };
    spawn("forward", run).map_err(End::Failed)
}

/// Whose failure it is.
fn ended(error: Error) -> End {
    match error.kind() {
        ErrorKind::ConnectionLost
        | ErrorKind::StaleEpoch
        | ErrorKind::Unreachable
        | ErrorKind::Refused => End::Failed(error),
        _ => End::Refused(error),
    }
}

fn pass(mut connection: RemoteConnection) -> Result<End, End> {
    let writer = connection.writer();
    spawn("stdin", move || upload(writer)).map_err(End::Failed)?;
    let failed = |error: &io::Error| End::Failed(Error::io(error, "cannot write to stdout"));
    let mut stdout = Some(sys::fd::duplicate_standard(1).map_err(|error| failed(&error))?);
    loop {
        match connection.next(None).map_err(ended)? {
            Some(ConnectionEvent::Data(bytes)) => {
                let Some(stdout) = &stdout else { continue };
                if let Err(error) = relay::write_all(stdout.as_fd(), bytes) {
                    return Err(match error.kind() {
                        io::ErrorKind::BrokenPipe => End::Signal(signal::PIPE),
                        _ => failed(&error),
                    });
                }
            }
            Some(ConnectionEvent::Eof) => {
                // Whoever reads sees the end although we still read.
                stdout = None;
                sys::fd::close_standard_output();
            }
            Some(ConnectionEvent::Closed(None)) => return Ok(End::Code(0)),
            Some(ConnectionEvent::Closed(Some(error))) => return Err(End::Refused(error)),
            None => {}
        }
    }
}

fn upload(mut writer: ConnectionWriter) {
    let Ok(stdin) = sys::fd::duplicate_standard(0) else { return drop(writer.finish()) };
    match relay::pass_on(stdin.as_fd(), |bytes| writer.write(bytes)) {
        // (What cannot be read, such as a terminal that has gone, has come to its end.)
        Ok(()) | Err(Stopped::Reading) => drop(writer.finish()),
        Err(Stopped::Writing) => {}
    }
}
