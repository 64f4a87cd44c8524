//! Checks in about as many bytes as their text has, for lists of any length: a [`Check`] takes more
//! than a hundred.

use thalweg_measure::Outcome;

use super::condition::{Check, FieldCheck, FieldValue, StatusSet, judge};
use crate::input::packing::{push_number, push_text, take_bytes, take_number, take_text};

const STATUSES_MASK: u8 = 0x0f;
const LENGTH: u8 = 0x10;
const SHA256: u8 = 0x20;
const FIELDS: u8 = 0x40;

/// Kinds of conditions on a field.
const ANY: u8 = 0;
const IS: u8 = 1;
const CONTAINS: u8 = 2;

/// A check as the engine uses it: whole, or packed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CheckOf<'a> {
    Whole(&'a Check),
    /// Bytes that begin with a packed check.
    Packed(&'a [u8]),
}

/// A check as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedCheck<'a> {
    statuses: &'a [u8],
    length: Option<u64>,
    sha256: Option<&'a [u8]>,
    /// How many, and one behind the other.
    field_count: u8,
    fields: &'a [u8],
}

/// Appends a check.
pub(crate) fn push_check(out: &mut Vec<u8>, check: &Check) {
    let ranges: Vec<(u16, u16)> = check.status.iter().flat_map(|status| status.used()).collect();
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = ranges.len() as u8
        | flag(check.length.is_some(), LENGTH)
        | flag(check.sha256.is_some(), SHA256)
        | flag(!check.fields.is_empty(), FIELDS);
    out.push(flags);
    for (first, last) in ranges {
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&last.to_le_bytes());
    }
    check.length.iter().for_each(|&length| push_number(out, length));
    check.sha256.iter().for_each(|digest| out.extend_from_slice(digest));
    if !check.fields.is_empty() {
        let mut fields = Vec::new();
        check.fields.iter().for_each(|field| push_field(&mut fields, field));
        out.push(check.fields.len() as u8);
        push_text(out, &fields);
    }
}

fn push_field(out: &mut Vec<u8>, field: &FieldCheck) {
    let (kind, value) = match &field.value {
        FieldValue::Any => (ANY, None),
        FieldValue::Is(value) => (IS, Some(value)),
        FieldValue::Contains(value) => (CONTAINS, Some(value)),
    };
    out.push(kind);
    push_text(out, field.name.as_bytes());
    value.iter().for_each(|value| push_text(out, value.as_bytes()));
}

impl<'a> PackedCheck<'a> {
    /// Takes a check off the front.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Self {
        let flags = take_bytes(bytes, 1)[0];
        let statuses = take_bytes(bytes, usize::from(flags & STATUSES_MASK) * 4);
        let length = (flags & LENGTH != 0).then(|| take_number(bytes));
        let sha256 = (flags & SHA256 != 0).then(|| take_bytes(bytes, 32));
        let (field_count, fields) =
            if flags & FIELDS != 0 { (take_bytes(bytes, 1)[0], take_text(bytes)) } else { (0, &b""[..]) };
        Self { statuses, length, sha256, field_count, fields }
    }

    /// The check with memory of its own.
    pub(crate) fn unpack(self) -> Check {
        let text = |bytes: &[u8]| -> Box<str> { String::from_utf8_lossy(bytes).into() };
        let fields = self.fields().map(|(kind, name, value)| FieldCheck {
            name: text(name),
            value: match kind {
                ANY => FieldValue::Any,
                IS => FieldValue::Is(text(value)),
                _ => FieldValue::Contains(text(value)),
            },
        });
        let mut ranges = self.ranges();
        let status = (!self.statuses.is_empty()).then(|| StatusSet::of(&mut ranges));
        let sha256 = self.sha256.and_then(|digest| digest.try_into().ok());
        Check { status, length: self.length, sha256, fields: fields.collect() }
    }

    fn ranges(self) -> impl Iterator<Item = (u16, u16)> {
        let number = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        self.statuses.chunks_exact(4).map(move |range| (number(&range[..2]), number(&range[2..])))
    }

    /// Whether it names a status.
    fn lists(self, status: u16) -> bool {
        self.ranges().any(|(first, last)| first <= status && status <= last)
    }

    /// Kind, name and value of each condition on a field.
    fn fields(self) -> impl Iterator<Item = (u8, &'a [u8], &'a [u8])> {
        let mut rest = self.fields;
        (0..self.field_count).map(move |_| {
            let kind = take_bytes(&mut rest, 1)[0];
            let name = take_text(&mut rest);
            (kind, name, if kind == ANY { &b""[..] } else { take_text(&mut rest) })
        })
    }

    fn check_fields<'f, N: AsRef<[u8]>>(self, fields: impl Iterator<Item = (N, &'f [u8])>) -> bool {
        let all = (1u64 << self.field_count) - 1;
        let mut met = 0;
        for (name, value) in fields {
            if met == all {
                break;
            }
            for (index, (kind, expected_name, expected)) in self.fields().enumerate() {
                let is_met = name.as_ref().eq_ignore_ascii_case(expected_name)
                    && match kind {
                        ANY => true,
                        IS => value == expected,
                        _ => value.windows(expected.len()).any(|window| window == expected),
                    };
                met |= u64::from(is_met) << index;
            }
        }
        met == all
    }

    fn judge(self, status: u16, length: u64, digest: Option<[u8; 32]>) -> Outcome {
        let good_status = match self.statuses.is_empty() {
            true => (200..300).contains(&status),
            false => self.lists(status),
        };
        let same_digest = self.sha256.is_none_or(|expected| digest.is_some_and(|digest| digest == expected));
        judge(good_status, self.length.is_none_or(|expected| expected == length) && same_digest)
    }
}

