//! The record of a finished response: a few plain bytes, so that all formatting is the log thread's
//! work.
//!
//! A record is written when a response is made, and completed when that response has ended. Texts
//! are the client's bytes, cut off at a bound; `line` escapes them for printing.

use std::net::{IpAddr, Ipv6Addr};

use thalweg_tls::Version as TlsVersion;
use thalweg_wire::{RequestHead, Version};

/// Longer texts are cut off: one request must not fill a page of the log.
const TARGET_BYTES_MAX: usize = 8 << 10;
const FIELD_BYTES_MAX: usize = 1 << 10;
const METHOD_BYTES_MAX: usize = 32;

/// Bytes of the digest of a certificate.
const CERTIFICATE_BYTES: usize = 32;

/// Bytes before the texts.
const FIXED_BYTES: usize = 64;

/// No record is longer.
pub(crate) const RECORD_BYTES_MAX: usize =
    FIXED_BYTES + METHOD_BYTES_MAX + TARGET_BYTES_MAX + 3 * FIELD_BYTES_MAX + CERTIFICATE_BYTES;

/// A response that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    /// The address that it went to; unspecified for a peer without one.
    pub(crate) client: Ipv6Addr,
    /// When the request had come, in seconds since 1970-01-01 UTC.
    pub(crate) second: i64,
    /// `None` for what was no request.
    pub(crate) request: Option<Request<'a>>,
    /// The version of TLS, if the response went over it.
    pub(crate) tls: Option<TlsVersion>,
    /// The SHA-256 digest of the client's certificate, if it has one.
    pub(crate) certificate: Option<&'a [u8; CERTIFICATE_BYTES]>,
    pub(crate) status: u16,
    /// The mount that it came from, by the register's number.
    pub(crate) mount: u16,
    pub(crate) end: End,
}

/// The request of the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) version: Version,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) agent: Option<&'a [u8]>,
}

/// The end of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct End {
    /// Bytes of the body that the kernel has taken.
    pub(crate) body_bytes: u64,
    /// From the request's arrival on.
    pub(crate) duration_us: u64,
    /// The kernel has taken all of it.
    pub(crate) is_complete: bool,
    /// It was complete and had the last byte of a file in it: a download.
    pub(crate) is_download: bool,
}

const HAS_REQUEST: u8 = 1;
const IS_HTTP_1_0: u8 = 2;
const HAS_HOST: u8 = 4;
const HAS_REFERER: u8 = 8;
const HAS_AGENT: u8 = 16;
const IS_TLS_1_2: u8 = 32;
const IS_TLS_1_3: u8 = 64;
const IS_HTTP_2: u8 = 128;
const IS_COMPLETE: u8 = 1;
const IS_DOWNLOAD: u8 = 2;

// Offsets in the fixed part; the length of the whole comes first.
const CLIENT: usize = 4;
const SECOND: usize = 20;
const BODY_BYTES: usize = 28;
const DURATION_US: usize = 36;
const STATUS: usize = 44;
const MOUNT: usize = 46;
const FLAGS: usize = 48;
const END_FLAGS: usize = 49;
/// Of method, target, host, referer, agent and certificate, two bytes each.
const LENGTHS: usize = 50;
const TEXTS: usize = 6;

const _: () = assert!(LENGTHS + 2 * TEXTS <= FIXED_BYTES);

impl<'a> Request<'a> {
    /// The loggable parts of a request; the fields only where `with_fields`.
    pub(crate) fn of(head: &RequestHead<'a>, with_fields: bool) -> Self {
        let mut request = Self {
            method: head.method.name().as_bytes(),
            target: head.target,
            version: head.version,
            host: None,
            referer: None,
            agent: None,
        };
        if with_fields {
            request.host = head.host().map(str::as_bytes);
            for (name, value) in head.fields.iter() {
                match name.len() {
                    7 if name.eq_ignore_ascii_case("referer") => request.referer = Some(value),
                    10 if name.eq_ignore_ascii_case("user-agent") => request.agent = Some(value),
                    _ => {}
                }
            }
        }
        request
    }
}

