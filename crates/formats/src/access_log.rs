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
    /// The nanoseconds behind that second, where the log has them.
    pub fraction_ns: Option<u32>,
    /// The host that the client asked, where the log has it.
    pub virtual_host: Option<&'a [u8]>,
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

/// Text of a log, with a server's escapes in it or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a> {
    text: &'a [u8],
    /// A backslash is one: the text came out of another encoding, such as JSON.
    is_plain: bool,
}

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
        let host = cursor.client()?;
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
        let user = Some(user).filter(|user| *user != b"-");
        let [referer, agent] = [referer, agent].map(|field| field.filter(|field| field.is_given()));
        let (fraction_ns, virtual_host) = (None, None);
        Ok(Self { host, user, time_unix_s, fraction_ns, virtual_host, request, status, bytes, referer, agent })
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
            let is_address = |word: &[u8]| std::str::from_utf8(word).is_ok_and(|word| word.parse::<IpAddr>().is_ok());
            // Behind an address it is the next one of X-Forwarded-For, or the proxy's own.
            let identity = line.split(|&byte| byte == b' ').nth(1);
            if identity.is_some_and(is_address) && !is_address(logged.host) {
                return Err(VIRTUAL_HOST);
            }
        }
        Ok(logged)
    }
}

/// A line begins with a virtual host.
pub const VIRTUAL_HOST: LogFault = LogFault { at: 0, expected: "a client's address; this is a virtual host" };

impl<'a> LoggedRequest<'a> {
    /// Takes a request line apart.
    pub(crate) fn parse(raw: Escaped<'a>) -> Self {
        Self::parse_line(raw).unwrap_or(Self::Malformed(raw))
    }

    fn parse_line(raw: Escaped<'a>) -> Option<Self> {
        let mut words = raw.text.split(|&byte| byte == b' ');
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
            target: Escaped { text: target, ..raw },
            version: version.map(|version| text(version).ok_or(())).transpose().ok()?,
        })
    }
}

impl<'a> Escaped<'a> {
    /// Text with a server's escapes.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { text, is_plain: false }
    }

    /// Text that has no escapes any more.
    #[must_use]
    pub const fn plain(text: &'a [u8]) -> Self {
        Self { text, is_plain: true }
    }

    /// As it stands in the log.
    #[must_use]
    pub const fn raw(self) -> &'a [u8] {
        self.text
    }

    /// Whether it is more than the dash that stands for nothing.
    pub(crate) fn is_given(self) -> bool {
        !matches!(self.text, b"-" | b"")
    }

    /// As it came to the server: `\xHH` is the byte, and what Apache writes with a backslash (`\"`,
    /// `\\`, `\n`, ...) what it stands for. A backslash before anything else is taken for itself.
    #[must_use]
    pub fn decode(self) -> Cow<'a, [u8]> {
        if self.is_plain || !self.text.contains(&b'\\') {
            return Cow::Borrowed(self.text);
        }
        let mut decoded = Vec::with_capacity(self.text.len());
        let mut rest = self.text;
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

    /// The client: an address or a name, or the first one of a list as X-Forwarded-For has it.
    fn client(&mut self) -> Result<&'a [u8], LogFault> {
        let first = self.word("a client's address")?;
        let mut last = first;
        while last.ends_with(b",") && self.rest().starts_with(b" ") {
            self.at += 1;
            last = self.word("the next address of X-Forwarded-For")?;
        }
        Ok(first.split(|&byte| byte == b',').next().filter(|client| !client.is_empty()).unwrap_or(first))
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
                    return Ok(Escaped::new(&text[..index]));
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
pub(crate) fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
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
mod tests;
