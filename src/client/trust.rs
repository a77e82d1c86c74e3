//! Which certificates are believed, and what is said of one that is not.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::error::{Error, ErrorKind, Result};
use crate::sys::errno;
use crate::transport::tls;
use crate::transport::tls::Receiver;

/// Speaks TLS to a host, whose certificate is signed by an authority of the file, or of this machine
/// where there is none.
pub(super) fn secure(
    socket: Arc<TcpStream>,
    host: &str,
    ca_file: Option<&Path>,
    shown: &str,
    deadline: Instant,
) -> Result<Receiver> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::params(format!("{host:?} is no name that a certificate can have")))?;
    let roots = match ca_file {
        Some(file) => roots_of(file)?,
        None => roots_of_machine()?,
    };
    let config =
        config(roots).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    tls::connect(socket, name, Arc::new(config), deadline)
        .map_err(|error| failure(&error, host, shown))
}

fn config(roots: RootCertStore) -> std::result::Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // An upgrade to WebSocket is there in HTTP/1.1 alone.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

fn roots_of(file: &Path) -> Result<RootCertStore> {
    let shown = file.display();
    let bytes = std::fs::read(file)
        .map_err(|error| Error::io(&error, format!("cannot read the CA file {shown}")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let bad = |why: &dyn std::fmt::Display| {
            Error::params(format!("the CA file {shown} has a certificate that is none: {why}"))
        };
        let certificate = certificate.map_err(|error| bad(&error))?;
        roots.add(certificate).map_err(|error| bad(&error))?;
    }
    if roots.is_empty() {
        return Err(Error::params(format!(
            "the CA file {shown} has no certificate (PEM, from -----BEGIN CERTIFICATE----- on)"
        )));
    }
    Ok(roots)
}

/// What OpenSSL would take: SSL_CERT_FILE and SSL_CERT_DIR, or else where this system keeps them.
fn roots_of_machine() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Among so many there are always some that are of no use.
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    Err(Error::params(format!(
        "this machine has no certificate authorities{why} (--ca-file FILE names some; packages \
         call them ca-certificates)"
    )))
}

/// Why there is no TLS, and what to do about it.
fn failure(error: &io::Error, host: &str, shown: &str) -> Error {
    let lost =
        |why: &str| Error::new(ErrorKind::Unreachable, format!("cannot reach {shown}: {why}"));
    let refused = |why: String| Error::new(ErrorKind::Refused, format!("{shown}: {why}"));
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(error)) => refused(of_certificate(error, host)),
        Some(rustls::Error::InvalidMessage(_)) => {
            refused("it does not speak TLS there (is ws:// meant, or another port?)".to_owned())
        }
        // What it says when it has been cut off in the middle, or has a fault of its own.
        Some(rustls::Error::AlertReceived(
            alert @ (AlertDescription::DecodeError
            | AlertDescription::InternalError
            | AlertDescription::CloseNotify
            | AlertDescription::UserCanceled),
        )) => lost(&format!("it broke the TLS handshake off: {alert:?}")),
        Some(rustls::Error::AlertReceived(alert)) => {
            refused(format!("it refuses TLS with this client: {alert:?}"))
        }
        Some(error) => refused(format!("no TLS with it: {error}")),
        None => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                lost("it did not come to terms over TLS in time (does it speak TLS there?)")
            }
            io::ErrorKind::UnexpectedEof => lost(
                "it ended the connection in the middle of the TLS handshake (does it speak TLS there?)",
            ),
            _ => lost(&errno::message(errno::of(error))),
        },
    }
}

fn of_certificate(error: &CertificateError, host: &str) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    match error {
        UnknownIssuer => "its certificate is signed by nobody who is trusted here (--ca-file FILE \
                          names whom to trust)"
            .to_owned(),
        BadSignature => "its certificate is signed by another authority than the one of that name \
                         that is trusted here (has that been made anew?)"
            .to_owned(),
        Expired | ExpiredContext { .. } => {
            "its certificate has expired (or is the clock of this machine wrong?)".to_owned()
        }
        NotValidYet | NotValidYetContext { .. } => {
            "its certificate is not valid yet (or is the clock of this machine wrong?)".to_owned()
        }
        NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            // As `DnsName("box.example.com")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
            let names: Vec<_> = presented.iter().map(bare).collect();
            format!("its certificate is not for {host}, but for {}", names.join(", "))
        }
        NotValidForName | NotValidForNameContext { .. } => {
            format!("its certificate is not for {host} (its subjectAltName counts, and no other)")
        }
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is an authority's, not a server's (basicConstraints must be CA:FALSE)"
                .to_owned()
        }
        other => format!("its certificate is not accepted: {other}"),
    }
}
