//! A check file's conditions by target, packed: a look-up for each request of a list or log,
//! however many there are.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::BufRead;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::entry::entry;
use super::packed::{PackedCheck, push_check};
use crate::input::packing::{push_number, push_text, take_bytes, take_number, take_text};
use crate::input::text::{ENTRIES_MAX, InputError, Lines, ReadError, excerpt};

/// Conditions by target, each target once.
#[derive(Clone, Debug)]
pub struct CheckTable {
    file: String,
    /// Records one behind the other: whether a request has the target (1 byte), line, column,
    /// target, check.
    bytes: Vec<u8>,
    /// The beginning of each record, by its target.
    places: HashTable<u32>,
    hasher: RandomState,
}

/// Names a check of a table: where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckId(pub(crate) u32);

struct Record<'a> {
    line: usize,
    column: usize,
    target: &'a [u8],
}

impl CheckTable {
    /// Reads a check file: targets with what their responses must be, each target once. A URL goes
    /// through `target_of`, which makes a target of it.
    ///
    /// # Errors
    /// The first line that is wrong, that there is none, or that the file cannot be read.
    pub fn read<E: fmt::Display>(
        file: &str,
        source: impl BufRead,
        mut target_of: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Self, ReadError> {
        let mut table =
            Self { file: file.to_owned(), bytes: Vec::new(), places: HashTable::new(), hasher: RandomState::new() };
        let mut lines = Lines::new(file, source);
        while let Some(line) = lines.next()? {
            let Some(entry) = entry(line, &mut target_of)? else { continue };
            let shown = || excerpt(entry.target.as_bytes());
            if entry.weight.is_some() {
                let what = format!("{} has a weight, which belongs into a URL list; remove it", shown());
                return Err(entry.error(file, what).into());
            }
            let Some(check) = &entry.check else {
                let what = format!("{} has no conditions; expected for example status=200", shown());
                return Err(entry.error(file, what).into());
            };
            if table.places.len() == ENTRIES_MAX || table.bytes.len() > u32::MAX as usize / 2 {
                return Err(entry.error(file, "the file has too many checks").into());
            }
            let place = table.bytes.len() as u32;
            table.bytes.push(0);
            push_number(&mut table.bytes, entry.line as u64);
            push_number(&mut table.bytes, entry.column as u64);
            push_text(&mut table.bytes, entry.target.as_bytes());
            push_check(&mut table.bytes, check);
            if let Some(first) = table.insert(place, entry.target.as_bytes()) {
                return Err(entry.error(file, format!("{} already has conditions in line {first}", shown())).into());
            }
        }
        if table.places.is_empty() {
            return Err(InputError::new(file, 1, 1, "the file contains no checks").into());
        }
        Ok(table)
    }

    /// The check of a target, if there is one. It counts as used.
    pub(crate) fn find(&mut self, target: &[u8]) -> Option<CheckId> {
        let id = self.get(target)?;
        let place =
            self.places.find(self.hasher.hash_one(target), |&place| record(&self.bytes, place).0.target == target);
        self.bytes[*place? as usize] = 1;
        Some(id)
    }

    /// The check of a target, if there is one.
    pub(crate) fn get(&self, target: &[u8]) -> Option<CheckId> {
        let is_it = |&place: &u32| record(&self.bytes, place).0.target == target;
        let place = *self.places.find(self.hasher.hash_one(target), is_it)?;
        let rest = record(&self.bytes, place).1;
        Some(CheckId((self.bytes.len() - rest.len()) as u32))
    }

    /// The bytes that begin with the packed check.
    pub(crate) fn check(&self, id: CheckId) -> &[u8] {
        &self.bytes[id.0 as usize..]
    }

    /// Verifies that each target is one of a request.
    ///
    /// # Errors
    /// The first one that was not: a check that could never be made is a mistake.
    pub fn ensure_all_asked(&self) -> Result<(), InputError> {
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            let place = self.bytes.len() - rest.len();
            let (record, behind) = record(&self.bytes, place as u32);
            if self.bytes[place] == 0 {
                let what = format!("the run never requests {}", excerpt(record.target));
                return Err(InputError::new(&self.file, record.line, record.column, what));
            }
            rest = behind;
            PackedCheck::take(&mut rest);
        }
        Ok(())
    }

    /// Notes a record's place under its target; the line of the one that is there already, if there
    /// is one.
    fn insert(&mut self, place: u32, target: &[u8]) -> Option<usize> {
        let Self { bytes, places, hasher, .. } = self;
        let hash_of = |&place: &u32| hasher.hash_one(record(bytes, place).0.target);
        let is_it = |&place: &u32| record(bytes, place).0.target == target;
        match places.entry(hasher.hash_one(target), is_it, hash_of) {
            Entry::Occupied(other) => Some(record(bytes, *other.get()).0.line),
            Entry::Vacant(vacant) => {
                vacant.insert(place);
                None
            }
        }
    }
}

/// The record at a place, and what lies behind its target: its check.
fn record(bytes: &[u8], place: u32) -> (Record<'_>, &[u8]) {
    let mut rest = &bytes[place as usize..];
    take_bytes(&mut rest, 1);
    let (line, column) = (take_number(&mut rest) as usize, take_number(&mut rest) as usize);
    let target = take_text(&mut rest);
    (Record { line, column, target }, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::check::Check;

    fn target_of(url: &str) -> Result<String, String> {
        url.strip_prefix("http://host").map(ToOwned::to_owned).ok_or_else(|| "no".to_owned())
    }

    fn check_file(text: &str, expected: Result<&[(&str, &str)], &str>) {
        let read = CheckTable::read("c", text.as_bytes(), target_of).map_err(|error| error.to_string());
        let read = read.and_then(|mut table| {
            let wanted = expected.unwrap_or(&[("/a", "")]);
            let found = wanted.iter().map(|(target, _)| {
                let id = table.find(target.as_bytes()).ok_or("not found")?;
                Ok(PackedCheck::take(&mut table.check(id)).unpack())
            });
            let found: Result<Vec<_>, String> = found.collect();
            table.ensure_all_asked().map_err(|error| error.to_string())?;
            assert!(table.get(b"/nothing").is_none());
            found
        });
        let expected = expected.map_err(ToOwned::to_owned);
        let expected = expected.map(|all| all.iter().map(|(_, text)| Check::parse(text).unwrap()).collect::<Vec<_>>());
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn check_files() {
        check_file("# x\n/a length=1\nhttp://host/b status=404\n", Ok(&[("/a", "length=1"), ("/b", "status=404")]));
        check_file("", Err("c:1:1: the file contains no checks"));
        check_file("/a\n", Err("c:1:1: \"/a\" has no conditions; expected for example status=200"));
        check_file("/a length=1\n /b length=1\n", Err("c:2:2: the run never requests \"/b\""));
        check_file("/a length=1\n\n/a length=2\n", Err("c:3:1: \"/a\" already has conditions in line 1"));
    }
}
