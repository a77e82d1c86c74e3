//! A great deal through a forwarded connection: a local port, the client, the server, a target.
//!
//! The floor is one connection with nothing between. Beside it stands what a port forward is with
//! nothing to it: two connections and one thread that copies between them. Ours has three on its
//! way, one of them in base64; a machine with two processors has no more than these for all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::num::NonZeroU16;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use ta_exec::client::{ConnectionEvent, ConnectionWriter, ExecClient, RemoteConnection};
use ta_exec::protocol::ConnectParams;

use crate::Outcome;
use crate::arena::Arena;
use crate::commands;
use crate::contest::{Contender, Measured, take_turns};
use crate::figures::{Samples, Unit, float, per_second};
use crate::peers::openssh::Ssh;
use crate::procfs;
use crate::report::{Bound, Row};
use crate::server::{DEADLINE, Process, Server};

const ROUNDS: usize = 5;
/// What everybody else reads and writes at a time.
const PART: usize = 64 * 1024;
/// What the forward itself reads at a time: several chunks go out together then.
const FORWARD_PART: usize = 4 * PART;
const LEAST: f64 = 0.40;
/// What the command keeps of the library's rate.
const LEAST_OF_LIBRARY: f64 = 0.80;
const LEAST_OF_SSH: f64 = 1.5;
const LIBRARY: &str = "ta, ExecClient";
const SSH_L: &str = "ssh -L";
const MOST_EXEC: f64 = 5e-3;

#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

/// Both ways, and a command now and then on the same WebSocket.
pub(super) fn forward(arena: &Arena) -> Outcome<Vec<Row>> {
    let size: u64 = if arena.quick { 1 << 28 } else { 1 << 30 };
    let rounds = if arena.quick { 2 } else { ROUNDS };
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let ssh = Ssh::start()?;
    let mut rows = Vec::new();
    for (way, name) in [(Way::Down, "download"), (Way::Up, "upload")] {
        let busy = procfs::processor_time(server.pid())?;
        let mut contenders = vec![
            Contender::new("bare: one connection", || direct(way, size)),
            Contender::new("bare: two connections and a relay", || relayed(way, size)),
            Contender::new(LIBRARY, || forwarded(&client, way, size)),
            Contender::new("ta forward", || by_command(arena, &server, way, size)),
        ];
        if let Some(ssh) = &ssh {
            contenders.push(Contender::new(SSH_L, || by_ssh(ssh, way, size)));
        }
        let all = take_turns(contenders, rounds)?;
        let busy = procfs::processor_time(server.pid())? - busy;
        let gib = float(size) * f64::from(u32::try_from(2 * (rounds + 1))?) / float(1 << 30);
        let title = format!("{name} of {size} bytes through a forwarded connection");
        rows.push(
            Row::beside_floor(title, Unit::Rate, all)
                .bound_of(LIBRARY, Bound::PartOfFloor(LEAST))
                .bound(3, Bound::PartOf(LIBRARY, LEAST_OF_LIBRARY))
                .bound(3, Bound::PartOf(SSH_L, LEAST_OF_SSH))
                .note(format!(
                    "the server spent {} of processor time a GiB",
                    Unit::Time.show(busy / gib)
                )),
        );
        rows.push(
            Row::alone(
                format!("process/exec of `true` on the same WebSocket during a {name}"),
                Unit::Time,
                vec![exec_meanwhile(&client, way, size)?],
            )
            .bound(0, Bound::AtMost(MOST_EXEC)),
        );
    }
    Ok(rows)
}

/// The two ends of one connection.
fn pair() -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for socket in [&near, &far] {
        prepare(socket)?;
    }
    Ok((near, far))
}

fn prepare(socket: &TcpStream) -> Outcome<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(DEADLINE))?;
    socket.set_write_timeout(Some(DEADLINE))?;
    Ok(())
}

fn direct(way: Way, size: u64) -> Outcome<Vec<f64>> {
    let (near, far) = pair()?;
    timed(way, near, far, size)
}