impl<'a> Record<'a> {
    /// Writes the record behind what is there.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut fixed = [0; FIXED_BYTES];
        fixed[CLIENT..][..16].copy_from_slice(&self.client.octets());
        fixed[SECOND..][..8].copy_from_slice(&self.second.to_le_bytes());
        fixed[STATUS..][..2].copy_from_slice(&self.status.to_le_bytes());
        fixed[MOUNT..][..2].copy_from_slice(&self.mount.to_le_bytes());
        let request = self.request.as_ref();
        let mut texts = request.map_or([&[][..]; TEXTS], |request| {
            [
                cut(request.method, METHOD_BYTES_MAX),
                cut(request.target, TARGET_BYTES_MAX),
                cut(request.host.unwrap_or_default(), FIELD_BYTES_MAX),
                cut(request.referer.unwrap_or_default(), FIELD_BYTES_MAX),
                cut(request.agent.unwrap_or_default(), FIELD_BYTES_MAX),
                &[],
            ]
        });
        texts[TEXTS - 1] = self.certificate.map_or(&[][..], |certificate| certificate);
        if let Some(request) = request {
            let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            fixed[FLAGS] = HAS_REQUEST
                | flag(request.version == Version::Http10, IS_HTTP_1_0)
                | flag(request.version == Version::Http2, IS_HTTP_2)
                | flag(request.host.is_some(), HAS_HOST)
                | flag(request.referer.is_some(), HAS_REFERER)
                | flag(request.agent.is_some(), HAS_AGENT);
        }
        fixed[FLAGS] |= match self.tls {
            None => 0,
            Some(TlsVersion::Tls12) => IS_TLS_1_2,
            Some(TlsVersion::Tls13) => IS_TLS_1_3,
        };
        let mut bytes = FIXED_BYTES;
        for (index, text) in texts.iter().enumerate() {
            bytes += text.len();
            fixed[LENGTHS + 2 * index..][..2].copy_from_slice(&(text.len() as u16).to_le_bytes());
        }
        fixed[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
        out.extend_from_slice(&fixed);
        for text in texts {
            out.extend_from_slice(text);
        }
        self.end.complete(&mut out[start..]);
    }

    /// Takes the next record from the front of `bytes`; `None` when there is none, or half a one.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let whole_bytes = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        let (whole, rest) = bytes.split_at_checked(whole_bytes)?;
        let (fixed, mut texts) = whole.split_first_chunk::<FIXED_BYTES>()?;
        let mut text = |index: usize| {
            let text_bytes = u16::from_le_bytes(field(fixed, LENGTHS + 2 * index));
            let (text, others) = texts.split_at_checked(usize::from(text_bytes))?;
            texts = others;
            Some(text)
        };
        let flags = fixed[FLAGS];
        let (method, target) = (text(0)?, text(1)?);
        let mut optional = |index: usize, flag: u8| text(index).map(|text| Some(text).filter(|_| flags & flag != 0));
        let (host, referer, agent) = (optional(2, HAS_HOST)?, optional(3, HAS_REFERER)?, optional(4, HAS_AGENT)?);
        let certificate = text(5)?.first_chunk();
        *bytes = rest;
        let version = match flags {
            _ if flags & IS_HTTP_1_0 != 0 => Version::Http10,
            _ if flags & IS_HTTP_2 != 0 => Version::Http2,
            _ => Version::Http11,
        };
        let request = Request { method, target, version, host, referer, agent };
        Some(Self {
            client: Ipv6Addr::from(field::<16>(fixed, CLIENT)),
            second: i64::from_le_bytes(field(fixed, SECOND)),
            request: (flags & HAS_REQUEST != 0).then_some(request),
            tls: match flags & (IS_TLS_1_2 | IS_TLS_1_3) {
                0 => None,
                IS_TLS_1_2 => Some(TlsVersion::Tls12),
                _ => Some(TlsVersion::Tls13),
            },
            certificate,
            status: u16::from_le_bytes(field(fixed, STATUS)),
            mount: u16::from_le_bytes(field(fixed, MOUNT)),
            end: End {
                body_bytes: u64::from_le_bytes(field(fixed, BODY_BYTES)),
                duration_us: u64::from_le_bytes(field(fixed, DURATION_US)),
                is_complete: fixed[END_FLAGS] & IS_COMPLETE != 0,
                is_download: fixed[END_FLAGS] & IS_DOWNLOAD != 0,
            },
        })
    }

    /// The client as an address; `None` for a peer without one.
    pub(crate) fn client_address(&self) -> Option<IpAddr> {
        (!self.client.is_unspecified()).then(|| self.client.to_canonical())
    }
}

