//! Looking at files and folders beneath the root: opening them, their validators, their entries. It
//! waits for the file system.

use std::ffi::CString;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use thalweg_sys::file::{FileKind, Stamp, leads_nowhere};
use thalweg_sys::folder::EntryKind;
use thalweg_sys::{File, Root};
use thalweg_wire::date::imf_fixdate;
use thalweg_wire::encode::push_hex;
use thalweg_wire::range::{push_content_range, push_unsatisfied_content_range};
use thalweg_wire::target::relative_path;

use super::conditions::{Part, select};
use crate::failure::{Failure, FailureKind};
use crate::fields::FieldLine;
use crate::listing::{Entry, LISTING_TIME, Listing};
use crate::message::Request;
use crate::path::split_query;

/// The outcome of a look.
#[derive(Debug)]
pub(super) enum Found {
    File(Selected),
    Folder {
        /// The path has a slash at its end.
        has_slash: bool,
    },
    /// Nothing that may be read: an answer with this status.
    Nothing(u16),
}

/// A file and the part of it that is sent.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) status: u16,
    pub(super) fields: Vec<FieldLine>,
    pub(super) file: File,
    /// The first byte, and the one behind the last.
    pub(super) first: u64,
    pub(super) end: u64,
}

/// A file that changed within this time may change again without a new stamp: its tag is weak, so
/// that its parts are not put together.
const SETTLED_AFTER_S: i64 = 2;

/// Opens the file of a request.
pub(super) fn at(root: &Root, request: &Request) -> Result<Found, Failure> {
    let (file, has_slash) = match open(root, &request.path)? {
        Ok(opened) => opened,
        Err(status) => return Ok(Found::Nothing(status)),
    };
    match file.kind {
        FileKind::Directory => Ok(Found::Folder { has_slash }),
        FileKind::Regular if !has_slash => {
            let now_s = present_s();
            let file = file.sampled_if_recent(now_s).map_err(|error| read_failure("reading the file", &error))?;
            Ok(Found::File(selected(file, request, now_s)))
        }
        FileKind::Regular | FileKind::Special => Ok(Found::Nothing(404)),
    }
}

/// The entries of a folder; `None` if there is no such folder.
pub(super) fn list(root: &Root, path: &str, entries_max: usize) -> Result<Option<Listing>, Failure> {
    let Ok((folder, _)) = open(root, path)? else { return Ok(None) };
    if folder.kind != FileKind::Directory {
        return Ok(None);
    }
    let (mut names, mut is_complete) = (Vec::new(), true);
    let visited = folder.visit_entries(|name, _| {
        is_complete = names.len() < entries_max;
        if !is_complete {
            return ControlFlow::Break(());
        }
        names.push(name.to_owned());
        ControlFlow::Continue(())
    });
    visited.map_err(|error| read_failure("listing the folder", &error))?;
    let (begun, seen) = (Instant::now(), names.len());
    let mut looked_at = 0;
    let names = names.into_iter().take_while(|_| begun.elapsed() < LISTING_TIME).inspect(|_| looked_at += 1);
    let entries = names.filter_map(|name| entry(&folder, root, path, name)).collect();
    Ok(Some(Listing::new(entries, is_complete && looked_at == seen)))
}

/// The entry of a name. Links are followed as for requests, beneath the root; what could not be
/// fetched is not listed.
fn entry(folder: &File, root: &Root, path: &str, name: CString) -> Option<Entry> {
    let state = folder.look_at(&name).ok()?;
    let (is_folder, size, modified_s) = match state.kind {
        EntryKind::Directory => (true, None, state.modified_s),
        EntryKind::Regular => (false, Some(state.size), state.modified_s),
        EntryKind::Link => {
            let mut beneath = relative(path).ok()?.0;
            if !beneath.is_empty() {
                beneath.push(b'/');
            }
            beneath.extend(name.to_bytes());
            let target = root.open_beneath(&CString::new(beneath).ok()?).ok()?;
            match target.kind {
                FileKind::Directory => (true, None, target.stamp.modified_s),
                FileKind::Regular => (false, Some(target.stamp.size), target.stamp.modified_s),
                FileKind::Special => return None,
            }
        }
        EntryKind::Special | EntryKind::Unknown => return None,
    };
    let modified = u64::try_from(modified_s).ok().map(|second| SystemTime::UNIX_EPOCH + Duration::from_secs(second));
    Some(Entry { name: name.into_bytes(), is_folder, size, modified, etag: None })
}

