//! Requests in about as many bytes as their targets: what they have in common is kept once, and put
//! around the rest when one is sent.
//!
//! A record has the template's number and, where the request has them, a check, fields and a body
//! of its own. Records lie one behind the other in one piece of memory, which all load threads
//! share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use thalweg_wire::Version;
use thalweg_wire::encode::FieldBlock;

use super::templates::{FieldLines, RequestError, RequestView, Templates, push_fields};
use crate::input::check::{Check, CheckId, CheckTable, PackedCheck, push_check};
use crate::input::packing::{push_number, push_text, take_number, take_text};

/// Flags of a record, beside its template's number.
const OWN_PARTS: u64 = 1;
const OWN_CHECK: u64 = 2;
const TABLE_CHECK: u64 = 4;
const FLAG_BITS: u32 = 3;

/// Why a request cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// It cannot be written.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Places are numbers of 32 bits.
    #[error("the requests need more than 4 GiB in total")]
    Full,
}

/// The own parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query, or another form of target.
    pub target: &'a str,
    /// Fields beside those of all requests.
    pub fields: &'a [(String, String)],
    /// The body; empty for none.
    pub body: &'a [u8],
}

/// Requests by number, packed.
#[derive(Clone, Debug)]
pub struct PackedRequests {
    templates: Templates,
    /// The body of those that have none of their own.
    body: Vec<u8>,
    records: Vec<u8>,
    /// The beginning of each record.
    starts: Vec<u32>,
    /// The checks that records refer to.
    table: Option<Arc<CheckTable>>,
    /// Numbers by record, as long as equal ones are to be found.
    known: HashTable<u32>,
    hasher: RandomState,
}

impl PackedRequests {
    /// No requests yet. All of them go to `authority` in this version, with these fields, and with
    /// this body where they have none of their own.
    pub fn new(authority: &str, version: Version, fields: &[(String, String)], body: &[u8]) -> Self {
        Self {
            templates: Templates::new(authority, version, fields),
            body: body.to_vec(),
            records: Vec::new(),
            starts: Vec::new(),
            table: None,
            known: HashTable::new(),
            hasher: RandomState::new(),
        }
    }

    /// Adds a request with a check of its own, or else that of a table, if there is one for its
    /// target. Its number.
    ///
    /// # Errors
    /// It cannot be written or kept; nothing is added then.
    pub fn push(
        &mut self,
        parts: &RequestParts<'_>,
        check: Option<&Check>,
        table: Option<&mut CheckTable>,
    ) -> Result<u32, PackError> {
        let start = self.records.len();
        let number = self.starts.len() as u32;
        let from_table =
            if check.is_none() { table.and_then(|table| table.find(parts.target.as_bytes())) } else { None };
        self.push_record(parts, check, from_table).inspect_err(|_| self.records.truncate(start))?;
        match u32::try_from(start) {
            Ok(start) => self.starts.push(start),
            Err(_) => {
                self.records.truncate(start);
                return Err(PackError::Full);
            }
        }
        Ok(number)
    }

