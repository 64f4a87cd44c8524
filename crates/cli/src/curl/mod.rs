//! A line of curl in the place of a target and its request (`--curl`).
//!
//! The line becomes one URL and one request. An option that would change it in a way that a load
//! cannot is refused by its name; one that does not change it is ignored with a remark. Options of
//! Thalweg that are given beside the line take precedence.

mod options;
mod words;

use std::fs;
use std::path::PathBuf;

use thalweg_lab::credentials;
use url::Url;

use self::options::{Meaning, by_letter, by_name};
use crate::exit::{Failure, remark};
use crate::options::{Body, HttpVersion, LoadOptions, REDIRECTS_BY_DEFAULT, REDIRECTS_MAX, RequestOptions};
use crate::requests::is_secret;

/// A line of curl: what it requests, and how it connects.
#[derive(Debug, Default)]
pub(crate) struct CurlLine {
    url: String,
    method: Option<String>,
    is_head: bool,
    /// Fields in their order; one without a value keeps curl from sending its own.
    fields: Vec<(String, Option<String>)>,
    data: Vec<Data>,
    is_json: bool,
    is_compressed: bool,
    credentials: Option<String>,
    http: Option<&'static str>,
    timeout_s: Option<String>,
    connect_timeout_s: Option<String>,
    is_insecure: bool,
    cacert: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    tls_min: Option<String>,
    tls_max: Option<String>,
    socket: Option<String>,
    has_globs: bool,
    follows: bool,
    /// How many redirects of a request are followed at most, if the line says it.
    redirects_max: Option<String>,
    ignored: Vec<String>,
}

/// A part of the body.
#[derive(Debug, PartialEq, Eq)]
enum Data {
    Text(String),
    /// The file's text, without its line ends unless it is binary.
    File {
        path: PathBuf,
        is_binary: bool,
    },
    /// The file's text, percent-encoded, behind a name.
    Encoded {
        name: Option<String>,
        path: PathBuf,
    },
}

/// The words that end a command in a shell.
const OPERATORS: [&str; 6] = ["|", "||", "&", "&&", ";", ">"];

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

impl CurlLine {
    /// Understands a line.
    ///
    /// # Errors
    /// It is none of curl, or has something that a load cannot do.
    pub(crate) fn parse(line: &str) -> Result<Self, Failure> {
        Self::read(line).map_err(|what| Failure::usage(format!("--curl: {what}")))
    }

    fn read(line: &str) -> Result<Self, String> {
        let mut words = words::split(line)?.into_iter().skip_while(|word| word == "$");
        let program = words.next().unwrap_or_default();
        if program != "curl" && !program.ends_with("/curl") {
            return Err(format!("expected a line that begins with curl, not with {program:?}"));
        }
        let mut read = Self { has_globs: true, ..Self::default() };
        let mut only_urls = false;
        while let Some(word) = words.next() {
            if OPERATORS.contains(&&*word) || word.starts_with(['>', '<']) || word.starts_with("2>") {
                return Err(format!("{word:?} is for a shell; give only the command curl itself"));
            }
            if word == "--" {
                only_urls = true;
            } else if only_urls || !word.starts_with('-') || word == "-" {
                read.set_url(word)?;
            } else if word.starts_with("--") {
                let meaning = by_name(&word).ok_or_else(|| unknown(&word))?;
                let value = if meaning.has_value() { Some(words.next()) } else { None };
                read.apply(&word, meaning, value.map(|value| value.ok_or_else(|| lacks(&word))).transpose()?)?;
            } else {
                read.apply_letters(&word, &mut words)?;
            }
        }
        read.ensure_whole()?;
        Ok(read)
    }

