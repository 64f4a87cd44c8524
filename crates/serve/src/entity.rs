//! A file made ready to be served: its validators, its ready-made response, and where its bytes come from.
//!
//! The most common request, a GET of the whole file on a connection that stays open, is answered by sending one shared
//! buffer: status line, fields and, for small files, the body. Only its `Date` changes, once a second, in place. All
//! other responses to GET and HEAD are written from the same parts, so that they cannot disagree with it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_sys::file::Stamp;
use thalweg_sys::{File, FileSpan};
use thalweg_wire::date::{self, IMF_FIXDATE_BYTES};
use thalweg_wire::encode::{push_decimal, push_hex};
use thalweg_wire::range::{ByteRange, push_content_range};
use thalweg_wire::validator::{EntityTag, Validators};

use crate::calendar::Calendar;
use crate::config::Settings;
use crate::head::{self, Persistence};
use crate::resolve::Refusal;

/// A change that is younger than this when a file is read may be followed by another one with the same time stamps, whose
/// granularity is a clock tick of the kernel (1 to 10 ms), or a second or two on some file systems.
const SETTLED_AFTER_S: i64 = 2;

/// A file ready to be served. What the most common request needs lies together, apart from the rest.
pub(crate) struct Entity {
    /// The response to the most common request, and the second of its Date.
    ready: Rc<Vec<u8>>,
    ready_second: i64,
    head_bytes: usize,
    size: u64,
    source: Source,
    facts: Box<Facts>,
}

/// What is known of a file.
struct Facts {
    stamp: Stamp,
    /// The file had changed so shortly before it was read that an equal stamp later does not prove it unchanged.
    unsettled: bool,
    /// The opaque part of the entity tag, which is strong.
    tag: Vec<u8>,
    last_modified: Option<i64>,
    content_type: Cow<'static, str>,
    settings: Arc<Settings>,
}

/// Where the bytes of a body come from.
enum Source {
    /// From memory: they are in the ready-made response, behind its head.
    Memory,
    /// From the file, by the kernel.
    File(Rc<File>),
}

/// What a body is, as far as it does not stand behind its head already.
pub(crate) type Rest = Option<FileSpan>;

impl Entity {
    /// Reads what there is to know of a file, and the file itself if it is small.
    pub(crate) fn load(
        file: File,
        name: &[u8],
        settings: Arc<Settings>,
        small_max: usize,
        calendar: &Calendar,
    ) -> Result<Self, Refusal> {
        let stamp = file.stamp;
        let facts = Facts {
            stamp,
            unsettled: is_unsettled(&stamp, calendar.second()),
            tag: tag_of(&stamp),
            // RFC 9110, 8.8.2.1: a time after the Date must not be sent.
            last_modified: Some(stamp.modified_s).filter(|second| (0..=calendar.second()).contains(second)),
            content_type: settings.content_type.clone().map_or_else(|| content_type(name), Cow::Owned),
            settings,
        };
        let mut entity = Self {
            ready: Rc::default(),
            ready_second: calendar.second(),
            head_bytes: 0,
            size: stamp.size,
            source: Source::Memory,
            facts: Box::new(facts),
        };
        let is_small = stamp.size <= small_max as u64;
        let mut ready = Vec::with_capacity(HEAD_BYTES_USUAL + if is_small { stamp.size as usize } else { 0 });
        entity.write_head(&mut ready, 200, None, Persistence::Default, calendar);
        entity.head_bytes = ready.len();
        if is_small {
            ready.resize(entity.head_bytes + stamp.size as usize, 0);
            let read = file.read_at(&mut ready[entity.head_bytes..], 0).map_err(|error| Refusal::of(&error))?;
            if read as u64 != stamp.size {
                return Err(Refusal::Failed);
            }
        } else {
            entity.source = Source::File(Rc::new(file.waiting()));
        }
        entity.ready = Rc::new(ready);
        Ok(entity)
    }

    /// Whether a file that was opened just now under the same name is this one, unchanged.
    pub(crate) fn is_still(&self, file: &File) -> bool {
        !self.facts.unsettled && self.facts.stamp == file.stamp
    }

    /// Bytes of memory held, but for the fixed part.
    pub(crate) fn bytes(&self) -> usize {
        self.ready.len()
    }

