//! Redirects to signed URLs, which work until their signature ends: a redirect must not be stored
//! for longer.
//!
//! Known are the parameters of Amazon, Google and those who have theirs from them (a date and a
//! number of seconds), the second at which a URL expires (`Expires`), and Azure's `se`. A
//! signature without any of them may end at any time.

use crate::fields::FieldLines;

/// How long the address of a redirect works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// It has no signature.
    Unlimited,
    /// Up to this second since 1970.
    Until(i64),
    /// It has a signature, and does not say how long that holds.
    Unknown,
}

/// The validity of the address in the Location of a redirect.
pub(crate) fn validity(status: u16, fields: &impl FieldLines) -> Validity {
    if !is_redirect(status) {
        return Validity::Unlimited;
    }
    fields.all("location").map(of_address).fold(Validity::Unlimited, |one, other| match (one, other) {
        (Validity::Unknown, _) | (_, Validity::Unknown) => Validity::Unknown,
        (Validity::Unlimited, other) => other,
        (one, Validity::Unlimited) => one,
        (Validity::Until(one), Validity::Until(other)) => Validity::Until(one.min(other)),
    })
}

/// Whether a status leads to the address in Location.
pub(crate) const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Names of parameters that are, or belong to, a signature.
const SIGNATURES: [&str; 24] = [
    "signature",
    "sig",
    "sign",
    "token",
    "access_token",
    "auth",
    "auth_key",
    "authorization",
    "hmac",
    "jwt",
    "policy",
    "verify",
    "md5",
    "hdnts",
    "hdnea",
    "hdntl",
    "__token__",
    "__gda__",
    "wssecret",
    "key-pair-id",
    "googleaccessid",
    "awsaccesskeyid",
    "ossaccesskeyid",
    "urlsignature",
];

/// A smaller number is no second of this century.
const SECOND_MIN: i64 = 946_684_800;

/// A date and a number of seconds, from parameters such as `X-Amz-Date` and `X-Amz-Expires`.
#[derive(Default)]
struct Vendor {
    date_s: Option<i64>,
    seconds: Option<i64>,
    is_malformed: bool,
}

fn of_address(location: &[u8]) -> Validity {
    let without_fragment = location.split(|&byte| byte == b'#').next().unwrap_or_default();
    let Some(at) = without_fragment.iter().position(|&byte| byte == b'?') else { return Validity::Unlimited };
    let (mut is_signed, mut end, mut is_malformed) = (false, None::<i64>, false);
    let mut vendor = Vendor::default();
    let mut ends_at = |second: i64| end = Some(end.map_or(second, |known| known.min(second)));
    let parameters = without_fragment[at + 1..].split(|byte| matches!(byte, b'&' | b';'));
    let (mut expires, mut azure) = (Vec::new(), Vec::new());
    for parameter in parameters {
        let (name, value) = match parameter.iter().position(|&byte| byte == b'=') {
            Some(equals) => (&parameter[..equals], &parameter[equals + 1..]),
            None => (parameter, &b""[..]),
        };
        let (name, value) = (unescaped(name).to_ascii_lowercase(), unescaped(value));
        is_signed |= is_signature(&name);
        match &*name {
            "expires" | "exp" | "expiry" => expires.push(value),
            "se" => azure.push(value),
            name if name.starts_with("x-") => vendor.take(name, &value),
            _ => {}
        }
    }
    for value in expires {
        match second(&value) {
            Some(second) => ends_at(second),
            // Without a signature it may mean something else.
            None => is_malformed |= is_signed,
        }
    }
    for value in azure.iter().filter(|_| is_signed) {
        iso_date(value).map_or_else(|| is_malformed = true, &mut ends_at);
    }
    match vendor {
        Vendor { is_malformed: true, .. } => is_malformed = true,
        Vendor { date_s: Some(date_s), seconds: Some(seconds), .. } => ends_at(date_s.saturating_add(seconds)),
        Vendor { date_s: None, seconds: None, .. } => {}
        _ => is_malformed = true,
    }
    match (is_malformed, end) {
        (true, _) => Validity::Unknown,
        (false, Some(end)) => Validity::Until(end),
        (false, None) if is_signed => Validity::Unknown,
        (false, None) => Validity::Unlimited,
    }
}

impl Vendor {
    fn take(&mut self, name: &str, value: &str) {
        let (place, read) = if name.ends_with("-date") {
            (&mut self.date_s, basic_date(value))
        } else if name.ends_with("-expires") {
            (&mut self.seconds, value.parse().ok().filter(|seconds| *seconds >= 0))
        } else {
            return;
        };
        self.is_malformed |= read.is_none() || place.is_some();
        *place = read;
    }
}

fn is_signature(name: &str) -> bool {
    SIGNATURES.contains(&name)
        || ["-signature", "_signature", "-credential", "-security-token"].iter().any(|end| name.ends_with(end))
}

/// A second since 1970 as a decimal number.
fn second(value: &str) -> Option<i64> {
    value.parse().ok().filter(|second| *second >= SECOND_MIN)
}

/// `20261127T200000Z`
fn basic_date(value: &str) -> Option<i64> {
    let bytes: &[u8; 16] = value.as_bytes().try_into().ok()?;
    if bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    second_of([&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[9..11], &bytes[11..13], &bytes[13..15]])
}

