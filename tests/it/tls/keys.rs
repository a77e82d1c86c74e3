//! New keys in the middle of a connection, which TLS 1.3 lets either end ask for. No program in front of
//! a server can be told to, so this one is the test's own.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use ta_exec::protocol::ExecParams;

use super::authority::{Authority, Certificate};
use super::client;
use crate::client::finish;
use crate::support::{DEADLINE, Server, eventually, lacks};

/// What the test and the front tell each other.
#[derive(Default)]
struct Shared {
    /// How often the front is to ask for new keys.
    wanted: AtomicUsize,
    asked: AtomicUsize,
}

fn config(certificate: &Certificate) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&certificate.file).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

/// What has come, if anything has; `None` at the end.
fn take(read: std::io::Result<usize>) -> Option<usize> {
    match read {
        Ok(0) => None,
        Ok(count) => Some(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Some(0)
        }
        Err(_) => None,
    }
}

/// Passes one connection on, and asks for new keys when it is told to.
fn pass(listener: &TcpListener, to: SocketAddr, config: Arc<ServerConfig>, shared: &Shared) {
    let (mut near, _) = listener.accept().unwrap();
    let mut far = TcpStream::connect(to).unwrap();
    for socket in [&near, &far] {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
    }
    let mut tls = ServerConnection::new(config).unwrap();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        while tls.wants_write() {
            tls.write_tls(&mut near).unwrap();
        }
        let Some(count) = take(near.read(&mut buffer)) else { return };
        let mut raw = &buffer[..count];
        while !raw.is_empty() {
            tls.read_tls(&mut raw).unwrap();
            let state = tls.process_new_packets().unwrap();
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut plain).unwrap();
            far.write_all(&plain).unwrap();
        }
        if tls.is_handshaking() {
            continue;
        }
        let Some(count) = take(far.read(&mut buffer)) else { return };
        tls.writer().write_all(&buffer[..count]).unwrap();
        if shared.asked.load(Ordering::SeqCst) < shared.wanted.load(Ordering::SeqCst) {
            tls.refresh_traffic_keys().unwrap();
            shared.asked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn new_keys_are_taken_in_the_middle_of_a_connection() {
    if lacks("new_keys_are_taken_in_the_middle_of_a_connection", "openssl") {
        return;
    }
    let (authority, server) = (Authority::new(), Server::start());
    let config = config(&authority.certify("DNS:localhost"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("wss://localhost:{}/exec", listener.local_addr().unwrap().port());
    let shared = Arc::new(Shared::default());
    let (passing, address) = (Arc::clone(&shared), server.address);
    let pass = move || pass(&listener, address, config, &passing);
    let front = thread::Builder::new().name("front".into()).spawn(pass).unwrap();
    let client = client(&url, &authority);
    client.ping().unwrap();
    let ask = || {
        let wanted = shared.wanted.fetch_add(1, Ordering::SeqCst) + 1;
        eventually(DEADLINE, "the keys are asked for", || {
            shared.asked.load(Ordering::SeqCst) >= wanted
        });
    };
    // The next message answers with new keys of the client's own.
    for _ in 0..3 {
        ask();
        client.ping().unwrap();
    }
    // In the middle of output.
    let line = "head -c 2000000 /dev/zero";
    let mut process = client.exec(&ExecParams::new(line)).unwrap();
    (0..5).for_each(|_| ask());
    let (output, _) = finish(&mut process).unwrap();
    assert_eq!(output.len(), 2_000_000);
    client.ping().unwrap();
    client.close();
    front.join().unwrap();
}
