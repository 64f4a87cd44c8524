//! The negotiated parameters of a connection.

use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use crate::selection::{Version, group_name, suite_name};

/// The parameters of an established connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The version.
    pub version: Version,
    /// The cipher suite, as the registry of TLS has it.
    pub suite: &'static str,
    /// The group of the key exchange; `None` where a session of TLS 1.2 was resumed, which has
    /// none.
    pub group: Option<&'static str>,
    /// The application protocol (RFC 7301), if one was negotiated.
    pub alpn: Option<Box<[u8]>>,
    /// The kind of handshake.
    pub handshake: Handshake,
    /// The name that the client asked for (RFC 6066, 3); on a client, that of its server if it is
    /// a host name.
    pub server_name: Option<Box<str>>,
    /// Bytes of all certificates of the peer; 0 if it has none.
    pub peer_chain_bytes: usize,
    /// The peer's certificate was verified, in this handshake or in the one that was resumed.
    pub is_peer_verified: bool,
}

/// The kinds of handshakes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Handshake {
    /// With certificates.
    Full,
    /// With certificates, and a round trip more because the group of the client's guess was not the
    /// server's choice (RFC 8446, 4.1.4).
    FullAfterRetry,
    /// With the secret of an earlier session.
    Resumed,
}

impl Facts {
    /// The facts of a connection whose handshake is complete.
    pub(crate) fn of(state: &CommonState, server_name: Option<&str>, is_peer_verified: bool) -> Option<Self> {
        let chain = state.peer_certificates().unwrap_or_default();
        Some(Self {
            version: match state.protocol_version()? {
                ProtocolVersion::TLSv1_3 => Version::Tls13,
                _ => Version::Tls12,
            },
            suite: suite_name(state.negotiated_cipher_suite()?),
            group: state.negotiated_key_exchange_group().map(group_name),
            alpn: state.alpn_protocol().map(Into::into),
            handshake: match state.handshake_kind()? {
                HandshakeKind::Full => Handshake::Full,
                HandshakeKind::FullWithHelloRetryRequest => Handshake::FullAfterRetry,
                _ => Handshake::Resumed,
            },
            server_name: server_name.map(Into::into),
            peer_chain_bytes: chain.iter().map(|certificate| certificate.len()).sum(),
            is_peer_verified: is_peer_verified && !chain.is_empty(),
        })
    }
}