    /// Whether it holds an open file.
    pub(crate) fn holds_descriptor(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// The size of the whole, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// What conditional requests compare with.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Some(EntityTag { weak: false, opaque: &self.facts.tag }),
            last_modified: self.facts.last_modified,
        }
    }

    /// The response to a GET of the whole on a connection that stays open: head, body as far as it is in memory, and
    /// what is to be sent behind it.
    pub(crate) fn ready(&mut self, calendar: &Calendar) -> (&Rc<Vec<u8>>, Rest) {
        if self.ready_second != calendar.second() {
            // In place, unless a client is still being sent the old second's.
            Rc::make_mut(&mut self.ready)[head::DATE].copy_from_slice(calendar.text());
            self.ready_second = calendar.second();
        }
        (&self.ready, self.rest(0..self.size))
    }

    /// Writes the response to a GET of the whole, or of a range.
    pub(crate) fn write_get(
        &self,
        out: &mut Vec<u8>,
        range: Option<ByteRange>,
        persistence: Persistence,
        calendar: &Calendar,
    ) -> Rest {
        let span = match range {
            None => 0..self.size,
            Some(range) => range.first..range.last + 1,
        };
        self.write_head(out, if range.is_some() { 206 } else { 200 }, range, persistence, calendar);
        if let Source::Memory = self.source {
            out.extend_from_slice(&self.ready[self.head_bytes..][span.start as usize..span.end as usize]);
        }
        self.rest(span)
    }

    /// Writes the response to a HEAD: that to a GET of the whole, without the body.
    pub(crate) fn write_head_only(&self, out: &mut Vec<u8>, persistence: Persistence, calendar: &Calendar) {
        self.write_head(out, 200, None, persistence, calendar);
    }

    /// Writes a response of another status with the whole as its body, which says nothing of the file but its type: it is
    /// not what was asked for.
    #[cold]
    pub(crate) fn write_as_page(
        &self,
        out: &mut Vec<u8>,
        status: u16,
        with_body: bool,
        persistence: Persistence,
        calendar: &Calendar,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Rest {
        head::begin(out, status, calendar);
        fields(out);
        head::field(out, "Content-Type", self.facts.content_type.as_bytes());
        head::field_with(out, "Content-Length", |out| push_decimal(out, self.size));
        head::end(out, persistence);
        if !with_body {
            return None;
        }
        if let Source::Memory = self.source {
            out.extend_from_slice(&self.ready[self.head_bytes..]);
        }
        self.rest(0..self.size)
    }

    /// Writes a 304 (RFC 9110, 15.4.5): the validators, and nothing that describes the body.
    pub(crate) fn write_not_modified(&self, out: &mut Vec<u8>, persistence: Persistence, calendar: &Calendar) {
        head::begin(out, 304, calendar);
        self.push_validators(out);
        head::end(out, persistence);
    }

    fn write_head(
        &self,
        out: &mut Vec<u8>,
        status: u16,
        range: Option<ByteRange>,
        persistence: Persistence,
        calendar: &Calendar,
    ) {
        head::begin(out, status, calendar);
        head::field(out, "Content-Type", self.facts.content_type.as_bytes());
        head::field_with(out, "Content-Length", |out| {
            push_decimal(out, range.map_or(self.size, ByteRange::length));
        });
        if let Some(range) = range {
            head::field_with(out, "Content-Range", |out| push_content_range(out, range, self.size));
        }
        self.push_validators(out);
        head::field(out, "Accept-Ranges", b"bytes");
        head::end(out, persistence);
    }

    /// The validators, and the fields that the settings add.
    fn push_validators(&self, out: &mut Vec<u8>) {
        if let Some(second) = self.facts.last_modified {
            head::field(out, "Last-Modified", &date::imf_fixdate(second));
        }
        head::field_with(out, "ETag", |out| EntityTag { weak: false, opaque: &self.facts.tag }.push(out));
        if let Some(directives) = &self.facts.settings.cache_control {
            head::field(out, "Cache-Control", directives.as_bytes());
        }
        for (name, value) in &self.facts.settings.headers {
            head::field(out, name, value.as_bytes());
        }
    }

    fn rest(&self, span: Range<u64>) -> Rest {
        match &self.source {
            Source::Memory => None,
            Source::File(file) => {
                Some(FileSpan { file: Rc::clone(file), offset: span.start, len: span.end - span.start })
            }
        }
    }
}

/// What a head comes to, most often.
const HEAD_BYTES_USUAL: usize = 320;

const _: () = assert!(head::DATE.end - head::DATE.start == IMF_FIXDATE_BYTES);

fn is_unsettled(stamp: &Stamp, now: i64) -> bool {
    let changed_s = (stamp.changed_ns / 1_000_000_000) as i64;
    now.saturating_sub(changed_s.max(stamp.modified_s)) < SETTLED_AFTER_S
}

/// `inode-mtime-size` in hexadecimal digits. It changes whenever the content does, but for a second write of the same
/// length to the same file within one tick of the file system's clock.
fn tag_of(stamp: &Stamp) -> Vec<u8> {
    let modified_ns = i128::from(stamp.modified_s) * 1_000_000_000 + i128::from(stamp.modified_ns);
    let mut tag = Vec::with_capacity(48);
    push_hex(&mut tag, stamp.inode);
    tag.push(b'-');
    // Of 128 bits the low 64 span 584 years.
    push_hex(&mut tag, modified_ns as u64);
    tag.push(b'-');
    push_hex(&mut tag, stamp.size);
    tag
}

/// The media type that the name's extension stands for. Text is taken to be UTF-8: without a charset, browsers guess one
/// of the last century's.
fn content_type(name: &[u8]) -> Cow<'static, str> {
    match mime_guess::from_path(Path::new(OsStr::from_bytes(name))).first_raw() {
        Some(text) if text.starts_with("text/") => Cow::Owned(format!("{text}; charset=utf-8")),
        Some(other) => Cow::Borrowed(other),
        None => Cow::Borrowed("application/octet-stream"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_extension() {
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("a/index.html", "text/html; charset=utf-8"),
            ("a.TXT", "text/plain; charset=utf-8"),
            ("a.png", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("README", "application/octet-stream"),
            (".html", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn each_part_of_the_state_changes_the_tag() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, modified_s: 4, modified_ns: 5, changed_ns: 6 };
        let tag = tag_of(&stamp);
        assert_eq!(tag, b"2-ee6b2805-3");
        for other in [
            Stamp { inode: 3, ..stamp },
            Stamp { size: 4, ..stamp },
            Stamp { modified_s: 5, ..stamp },
            Stamp { modified_ns: 6, ..stamp },
        ] {
            assert_ne!(tag_of(&other), tag);
        }
    }

    #[test]
    fn a_fresh_change_is_not_trusted() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, modified_s: 0, modified_ns: 0, changed_ns: 100_000_000_000 };
        assert!(is_unsettled(&stamp, 100));
        assert!(is_unsettled(&stamp, 101));
        assert!(!is_unsettled(&stamp, 102));
        assert!(is_unsettled(&stamp, 0), "a change in the future");
    }
}
