//! Versions, cipher suites and key-exchange groups by name, in rustls' order unless they are named.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::settings_error::SettingsError;

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// The number, such as `1.3`.
    pub const fn number(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    /// The name, such as `TLSv1.3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

impl FromStr for Version {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "1.2" => Ok(Self::Tls12),
            "1.3" => Ok(Self::Tls13),
            _ => Err(SettingsError::Unknown { what: "TLS version", name: text.into(), known: "1.2, 1.3".into() }),
        }
    }
}

/// The parameters that a side offers or accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The lowest version.
    pub version_min: Version,
    /// The highest version.
    pub version_max: Version,
    /// Names of groups, the preferred one first; empty: rustls' own, X25519MLKEM768 first.
    pub groups: Vec<String>,
    /// Names of suites, the preferred one first; empty: rustls' own.
    pub suites: Vec<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { version_min: Version::Tls12, version_max: Version::Tls13, groups: Vec::new(), suites: Vec::new() }
    }
}

impl Selection {
    /// Checks all names.
    ///
    /// # Errors
    /// A name is unknown, or nothing is left to negotiate.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.provider().map(drop)
    }

    /// The provider with these suites and groups.
    pub(crate) fn provider(&self) -> Result<Arc<CryptoProvider>, SettingsError> {
        let mut provider = aws_lc_rs::default_provider();
        if !self.groups.is_empty() {
            provider.kx_groups = self.groups.iter().map(|name| group(name)).collect::<Result<_, _>>()?;
        }
        if !self.suites.is_empty() {
            provider.cipher_suites = self.suites.iter().map(|name| suite(name)).collect::<Result<_, _>>()?;
        }
        let versions = self.versions();
        if versions.is_empty() {
            return Err(SettingsError::Selection(format!(
                "the lowest TLS version, {}, is above the highest, {}",
                self.version_min, self.version_max
            )));
        }
        // A version without a suite could not be negotiated, which rustls refuses as a whole.
        if !versions
            .iter()
            .any(|version| provider.cipher_suites.iter().any(|suite| suite.version().version == version.version))
        {
            return Err(SettingsError::Selection(format!(
                "none of the suites {} is for a TLS version that is allowed",
                self.suites.join(", ")
            )));
        }
        Ok(Arc::new(provider))
    }

    /// The versions that have a suite.
    pub(crate) fn versions_of(&self, provider: &CryptoProvider) -> Vec<&'static SupportedProtocolVersion> {
        let mut versions = self.versions();
        versions
            .retain(|version| provider.cipher_suites.iter().any(|suite| suite.version().version == version.version));
        versions
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(Version::Tls13, &version::TLS13), (Version::Tls12, &version::TLS12)];
        let is_allowed = |version: Version| self.version_min <= version && version <= self.version_max;
        all.into_iter().filter(|(version, _)| is_allowed(*version)).map(|(_, supported)| supported).collect()
    }
}

/// The names of all groups, the default ones first and in their order.
pub fn group_names() -> Vec<&'static str> {
    all_groups().map(group_name).collect()
}

/// The names of all suites, in the default order.
pub fn suite_names() -> Vec<&'static str> {
    aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| suite_name(*suite)).collect()
}

fn all_groups() -> impl Iterator<Item = &'static dyn SupportedKxGroup> {
    let defaults = aws_lc_rs::DEFAULT_KX_GROUPS;
    let others = aws_lc_rs::ALL_KX_GROUPS.iter();
    let others = others.filter(move |group| defaults.iter().all(|default| default.name() != group.name()));
    defaults.iter().chain(others).copied()
}

/// The name of a group as the registry of TLS has it.
pub(crate) fn group_name(group: &'static dyn SupportedKxGroup) -> &'static str {
    group.name().as_str().unwrap_or("unknown")
}

/// The name of a suite as the registry of TLS has it.
pub(crate) fn suite_name(suite: SupportedCipherSuite) -> &'static str {
    match suite.suite().as_str() {
        Some("TLS13_AES_128_GCM_SHA256") => "TLS_AES_128_GCM_SHA256",
        Some("TLS13_AES_256_GCM_SHA384") => "TLS_AES_256_GCM_SHA384",
        Some("TLS13_CHACHA20_POLY1305_SHA256") => "TLS_CHACHA20_POLY1305_SHA256",
        name => name.unwrap_or("unknown"),
    }
}

fn group(name: &str) -> Result<&'static dyn SupportedKxGroup, SettingsError> {
    let wanted = match name.to_ascii_lowercase().as_str() {
        "p-256" | "p256" | "prime256v1" => "secp256r1".to_owned(),
        "p-384" | "p384" => "secp384r1".to_owned(),
        name => name.to_owned(),
    };
    all_groups().find(|group| group_name(*group).eq_ignore_ascii_case(&wanted)).ok_or_else(|| SettingsError::Unknown {
        what: "group",
        name: name.into(),
        known: group_names().join(", "),
    })
}

fn suite(name: &str) -> Result<SupportedCipherSuite, SettingsError> {
    let mut all = aws_lc_rs::ALL_CIPHER_SUITES.iter().copied();
    all.find(|suite| suite_name(*suite).eq_ignore_ascii_case(name)).ok_or_else(|| SettingsError::Unknown {
        what: "cipher suite",
        name: name.into(),
        known: suite_names().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registry_and_the_hybrid_group_comes_first() {
        assert_eq!(group_names()[..4], ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"]);
        assert_eq!(suite_names()[0], "TLS_AES_256_GCM_SHA384");
        assert!(suite_names().contains(&"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"));
    }

    #[test]
    fn a_wrong_selection_is_explained() {
        let check = |selection: Selection, text: &str| {
            let error = selection.check().expect_err("it is wrong").to_string();
            assert!(error.contains(text), "{error}");
        };
        let default = Selection::default;
        assert!(default().check().is_ok());
        check(Selection { groups: vec!["x448".into()], ..default() }, "known are X25519MLKEM768, X25519");
        check(Selection { suites: vec!["RC4".into()], ..default() }, "known are TLS_AES_256_GCM_SHA384");
        check(
            Selection { version_min: Version::Tls13, version_max: Version::Tls12, ..default() },
            "1.3, is above the highest, 1.2",
        );
        check(
            Selection { suites: vec!["TLS_AES_128_GCM_SHA256".into()], version_max: Version::Tls12, ..default() },
            "none of the suites",
        );
    }
}
