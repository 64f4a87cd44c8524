//! Content codings and how much a client wants each of them (RFC 9110, 8.4.1 and 12.5.3).
//!
//! Pure: nothing is compressed here, and which codings there are to choose from is the caller's.

use crate::fields::{Fields, list_elements, trim_ows};

/// A content coding that a file may have been stored in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coding {
    /// `zstd` (RFC 8878)
    Zstd,
    /// `br` (RFC 7932)
    Brotli,
    /// `gzip`, which is also called `x-gzip` (RFC 9110, 8.4.1.3)
    Gzip,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// The name in Content-Encoding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// How much something is wanted, from 0 (not at all) to 1000.
pub type Quality = u16;

/// The Accept-Encoding fields of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptEncoding {
    /// At the index of [`Coding::ALL`].
    codings: [Option<Quality>; Coding::ALL.len()],
    identity: Option<Quality>,
    /// `*`: all codings that are not named.
    others: Option<Quality>,
}

impl AcceptEncoding {
    /// The preference of a request without such a field, or with an empty one: only the identity
    /// coding is certain to be understood.
    pub const IDENTITY: Self = Self { codings: [None; Coding::ALL.len()], identity: None, others: None };

    /// Reads all fields of that name. Elements that are malformed, or name what is not known here,
    /// are skipped; of several about the same coding the first counts.
    #[must_use]
    pub fn of(fields: Fields<'_>) -> Self {
        Self::of_values(fields.all("accept-encoding"))
    }

    /// The same for the values of the fields.
    #[must_use]
    pub fn of_values<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut accept = Self::IDENTITY;
        for (name, quality) in values.flat_map(list_elements).filter_map(parse_element) {
            let place = match name {
                b"*" => &mut accept.others,
                _ if name.eq_ignore_ascii_case(b"identity") => &mut accept.identity,
                _ => match Coding::from_name(name) {
                    Some(coding) => &mut accept.codings[coding as usize],
                    None => continue,
                },
            };
            place.get_or_insert(quality);
        }
        accept
    }

    /// How much a coding is wanted.
    #[must_use]
    pub fn quality(&self, coding: Coding) -> Quality {
        self.codings[coding as usize].or(self.others).unwrap_or(0)
    }

    /// How much it is wanted that nothing is encoded; `None` if that is excluded. Where it is not
    /// mentioned it is acceptable, and less wanted than all that is: 0.
    #[must_use]
    pub fn identity(&self) -> Option<Quality> {
        match self.identity.or(self.others) {
            Some(0) => None,
            mentioned => Some(mentioned.unwrap_or(0)),
        }
    }
}

/// `coding [ OWS ";" OWS "q=" qvalue ]`
fn parse_element(element: &[u8]) -> Option<(&[u8], Quality)> {
    let Some(semicolon) = element.iter().position(|&byte| byte == b';') else {
        return Some((element, 1000));
    };
    let weight = trim_ows(&element[semicolon + 1..]);
    match weight {
        [b'q' | b'Q', b'=', value @ ..] => Some((trim_ows(&element[..semicolon]), parse_quality(value)?)),
        _ => None,
    }
}

/// `0` or `1` with up to three decimals, and not more than 1 (RFC 9110, 12.4.2).
pub(crate) fn parse_quality(value: &[u8]) -> Option<Quality> {
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |index: usize| decimals.get(index).map_or(0, |byte| Quality::from(byte - b'0'));
    let quality = Quality::from(whole - b'0') * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, FieldSlots, RequestEvent, RequestReader};

    /// Reads field values and shows what is wanted how much: zstd, br, gzip, identity (`-` for
    /// excluded).
    fn check(values: &[&str], expected: &str) {
        let lines: String = values.iter().map(|value| format!("Accept-Encoding: {value}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        let (mut reader, mut slots) = (RequestReader::new(Bounds::requests()), FieldSlots::new());
        let Some(RequestEvent::Head(head)) = reader.read(head.as_bytes(), &mut slots).unwrap().event else {
            panic!("{values:?} is no head");
        };
        let accept = AcceptEncoding::of(head.fields);
        let identity = accept.identity().map_or("-".to_owned(), |quality| quality.to_string());
        let [zstd, br, gzip] = Coding::ALL.map(|coding| accept.quality(coding));
        assert_eq!(format!("{zstd} {br} {gzip} {identity}"), expected, "{values:?}");
    }

    #[test]
    fn wanted_codings() {
        check(&[], "0 0 0 0");
        check(&[""], "0 0 0 0");
        check(&["gzip"], "0 0 1000 0");
        check(&["gzip, deflate, br, zstd"], "1000 1000 1000 0");
        check(&["GZIP;Q=0.5,Br ; q=0.25 ,\tzstd;\tq=0.125"], "125 250 500 0");
        check(&["x-gzip"], "0 0 1000 0");
        check(&["br;q=1.000, gzip;q=0.001, zstd;q=0"], "0 1000 1 0");
        check(&["*"], "1000 1000 1000 1000");
        check(&["*;q=0.3, gzip"], "300 300 1000 300");
        check(&["gzip", "br;q=0.5"], "0 500 1000 0");
    }

    #[test]
    fn excluded_codings() {
        check(&["identity;q=0"], "0 0 0 -");
        check(&["gzip, *;q=0"], "0 0 1000 -");
        check(&["*;q=0, identity;q=0.5"], "0 0 0 500");
        check(&["identity;q=0.000, *"], "1000 1000 1000 -");
        check(&["gzip;q=0, *"], "1000 1000 0 1000");
    }

    #[test]
    fn malformed_elements_are_skipped() {
        for element in
            ["gzip;q=", "gzip;q=2", "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=a", "gzip;q=-1", "gzip;", "gzip;x=1"]
        {
            check(&[element], "0 0 0 0");
            check(&[&format!("{element},br")], "0 1000 0 0");
        }
        check(&["gzip;q=0.5;q=1"], "0 0 0 0");
        check(&["gzip br"], "0 0 0 0");
    }

    #[test]
    fn of_several_the_first_counts() {
        check(&["gzip;q=0.5, gzip;q=1"], "0 0 500 0");
        check(&["gzip;q=0.5, x-gzip", "*;q=0.1, *"], "100 100 500 100");
    }
}