    /// Applies options of one letter, which may stand together: `-sSk`, `-XPOST`.
    fn apply_letters(&mut self, word: &str, words: &mut impl Iterator<Item = String>) -> Result<(), String> {
        let letters = &word[1..];
        for (at, letter) in letters.char_indices() {
            let option = format!("-{letter}");
            let (_, meaning) = by_letter(letter).ok_or_else(|| unknown(&option))?;
            if !meaning.has_value() {
                self.apply(&option, meaning, None)?;
                continue;
            }
            let beside = &letters[at + letter.len_utf8()..];
            let value = if beside.is_empty() { words.next() } else { Some(beside.to_owned()) };
            return self.apply(&option, meaning, Some(value.ok_or_else(|| lacks(&option))?));
        }
        Ok(())
    }

    /// Applies an option, which has a value if its meaning needs one.
    fn apply(&mut self, option: &str, meaning: Meaning, value: Option<String>) -> Result<(), String> {
        let value = value.unwrap_or_default();
        match meaning {
            Meaning::Method => self.method = Some(value),
            Meaning::Head => self.is_head = true,
            Meaning::Header => self.add_header(&value)?,
            Meaning::Data | Meaning::DataBinary | Meaning::DataRaw | Meaning::DataUrlencode | Meaning::Json => {
                self.add_data(meaning, &value)?;
            }
            Meaning::Cookie if !value.contains('=') => {
                return Err(format!("{option} {value}: no files of cookies are read; give them as name=value"));
            }
            Meaning::Cookie => self.add_cookie(&value),
            Meaning::Agent => self.add_field("User-Agent", value),
            Meaning::Referer => self.add_field("Referer", value.trim_end_matches(";auto").to_owned()),
            Meaning::User if !value.contains(':') => {
                return Err(format!("{option}: expected user:password; no password is asked for"));
            }
            Meaning::User => self.credentials = Some(value),
            Meaning::Bearer => self.add_field("Authorization", format!("Bearer {value}")),
            Meaning::Range => self.add_field("Range", format!("bytes={value}")),
            Meaning::Compressed => self.is_compressed = true,
            Meaning::Http(version) => self.http = Some(version),
            Meaning::Timeout => self.timeout_s = Some(value),
            Meaning::ConnectTimeout => self.connect_timeout_s = Some(value),
            Meaning::Insecure => self.is_insecure = true,
            Meaning::CaCert => self.cacert = Some(value.into()),
            Meaning::Cert => self.cert = Some(value.into()),
            Meaning::Key => self.key = Some(value.into()),
            Meaning::TlsMin(version) => self.tls_min = Some(version.to_owned()),
            Meaning::TlsMax => self.tls_max = Some(value),
            Meaning::UnixSocket => self.socket = Some(value),
            Meaning::AbstractSocket => self.socket = Some(format!("@{value}")),
            Meaning::Url => self.set_url(value)?,
            Meaning::Globoff => self.has_globs = false,
            Meaning::Location => self.follows = true,
            Meaning::RedirectsMax => self.redirects_max = Some(value),
            Meaning::Ignored | Meaning::IgnoredValue => self.ignored.push(option.to_owned()),
            Meaning::Refused(advice) => return Err(format!("{option} is not possible in a load: {advice}")),
        }
        Ok(())
    }

    fn set_url(&mut self, url: String) -> Result<(), String> {
        if !self.url.is_empty() {
            return Err(format!(
                "there are two URLs, {} and {}; several are a file for --urls",
                credentials::shown(&self.url),
                credentials::shown(&url)
            ));
        }
        self.url = url;
        Ok(())
    }

    fn add_field(&mut self, name: &str, value: String) {
        self.fields.push((name.to_owned(), Some(value)));
    }

    /// curl's forms: `Name: value`, `Name:` for none, `Name;` for an empty one.
    fn add_header(&mut self, text: &str) -> Result<(), String> {
        if let Some(file) = text.strip_prefix('@') {
            return Err(format!("-H @{file}: no files of header fields are read; write each as -H"));
        }
        if let Some((name, value)) = text.split_once(':') {
            let value = value.trim();
            self.fields.push((name.trim().to_owned(), (!value.is_empty()).then(|| value.to_owned())));
        } else if let Some(name) = text.strip_suffix(';') {
            self.add_field(name, String::new());
        } else {
            return Err(format!("-H {text:?}: expected 'Name: value'"));
        }
        Ok(())
    }

