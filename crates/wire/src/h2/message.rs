//! The heads of requests and responses as HTTP/2 writes them (RFC 9113, 8).

use arrayvec::ArrayVec;

use crate::authority::HostFault;
use crate::fields::{Fields, is_text_byte, is_token_byte};
use crate::framing::BodyFraming;
use crate::hpack::FieldList;
use crate::{FIELDS_MAX, Method, RequestHead, ResponseHead, authority};

/// Room for the field lines of one head, which point into a [`FieldList`].
#[derive(Default)]
pub struct HeadFields<'a>(ArrayVec<httparse::Header<'a>, FIELDS_MAX>);

/// A head that HTTP/2 does not allow. The stream is reset (PROTOCOL_ERROR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub &'static str);

/// Why the head of a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// HTTP/2 does not allow it.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Its host is in doubt, which is answered as in HTTP/1: with 400.
    #[error(transparent)]
    Host(#[from] HostFault),
}

/// The pseudo-fields of a head (RFC 9113, 8.3).
#[derive(Default)]
struct Pseudo<'a> {
    method: Option<&'a str>,
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: Option<&'a [u8]>,
    status: Option<&'a [u8]>,
}

/// Fields that speak of the connection, and have no place in HTTP/2 (RFC 9113, 8.2.2).
const OF_CONNECTION: [&[u8]; 5] = [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

impl<'a> HeadFields<'a> {
    /// Empty room.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The head of a request whose header block has this list of fields; `ends`: it has no body.
    ///
    /// # Errors
    /// HTTP/2 does not allow it, or its host is in doubt.
    pub fn request<'s>(&'s mut self, list: &'a FieldList, ends: bool) -> Result<RequestHead<'s>, RequestFault> {
        let (pseudo, length) = self.survey(list)?;
        if pseudo.status.is_some() {
            return Err(Malformed(":status in a request").into());
        }
        let method = Method::from_name(pseudo.method.ok_or(Malformed("no :method"))?);
        let fields = Fields(&self.0);
        let target = match (method, pseudo.path, pseudo.scheme) {
            (Method::Connect, None, None) => {
                pseudo.authority.ok_or(Malformed("CONNECT without :authority"))?.as_bytes()
            }
            (Method::Connect, ..) => return Err(Malformed("CONNECT with :path or :scheme").into()),
            (_, Some(path), Some(_)) => path,
            _ => return Err(Malformed("no :path or no :scheme").into()),
        };
        let is_origin_form = target.starts_with(b"/") || (target == b"*" && method == Method::Options);
        if method != Method::Connect && !is_origin_form {
            return Err(Malformed(":path without a slash").into());
        }
        let body = match length {
            _ if ends => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::UntilClose,
        };
        if ends && length.is_some_and(|length| length > 0) {
            return Err(Malformed("content-length without a body").into());
        }
        let host = host(pseudo.authority, fields)?;
        let expects_continue =
            !ends && fields.get("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        Ok(RequestHead::of_stream(method, target, fields, body, host, expects_continue))
    }

    /// The head of a response.
    ///
    /// # Errors
    /// HTTP/2 does not allow it.
    pub fn response<'s>(&'s mut self, list: &'a FieldList, ends: bool) -> Result<ResponseHead<'s>, Malformed> {
        let (pseudo, length) = self.survey(list)?;
        let &[hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] =
            pseudo.status.ok_or(Malformed("no :status"))?
        else {
            return Err(Malformed("invalid :status"));
        };
        if pseudo.method.is_some() || pseudo.path.is_some() || pseudo.scheme.is_some() || pseudo.authority.is_some() {
            return Err(Malformed("a request's pseudo-field in a response"));
        }
        let digit = |byte: u8| u16::from(byte - b'0');
        let status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
        let body = match length {
            _ if ends => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::UntilClose,
        };
        Ok(ResponseHead::of_stream(status, Fields(&self.0), body))
    }

    /// Checks a trailer section, which has no pseudo-fields.
    ///
    /// # Errors
    /// HTTP/2 does not allow it.
    pub fn trailers<'s>(&'s mut self, list: &'a FieldList) -> Result<Fields<'s>, Malformed> {
        if list.iter().any(|(name, _)| name.starts_with(b":")) {
            return Err(Malformed("pseudo-field in trailers"));
        }
        self.survey(list)?;
        Ok(Fields(&self.0))
    }

    /// Takes over the fields, and returns the pseudo-fields and Content-Length.
    fn survey(&mut self, list: &'a FieldList) -> Result<(Pseudo<'a>, Option<u64>), Malformed> {
        let mut pseudo = Pseudo::default();
        let mut length = None;
        self.0.clear();
        for (name, value) in list.iter() {
            if !is_value(value) {
                return Err(Malformed("invalid field value"));
            }
            if let [b':', key @ ..] = name {
                if !self.0.is_empty() {
                    return Err(Malformed("pseudo-field behind a field"));
                }
                pseudo.set(key, value)?;
                continue;
            }
            if !is_name(name) {
                return Err(Malformed("invalid field name"));
            }
            check_field(name, value)?;
            if name == b"content-length" {
                let value = content_length(value).filter(|_| length.is_none());
                length = Some(value.ok_or(Malformed("invalid or repeated content-length"))?);
            }
            let name = str::from_utf8(name).map_err(|_| Malformed("invalid field name"))?;
            let too_many = |_| Malformed("too many fields");
            self.0.try_push(httparse::Header { name, value }).map_err(too_many)?;
        }
        Ok((pseudo, length))
    }
}

impl<'a> Pseudo<'a> {
    fn set(&mut self, key: &[u8], value: &'a [u8]) -> Result<(), Malformed> {
        let text = || str::from_utf8(value).map_err(|_| Malformed("invalid pseudo-field"));
        let token = || if is_token(value) { text() } else { Err(Malformed("invalid pseudo-field")) };
        let is_repeated = match key {
            b"method" => self.method.replace(token()?).is_some(),
            b"scheme" => self.scheme.replace(token()?).is_some(),
            b"authority" => self.authority.replace(text()?).is_some(),
            b"path" if is_target(value) => self.path.replace(value).is_some(),
            b"path" => return Err(Malformed("invalid :path")),
            b"status" => self.status.replace(value).is_some(),
            _ => return Err(Malformed("unknown pseudo-field")),
        };
        if is_repeated { Err(Malformed("repeated pseudo-field")) } else { Ok(()) }
    }
}

/// The host that a request is for: `:authority`, or else the field (RFC 9113, 8.3.1).
#[inline]
fn host<'s>(authority: Option<&'s str>, fields: Fields<'s>) -> Result<Option<&'s str>, RequestFault> {
    let mut lines = fields.all("host");
    let field = lines.next();
    if lines.next().is_some() {
        return Err(HostFault::Repeated.into());
    }
    if let (Some(authority), Some(field)) = (authority, field)
        && !authority.as_bytes().eq_ignore_ascii_case(field)
    {
        return Err(Malformed(":authority and host differ").into());
    }
    let host = authority.map(str::as_bytes).or(field);
    Ok(host.map(|host| authority::check(host).ok_or(HostFault::Invalid)).transpose()?)
}

fn check_field(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    if OF_CONNECTION.contains(&name) {
        return Err(Malformed("field of the connection"));
    }
    if name == b"te" && !value.eq_ignore_ascii_case(b"trailers") {
        return Err(Malformed("te with more than trailers"));
    }
    Ok(())
}

/// Whether this is a field name in lower case (RFC 9113, 8.2.1).
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte) && !byte.is_ascii_uppercase())
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// Whether this is a field value, with no space around it (RFC 9113, 8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    value.iter().all(|&byte| is_text_byte(byte)) && !is_space(value.first()) && !is_space(value.last())
}

/// Whether all bytes are visible ASCII, as in the target of a request line.
fn is_target(path: &[u8]) -> bool {
    !path.is_empty() && path.iter().all(u8::is_ascii_graphic)
}

fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(value).ok()?.parse().ok()
}
