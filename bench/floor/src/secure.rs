//! TLS 1.3 at its floor: rustls makes the handshake, then its keys are used on whole records in
//! place, without a copy or an allocation.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, Ipv4Addr, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, Connection, ConnectionTrafficSecrets, DigitallySignedStruct, ServerConfig,
    ServerConnection, SignatureScheme,
};

use crate::plan::Plan;

const HEAD_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
const PLAIN_BYTES_MAX: usize = 16_384;
const APPLICATION_DATA: u8 = 23;
const HANDSHAKE: u8 = 22;

/// The settings of one role, made once.
pub(crate) enum Settings {
    Client(Arc<ClientConfig>),
    Server(Arc<ServerConfig>),
}

impl Settings {
    /// # Errors
    /// The certificate or its key cannot be used.
    pub(crate) fn client(plan: &Plan) -> io::Result<Self> {
        let verifier = Arc::new(AnyCertificate(Arc::new(provider::default_provider())));
        let versions = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13]);
        let mut config = versions.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = alpn(plan);
        config.enable_secret_extraction = true;
        if !plan.resume {
            config.resumption = Resumption::disabled();
        }
        Ok(Self::Client(Arc::new(config)))
    }

    /// # Errors
    /// The certificate or its key cannot be used.
    pub(crate) fn server(plan: &Plan, certificate: &(impl AsRef<Path>, impl AsRef<Path>)) -> io::Result<Self> {
        let (chain, key) = (certificate.0.as_ref(), certificate.1.as_ref());
        let unusable = |path: &Path| format!("--certificate: {} cannot be used", path.display());
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&fs::read(chain)?)
            .collect::<Result<_, _>>()
            .map_err(|error| io::Error::other(format!("{}: {error}", unusable(chain))))?;
        let private = PrivateKeyDer::from_pem_slice(&fs::read(key)?)
            .map_err(|error| io::Error::other(format!("{}: {error}", unusable(key))))?;
        let versions = ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13]);
        let mut config = versions
            .with_no_client_auth()
            .with_single_cert(certificates, private)
            .map_err(|error| io::Error::other(format!("{}: {error}", unusable(chain))))?;
        config.alpn_protocols = alpn(plan);
        config.enable_secret_extraction = true;
        config.send_tls13_tickets = usize::from(plan.resume);
        if plan.resume {
            config.ticketer = provider::Ticketer::new().map_err(io::Error::other)?;
        }
        Ok(Self::Server(Arc::new(config)))
    }

    /// A connection that has sent and received nothing.
    pub(crate) fn begin(&self) -> io::Result<Handshake> {
        let connection = match self {
            Self::Client(config) => {
                let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([127, 0, 0, 1])));
                ClientConnection::new(Arc::clone(config), name).map(Connection::Client)
            }
            Self::Server(config) => ServerConnection::new(Arc::clone(config)).map(Connection::Server),
        };
        Ok(Handshake(connection.map_err(io::Error::other)?))
    }
}

fn alpn(plan: &Plan) -> Vec<Vec<u8>> {
    vec![if plan.streams > 0 { b"h2".to_vec() } else { b"http/1.1".to_vec() }]
}

/// A handshake under way.
pub(crate) struct Handshake(Connection);

impl Handshake {
    /// Takes one record, whole with its head.
    ///
    /// # Errors
    /// The handshake fails.
    pub(crate) fn read(&mut self, mut record: &[u8]) -> io::Result<()> {
        while !record.is_empty() {
            self.0.read_tls(&mut record.by_ref())?;
        }
        self.0.process_new_packets().map(drop).map_err(io::Error::other)
    }

    /// Appends what is to be sent.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(out)?;
        }
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// The keys, once the handshake is over and everything is sent.
    pub(crate) fn into_records(self) -> io::Result<Records> {
        let secrets = self.0.dangerous_extract_secrets().map_err(io::Error::other)?;
        Ok(Records { seal: Direction::new(secrets.tx)?, open: Direction::new(secrets.rx)? })
    }

    /// The next record goes through rustls, which learns from it what resumption needs.
    ///
    /// # Errors
    /// The record cannot be opened.
    pub(crate) fn open(&mut self, record: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        self.read(record)?;
        match self.0.reader().read_to_end(plain) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Seals through rustls.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        io::Write::write_all(&mut self.0.writer(), plain)?;
        self.write(out)
    }
}

/// The record layer of an established connection (RFC 8446, 5.2).
pub(crate) struct Records {
    seal: Direction,
    open: Direction,
}

struct Direction {
    key: LessSafeKey,
    iv: [u8; 12],
    number: u64,
}

impl Direction {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(io::Error::other("a cipher suite that the floor does not know")),
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).map_err(io::Error::other)?);
        let iv = iv.as_ref().try_into().map_err(io::Error::other)?;
        Ok(Self { key, iv, number })
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= number;
        }
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Records {
    /// Opens one record in place, whole with its head; what it carries, unless it is the
    /// handshake's.
    ///
    /// # Errors
    /// It is not the peer's.
    pub(crate) fn open<'a>(&mut self, record: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let (head, sealed) = record.split_at_mut(HEAD_BYTES);
        let nonce = self.open.nonce();
        let opened = self.open.key.open_in_place(nonce, Aad::from(head), sealed);
        let plain = opened.map_err(|_| io::Error::other("a record that cannot be opened"))?;
        match plain.split_last() {
            Some((&APPLICATION_DATA, plain)) => Ok(plain),
            Some((&HANDSHAKE, _)) => Ok(&[]),
            _ => Err(io::Error::other("an alert")),
        }
    }

    /// Appends the bytes as records.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for plain in plain.chunks(PLAIN_BYTES_MAX) {
            let sealed = (plain.len() + 1 + TAG_BYTES) as u16;
            let begin = out.len();
            out.extend_from_slice(&[APPLICATION_DATA, 3, 3]);
            out.extend_from_slice(&sealed.to_be_bytes());
            out.extend_from_slice(plain);
            out.push(APPLICATION_DATA);
            let (head, body) = out[begin..].split_at_mut(HEAD_BYTES);
            let nonce = self.seal.nonce();
            let tag = self.seal.key.seal_in_place_separate_tag(nonce, Aad::from(head), body);
            out.extend_from_slice(tag.map_err(io::Error::other)?.as_ref());
        }
        Ok(())
    }
}

/// The length of the record at the beginning, whole with its head, if it is there.
pub(crate) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, high, low, ..] = bytes else { return None };
    let length = HEAD_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
    (bytes.len() >= length).then_some(length)
}

/// Takes any chain, and checks signatures as every client does.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
