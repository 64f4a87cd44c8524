//! The options of curl: which of them are understood, ignored or refused.

/// The meaning of an option of curl for a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The method; of `-I` it is HEAD.
    Method,
    Head,
    Header,
    /// A part of the body. The text of a file loses its line ends, unless it is binary; a raw one
    /// is never a file.
    Data,
    DataBinary,
    DataRaw,
    DataUrlencode,
    Json,
    Cookie,
    Agent,
    Referer,
    User,
    Bearer,
    Range,
    Compressed,
    Http(&'static str),
    Timeout,
    ConnectTimeout,
    Insecure,
    CaCert,
    Cert,
    Key,
    TlsMin(&'static str),
    TlsMax,
    UnixSocket,
    AbstractSocket,
    Url,
    Globoff,
    /// It follows redirects.
    Location,
    RedirectsMax,
    /// No request changes by it; with a value or without one.
    Ignored,
    IgnoredValue,
    /// It would change the requests in a way that a load cannot; the text is an advice.
    Refused(&'static str),
}

impl Meaning {
    /// Whether a value follows the option.
    pub(super) fn has_value(self) -> bool {
        match self {
            Self::Head
            | Self::Compressed
            | Self::Http(_)
            | Self::Insecure
            | Self::TlsMin(_)
            | Self::Globoff
            | Self::Location
            | Self::Ignored
            | Self::Refused(_) => false,
            Self::Method
            | Self::Header
            | Self::Data
            | Self::DataBinary
            | Self::DataRaw
            | Self::DataUrlencode
            | Self::Json
            | Self::Cookie
            | Self::Agent
            | Self::Referer
            | Self::User
            | Self::Bearer
            | Self::Range
            | Self::Timeout
            | Self::ConnectTimeout
            | Self::CaCert
            | Self::Cert
            | Self::Key
            | Self::TlsMax
            | Self::UnixSocket
            | Self::AbstractSocket
            | Self::Url
            | Self::RedirectsMax
            | Self::IgnoredValue => true,
        }
    }
}

/// The options by their names, with the letter of those that have one.
pub(super) const OPTIONS: &[(&str, char, Meaning)] = &[
    ("--request", 'X', Meaning::Method),
    ("--head", 'I', Meaning::Head),
    ("--header", 'H', Meaning::Header),
    ("--data", 'd', Meaning::Data),
    ("--data-ascii", NONE, Meaning::Data),
    ("--data-binary", NONE, Meaning::DataBinary),
    ("--data-raw", NONE, Meaning::DataRaw),
    ("--data-urlencode", NONE, Meaning::DataUrlencode),
    ("--json", NONE, Meaning::Json),
    ("--cookie", 'b', Meaning::Cookie),
    ("--user-agent", 'A', Meaning::Agent),
    ("--referer", 'e', Meaning::Referer),
    ("--user", 'u', Meaning::User),
    ("--oauth2-bearer", NONE, Meaning::Bearer),
    ("--range", 'r', Meaning::Range),
    ("--compressed", NONE, Meaning::Compressed),
    ("--http1.0", '0', Meaning::Http("1.0")),
    ("--http1.1", NONE, Meaning::Http("1.1")),
    ("--http2", NONE, Meaning::Http("2")),
    ("--http2-prior-knowledge", NONE, Meaning::Http("2")),
    ("--max-time", 'm', Meaning::Timeout),
    ("--connect-timeout", NONE, Meaning::ConnectTimeout),
    ("--insecure", 'k', Meaning::Insecure),
    ("--cacert", NONE, Meaning::CaCert),
    ("--cert", 'E', Meaning::Cert),
    ("--key", NONE, Meaning::Key),
    ("--tlsv1.2", NONE, Meaning::TlsMin("1.2")),
    ("--tlsv1.3", NONE, Meaning::TlsMin("1.3")),
    ("--tls-max", NONE, Meaning::TlsMax),
    ("--unix-socket", NONE, Meaning::UnixSocket),
    ("--abstract-unix-socket", NONE, Meaning::AbstractSocket),
    ("--url", NONE, Meaning::Url),
    ("--globoff", 'g', Meaning::Globoff),
    ("--location", 'L', Meaning::Location),
    ("--basic", NONE, Meaning::Ignored),
    ("--fail", 'f', Meaning::Ignored),
    ("--fail-with-body", NONE, Meaning::Ignored),
    ("--include", 'i', Meaning::Ignored),
    ("--no-buffer", 'N', Meaning::Ignored),
    ("--no-progress-meter", NONE, Meaning::Ignored),
    ("--progress-bar", '#', Meaning::Ignored),
    ("--remote-name", 'O', Meaning::Ignored),
    ("--show-error", 'S', Meaning::Ignored),
    ("--silent", 's', Meaning::Ignored),
    ("--tcp-nodelay", NONE, Meaning::Ignored),
    ("--verbose", 'v', Meaning::Ignored),
    ("--dump-header", 'D', Meaning::IgnoredValue),
    ("--keepalive-time", NONE, Meaning::IgnoredValue),
    ("--max-redirs", NONE, Meaning::RedirectsMax),
    ("--output", 'o', Meaning::IgnoredValue),
    ("--stderr", NONE, Meaning::IgnoredValue),
    ("--trace", NONE, Meaning::IgnoredValue),
    ("--trace-ascii", NONE, Meaning::IgnoredValue),
    ("--write-out", 'w', Meaning::IgnoredValue),
    ("--anyauth", NONE, Meaning::Refused(BASIC)),
    ("--config", 'K', Meaning::Refused("write its options into the line")),
    ("--connect-to", NONE, Meaning::Refused(ADDRESS)),
    ("--cookie-jar", 'c', Meaning::Refused("no cookies are kept: a load sends the same request each time")),
    ("--digest", NONE, Meaning::Refused(BASIC)),
    ("--form", 'F', Meaning::Refused("put the body into a file: --body @FILE, with its Content-Type as a --header")),
    ("--get", 'G', Meaning::Refused("put the data into the query of the URL")),
    ("--http3", NONE, Meaning::Refused("HTTP/3 is not spoken")),
    ("--interface", NONE, Meaning::Refused("use --from beside --curl")),
    ("--location-trusted", NONE, Meaning::Location),
    ("--negotiate", NONE, Meaning::Refused(BASIC)),
    ("--netrc", 'n', Meaning::Refused("give the credentials by -u user:password")),
    ("--next", ':', Meaning::Refused("one line describes one request; several URLs are a file for --urls")),
    ("--ntlm", NONE, Meaning::Refused(BASIC)),
    ("--parallel", 'Z', Meaning::Refused("use --connections beside --curl")),
    ("--path-as-is", NONE, Meaning::Refused("dots in a path are resolved; percent-encode them")),
    ("--preproxy", NONE, Meaning::Refused(PROXY)),
    ("--proxy", 'x', Meaning::Refused(PROXY)),
    ("--rate", NONE, Meaning::Refused("use --rate beside --curl")),
    ("--resolve", NONE, Meaning::Refused(ADDRESS)),
    ("--retry", NONE, Meaning::Refused("failed requests are counted, not sent again")),
    ("--socks5", NONE, Meaning::Refused(PROXY)),
    ("--upload-file", 'T', Meaning::Refused("use -X PUT --data-binary @FILE")),
];

const NONE: char = '\0';

const ADDRESS: &str =
    "put the address into the URL, and the name into -H 'Host: NAME' (for TLS --sni NAME beside --curl)";
const BASIC: &str = "only Basic authentication is made by itself; give the field as -H 'Authorization: ...'";
const PROXY: &str = "a load goes to its target directly";

/// The meaning of `--name`.
pub(super) fn by_name(name: &str) -> Option<Meaning> {
    OPTIONS.iter().find(|(candidate, ..)| *candidate == name).map(|(.., meaning)| *meaning)
}

/// The name and meaning of `-l`.
pub(super) fn by_letter(letter: char) -> Option<(&'static str, Meaning)> {
    OPTIONS.iter().find(|(_, candidate, _)| *candidate == letter).map(|(name, _, meaning)| (*name, *meaning))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_letters_are_unique() {
        let names: BTreeSet<_> = OPTIONS.iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), OPTIONS.len());
        let letters: Vec<_> = OPTIONS.iter().map(|(_, letter, _)| letter).filter(|letter| **letter != NONE).collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len());
        assert_eq!((by_letter('k'), by_name("--get").is_some()), (Some(("--insecure", Meaning::Insecure)), true));
        assert_eq!((by_letter('?'), by_name("--nonsense")), (None, None));
    }
}
