//! The reason for which a certificate is refused.

use std::fmt;

use rustls::CertificateError;
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The reason for which a certificate is refused. `Display` says what is wrong and what helps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CertificateFault {
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYetValid,
    /// It is for other names.
    WrongName,
    /// It is signed with its own key, and is not trusted itself.
    SelfSigned,
    /// Its issuer was neither sent nor is trusted.
    TruncatedChain,
    /// Its chain ends in an authority that is not trusted.
    UnknownIssuer,
    /// It was revoked.
    Revoked,
    /// A signature in the chain, or that of the handshake, does not match.
    BadSignature,
    /// A signature or a key is of a kind that is not supported.
    UnsupportedAlgorithm,
    /// It is for another purpose, such as for clients only.
    WrongPurpose,
    /// It is malformed.
    Malformed,
    /// None was sent, and one is required.
    Missing,
    /// There is another reason.
    Other,
}

impl CertificateFault {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Expired,
        Self::NotYetValid,
        Self::WrongName,
        Self::SelfSigned,
        Self::TruncatedChain,
        Self::UnknownIssuer,
        Self::Revoked,
        Self::BadSignature,
        Self::UnsupportedAlgorithm,
        Self::WrongPurpose,
        Self::Malformed,
        Self::Missing,
        Self::Other,
    ];

    /// Its name in results and metrics, in lower case with underscores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::WrongName => "wrong_name",
            Self::SelfSigned => "self_signed",
            Self::TruncatedChain => "truncated_chain",
            Self::UnknownIssuer => "unknown_issuer",
            Self::Revoked => "revoked",
            Self::BadSignature => "bad_signature",
            Self::UnsupportedAlgorithm => "unsupported_algorithm",
            Self::WrongPurpose => "wrong_purpose",
            Self::Malformed => "malformed",
            Self::Missing => "missing",
            Self::Other => "other",
        }
    }

    /// The fault of a chain that was refused for an error. `chain` begins with the peer's own
    /// certificate.
    pub(crate) fn of(error: &CertificateError, chain: &[&CertificateDer<'_>]) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
            CertificateError::Revoked => Self::Revoked,
            CertificateError::BadSignature => Self::BadSignature,
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => Self::UnsupportedAlgorithm,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Self::WrongPurpose,
            CertificateError::BadEncoding => Self::Malformed,
            CertificateError::UnknownIssuer => Self::of_unknown_issuer(chain),
            // A certificate of an authority that names itself as its issuer is refused as a
            // server's before its issuer is looked for.
            _ if chain.first().is_some_and(|first| is_self_issued(first)) => Self::SelfSigned,
            _ => Self::Other,
        }
    }

    /// Tells apart the ways in which a chain does not lead to a trusted authority.
    fn of_unknown_issuer(chain: &[&CertificateDer<'_>]) -> Self {
        let Some((first, others)) = chain.split_first() else { return Self::UnknownIssuer };
        if is_self_issued(first) {
            return Self::SelfSigned;
        }
        let Ok(mut last) = EndEntityCert::try_from(*first) else { return Self::Malformed };
        // Each certificate is an issuer once at most.
        for _ in others {
            let issuer = others.iter().find_map(|other| {
                let other = EndEntityCert::try_from(*other).ok()?;
                (other.subject() == last.issuer()).then_some(other)
            });
            match issuer {
                Some(issuer) if issuer.subject() == issuer.issuer() => return Self::UnknownIssuer,
                Some(issuer) => last = issuer,
                None => break,
            }
        }
        Self::TruncatedChain
    }
}

fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_ok_and(|certificate| certificate.subject() == certificate.issuer())
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the certificate has expired; it has to be renewed, or a clock is wrong",
            Self::NotYetValid => "the certificate is not valid yet; its owner's clock, or this one, is wrong",
            Self::WrongName => "the certificate is for other names than the one that was asked for",
            Self::SelfSigned => "the certificate is self-signed; trust it by naming it as an authority",
            Self::TruncatedChain => {
                "the certificate's issuer was neither sent nor is trusted; the peer has to send its intermediate \
                 certificates, or the authority has to be trusted"
            }
            Self::UnknownIssuer => "the certificate's chain ends in an authority that is not trusted",
            Self::Revoked => "the certificate was revoked",
            Self::BadSignature => "a signature of the certificate's chain or of the handshake does not match",
            Self::UnsupportedAlgorithm => "the certificate has a key or a signature of an unsupported kind",
            Self::WrongPurpose => "the certificate is for another purpose",
            Self::Malformed => "the certificate is malformed",
            Self::Missing => "no certificate was sent, and one is required",
            Self::Other => "the certificate is not acceptable",
        })
    }
}
