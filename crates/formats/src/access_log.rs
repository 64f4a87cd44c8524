//! Access-log lines in the Common and the Combined Log Format, as Apache and nginx write them.
//!
//! A line is taken apart where it lies; escapes are undone on request only. A client may have sent
//! anything, so a request that is none is a value and no error. Not here: other formats, and what
//! to make of a line.

use std::borrow::Cow;
use std::net::IpAddr;

use thalweg_wire::is_token_byte;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The client: an address, or a name if the server looked it up.
    pub host: &'a [u8],
    /// The user name that the client gave, as the server found it.
    pub user: Option<&'a [u8]>,
    /// When, in seconds since 1970-01-01 00:00:00 UTC: to Apache when the request came, to nginx
    /// when it was answered.
    pub time_unix_s: i64,
    /// The request.
    pub request: LoggedRequest<'a>,
    /// The status of the answer, as logged: nginx has some of its own, and 0 for none.
    pub status: Option<u16>,
    /// The bytes of the answer; a dash, which Apache writes for none, is 0.
    pub bytes: u64,
    /// The page that led here.
    pub referer: Option<Escaped<'a>>,
    /// The client's program.
    pub agent: Option<Escaped<'a>>,
}

/// A request line as it was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedRequest<'a> {
    /// A request.
    Line {
        /// The method; a token.
        method: &'a str,
        /// The target; not empty and without blanks.
        target: Escaped<'a>,
        /// The version, such as `HTTP/1.1` or `HTTP/2.0`; without one it was HTTP/0.9.
        version: Option<&'a str>,
    },
    /// Whatever else came; often nothing, or a TLS handshake.
    Malformed(Escaped<'a>),
}

/// Text with a server's escapes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a>(&'a [u8]);

/// Why a line is no log line: what was expected, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct LogFault {
    /// The byte of the line at which it should have been.
    pub at: usize,
    /// The text that should have been there.
    pub expected: &'static str,
}

impl<'a> LogLine<'a> {
    /// Takes a line apart, which comes without its line feed. Text behind the formats' own fields,
    /// separated by a blank, is left alone: many servers are set up to add something.
    ///
    /// # Errors
    /// The line does not have these formats.
    pub fn parse(line: &'a [u8]) -> Result<Self, LogFault> {
        let mut cursor = Cursor { line: line.trim_ascii_end(), at: 0 };
        let host = cursor.word("a client's address")?;
        cursor.blank()?;
        cursor.word("a dash or an identity")?;
        let (user, time_unix_s) = cursor.user_and_time()?;
        cursor.blank()?;
        let request = LoggedRequest::parse(cursor.quoted("a request in quotes")?);
        cursor.blank()?;
        let status = cursor.status()?;
        cursor.blank()?;
        let bytes = cursor.number("a number of bytes or a dash")?.unwrap_or(0);
        let referer = cursor.further()?;
        let agent = if referer.is_some() { cursor.further()? } else { None };
        let given = |field: Option<Escaped<'a>>| field.filter(|field| !matches!(field.0, b"-" | b""));
        let user = Some(user).filter(|user| *user != b"-");
        Ok(Self { host, user, time_unix_s, request, status, bytes, referer: given(referer), agent: given(agent) })
    }
}

impl<'a> LogLine<'a> {
    /// The same for a log whose lines begin with the client. One that begins with a virtual host,
    /// as in Apache's `vhost_combined`, would otherwise have the host as its client, and the client
    /// as its identity.
    ///
    /// # Errors
    /// The line does not have these formats, or begins with a virtual host: [`VIRTUAL_HOST`].
    pub fn parse_without_virtual_host(line: &'a [u8]) -> Result<Self, LogFault> {
        let logged = Self::parse(line)?;
        // The identity's dash is the user's beginning then.
        if logged.user.is_some_and(|user| user.contains(&b' ')) {
            let identity = line.split(|&byte| byte == b' ').nth(1).and_then(|word| std::str::from_utf8(word).ok());
            if identity.is_some_and(|word| word.parse::<IpAddr>().is_ok()) {
                return Err(VIRTUAL_HOST);
            }
        }
        Ok(logged)
    }
}