impl End {
    /// Writes the end into a record that was written before it was known.
    pub(crate) fn complete(&self, record: &mut [u8]) {
        record[BODY_BYTES..][..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        record[DURATION_US..][..8].copy_from_slice(&self.duration_us.to_le_bytes());
        record[END_FLAGS] =
            if self.is_complete { IS_COMPLETE } else { 0 } | if self.is_download { IS_DOWNLOAD } else { 0 };
    }
}

/// The address as records have it.
pub(crate) fn client_of(address: Option<IpAddr>) -> Ipv6Addr {
    match address {
        None => Ipv6Addr::UNSPECIFIED,
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped(),
        Some(IpAddr::V6(address)) => address,
    }
}

fn cut(text: &[u8], bytes_max: usize) -> &[u8] {
    &text[..text.len().min(bytes_max)]
}

fn field<const N: usize>(fixed: &[u8; FIXED_BYTES], at: usize) -> [u8; N] {
    *fixed[at..].first_chunk().expect("fields lie within the fixed part")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request<'static> {
        Request {
            method: b"GET",
            target: b"/a?b",
            version: Version::Http2,
            host: Some(b"h"),
            referer: None,
            agent: Some(b""),
        }
    }

    fn record(request: Option<Request<'_>>) -> Record<'_> {
        let end = End { body_bytes: 1 << 40, duration_us: 7, is_complete: true, is_download: true };
        Record {
            client: client_of(Some([10, 1, 2, 3].into())),
            second: -5,
            request,
            tls: Some(TlsVersion::Tls13),
            certificate: Some(&[7; CERTIFICATE_BYTES]),
            status: 206,
            mount: 3,
            end,
        }
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let mut bytes = Vec::new();
        let without = Record { certificate: None, ..record(Some(Request { agent: None, ..request() })) };
        let all = [record(Some(request())), record(None), without];
        for record in &all {
            record.write(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for record in all {
            assert_eq!(Record::take(&mut rest), Some(record));
        }
        assert_eq!(Record::take(&mut rest), None);
        for cut_at in 0..bytes.len() {
            let mut rest = &bytes[..cut_at];
            while Record::take(&mut rest).is_some() {}
        }
    }

    #[test]
    fn an_end_is_filled_in_later() {
        let mut bytes = Vec::new();
        let open = Record { end: End::default(), ..record(Some(request())) };
        open.write(&mut bytes);
        record(None).end.complete(&mut bytes);
        assert_eq!(Record::take(&mut bytes.as_slice()), Some(record(Some(request()))));
    }

    #[test]
    fn long_texts_are_cut_off() {
        let long = vec![b'x'; 1 << 20];
        let text = Some(long.as_slice());
        let request = Request { method: &long, target: &long, host: text, referer: text, agent: text, ..request() };
        let mut bytes = Vec::new();
        record(Some(request)).write(&mut bytes);
        assert_eq!(bytes.len(), RECORD_BYTES_MAX);
        let taken = Record::take(&mut bytes.as_slice()).unwrap().request.unwrap();
        assert_eq!(taken.target, &long[..TARGET_BYTES_MAX]);
        assert_eq!(taken.agent, Some(&long[..FIELD_BYTES_MAX]));
    }

    #[test]
    fn addresses_of_both_families() {
        for text in ["192.0.2.7", "2001:db8::1"] {
            let record = Record { client: client_of(Some(text.parse().unwrap())), ..record(None) };
            assert_eq!(record.client_address().unwrap().to_string(), text);
        }
        assert_eq!(Record { client: client_of(None), ..record(None) }.client_address(), None);
    }
}