/// Opens a path; the status of the answer if there is nothing to open.
fn open(root: &Root, path: &str) -> Result<Result<(File, bool), u16>, Failure> {
    let (beneath, has_slash) = match relative(path) {
        Ok(relative) => relative,
        Err(status) => return Ok(Err(status)),
    };
    let beneath = if beneath.is_empty() { b".".to_vec() } else { beneath };
    let Ok(beneath) = CString::new(beneath) else { return Ok(Err(404)) };
    match root.open_beneath(&beneath) {
        Ok(file) => Ok(Ok((file, has_slash))),
        Err(error) => match status_of(&error) {
            Some(status) => Ok(Err(status)),
            None => Err(read_failure("opening the file", &error)),
        },
    }
}

fn relative(path: &str) -> Result<(Vec<u8>, bool), u16> {
    let mut beneath = Vec::new();
    let shape = relative_path(split_query(path).0.as_bytes(), &mut beneath).map_err(|_| 404_u16)?;
    Ok((beneath, shape.trailing_slash))
}

/// The status for a path that leads nowhere; `None` for a file system in trouble.
fn status_of(error: &io::Error) -> Option<u16> {
    match Errno::from_io_error(error)? {
        _ if leads_nowhere(error) => Some(404),
        Errno::ACCESS | Errno::PERM => Some(403),
        _ => None,
    }
}

fn read_failure(doing: &str, error: &io::Error) -> Failure {
    Failure::new(FailureKind::Read, format!("{doing}: {error}"))
}

fn selected(file: File, request: &Request, now_s: i64) -> Selected {
    let stamp = file.stamp;
    let tag = tag_of(&stamp, now_s);
    // RFC 9110, 8.8.2.1: a time after the Date must not be sent.
    let modified_s = Some(stamp.modified_s).filter(|second| (0..=now_s).contains(second));
    let size = stamp.size;
    let part = select(request, &tag, modified_s, size, now_s);
    let mut fields: Vec<FieldLine> = Vec::new();
    let mut push = |name: &str, value: &[u8]| fields.push((name.into(), value.into()));
    let (status, first, end) = match part {
        Part::Whole => (200, 0, size),
        Part::Range(range) => (206, range.first, range.last + 1),
        Part::NotModified => (304, 0, 0),
        Part::PreconditionFailed => (412, 0, 0),
        Part::Unsatisfiable => (416, 0, 0),
    };
    push("date", &imf_fixdate(now_s));
    if matches!(status, 200 | 206 | 304) {
        push("etag", &tag);
        if let Some(modified_s) = modified_s {
            push("last-modified", &imf_fixdate(modified_s));
        }
        push("accept-ranges", b"bytes");
    }
    let mut content_range = Vec::new();
    match part {
        Part::Range(range) => push_content_range(&mut content_range, range, size),
        Part::Unsatisfiable => push_unsatisfied_content_range(&mut content_range, size),
        _ => {}
    }
    if !content_range.is_empty() {
        push("content-range", &content_range);
    }
    if status != 304 {
        push("content-length", (end - first).to_string().as_bytes());
    }
    Selected { status, fields, file, first, end }
}

/// `"inode-mtime-size-ctime"` in hexadecimal digits, as the server's own trees have it.
fn tag_of(stamp: &Stamp, now_s: i64) -> Vec<u8> {
    let changed_s = i64::try_from(stamp.changed_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let is_settled = now_s.saturating_sub(changed_s.max(stamp.modified_s)) >= SETTLED_AFTER_S;
    let mut tag = if is_settled { b"\"".to_vec() } else { b"W/\"".to_vec() };
    let modified_ns = i128::from(stamp.modified_s) * 1_000_000_000 + i128::from(stamp.modified_ns);
    // Of 128 bits the low 64 span 584 years.
    for (index, number) in
        [stamp.inode, modified_ns as u64, stamp.size, stamp.changed_ns as u64].into_iter().enumerate()
    {
        if index > 0 {
            tag.push(b'-');
        }
        push_hex(&mut tag, number);
    }
    tag.push(b'"');
    tag
}

fn present_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_that_of_the_servers_own_trees_and_weak_at_first() {
        let stamp =
            Stamp { inode: 2, size: 3, modified_s: 4, modified_ns: 5, changed_ns: 6_000_000_000, ..Stamp::default() };
        assert_eq!(tag_of(&stamp, 8), b"\"2-ee6b2805-3-165a0bc00\"");
        assert_eq!(tag_of(&stamp, 7), b"W/\"2-ee6b2805-3-165a0bc00\"");
    }
}