/// A line begins with a virtual host.
pub const VIRTUAL_HOST: LogFault = LogFault { at: 0, expected: "a client's address; this is a virtual host" };

impl<'a> LoggedRequest<'a> {
    fn parse(raw: Escaped<'a>) -> Self {
        Self::parse_line(raw.0).unwrap_or(Self::Malformed(raw))
    }

    fn parse_line(raw: &'a [u8]) -> Option<Self> {
        let mut words = raw.split(|&byte| byte == b' ');
        let method = words.next().filter(|method| !method.is_empty() && method.iter().copied().all(is_token_byte))?;
        let target = words.next().filter(|target| !target.is_empty())?;
        let version = words.next();
        let is_version = |version: &[u8]| {
            matches!(version.strip_prefix(b"HTTP/"), Some([b'0'..=b'9'] | [b'0'..=b'9', b'.', b'0'..=b'9']))
        };
        if words.next().is_some() || !version.is_none_or(is_version) {
            return None;
        }
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some(Self::Line {
            method: text(method)?,
            target: Escaped(target),
            version: version.map(|version| text(version).ok_or(())).transpose().ok()?,
        })
    }
}

impl<'a> Escaped<'a> {
    /// As it stands in the log.
    #[must_use]
    pub const fn raw(self) -> &'a [u8] {
        self.0
    }

    /// As it came to the server: `\xHH` is the byte, and what Apache writes with a backslash (`\"`,
    /// `\\`, `\n`, ...) what it stands for. A backslash before anything else is taken for itself.
    #[must_use]
    pub fn decode(self) -> Cow<'a, [u8]> {
        if !self.0.contains(&b'\\') {
            return Cow::Borrowed(self.0);
        }
        let mut decoded = Vec::with_capacity(self.0.len());
        let mut rest = self.0;
        while let [first, after @ ..] = rest {
            let (byte, taken) = if *first == b'\\' { escape(after) } else { None }.unwrap_or((*first, 0));
            decoded.push(byte);
            rest = &after[taken..];
        }
        Cow::Owned(decoded)
    }
}

/// Writes a target as it can be sent: bytes beyond ASCII, which some clients send as they are,
/// percent-encoded as others do. Tells whether there is nothing else in the way.
#[must_use]
pub fn push_sendable(text: &mut String, target: &[u8]) -> bool {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in target {
        match byte {
            b'!'..=b'~' => text.push(char::from(byte)),
            0x80.. => {
                text.push('%');
                text.extend([byte >> 4, byte & 0xf].map(|digit| char::from(HEX[usize::from(digit)])));
            }
            _ => return false,
        }
    }
    true
}

/// Takes the virtual host off the front of a line, as Apache's format `vhost_combined` has it there
/// with its port: the host's name, and the line behind it. `None` if nothing follows it.
#[must_use]
pub fn split_virtual_host(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|&byte| byte == b' ')?;
    let (host, rest) = (&line[..end], &line[end + 1..]);
    let port = host.iter().rposition(|&byte| byte == b':');
    // The colons of an IPv6 address stand in brackets.
    let port = port.filter(|&at| host[at + 1..].iter().all(u8::is_ascii_digit));
    Some((&host[..port.unwrap_or(end)], rest))
}