/// `2026-11-27T20:00:00Z`, with fractions of a second, without seconds, or the date alone.
fn iso_date(value: &str) -> Option<i64> {
    let (day, time) = value.split_once('T').map_or((value, None), |(day, time)| (day, Some(time)));
    let mut days = day.splitn(3, '-').map(str::as_bytes);
    let (year, month, day) = (days.next()?, days.next()?, days.next()?);
    let Some(time) = time else { return second_of([year, month, day, b"00", b"00", b"00"]) };
    let time = time.strip_suffix('Z')?;
    let time = time.split_once('.').map_or(time, |(time, _)| time);
    let mut times = time.splitn(3, ':').map(str::as_bytes);
    let (hour, minute, second) = (times.next()?, times.next()?, times.next().unwrap_or(b"00"));
    second_of([year, month, day, hour, minute, second])
}

/// The second of year, month, day, hour, minute and second in digits.
fn second_of([year, month, day, hour, minute, second]: [&[u8]; 6]) -> Option<i64> {
    let number = |digits: &[u8], length: usize, most: i64| -> Option<i64> {
        let is_number = digits.len() == length && digits.iter().all(u8::is_ascii_digit);
        let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        (is_number && number <= most).then_some(number)
    };
    let (year, month, day) = (number(year, 4, 9999)?, number(month, 2, 12)?, number(day, 2, 31)?);
    let (hour, minute, second) = (number(hour, 2, 23)?, number(minute, 2, 59)?, number(second, 2, 60)?);
    if month == 0 || day == 0 {
        return None;
    }
    // The year is taken to begin in March, so that a leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400)
        + (month * 153 + 2) / 5 + day - 1
        // The first of March of the year 0 lies so many days before 1970.
        - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// A name or value of a query without its escapes; what is no text is left out.
fn unescaped(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) if let (Some(high), Some(low)) = (digit(*high), digit(*low)) => {
                out.push((high * 16 + low) as u8);
                rest = behind;
            }
            (byte, _) => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    #[track_caller]
    fn check(location: &str, expected: Validity) {
        assert_eq!(validity(302, &fields(&[&format!("Location: {location}")])), expected, "{location}");
    }

    /// Fri, 27 Nov 2026 20:00:00 GMT
    const AT: i64 = 1_795_809_600;

    #[test]
    fn addresses_without_a_signature() {
        for location in ["/a", "https://a.example/x?y=1&page=2", "/x?se=x", "?expires=soon", "", "/a#?sig=1"] {
            check(location, Validity::Unlimited);
        }
        assert_eq!(validity(200, &fields(&["Location: /?sig=1"])), Validity::Unlimited);
        assert_eq!(validity(302, &fields(&[])), Validity::Unlimited);
    }

    #[test]
    fn signatures_that_say_how_long_they_hold() {
        let aws = "https://b.s3.example/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&\
                   X-Amz-Date=20261127T200000Z&X-Amz-Expires=300&X-Amz-SignedHeaders=host&X-Amz-Signature=abc";
        check(aws, Validity::Until(AT + 300));
        check(&aws.replace("X-Amz-", "X-Goog-"), Validity::Until(AT + 300));
        check(&aws.to_lowercase().replace("20261127t200000z", "20261127T200000Z"), Validity::Until(AT + 300));
        let parameters = "AWSAccessKeyId=a&Expires=1795809660&Signature=b%3D";
        check(&format!("https://b.example/k?{parameters}"), Validity::Until(AT + 60));
        check("/k?Expires=1795809660&Policy=abc&Signature=b&Key-Pair-Id=c", Validity::Until(AT + 60));
        check("/k?exp=1795809660&hmac=b", Validity::Until(AT + 60));
        check("/k?sv=2022-11-02&se=2026-11-27T20%3A00%3A00Z&sr=b&sp=r&sig=abc", Validity::Until(AT));
        check("/k?se=2026-11-27T20:00:00.5Z&sig=abc", Validity::Until(AT));
        check("/k?se=2026-11-27T20:00Z&sig=abc", Validity::Until(AT));
        check("/k?se=2026-11-27&sig=abc", Validity::Until(AT - 20 * 3600));
        // The first end counts.
        check(&format!("{aws}&Expires=1795809660"), Validity::Until(AT + 60));
        check("/k?Expires=1795809660", Validity::Until(AT + 60));
    }

    #[test]
    fn signatures_of_which_it_is_not_known() {
        for query in [
            "Signature=a",
            "sig=a&si=policy",
            "token=a",
            "X-Amz-Signature=a",
            "X-Amz-Date=20261127T200000Z&X-Amz-Signature=a",
            "X-Amz-Expires=300&X-Amz-Signature=a",
            "X-Amz-Date=yesterday&X-Amz-Expires=300",
            "X-Amz-Date=20261127T200000Z&X-Amz-Expires=300&X-Amz-Expires=3000000",
            "X-Amz-Date=20261327T200000Z&X-Amz-Expires=300",
            "X-Amz-Date=20261127T200000Z&X-Amz-Expires=-1",
            "Expires=soon&Signature=a",
            "Expires=300&Signature=a",
            "se=soon&sig=a",
            "Policy=abc&Signature=b&Key-Pair-Id=c",
            "%73ig=a",
            "x-oss-signature=a",
        ] {
            check(&format!("https://a.example/k?{query}"), Validity::Unknown);
        }
        let both = fields(&["Location: /k?Expires=1795809660&sig=a", "Location: /k?sig=a"]);
        assert_eq!(validity(302, &both), Validity::Unknown);
    }
}