    /// All cookies are one field.
    fn add_cookie(&mut self, text: &str) {
        match self.fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("Cookie")) {
            Some((_, Some(cookies))) => *cookies = format!("{cookies}; {text}"),
            _ => self.add_field("Cookie", text.to_owned()),
        }
    }

    fn add_data(&mut self, meaning: Meaning, text: &str) -> Result<(), String> {
        self.is_json |= meaning == Meaning::Json;
        let file = |path: &str| match path {
            "-" => Err("@- reads standard input: give --body @- beside --curl".to_owned()),
            path => Ok(PathBuf::from(path)),
        };
        let part = match (meaning, text.strip_prefix('@')) {
            (Meaning::DataRaw, _) => Data::Text(text.to_owned()),
            (Meaning::DataUrlencode, _) => encoded(text, file)?,
            (Meaning::Data, Some(path)) => Data::File { path: file(path)?, is_binary: false },
            (_, Some(path)) => Data::File { path: file(path)?, is_binary: true },
            (_, None) => Data::Text(text.to_owned()),
        };
        // curl joins the parts of a form, and those of JSON without anything.
        if !self.data.is_empty() && meaning != Meaning::Json {
            self.data.push(Data::Text("&".to_owned()));
        }
        self.data.push(part);
        Ok(())
    }

    /// Finds what is missing in the line, or cannot be.
    fn ensure_whole(&mut self) -> Result<(), String> {
        if self.url.is_empty() {
            return Err("the line has no URL".to_owned());
        }
        if !self.url.contains("://") {
            self.url.insert_str(0, "http://");
        }
        let behind_host = self.url.splitn(4, '/').nth(3).unwrap_or_default();
        if self.has_globs && (self.url.contains(['{', '}']) || behind_host.contains(['[', ']'])) {
            return Err("the URL has a pattern, which stands for several URLs; put them into a file for --urls, or add -g if it \
                        is none"
                .to_owned());
        }
        if let Some(credentials) = self.credentials.take() {
            let mut url = Url::parse(&self.url).map_err(|error| format!("the URL is wrong ({error})"))?;
            let (user, password) = credentials.split_once(':').unwrap_or((&credentials, ""));
            let [user, password] = [user, password].map(|text| percent_encoded(text.as_bytes()));
            url.set_username(&user)
                .and_then(|()| url.set_password(Some(&password)))
                .map_err(|()| "-u: this URL cannot have credentials".to_owned())?;
            self.url = url.into();
        }
        Ok(())
    }

    /// The URL to request, with the credentials of the line.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sets the options of a load as the line has them, but for those that are `given` beside it,
    /// by their names.
    ///
    /// # Errors
    /// A value is wrong, or a file cannot be read.
    pub(crate) fn apply_to(
        &self,
        load: &mut LoadOptions,
        request: &mut RequestOptions,
        given: &dyn Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        if !given("body") && !self.data.is_empty() {
            request.body = Some(Body::Bytes(self.body()?));
        }
        if !given("method") {
            let implied = if self.is_head { Some("HEAD") } else { (!self.data.is_empty()).then_some("POST") };
            if let Some(method) = self.method.as_deref().or(implied) {
                request.method = Some(method.to_owned());
            }
        }
        if let Some(version) = self.http.filter(|_| !given("http")) {
            load.http = match version {
                "1.0" => HttpVersion::Http10,
                "2" => HttpVersion::Http2,
                _ => HttpVersion::Http11,
            };
        }
        let fields = self.fields_beside(&load.headers, load.http == HttpVersion::Http2);
        load.headers.splice(0..0, fields);
        if let Some(text) = self.timeout_s.as_ref().or(self.connect_timeout_s.as_ref()).filter(|_| !given("timeout")) {
            let wrong = |error| Failure::usage(format!("--curl: --max-time: {error}"));
            load.set_timeout(thalweg_units::parse_seconds(text).map_err(wrong)?);
        }
        if let Some(socket) = self.socket.as_ref().filter(|_| !given("unix_socket")) {
            let wrong = |error| Failure::usage(format!("--curl: --unix-socket {socket}: {error}"));
            load.unix_socket = Some(thalweg_sys::UnixAddr::new(socket).map_err(wrong)?);
        }
        if self.follows && !given("follow") {
            load.follow = self.redirects_followed()?;
        }
        self.apply_tls(load, given)?;
        if !self.ignored.is_empty() {
            remark(&format!("--curl: ignored, because no request changes by it: {}", self.ignored.join(" ")));
        }
        Ok(())
    }

    /// How many redirects of a request `--follow` follows for the line; curl's -1 is no bound.
    fn redirects_followed(&self) -> Result<Option<u8>, Failure> {
        let text = self.redirects_max.as_deref().unwrap_or(REDIRECTS_BY_DEFAULT);
        let number: i64 = text
            .parse()
            .map_err(|_| Failure::usage(format!("--curl: --max-redirs {text}: expected a number, such as 5")))?;
        let bounded = u8::try_from(number).unwrap_or(REDIRECTS_MAX).min(REDIRECTS_MAX);
        Ok((bounded > 0).then_some(bounded))
    }

    /// Sets the options of TLS, if the URL speaks it: curl ignores them otherwise.
    fn apply_tls(&self, load: &mut LoadOptions, given: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
        if !self.url.starts_with("https:") {
            return Ok(());
        }
        let tls = &mut load.tls;
        tls.insecure |= self.is_insecure && !given("cacert");
        let of_line = |own: &Option<PathBuf>, set: &mut Option<PathBuf>, name: &str| {
            if own.is_some() && !given(name) {
                set.clone_from(own);
            }
        };
        // -k makes the authorities meaningless, in curl too.
        if !tls.insecure {
            of_line(&self.cacert, &mut tls.cacert, "cacert");
        }
        of_line(&self.cert, &mut tls.cert, "cert");
        // A file may have both certificate and key.
        of_line(&self.key.clone().or_else(|| self.cert.clone()), &mut tls.key, "key");
        for (own, set, name) in
            [(&self.tls_min, &mut tls.tls_min, "tls_min"), (&self.tls_max, &mut tls.tls_max, "tls_max")]
        {
            if let Some(text) = own.as_ref().filter(|_| !given(name)) {
                let wrong = |error| Failure::usage(format!("--curl: --tls-max {text}: {error}"));
                *set = Some(text.parse().map_err(wrong)?);
            }
        }
        Ok(())
    }

    /// The fields of the requests: those of the line and of curl itself, without those that are in
    /// `others`.
    fn fields_beside(&self, others: &[(String, String)], is_http_2: bool) -> Vec<(String, String)> {
        let named = |name: &str| self.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut fields: Vec<(String, String)> =
            self.fields.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        let mut by_default = |name: &str, value: &str| {
            if !named(name) {
                fields.push((name.to_owned(), value.to_owned()));
            }
        };
        if !self.data.is_empty() {
            by_default("Content-Type", if self.is_json { JSON } else { FORM });
        }
        by_default("Accept", if self.is_json { JSON } else { "*/*" });
        if self.is_compressed {
            by_default("Accept-Encoding", "deflate, gzip, br, zstd");
        }
        fields.retain(|(name, _)| {
            let replaced = others.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            // The length is that of the body. HTTP/2 has no fields of the connection.
            let of_message = ["Content-Length", "Transfer-Encoding"].iter().any(|own| name.eq_ignore_ascii_case(own));
            let of_connection = ["Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "TE"];
            let is_lost = is_http_2 && of_connection.iter().any(|own| name.eq_ignore_ascii_case(own));
            !replaced && !of_message && !is_lost
        });
        fields
    }

    fn body(&self) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        for part in &self.data {
            match part {
                Data::Text(text) => body.extend_from_slice(text.as_bytes()),
                Data::File { path, is_binary: true } => body.extend(read(path)?),
                Data::File { path, is_binary: false } => {
                    body.extend(read(path)?.into_iter().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
                }
                Data::Encoded { name, path } => {
                    body.extend(name.iter().flat_map(|name| format!("{name}=").into_bytes()));
                    body.extend_from_slice(form_encoded(&read(path)?).as_bytes());
                }
            }
        }
        Ok(body)
    }
}