/// The byte that an escape stands for, and how many bytes it has behind its backslash.
fn escape(after: &[u8]) -> Option<(u8, usize)> {
    let hex_digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = match after {
        [b'x', high, low, ..] => return Some((hex_digit(*high)? << 4 | hex_digit(*low)?, 3)),
        [byte @ (b'"' | b'\\'), ..] => *byte,
        [b'n', ..] => b'\n',
        [b'r', ..] => b'\r',
        [b't', ..] => b'\t',
        [b'v', ..] => 0x0b,
        [b'f', ..] => 0x0c,
        [b'b', ..] => 0x08,
        _ => return None,
    };
    Some((byte, 1))
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    fn fault(&self, expected: &'static str) -> LogFault {
        LogFault { at: self.at, expected }
    }

    fn blank(&mut self) -> Result<(), LogFault> {
        if self.rest().first() != Some(&b' ') {
            return Err(self.fault("a blank"));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a [u8], LogFault> {
        let rest = self.rest();
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        if end == 0 {
            return Err(self.fault(expected));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// A user's name may have blanks and brackets in it, so it ends where a time begins.
    fn user_and_time(&mut self) -> Result<(&'a [u8], i64), LogFault> {
        self.blank()?;
        let rest = self.rest();
        let mut first_bracket = None;
        for (index, pair) in rest.windows(2).enumerate() {
            if pair != b" [" {
                continue;
            }
            first_bracket.get_or_insert(index + 1);
            if let Some(time) = rest[index + 2..].first_chunk().and_then(parse_time) {
                if index == 0 {
                    break;
                }
                self.at += index + 2 + TIME_BYTES;
                return Ok((&rest[..index], time));
            }
        }
        let fault = match first_bracket {
            Some(bracket) if bracket > 1 => {
                LogFault { at: self.at + bracket, expected: "a time such as [10/Oct/2000:13:55:36 -0700]" }
            }
            _ => self.fault("a dash or a user, and a time such as [10/Oct/2000:13:55:36 -0700]"),
        };
        Err(fault)
    }

    fn quoted(&mut self, expected: &'static str) -> Result<Escaped<'a>, LogFault> {
        let Some(text) = self.rest().strip_prefix(b"\"") else {
            return Err(self.fault(expected));
        };
        let mut escaped = false;
        for (index, &byte) in text.iter().enumerate() {
            match byte {
                b'"' if !escaped => {
                    self.at += index + 2;
                    return Ok(Escaped(&text[..index]));
                }
                _ => escaped = byte == b'\\' && !escaped,
            }
        }
        Err(self.fault("a closing quote"))
    }

    /// A number, or a dash for none. On an error the place is that of the number.
    fn number(&mut self, expected: &'static str) -> Result<Option<u64>, LogFault> {
        let start = self.at;
        let number = match self.word(expected)? {
            b"-" => None,
            digits if digits.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                Some(number.ok_or(LogFault { at: start, expected: "a number below 2^64" })?)
            }
            _ => return Err(LogFault { at: start, expected }),
        };
        Ok(number)
    }

    fn status(&mut self) -> Result<Option<u16>, LogFault> {
        let start = self.at;
        let status = self.number("a status or a dash")?;
        let code = status.map(u16::try_from).transpose().ok().filter(|code| code.is_none_or(|code| code < 1000));
        code.ok_or(LogFault { at: start, expected: "a status of three digits" })
    }

    /// The next quoted field, if there is one.
    fn further(&mut self) -> Result<Option<Escaped<'a>>, LogFault> {
        match self.rest() {
            [] => Ok(None),
            [b' ', b'"', ..] => {
                self.at += 1;
                self.quoted("a field in quotes").map(Some)
            }
            [b' ', ..] => Ok(None),
            _ => Err(self.fault("a blank")),
        }
    }
}

/// Length of a time behind its opening bracket, with the closing one.
const TIME_BYTES: usize = b"10/Oct/2000:13:55:36 -0700]".len();

/// Reads a time such as `10/Oct/2000:13:55:36 -0700]`. A leap second counts as the one after it.
fn parse_time(text: &[u8; TIME_BYTES]) -> Option<i64> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let number = |at: usize, digits: usize| {
        text[at..at + digits]
            .iter()
            .try_fold(0, |number: i64, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
    };
    let separators = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' '), (26, b']')];
    if separators.iter().any(|&(at, separator)| text[at] != separator) {
        return None;
    }
    let month = 1 + MONTHS.iter().position(|month| *month == &text[3..6])? as i64;
    let (day, year) = (number(0, 2)?, number(7, 4)?);
    let (hour, minute, second) = (number(12, 2)?, number(15, 2)?, number(18, 2)?);
    let (zone_hours, zone_minutes) = (number(22, 2)?, number(24, 2)?);
    let sign = match text[21] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_time = (1..=days_of_month).contains(&day)
        && year > 0
        && hour < 24
        && minute < 60
        && second <= 60
        && zone_hours < 24
        && zone_minutes < 60;
    let zone = sign * (zone_hours * 3600 + zone_minutes * 60);
    is_time.then(|| days_from_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, from the year 1 on.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    // With the year beginning in March, its leap day is the last, and the months before one take
    // 30.6 days on average, rounded down.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + leap_days + day_of_year - DAYS_BEFORE_EPOCH
}

/// From the first of March of the year 0 to 1970-01-01.
const DAYS_BEFORE_EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds of a date that `date -u -d` gives for the lines below.
    const THEN: i64 = 971_211_336;

    fn line<'a>(method: &'a str, target: &'a str, version: &'a str) -> LogLine<'a> {
        LogLine {
            host: b"127.0.0.1",
            user: None,
            time_unix_s: THEN,
            request: LoggedRequest::Line {
                method,
                target: Escaped(target.as_bytes()),
                version: Some(version).filter(|version| !version.is_empty()),
            },
            status: Some(200),
            bytes: 2326,
            referer: None,
            agent: None,
        }
    }

    fn check(text: &str, expected: LogLine<'_>) {
        assert_eq!(LogLine::parse(text.as_bytes()), Ok(expected), "{text}");
    }

    fn check_refused(text: &str, at: usize, expected: &str) {
        let fault = LogLine::parse(text.as_bytes()).expect_err(text);
        assert!(fault.at == at && fault.expected.contains(expected), "{text}: {fault:?}");
    }

    #[test]
    fn common_lines() {
        let get = line("GET", "/apache_pb.gif", "HTTP/1.0");
        check(
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#,
            LogLine { user: Some(b"frank"), ..get },
        );
        let tail = r#"[10/Oct/2000:20:55:36 +0000] "GET /apache_pb.gif HTTP/1.0""#;
        check(&format!("127.0.0.1 - - {tail} 200 2326\r"), get);
        check(
            &format!("2001:db8::1 id - {tail} 304 -"),
            LogLine { host: b"2001:db8::1", status: Some(304), bytes: 0, ..get },
        );
        check(&format!("127.0.0.1 - - {tail} - 0"), LogLine { status: None, bytes: 0, ..get });
        check(&format!("127.0.0.1 - a [b] c {tail} 200 2326"), LogLine { user: Some(b"a [b] c"), ..get });
        check(&format!("127.0.0.1 - \"\" {tail} 499 2326"), LogLine { user: Some(b"\"\""), status: Some(499), ..get });
        // Further fields of one's own.
        check(&format!("127.0.0.1 - - {tail} 200 2326 0.001 x=\""), get);
    }

    #[test]
    fn combined_lines() {
        let agent = Some(Escaped(b"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0"));
        let head = r#"127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /a?b=%20c HTTP/2.0" 200 2326"#;
        let get = LogLine { agent, ..line("GET", "/a?b=%20c", "HTTP/2.0") };
        let agent = r#""Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0""#;
        check(&format!("{head} \"-\" {agent}"), get);
        let referer = Some(Escaped(b"http://www.example.com/start.html"));
        check(&format!("{head} \"http://www.example.com/start.html\" {agent} \"-\" 0.003"), LogLine { referer, ..get });
        check(&format!("{head} \"-\" \"-\""), LogLine { agent: None, ..get });
        check(&format!("{head} \"\" \"\""), LogLine { agent: None, ..get });
        let quoted = Some(Escaped(br#"\"a\" \\"#));
        check(&format!(r#"{head} "-" "\"a\" \\" 1"#), LogLine { agent: quoted, ..get });
    }

    #[test]
    fn requests_that_are_none_are_no_errors() {
        for raw in [
            "-",
            "",
            r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03",
            "GET",
            "GET ",
            "GET  HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET /a HTTP/1.1 x",
            "GET /a http/1.1",
            "GET /a HTTP/1.",
            "G@T / HTTP/1.1",
            r#"\"GET / HTTP/1.1\""#,
            r"\n",
        ] {
            let text = format!("127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] \"{raw}\" 400 226 \"-\" \"-\"");
            let parsed = LogLine::parse(text.as_bytes()).unwrap();
            assert_eq!(parsed.request, LoggedRequest::Malformed(Escaped(raw.as_bytes())), "{raw}");
            assert_eq!((parsed.status, parsed.bytes), (Some(400), 226));
        }
        let old = r#"127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /a" 200 2326"#;
        check(old, line("GET", "/a", ""));
    }

    #[test]
    fn lines_that_nginx_wrote() {
        let head = "127.0.0.1 - a [b] [21/Nov/2026:12:22:37 +0000]";
        for (tail, target) in [
            (r#""GET / HTTP/1.1" 200 1 "-" "a\x22b\x5Cc \xC3\xA9""#, Some(b"/".as_slice())),
            (r#""GET /" 200 1 "-" "-""#, Some(b"/")),
            (r#""\x16\x03\x01\x02\x00\x22\x5C" 400 157 "-" "-""#, None),
            (r#""GET /a b HTTP/1.1" 400 157 "-" "-""#, None),
            (r#""GET /\xC3\xA9\x22\x5C HTTP/1.1" 200 1 "-" "-""#, Some(b"/\xc3\xa9\"\\")),
            (r#""" 400 0 "-" "-""#, None),
            (r#""GET http://y/z HTTP/1.1" 200 1 "-" "-""#, Some(b"http://y/z")),
            (r#""PRI * HTTP/2.0" 400 157 "-" "-""#, Some(b"*")),
            (r#""GET  /  HTTP/1.1" 400 157 "-" "-""#, None),
        ] {
            let text = format!("{head} {tail}");
            let parsed = LogLine::parse(text.as_bytes()).unwrap();
            assert_eq!((parsed.user, parsed.time_unix_s), (Some(b"a [b]".as_slice()), 1_795_263_757));
            let asked = match parsed.request {
                LoggedRequest::Line { target, .. } => Some(target.decode()),
                LoggedRequest::Malformed(_) => None,
            };
            assert_eq!(asked.as_deref(), target, "{tail}");
        }
    }

    fn check_decoded(raw: &str, expected: &[u8]) {
        assert_eq!(*Escaped(raw.as_bytes()).decode(), *expected, "{raw}");
    }

    #[test]
    fn escapes() {
        check_decoded("/a%20b", b"/a%20b");
        check_decoded(r#"a\"b\\c\x22\x5C\xc3\xA9"#, b"a\"b\\c\"\\\xc3\xa9");
        check_decoded(r"\n\r\t\v\f\b", b"\n\r\t\x0b\x0c\x08");
        check_decoded(r"\x2\xg0\q\", br"\x2\xg0\q\");
        check_decoded(r"\\x41", br"\x41");
    }

    #[test]
    fn targets_beyond_ascii_are_percent_encoded_and_others_are_refused() {
        let mut text = String::new();
        assert!(push_sendable(&mut text, "/é?\"".as_bytes()));
        assert_eq!(text, "/%C3%A9?\"");
        assert!(!push_sendable(&mut text, b"/a b") && !push_sendable(&mut text, b"/\x7f"));
    }

    #[test]
    fn virtual_hosts_stand_before_the_line() {
        let split = |line: &'static str| split_virtual_host(line.as_bytes());
        assert_eq!(split("example.com:80 ::1 - -"), Some((&b"example.com"[..], &b"::1 - -"[..])));
        assert_eq!(split("example.com ::1 -"), Some((&b"example.com"[..], &b"::1 -"[..])));
        assert_eq!(split("[::1]:8080 a"), Some((&b"[::1]"[..], &b"a"[..])));
        assert_eq!([split("[::1] a"), split("alone")], [Some((&b"[::1]"[..], &b"a"[..])), None]);
    }

    #[test]
    fn a_virtual_host_is_no_client() {
        let tail = r#"[10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1"#;
        let parse = |head: &str| {
            LogLine::parse_without_virtual_host(format!("{head} {tail}").as_bytes()).map(|line| line.time_unix_s)
        };
        for head in ["example.com:80 10.0.0.1 - -", "example.com 2001:db8::1 - frank"] {
            assert_eq!(parse(head), Err(VIRTUAL_HOST), "{head}");
        }
        let plain = ["10.0.0.1 - -", "10.0.0.1 10.0.0.2 frank", "10.0.0.1 - a b", "10.0.0.1 id a b"];
        assert_eq!(plain.map(parse), [Ok(THEN); 4]);
    }

    #[test]
    fn invalid_log_lines_are_refused_with_their_place() {
        check_refused("", 0, "address");
        check_refused(" - -", 0, "address");
        check_refused("hello", 5, "a blank");
        check_refused("h -", 3, "a blank");
        check_refused("h - -", 4, "a time such as");
        check_refused("h - [10/Oct/2000:13:55:36 -0700] \"-\" 200 1", 4, "a user, and a time");
        check_refused("h - - [10/Okt/2000:13:55:36 -0700] \"-\" 200 1", 6, "a time such as");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700]\"-\" 200 1", 34, "a blank");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] - 200 1", 35, "a request");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\\\" 200 1", 35, "a closing quote");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 2xx 1", 39, "a status or a dash");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 1000 1", 39, "three digits");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200", 42, "a blank");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 x", 43, "a number of bytes");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 99999999999999999999", 43, "2^64");
        check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 1 \"x", 45, "a closing quote");
        check_refused("{\"host\": \"a\", \"status\": 200}", 14, "a time such as");
    }

    fn check_time(text: &str, expected: Option<i64>) {
        let bytes = format!("{text}]");
        assert_eq!(bytes.as_bytes().first_chunk().and_then(parse_time), expected, "{text}");
    }

    #[test]
    fn times() {
        check_time("01/Jan/1970:00:00:00 +0000", Some(0));
        check_time("31/Dec/1969:23:59:59 +0000", Some(-1));
        check_time("29/Feb/2000:12:34:56 +0000", Some(951_827_696));
        check_time("01/Mar/2100:00:00:00 +0000", Some(4_107_542_400));
        check_time("31/Dec/9999:23:59:59 +0000", Some(thalweg_wire::date::SECOND_MAX));
        check_time("10/Oct/2000:13:55:36 -0700", Some(THEN));
        check_time("11/Oct/2000:02:25:36 +0530", Some(THEN));
        check_time("01/Jan/0001:00:00:00 +0000", Some(-62_135_596_800));
        for wrong in [
            "29/Feb/1900:00:00:00 +0000",
            "31/Apr/2000:00:00:00 +0000",
            "00/Jan/2000:00:00:00 +0000",
            "01/jan/2000:00:00:00 +0000",
            "01/Jan/2000:24:00:00 +0000",
            "01/Jan/2000:00:60:00 +0000",
            "01/Jan/2000:00:00:61 +0000",
            "01/Jan/2000:00:00:00 00000",
            "01/Jan/2000:00:00:00 +2400",
            "01/Jan/0000:00:00:00 +0000",
            "1/Jan/2000:00:00:00 +00000",
            "+1/Jan/2000:00:00:00 +0000",
        ] {
            check_time(wrong, None);
        }
    }

    #[test]
    fn days_agree_with_the_calendar_of_dates() {
        for day in (0..thalweg_wire::date::SECOND_MAX / 86_400).step_by(97) {
            let text = String::from_utf8(thalweg_wire::date::imf_fixdate(day * 86_400).to_vec()).unwrap();
            let [_, d, month, year, ..] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
            check_time(&format!("{d}/{month}/{year}:00:00:00 +0000"), Some(day * 86_400));
        }
    }
}
