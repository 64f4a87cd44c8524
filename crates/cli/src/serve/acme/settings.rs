//! The settings of the ACME client, from those of the server.

use thalweg_acme::{ChallengeKind, Settings};
use thalweg_serve::{AcmeChallenge, ListenAddr, TlsConfig};

use super::state;
use crate::configuration::{Configuration, HTTP_PORT, HTTPS_PORT};

/// The client's settings; `None` if no certificate is to be obtained.
pub(crate) fn settings(configuration: &Configuration) -> Option<Settings> {
    let tls = configuration.server.tls.as_ref().filter(|tls| tls.auto)?;
    Some(Settings {
        directory: tls.acme.directory.clone(),
        roots: tls.acme.roots.clone(),
        names: configuration.server.acme_hosts(),
        contact: tls.acme.contact.iter().map(|mail| format!("mailto:{mail}")).collect(),
        state: state::folder(configuration)?,
        challenges: challenges(&configuration.server.listen, tls),
    })
}

/// The challenges that an authority can have answered. It connects to port 80 and to port 443,
/// which may be those of a host in front of this one.
fn challenges(listen: &[ListenAddr], tls: &TlsConfig) -> Vec<ChallengeKind> {
    let kind = |challenge: &AcmeChallenge| match challenge {
        AcmeChallenge::Http01 => ChallengeKind::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
    };
    if !tls.acme.challenges.is_empty() {
        return tls.acme.challenges.iter().map(kind).collect();
    }
    let is_at = |port: u16, speaks_tls: bool| {
        let is_it = |address: &&ListenAddr| matches!(address, ListenAddr::Tcp(tcp) if tcp.port() == port);
        listen.iter().filter(is_it).any(|address| tls.speaks_at(address) == speaks_tls)
    };
    match (is_at(HTTP_PORT, false), is_at(HTTPS_PORT, true)) {
        (true, true) => vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01],
        (true, false) => vec![ChallengeKind::Http01],
        (false, true) => vec![ChallengeKind::TlsAlpn01],
        (false, false) => vec![ChallengeKind::TlsAlpn01, ChallengeKind::Http01],
    }
}

/// A line that says what would be obtained.
pub(crate) fn describe(settings: &Settings) -> String {
    let challenges: Vec<_> = settings.challenges.iter().map(ToString::to_string).collect();
    format!(
        "would obtain a certificate for {} from {} by {}, and keep it in {}\n",
        settings.names.join(", "),
        settings.directory,
        challenges.join(" or "),
        settings.state.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_those_whose_port_is_listened_on() {
        use ChallengeKind::{Http01, TlsAlpn01};
        let check = |listen: &[&str], tls_listen: &[&str], expected: &[ChallengeKind]| {
            let addresses = |texts: &[&str]| -> Vec<ListenAddr> {
                texts.iter().map(|text| ListenAddr::Tcp(text.parse().unwrap())).collect()
            };
            let tls = TlsConfig { listen: addresses(tls_listen), ..TlsConfig::default() };
            assert_eq!(challenges(&addresses(listen), &tls), expected, "{listen:?} {tls_listen:?}");
        };
        check(&["0.0.0.0:80", "0.0.0.0:443"], &["0.0.0.0:443"], &[Http01, TlsAlpn01]);
        check(&["0.0.0.0:443"], &[], &[TlsAlpn01]);
        check(&["[::]:80", "[::]:8443"], &["[::]:8443"], &[Http01]);
        check(&["[::]:8443"], &[], &[TlsAlpn01, Http01]);
        // Port 80 speaks TLS, which no authority expects.
        check(&["[::]:80"], &[], &[TlsAlpn01, Http01]);
    }

    #[test]
    fn the_challenges_of_the_configuration_come_first() {
        let mut tls = TlsConfig::default();
        tls.acme.challenges = vec![AcmeChallenge::Http01];
        assert_eq!(challenges(&[], &tls), [ChallengeKind::Http01]);
    }
}