/// The line without its secrets, as results show it: credentials of `-u` and of the URL, and the
/// values of fields that have some.
pub(crate) fn shown(line: &str) -> String {
    const HIDDEN: &str = "...";
    let Ok(words) = words::split(line) else { return format!("curl {HIDDEN}") };
    let mut shown: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let before = shown.last().map(String::as_str);
        let is_of_secret = matches!(before, Some("-u" | "--user" | "--oauth2-bearer" | "-b" | "--cookie"));
        let is_attached = ["-u", "-b"].iter().any(|option| word.len() > 2 && word.starts_with(option));
        shown.push(match word {
            _ if is_of_secret => HIDDEN.to_owned(),
            word if is_attached => format!("{}{HIDDEN}", &word[..2]),
            word => shown_field(&shown_url(&word)),
        });
    }
    shlex::try_join(shown.iter().map(String::as_str)).unwrap_or_else(|_| format!("curl {HIDDEN}"))
}

/// A URL without its credentials, also one without a scheme; another word as it is.
fn shown_url(word: &str) -> String {
    const SCHEME: &str = "http://";
    let is_bare = !word.contains("://") && word.split_once('@').is_some_and(|(before, _)| before.contains(':'));
    if !is_bare {
        return credentials::shown(word);
    }
    credentials::shown(&format!("{SCHEME}{word}")).trim_start_matches(SCHEME).to_owned()
}

