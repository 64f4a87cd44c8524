//! Certificates of clients: who has to have one.

use std::collections::BTreeMap;

/// Whether clients have certificates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ClientCertificateMode {
    /// None is asked for.
    #[default]
    None,
    /// One is asked for, and has to be valid if it is sent.
    Optional,
    /// One is required.
    Required,
}

/// The certificates of clients, by the name that a client asks for in its handshake.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientCertificates {
    /// The authorities that issue them (PEM). They are needed where a certificate is asked for.
    pub authorities: Vec<u8>,
    /// The modes of names, in lower case. A name that begins with a dot stands for all names
    /// beneath it, unless there is a longer one.
    pub by_name: BTreeMap<Box<str>, ClientCertificateMode>,
    /// The mode for other names, and for clients that ask for none.
    pub otherwise: ClientCertificateMode,
}

impl ClientCertificates {
    /// One mode, whatever name a client asks for.
    pub fn of_all(mode: ClientCertificateMode, authorities: impl Into<Vec<u8>>) -> Self {
        Self { authorities: authorities.into(), by_name: BTreeMap::new(), otherwise: mode }
    }

    /// The mode for a client that asks for this name, which is in lower case, or for none.
    pub fn mode(&self, server_name: Option<&str>) -> ClientCertificateMode {
        let Some(name) = server_name else { return self.otherwise };
        let name = name.strip_suffix('.').unwrap_or(name);
        let beneath = name.match_indices('.').map(|(dot, _)| &name[dot..]);
        let known = std::iter::once(name).chain(beneath).find_map(|name| self.by_name.get(name));
        known.copied().unwrap_or(self.otherwise)
    }

    /// Whether any client is asked for a certificate.
    pub fn ask_any(&self) -> bool {
        self.by_name.values().chain([&self.otherwise]).any(|mode| *mode != ClientCertificateMode::None)
    }

    /// The part of a session's meaning that they are: a session that was begun under others is not
    /// resumed.
    pub(crate) fn context(&self) -> Vec<u8> {
        let mut context = vec![self.otherwise as u8];
        for (name, mode) in &self.by_name {
            context.extend_from_slice(name.as_bytes());
            context.extend_from_slice(&[0, *mode as u8]);
        }
        context.push(0);
        context.extend_from_slice(&self.authorities);
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides() {
        use ClientCertificateMode::{None, Optional, Required};
        let by_name = [("a.test", Required), (".a.test", Optional), (".b.a.test", None)];
        let by_name = by_name.map(|(name, mode)| (name.into(), mode)).into();
        let clients = ClientCertificates { by_name, ..ClientCertificates::of_all(None, "") };
        let check = |name: &str, expected| assert_eq!(clients.mode(Some(name)), expected, "{name}");
        check("a.test", Required);
        check("a.test.", Required);
        check("x.a.test", Optional);
        check("y.x.a.test", Optional);
        check("x.b.a.test", None);
        check("other.test", None);
        assert_eq!(clients.mode(Option::None), None);
        assert!(clients.ask_any() && !ClientCertificates::default().ask_any());
    }

    #[test]
    fn other_modes_are_another_context() {
        let of = |name: &str, mode, otherwise| {
            let by_name = [(name.into(), mode)].into();
            ClientCertificates { by_name, ..ClientCertificates::of_all(otherwise, "x") }.context()
        };
        use ClientCertificateMode::{None, Optional, Required};
        let one = of("a", Required, None);
        assert_eq!(one, of("a", Required, None));
        for other in [of("b", Required, None), of("a", Optional, None), of("a", Required, Optional)] {
            assert_ne!(one, other);
        }
    }
}
