//! TLS to an origin: the settings of the crate `tls`, over tokio's sockets.

use rustls_pki_types::ServerName;
use thalweg_tls::{ClientOptions, ClientSettings, Failure as TlsFailure, Resume, Roots};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Host;

use super::link::{Io, Spoken};
use crate::config::{Protocol, Trust};
use crate::failure::{Failure, FailureKind};

pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Settings for one server.
    ///
    /// # Errors
    /// The authorities cannot be had, or the name cannot be in a certificate.
    pub(super) fn new<S: AsRef<str>>(trust: &Trust, protocol: Protocol, host: &Host<S>) -> Result<Self, String> {
        let alpn: &[&[u8]] = match protocol {
            Protocol::Auto => &[b"h2", b"http/1.1"],
            Protocol::Http1 => &[b"http/1.1"],
            Protocol::Http2 => &[b"h2"],
        };
        let options = ClientOptions {
            alpn: alpn.iter().map(|name| name.to_vec()).collect(),
            roots: match trust {
                Trust::System | Trust::Insecure => Roots::System,
                Trust::Pem(text) => Roots::Pem(text.clone()),
            },
            insecure: *trust == Trust::Insecure,
            resume: Resume::Tickets,
            ..ClientOptions::default()
        };
        let settings = ClientSettings::new(options).map_err(|error| error.to_string())?;
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.as_ref().to_owned()).map_err(|error| error.to_string())?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::V6(*address)),
        };
        Ok(Self { connector: TlsConnector::from(settings.rustls_config()), name })
    }

    pub(super) async fn handshake(&self, socket: TcpStream) -> Result<(Box<dyn Io>, Spoken), Failure> {
        let connected = self.connector.connect(self.name.clone(), socket).await;
        let stream = connected.map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            let text = match inner {
                Some(inner) => TlsFailure::of_handshake(inner).to_string(),
                None if error.kind() == std::io::ErrorKind::UnexpectedEof => TlsFailure::ended().to_string(),
                None => error.to_string(),
            };
            Failure::new(FailureKind::Tls, format!("the TLS handshake failed: {text}"))
        })?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Box::new(stream), if is_http2 { Spoken::Http2 } else { Spoken::Http1 }))
    }
}