/// A field, as an argument, without its value if that is a secret.
pub(crate) fn shown_field(argument: &str) -> String {
    let Some((name, _)) = argument.split_once(':') else { return argument.to_owned() };
    let bare = name.trim_start_matches("--header=").trim_start_matches("-H").trim();
    if is_secret(bare) { format!("{name}: ...") } else { argument.to_owned() }
}

fn unknown(option: &str) -> String {
    format!("{option} of curl is not understood; leave it out if the request does not change by it")
}

fn lacks(option: &str) -> String {
    format!("{option} needs a value")
}

/// curl's forms of `--data-urlencode`: `content`, `=content`, `name=content`, `@file`, `name@file`.
fn encoded(text: &str, file: impl Fn(&str) -> Result<PathBuf, String>) -> Result<Data, String> {
    let Some(at) = text.find('=').or_else(|| text.find('@')) else {
        return Ok(Data::Text(form_encoded(text.as_bytes())));
    };
    let (name, rest) = (&text[..at], &text[at + 1..]);
    if text.as_bytes()[at] == b'@' {
        return Ok(Data::Encoded { name: (!name.is_empty()).then(|| name.to_owned()), path: file(rest)? });
    }
    let content = form_encoded(rest.as_bytes());
    Ok(Data::Text(if name.is_empty() { content } else { format!("{name}={content}") }))
}

/// Bytes as a form has them: spaces are `+`, as in curl since version 7.83.
fn form_encoded(bytes: &[u8]) -> String {
    percent_encoded(bytes).replace("%20", "+")
}

/// Bytes in which all but the unreserved characters (RFC 3986, 2.3) are encoded, as curl does it.
fn percent_encoded(bytes: &[u8]) -> String {
    let encoded = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encoded).collect()
}

fn read(path: &PathBuf) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::usage(format!("--curl: cannot read the data {}: {error}", path.display())))
}

#[cfg(test)]
mod tests;
