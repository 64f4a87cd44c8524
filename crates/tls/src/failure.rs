//! The failure of a TLS connection, told by alert and by certificate.

use std::fmt;

use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible};

use crate::fault::CertificateFault;

/// The end of a TLS connection by an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The alert that was sent or received, if it is known.
    pub alert: Option<Alert>,
    /// A sentence on it for a person.
    text: String,
}

/// The kinds of failures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The peer sent a fatal alert.
    AlertReceived,
    /// The peer's certificate was refused.
    Certificate(CertificateFault),
    /// There is no version, suite, group or signature that both sides support.
    NothingInCommon,
    /// There is no application protocol that both sides support (RFC 7301).
    NoApplicationProtocol,
    /// The peer sent bytes that are no TLS, or violate it.
    Protocol,
    /// A record was larger than the standard allows (RFC 8446, 5.1).
    OversizedRecord,
    /// A record could not be authenticated.
    Decryption,
    /// The peer ended the connection within the handshake.
    Ended,
    /// This side has no certificate for the name, or another problem of its own.
    Local,
}

/// A fatal alert (RFC 8446, 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Alert {
    /// Its number.
    pub number: u8,
    /// This side has sent it; if not, the peer has.
    pub is_sent: bool,
}

impl Alert {
    /// Its name as the standard has it; `unknown` for a number that is not assigned.
    pub fn name(self) -> &'static str {
        match self.number {
            0 => "close_notify",
            10 => "unexpected_message",
            20 => "bad_record_mac",
            22 => "record_overflow",
            40 => "handshake_failure",
            42 => "bad_certificate",
            43 => "unsupported_certificate",
            44 => "certificate_revoked",
            45 => "certificate_expired",
            46 => "certificate_unknown",
            47 => "illegal_parameter",
            48 => "unknown_ca",
            49 => "access_denied",
            50 => "decode_error",
            51 => "decrypt_error",
            70 => "protocol_version",
            71 => "insufficient_security",
            80 => "internal_error",
            86 => "inappropriate_fallback",
            90 => "user_canceled",
            100 => "no_renegotiation",
            109 => "missing_extension",
            110 => "unsupported_extension",
            112 => "unrecognized_name",
            113 => "bad_certificate_status_response",
            115 => "unknown_psk_identity",
            116 => "certificate_required",
            120 => "no_application_protocol",
            _ => "unknown",
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alert {} ({})", self.name(), self.number)
    }
}

impl Failure {
    /// The failure for an error of rustls. `fault` is what a verifier has found, and `sent` the
    /// alert that is known to be sent.
    pub(crate) fn of(error: &Error, fault: Option<CertificateFault>, sent: Option<u8>) -> Self {
        let kind = match error {
            Error::AlertReceived(_) => FailureKind::AlertReceived,
            Error::InvalidCertificate(error) => {
                FailureKind::Certificate(fault.unwrap_or_else(|| CertificateFault::of(error, &[])))
            }
            Error::NoCertificatesPresented => FailureKind::Certificate(CertificateFault::Missing),
            Error::PeerIncompatible(_) => FailureKind::NothingInCommon,
            Error::NoApplicationProtocol => FailureKind::NoApplicationProtocol,
            Error::PeerSentOversizedRecord | Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
                FailureKind::OversizedRecord
            }
            Error::DecryptError => FailureKind::Decryption,
            Error::InvalidMessage(_)
            | Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => FailureKind::Protocol,
            _ => FailureKind::Local,
        };
        let alert = match error {
            Error::AlertReceived(alert) => Some(Alert { number: u8::from(*alert), is_sent: false }),
            _ => sent.or_else(|| alert_for(error)).map(|number| Alert { number, is_sent: true }),
        };
        Self { kind, alert, text: text_of(kind, alert, error) }
    }

    /// The failure of a handshake that the caller had rustls make itself, with
    /// [`rustls_config`](crate::ClientSettings::rustls_config).
    pub fn of_handshake(error: &Error) -> Self {
        Self::of(error, None, None)
    }

    /// The peer ended the connection before the handshake was complete.
    pub fn ended() -> Self {
        Self {
            kind: FailureKind::Ended,
            alert: None,
            text: "the peer closed the connection within the TLS handshake; it may not speak TLS on this port".into(),
        }
    }

    /// A failure that rustls does not report itself.
    pub(crate) fn new(kind: FailureKind, text: &str) -> Self {
        Self { kind, alert: None, text: text.into() }
    }
}

/// The alert that rustls sends for an error, where that is certain.
fn alert_for(error: &Error) -> Option<u8> {
    let alert = match error {
        Error::InvalidCertificate(error) => AlertDescription::from(error.clone()),
        Error::NoCertificatesPresented => AlertDescription::CertificateRequired,
        Error::NoApplicationProtocol => AlertDescription::NoApplicationProtocol,
        Error::PeerSentOversizedRecord => AlertDescription::RecordOverflow,
        Error::DecryptError => AlertDescription::BadRecordMac,
        _ => return None,
    };
    Some(u8::from(alert))
}

fn text_of(kind: FailureKind, alert: Option<Alert>, error: &Error) -> String {
    match (kind, alert) {
        (FailureKind::Certificate(fault), _) => fault.to_string(),
        (FailureKind::AlertReceived, Some(alert)) => {
            let advice = match alert.number {
                40 | 70 | 71 => "; it supports no version, suite or group that this side allows, or not this name",
                42..=46 | 48 => "; it does not accept this side's certificate",
                116 => "; it requires a client certificate: see --cert and --key",
                112 => "; it does not serve this name",
                120 => "; it supports no application protocol that this side offers",
                _ => "",
            };
            format!("the peer sent {alert}{advice}")
        }
        (FailureKind::NothingInCommon, _) => match error {
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => "the peer supports no TLS version that is allowed here".into(),
            error => format!("the two sides have nothing in common: {error}"),
        },
        _ => format!("{error}"),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.alert {
            Some(alert) if alert.is_sent => write!(f, "; {alert} was sent"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