    /// The number of an equal request, or of one that is added.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn intern(&mut self, parts: &RequestParts<'_>, table: Option<&mut CheckTable>) -> Result<u32, PackError> {
        let number = self.push(parts, None, table)?;
        let Self { records, starts, known, hasher, .. } = self;
        let of = |number: u32| record(records, starts, number);
        let hash = hasher.hash_one(of(number));
        let entry = known.entry(hash, |&other| of(other) == of(number), |&other| hasher.hash_one(of(other)));
        match entry {
            Entry::Occupied(other) => {
                let other = *other.get();
                let start = starts.pop().expect("a request was added");
                records.truncate(start as usize);
                Ok(other)
            }
            Entry::Vacant(vacant) => {
                vacant.insert(number);
                Ok(number)
            }
        }
    }

    /// Ends the adding: the requests refer to the checks of this table.
    #[must_use]
    pub fn finish(mut self, table: Option<CheckTable>) -> Self {
        self.table = table.map(Arc::new);
        self.known = HashTable::new();
        self
    }

    fn push_record(
        &mut self,
        parts: &RequestParts<'_>,
        check: Option<&Check>,
        from_table: Option<CheckId>,
    ) -> Result<(), PackError> {
        let template = self.templates.number(parts.method, parts.fields)?;
        if parts.target.is_empty() || !parts.target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(RequestError::Target.into());
        }
        let mut lines = FieldBlock::new();
        for (name, value) in parts.fields {
            lines.field(name, value.as_bytes())?;
        }
        let mut fields = Vec::new();
        push_fields(&mut fields, parts.fields);
        let has_parts = !parts.fields.is_empty() || !parts.body.is_empty();
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let flags =
            flag(has_parts, OWN_PARTS) | flag(check.is_some(), OWN_CHECK) | flag(from_table.is_some(), TABLE_CHECK);
        let out = &mut self.records;
        push_number(out, (template as u64) << FLAG_BITS | flags);
        from_table.iter().for_each(|id| push_number(out, u64::from(id.0)));
        check.iter().for_each(|check| push_check(out, check));
        if has_parts {
            push_text(out, &fields);
            push_text(out, parts.body);
        }
        // The target goes to the record's end.
        out.extend_from_slice(parts.target.as_bytes());
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes of all records, each with its body.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len().saturating_add(self.body.len().saturating_mul(self.len()))
    }

    /// The common parts of the requests.
    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// A request, and the bytes that begin with its response's check, if it has one.
    pub(crate) fn get(&self, number: u32) -> (RequestView<'_>, Option<&[u8]>) {
        let mut rest = record(&self.records, &self.starts, number);
        let head = take_number(&mut rest);
        let mut check = None;
        if head & TABLE_CHECK != 0 {
            let id = CheckId(take_number(&mut rest) as u32);
            check = self.table.as_ref().map(|table| table.check(id));
        }
        if head & OWN_CHECK != 0 {
            check = Some(rest);
            PackedCheck::take(&mut rest);
        }
        let (mut fields, mut body) = (&b""[..], self.body.as_slice());
        if head & OWN_PARTS != 0 {
            fields = take_text(&mut rest);
            let own = take_text(&mut rest);
            body = if own.is_empty() { body } else { own };
        }
        let fields = FieldLines::packed(fields);
        (RequestView { template: (head >> FLAG_BITS) as usize, target: rest, fields, body }, check)
    }
}

fn record<'a>(records: &'a [u8], starts: &[u32], number: u32) -> &'a [u8] {
    let number = number as usize;
    let end = starts.get(number + 1).map_or(records.len(), |&end| end as usize);
    &records[starts[number] as usize..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn invalid_fields_are_refused_and_leave_nothing() {
        let mut packed = PackedRequests::new("h", Version::Http11, &[], b"");
        let refused = |packed: &mut PackedRequests, method, target, own: &[(&str, &str)]| {
            packed.push(&RequestParts { method, target, fields: &fields(own), body: b"" }, None, None).unwrap_err()
        };
        assert_eq!(refused(&mut packed, "GE T", "/", &[]), RequestError::Method.into());
        assert_eq!(refused(&mut packed, "GET", "/ HTTP/1.1\r\nX: y", &[]), RequestError::Target.into());
        assert_eq!(refused(&mut packed, "GET", "/", &[("X", "a\r\nY: b")]), RequestError::FieldValue.into());
        assert!(packed.is_empty() && packed.bytes() == 0);
    }

    #[test]
    fn equal_requests_are_kept_once_and_a_target_is_all_that_others_cost() {
        let mut packed = PackedRequests::new("h", Version::Http11, &[], b"");
        let mut number = |method, target, body: &'static [u8]| {
            packed.intern(&RequestParts { method, target, fields: &[], body }, None).unwrap()
        };
        let numbers =
            [("GET", "/a", &b""[..]), ("GET", "/b", b""), ("GET", "/a", b""), ("HEAD", "/a", b""), ("GET", "/a", b"x")];
        assert_eq!(numbers.map(|(method, target, body)| number(method, target, body)), [0, 1, 0, 2, 3]);
        let before = packed.bytes();
        packed.intern(&RequestParts { method: "GET", target: "/another", fields: &[], body: b"" }, None).unwrap();
        assert_eq!((packed.bytes() - before, packed.len()), ("/another".len() + 1, 5));
    }

    #[test]
    fn a_request_s_own_check_wins_over_the_table_s() {
        let text = "/a status=404\n/b status=403\n";
        let mut table = CheckTable::read("c", text.as_bytes(), |_| Err::<String, _>("no")).unwrap();
        let mut packed = PackedRequests::new("h", Version::Http11, &[], b"");
        let own = Check::parse("status=200").unwrap();
        for (target, check) in [("/a", None), ("/c", None), ("/b", Some(&own)), ("/b", None)] {
            packed
                .push(&RequestParts { method: "GET", target, fields: &[], body: b"" }, check, Some(&mut table))
                .unwrap();
        }
        table.ensure_all_asked().unwrap();
        let packed = packed.finish(Some(table));
        let checks =
            [0, 1, 2, 3].map(|number| packed.get(number).1.map(|mut check| PackedCheck::take(&mut check).unpack()));
        let parsed = |text| Some(Check::parse(text).unwrap());
        assert_eq!(checks, [parsed("status=404"), None, Some(own), parsed("status=403")]);
    }
}