/// Most requests have whole checks, whose methods are inlined; packed checks are read each time.
impl CheckOf<'_> {
    /// Whether it requires the content's digest.
    #[inline]
    pub(crate) fn wants_digest(self) -> bool {
        match self {
            Self::Whole(check) => check.sha256.is_some(),
            Self::Packed(bytes) => read(bytes).sha256.is_some(),
        }
    }

    /// Whether it has conditions on fields.
    #[inline]
    pub(crate) fn has_fields(self) -> bool {
        match self {
            Self::Whole(check) => !check.fields.is_empty(),
            Self::Packed(bytes) => read(bytes).field_count > 0,
        }
    }

    /// Whether a status is good because it is named.
    pub(crate) fn lists(self, status: u16) -> bool {
        match self {
            Self::Whole(check) => check.status.is_some_and(|statuses| statuses.contains(status)),
            Self::Packed(bytes) => read(bytes).lists(status),
        }
    }

    /// See [`Check::check_fields`].
    pub(crate) fn check_fields<'f, N: AsRef<[u8]>>(self, fields: impl Iterator<Item = (N, &'f [u8])>) -> bool {
        match self {
            Self::Whole(check) => check.check_fields(fields),
            Self::Packed(bytes) => read(bytes).check_fields(fields),
        }
    }

    /// See [`Check::judge`].
    #[inline]
    pub(crate) fn judge(self, status: u16, length: u64, digest: Option<[u8; 32]>) -> Outcome {
        match self {
            Self::Whole(check) => check.judge(status, length, digest),
            Self::Packed(bytes) => read(bytes).judge(status, length, digest),
        }
    }
}

#[cold]
fn read(mut bytes: &[u8]) -> PackedCheck<'_> {
    PackedCheck::take(&mut bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_check_is_what_it_was_and_judges_alike() {
        let digest = [0x0f; 32];
        let checks = [
            String::new(),
            "status=200".to_owned(),
            "status=2xx|304,length=300".to_owned(),
            "status=200|201|202|203|204|205|206|207".to_owned(),
            format!("length=0,sha256={}", "0f".repeat(32)),
            "header:A,header:B=x,header:C~y,header:D=".to_owned(),
            vec!["header:A"; 32].join(","),
        ];
        let heads: [&[(&str, &[u8])]; 3] = [&[], &[("a", b"1"), ("b", b"x"), ("C", b"xyz"), ("d", b"")], &[("A", b"")]];
        for text in checks {
            let check = if text.is_empty() { Check::default() } else { Check::parse(&text).unwrap() };
            let mut bytes = Vec::new();
            push_check(&mut bytes, &check);
            bytes.push(7);
            let mut rest = bytes.as_slice();
            let packed = PackedCheck::take(&mut rest);
            assert_eq!((packed.unpack(), rest), (check.clone(), &[7][..]), "{text}");
            let (one, other) = (CheckOf::Whole(&check), CheckOf::Packed(&bytes));
            assert_eq!((one.wants_digest(), one.has_fields()), (other.wants_digest(), other.has_fields()), "{text}");
            for status in [200, 204, 301, 304] {
                assert_eq!(one.lists(status), other.lists(status), "{text} {status}");
            }
            for (status, length, digest) in
                [(200, 300, None), (204, 0, Some(digest)), (304, 1, Some([1; 32])), (404, 0, Some(digest))]
            {
                let outcome = one.judge(status, length, digest);
                assert_eq!(outcome, other.judge(status, length, digest), "{text} {status}");
            }
            for head in heads {
                let fields = || head.iter().copied();
                assert_eq!(one.check_fields(fields()), other.check_fields(fields()), "{text} {head:?}");
            }
        }
    }
}