/// What a port forward is with nothing to it: each way a thread that reads and writes.
fn relayed(way: Way, size: u64) -> Outcome<Vec<f64>> {
    let (near, local) = pair()?;
    let (remote, far) = pair()?;
    thread::scope(|scope| {
        let (from, to) = match way {
            Way::Down => (&remote, &local),
            Way::Up => (&local, &remote),
        };
        let relay = named("relay").spawn_scoped(scope, move || copy(from, to))?;
        let rate = timed(way, near, far, size)?;
        relay.join().map_err(|_| "the relay has panicked")??;
        Ok(rate)
    })
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> Outcome<()> {
    let mut buffer = vec![0_u8; PART];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(to.shutdown(Shutdown::Write)?),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

/// Sends so much from one of the ends to the other, and answers the rate.
fn timed(way: Way, near: TcpStream, far: TcpStream, size: u64) -> Outcome<Vec<f64>> {
    let (sender, receiver) = match way {
        Way::Down => (far, near),
        Way::Up => (near, far),
    };
    let start = Instant::now();
    let send = move || send(sender, size);
    let sending = named("sender").spawn(send)?;
    let count = receive(receiver)?;
    let rate = per_second(count, start.elapsed());
    sending.join().map_err(|_| "the sender has panicked")??;
    let wrong = || format!("{count} bytes came in place of {size}").into();
    (count == size).then(|| vec![rate]).ok_or_else(wrong)
}

/// Each part begins with its number, so that what comes can be checked at no cost.
fn send(mut to: TcpStream, size: u64) -> Outcome<()> {
    let mut part = vec![7_u8; PART];
    for number in 0..size / PART as u64 {
        part[..8].copy_from_slice(&number.to_le_bytes());
        to.write_all(&part)?;
    }
    Ok(to.shutdown(Shutdown::Write)?)
}

fn receive(mut from: TcpStream) -> Outcome<u64> {
    let mut buffer = vec![0_u8; PART];
    let mut count = 0_u64;
    loop {
        // (A read may begin anywhere in a part.)
        let got = match from.read(&mut buffer)? {
            0 => return Ok(count),
            got => got,
        };
        let offset = usize::try_from(count % PART as u64)?;
        let start = if offset == 0 { 0 } else { PART - offset };
        if let Some(number) = buffer[..got].get(start..start + 8) {
            let expected = (count + start as u64) / PART as u64;
            if number != expected.to_le_bytes() {
                return Err(format!("part {expected} is another").into());
            }
        }
        count += got as u64;
    }
}

/// A local port that leads to a target by way of the environment, for one connection.
struct Forward {
    address: SocketAddr,
    thread: thread::JoinHandle<Outcome<()>>,
}

impl Forward {
    fn start(client: &ExecClient, target: u16) -> Outcome<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let target = NonZeroU16::new(target).ok_or("port 0")?;
        let client = client.clone();
        let serve = move || {
            let (local, _) = listener.accept()?;
            prepare(&local)?;
            let connection = client.connect(&ConnectParams::tcp("127.0.0.1", target))?;
            let writer = connection.writer();
            thread::scope(|scope| {
                let up = named("up").spawn_scoped(scope, || upload(&local, writer))?;
                download(connection, &local)?;
                up.join().map_err(|_| "the upload has panicked")?
            })
        };
        Ok(Self { address, thread: named("forward").spawn(serve)? })
    }
}

fn upload(mut local: &TcpStream, mut writer: ConnectionWriter) -> Outcome<()> {
    let mut buffer = vec![0_u8; FORWARD_PART];
    loop {
        match local.read(&mut buffer)? {
            0 => return Ok(writer.finish()?),
            count => writer.write(&buffer[..count])?,
        }
    }
}

fn download(mut connection: RemoteConnection, mut local: &TcpStream) -> Outcome<()> {
    let deadline = Instant::now() + 4 * DEADLINE;
    loop {
        match connection.next(Some(deadline))? {
            Some(ConnectionEvent::Data(bytes)) => local.write_all(bytes)?,
            Some(ConnectionEvent::Eof) => local.shutdown(Shutdown::Write)?,
            Some(ConnectionEvent::Closed(None)) => return Ok(()),
            Some(ConnectionEvent::Closed(Some(error))) => return Err(error.into()),
            None => return Err("the connection did not end in time".into()),
        }
    }
}

/// The two ends of a connection that is forwarded; whoever receives has nothing to say.
fn ends(
    from: impl ToSocketAddrs,
    target: &TcpListener,
    way: Way,
) -> Outcome<(TcpStream, TcpStream)> {
    let near = TcpStream::connect(from)?;
    let (far, _) = target.accept()?;
    prepare(&near)?;
    prepare(&far)?;
    let silent = match way {
        Way::Down => &near,
        Way::Up => &far,
    };
    silent.shutdown(Shutdown::Write)?;
    Ok((near, far))
}

fn forwarded(client: &ExecClient, way: Way, size: u64) -> Outcome<Vec<f64>> {
    let target = TcpListener::bind(("127.0.0.1", 0))?;
    let forward = Forward::start(client, target.local_addr()?.port())?;
    let (near, far) = ends(forward.address, &target, way)?;
    let rate = timed(way, near, far, size)?;
    forward.thread.join().map_err(|_| "the forward has panicked")??;
    Ok(rate)
}

/// The same by the program that people run.
fn by_command(arena: &Arena, server: &Server, way: Way, size: u64) -> Outcome<Vec<f64>> {
    let target = TcpListener::bind(("127.0.0.1", 0))?;
    let mut command = Command::new(&arena.binary);
    command.args(["forward", &format!("0:127.0.0.1:{}", target.local_addr()?.port())]);
    command.env("TA_EXEC_URL", server.url()).env("TA_EXEC_TOKEN", server.token());
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut process = Process(command.spawn()?);
    let mut stderr = BufReader::new(process.0.stderr.take().ok_or("no stderr")?);
    let mut line = String::new();
    stderr.read_line(&mut line)?;
    let address = line.split(' ').nth(2).ok_or_else(|| format!("no address: {line:?}"))?;
    let (near, far) = ends(address, &target, way)?;
    timed(way, near, far, size)
}

/// The same by a forward that is asked for at the login that stands.
fn by_ssh(ssh: &Ssh, way: Way, size: u64) -> Outcome<Vec<f64>> {
    let target = TcpListener::bind(("127.0.0.1", 0))?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    ssh.forward(port, target.local_addr()?.port())?;
    let (near, far) = ends(("127.0.0.1", port), &target, way)?;
    timed(way, near, far, size)
}

/// Runs one command after the other for as long as a transfer takes.
fn exec_meanwhile(client: &ExecClient, way: Way, size: u64) -> Outcome<Measured> {
    let done = AtomicBool::new(false);
    let run = || {
        let mut times = Vec::new();
        while !done.load(Ordering::Acquire) {
            let start = Instant::now();
            commands::exec_true(client)?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(times)
    };
    let times: Outcome<Vec<f64>> = thread::scope(|scope| {
        let running = named("exec").spawn_scoped(scope, run)?;
        let transferred = forwarded(client, way, size);
        done.store(true, Ordering::Release);
        let times = running.join().map_err(|_| "the commands have panicked")?;
        transferred?;
        times
    });
    Ok(Measured { name: "ta, ExecClient".to_owned(), samples: Samples::new(vec![times?])? })
}
