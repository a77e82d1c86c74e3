//! A session over a login that stands, asked for at the socket of its master, as `ssh -S` does it
//! (OpenSSH's PROTOCOL.mux): starting `ssh` for that takes longer than all the rest. Whatever is not as
//! expected is an error, and `ssh` is started after all.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

const VERSION: u32 = 4;
const HELLO: u32 = 1;
const NEW_SESSION: u32 = 0x1000_0002;
const OPENED: u32 = 0x8000_0006;
const EXIT: u32 = 0x8000_0004;
/// No escape character.
const NO_ESCAPE: u32 = 0xffff_ffff;
/// The longest message that a master has for us.
const LONGEST: u32 = 256 * 1024;
/// How long it may take to answer; opening a session is a round trip to the host.
const ANSWER: Duration = Duration::from_secs(20);

/// Runs a line in the user's shell there, with these as stdin, stdout and stderr.
pub(super) fn open_session(
    socket: &UnixStream,
    line: &str,
    agent: bool,
    streams: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    socket.set_read_timeout(Some(ANSWER))?;
    socket.set_write_timeout(Some(ANSWER))?;
    send(socket, &[HELLO, VERSION], &[])?;
    let hello = receive(socket)?;
    if word(&hello, 0) != Some(HELLO) || word(&hello, 1) != Some(VERSION) {
        return Err(unexpected());
    }
    // (An id, a reserved string of no bytes, no terminal, no X11, agent or not, no subsystem.)
    let head = [NEW_SESSION, 0, 0, 0, 0, agent.into(), 0, NO_ESCAPE];
    send(socket, &head, &["", line])?;
    for stream in streams {
        send_stream(socket, stream)?;
    }
    let answer = receive(socket)?;
    if word(&answer, 0) == Some(OPENED) { Ok(()) } else { Err(unexpected()) }
}

/// The exit code of the program there, once it has ended.
pub(super) fn exit_code(socket: &UnixStream, timeout: Duration) -> Option<i32> {
    socket.set_read_timeout(Some(timeout)).ok()?;
    let told = receive(socket).ok()?;
    let code = word(&told, 2).filter(|_| word(&told, 0) == Some(EXIT))?;
    i32::try_from(code).ok()
}

/// Nobody is told of a socket that has gone by a signal. (Elsewhere a Rust program ignores that one.)
#[cfg(target_os = "linux")]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const QUIETLY: SendFlags = SendFlags::empty();

fn unexpected() -> io::Error {
    io::Error::other("the master does not answer as expected")
}

fn send(mut socket: &UnixStream, words: &[u32], texts: &[&str]) -> io::Result<()> {
    let mut message = vec![0; 4];
    for word in words {
        message.extend_from_slice(&word.to_be_bytes());
    }
    for text in texts {
        message.extend_from_slice(&length(text.len())?);
        message.extend_from_slice(text.as_bytes());
    }
    let size = length(message.len() - 4)?;
    message[..4].copy_from_slice(&size);
    socket.write_all(&message)
}

fn length(length: usize) -> io::Result<[u8; 4]> {
    u32::try_from(length).map(u32::to_be_bytes).map_err(io::Error::other)
}

fn receive(mut socket: &UnixStream) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    socket.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size);
    if size > LONGEST {
        return Err(unexpected());
    }
    let mut message = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    socket.read_exact(&mut message)?;
    Ok(message)
}

fn word(message: &[u8], place: usize) -> Option<u32> {
    let bytes = message.get(place * 4..place * 4 + 4)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// Each goes with a byte of its own.
fn send_stream(socket: &UnixStream, stream: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let streams = [stream];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(unexpected());
    }
    let sent = sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, QUIETLY)?;
    if sent == 1 { Ok(()) } else { Err(unexpected()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_message_is_its_length_its_words_and_its_texts() {
        let (near, far) = UnixStream::pair().unwrap();
        send(&near, &[NEW_SESSION, 7], &["", "ls"]).unwrap();
        let message = receive(&far).unwrap();
        assert_eq!(message.len(), 4 + 4 + 4 + 4 + 2);
        assert_eq!((word(&message, 0), word(&message, 1)), (Some(NEW_SESSION), Some(7)));
        assert_eq!((word(&message, 2), word(&message, 3)), (Some(0), Some(2)));
        assert_eq!((&message[16..], word(&message, 4)), (&b"ls"[..], None));
    }

    #[test]
    fn what_is_no_master_is_an_error() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
        let streams = [near.as_fd(), near.as_fd(), near.as_fd()];
        assert!(open_session(&near, "true", false, streams).is_err());
    }
}
