//! The floors: the same job with nothing in between.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::options::LISTENER;
use crate::server::{DEADLINE, Process};

/// Runs a program as std does it, and checks that it has run.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Outcome<()> {
    let status = Command::new(program).args(arguments).status()?;
    status.success().then_some(()).ok_or_else(|| format!("{program} ended with {status}").into())
}

/// Reads all of a program's output through the pipe that std makes, and answers the count.
pub(crate) fn read_output(program: &str, arguments: &[&str]) -> Outcome<u64> {
    output_of(Command::new(program).args(arguments))
}

/// How many bytes a program writes, which must end with success.
pub(crate) fn output_of(command: &mut Command) -> Outcome<u64> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut sum = 0;
    loop {
        match stdout.read(&mut buffer)? {
            0 => break,
            count => sum += count as u64,
        }
    }
    let status = child.wait()?;
    status.success().then_some(sum).ok_or_else(|| format!("a program ended with {status}").into())
}

/// The least that a server with a thread a connection can be: this program, started anew, which
/// listens, tells its port, and sends back what it is sent.
pub(crate) struct Listener {
    process: Process,
    address: SocketAddr,
    /// From its start to its first answer.
    pub(crate) first_answer: Duration,
}

impl Listener {
    pub(crate) fn start() -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(LISTENER).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut process = Process(command.spawn()?);
        let mut line = String::new();
        BufReader::new(process.0.stderr.take().ok_or("no stderr")?).read_line(&mut line)?;
        let address = line.trim().parse()?;
        let mut echo = Echo::connect(address)?;
        echo.round_trip(b"x", 1)?;
        Ok(Self { process, address, first_answer: started.elapsed() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn connect(&self) -> Outcome<Echo> {
        Echo::connect(self.address)
    }
}

/// A connection to a [`Listener`].
pub(crate) struct Echo(TcpStream);

impl Echo {
    fn connect(address: SocketAddr) -> Outcome<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        Ok(Self(socket))
    }

    /// Sends a message and waits for an answer of `size` bytes, at most as long as the message.
    pub(crate) fn round_trip(&mut self, message: &[u8], size: usize) -> Outcome<()> {
        let mut answer = [0_u8; 256];
        // Its first byte says how long the answer is to be.
        let mut asked = [0_u8; 256];
        let asked = asked.get_mut(..message.len()).ok_or("a long message")?;
        asked.copy_from_slice(message);
        asked[0] = u8::try_from(size)?;
        self.0.write_all(asked)?;
        self.0.read_exact(answer.get_mut(..size).ok_or("a long answer")?)?;
        Ok(())
    }
}

/// The listener's own side; it ends with a signal.
pub(crate) fn listen() -> Outcome<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    writeln!(io::stderr(), "{}", listener.local_addr()?)?;
    loop {
        let (socket, _) = listener.accept()?;
        let echo = move || drop(answer(socket));
        thread::Builder::new().name("echo".to_owned()).stack_size(64 * 1024).spawn(echo)?;
    }
}

fn answer(mut socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = [0_u8; 256];
    loop {
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let size = usize::from(buffer[0]);
        socket.write_all(&buffer[..size])?;
    }
}
