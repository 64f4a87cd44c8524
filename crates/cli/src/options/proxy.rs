//! The proxy that a load goes through.

use thalweg_lab::credentials::{Credentials, user_and_password};
use thalweg_load::{ProxyKind, ProxyPlan};
use url::Url;

/// A proxy, as its URL names it.
#[derive(Clone)]
pub(crate) struct ProxyOption {
    kind: ProxyKind,
    /// Its host and port.
    pub host: String,
    pub port: u16,
    credentials: Option<(String, String)>,
    authorization: Option<String>,
}

impl std::str::FromStr for ProxyOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = "expected http://HOST:PORT or socks5://HOST:PORT, perhaps with USER:PASSWORD@ before the host";
        let mut url = Url::parse(text).map_err(|_| wrong.to_owned())?;
        let (kind, default_port) = match url.scheme() {
            "http" => (ProxyKind::Http, 80),
            "socks5" | "socks5h" => (ProxyKind::Socks5, 1080),
            _ => return Err(wrong.to_owned()),
        };
        let credentials = user_and_password(&url);
        if credentials.iter().any(|(user, password)| user.len() > 255 || password.len() > 255) {
            return Err("user and password for a proxy have at most 255 bytes each".to_owned());
        }
        let authorization = match kind {
            ProxyKind::Http => Credentials::take_from(&mut url).map_err(|error| error.to_string())?,
            ProxyKind::Socks5 => None,
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(wrong)?.to_owned();
        let authorization = authorization.map(|credentials| credentials.field_value().to_owned());
        let port = url.port().unwrap_or(default_port);
        Ok(Self { kind, host, port, credentials, authorization })
    }
}

impl std::fmt::Debug for ProxyOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl ProxyOption {
    /// The plan of tunnels to this host and port.
    ///
    /// # Errors
    /// The host's name is longer than the proxy's protocol takes.
    pub(crate) fn plan(&self, host: &str, port: u16) -> Result<ProxyPlan, String> {
        if host.len() > 255 {
            return Err("the host's name is too long for a proxy".to_owned());
        }
        let (credentials, authorization) = (self.credentials.clone(), self.authorization.clone());
        Ok(ProxyPlan { kind: self.kind, host: host.to_owned(), port, credentials, authorization })
    }

    /// The proxy in results, without credentials.
    pub(crate) fn shown(&self) -> String {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Socks5 => "socks5",
        };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_urls() {
        let shown = |text: &str| text.parse::<ProxyOption>().map(|proxy| proxy.shown());
        assert_eq!(shown("http://h:3128"), Ok("http://h:3128".to_owned()));
        assert_eq!(shown("socks5://[::1]"), Ok("socks5://[::1]:1080".to_owned()));
        assert_eq!(shown("http://user:p%40ss@h"), Ok("http://h:80".to_owned()));
        let proxy: ProxyOption = "socks5h://user:p%40ss@h".parse().expect("it is in order");
        let plan = proxy.plan("target", 80).expect("it is short");
        assert_eq!(plan.credentials, Some(("user".to_owned(), "p@ss".to_owned())));
        for wrong in ["h:3128", "https://h:3128", "ftp://h", "http://"] {
            assert!(shown(wrong).is_err(), "{wrong:?}");
        }
    }
}
