//! A file made ready to be served: its validators, its ready-made response, and where its bytes come from.
//!
//! The most common request, a GET of the whole file on a connection that stays open, is answered by sending one shared
//! buffer: status line, fields and, for small files, the body. Only its `Date` changes, once a second, in place. All
//! other responses to GET and HEAD are written from the same parts, so that they cannot disagree with it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_sys::file::Stamp;
use thalweg_sys::{File, FileChanged, FileSpan};
use thalweg_wire::Fields;
use thalweg_wire::coding::{AcceptEncoding, Coding};
use thalweg_wire::date::{self, IMF_FIXDATE_BYTES};
use thalweg_wire::digest::{Algorithm, push_repr_digest};
use thalweg_wire::encode::{push_decimal, push_hex};
use thalweg_wire::range::{ByteRange, push_content_range};
use thalweg_wire::validator::{EntityTag, Validators};

use crate::config::EtagSource;
use crate::content::local::loaded_file::{Digests, LoadedFile, Neighbour, OpenNeighbour};
use crate::content::media_type;
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;
use crate::http::h1::head::{self, Persistence};
use crate::http::multipart::{self, Boundary, Multipart, Segments};

/// A change that is younger than this when a file is read may be followed by another one with the same time stamps, whose
/// granularity is a clock tick of the kernel (1 to 10 ms), or a second or two on some file systems.
const SETTLED_AFTER_S: i64 = 2;

/// A file ready to be served. What the most common request needs lies together, apart from the rest.
pub(crate) struct Object {
    /// The response to the most common request, and the second of its Date.
    ready: Rc<Vec<u8>>,
    ready_second: i64,
    head_bytes: usize,
    size: u64,
    source: Source,
    /// The same in content codings, each with responses and validators of its own.
    variants: Box<[Object]>,
    facts: Box<Facts>,
}

/// What is known of a file.
struct Facts {
    stamp: Stamp,
    /// What lies beside it and belongs to it.
    neighbours: Vec<Neighbour>,
    /// The file, or a neighbour, had changed so shortly before it was read that an equal stamp later does not prove it unchanged.
    unsettled: bool,
    /// The opaque part of the entity tag, which is strong.
    tag: Vec<u8>,
    last_modified: Option<i64>,
    content_type: Cow<'static, str>,
    coding: Option<Coding>,
    /// Which of several codings is sent depends on the request.
    varies: bool,
    digests: Digests,
    policy: Arc<ResponsePolicy>,
}

/// Where the bytes of a body come from.
enum Source {
    /// From memory: they are in the ready-made response, behind its head.
    Memory,
    /// From the file, by the kernel.
    File(Rc<File>),
}

/// How a file is answered with.
pub(crate) struct Reply<'a> {
    pub(crate) part: Part<'a>,
    /// The response is to a HEAD: its body is not sent. RFC 9110, 14.2 has it be about the whole.
    pub(crate) is_head: bool,
    /// The digest to be told, which the file has.
    pub(crate) digest: Option<Algorithm>,
    pub(crate) persistence: Persistence,
}

/// How much of a file.
pub(crate) enum Part<'a> {
    /// All of it.
    Whole,
    /// One range.
    Range(ByteRange),
    /// Several ranges, and what separates them.
    Ranges(&'a [ByteRange], Boundary),
}

/// What a body is, as far as it does not stand behind its head already.
#[derive(Default)]
pub(crate) struct Rest {
    /// Comes first.
    pub(crate) file: Option<FileSpan>,
    /// Comes behind it.
    pub(crate) segments: Option<Box<Segments>>,
}

impl Object {
    /// Makes the responses with a file, whose name is its path beneath the root.
    pub(crate) fn new(loaded: LoadedFile, name: &[u8], policy: &Arc<ResponsePolicy>, date_cache: &DateCache) -> Self {
        let content_type = match &policy.content_type {
            Some(content_type) => Cow::Owned(content_type.clone()),
            None => media_type::type_of(name),
        };
        let common = Common { content_type, varies: !loaded.variants.is_empty(), policy, date_cache };
        common.make(loaded)
    }

    /// A page that the server itself has made, whose presentation has its type.
    pub(crate) fn of_page(
        body: &[u8],
        tag: Vec<u8>,
        last_modified: Option<i64>,
        policy: Arc<ResponsePolicy>,
        date_cache: &DateCache,
    ) -> Self {
        let facts = Facts {
            // Nothing on any device: no file is the same.
            stamp: Stamp::default(),
            neighbours: Vec::new(),
            unsettled: true,
            tag,
            last_modified,
            content_type: policy.content_type.clone().map_or_else(|| media_type::type_of(b""), Cow::Owned),
            coding: None,
            varies: false,
            digests: Digests::default(),
            policy,
        };
        Self::assemble(facts, body.len() as u64, Source::Memory, Box::default(), body, date_cache)
    }

    /// `body` is what stands behind the head in the ready-made response.
    fn assemble(
        facts: Facts,
        size: u64,
        source: Source,
        variants: Box<[Self]>,
        body: &[u8],
        date_cache: &DateCache,
    ) -> Self {
        let (facts, ready_second) = (Box::new(facts), date_cache.second());
        let mut object = Self { ready: Rc::default(), ready_second, head_bytes: 0, size, source, variants, facts };
        // The head of a HEAD's response is that of the GET's.
        let reply = Reply { part: Part::Whole, is_head: true, digest: None, persistence: Persistence::Default };
        let mut ready = Vec::with_capacity(HEAD_BYTES_USUAL + body.len());
        object.write(&mut ready, &reply, date_cache);
        object.head_bytes = ready.len();
        ready.extend_from_slice(body);
        object.ready = Rc::new(ready);
        object
    }

    /// Whether it had changed so shortly before it was read that it has to be read again to be sure.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.facts.unsettled
    }

    /// Whether a file that was opened just now under the same name is this one, and neither it nor its neighbours have changed.
    pub(crate) fn is_still(&self, file: &File, open: &mut OpenNeighbour<'_>) -> Result<bool, Refusal> {
        if self.facts.unsettled || self.facts.stamp != file.stamp {
            return Ok(false);
        }
        for neighbour in &self.facts.neighbours {
            if open(&neighbour.name)?.map(|file| file.stamp) != neighbour.stamp {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of memory held, but for the fixed part.
    pub(crate) fn bytes(&self) -> usize {
        self.ready.len() + self.variants.iter().map(Self::bytes).sum::<usize>()
    }

    /// Whether it holds an open file.
    pub(crate) fn holds_descriptor(&self) -> bool {
        matches!(self.source, Source::File(_)) || self.variants.iter().any(Self::holds_descriptor)
    }

    /// Whether a file that is sent from was found to have changed.
    pub(crate) fn has_changed(&self) -> bool {
        matches!(&self.source, Source::File(file) if file.has_changed()) || self.variants.iter().any(Self::has_changed)
    }

    /// Whether it is sent from a file with this identity.
    pub(crate) fn is_sent_from(&self, change: FileChanged) -> bool {
        let is_own = |file: &File| FileChanged { device: file.stamp.device, inode: file.stamp.inode } == change;
        matches!(&self.source, Source::File(file) if is_own(file))
            || self.variants.iter().any(|variant| variant.is_sent_from(change))
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

    /// Whether its digest is known.
    pub(crate) fn has_digest(&self, algorithm: Algorithm) -> bool {
        self.facts.digests[algorithm as usize].is_some()
    }

    /// Whether it is encoded.
    pub(crate) fn is_encoded(&self) -> bool {
        self.facts.coding.is_some()
    }

    /// Whether there are others to choose from.
    #[inline]
    pub(crate) fn has_variants(&self) -> bool {
        !self.variants.is_empty()
    }

    /// Which of this and its variants is wanted most (RFC 9110, 12.5.3); of those that are wanted equally, the smallest.
    /// `None` if all of them are excluded.
    pub(crate) fn choose(&mut self, fields: Fields<'_>) -> Option<&mut Self> {
        let accept = AcceptEncoding::of(fields);
        let own = accept.identity().map(|quality| (quality, Reverse(self.size)));
        let ranked = self.variants.iter().enumerate().filter_map(|(index, variant)| {
            let quality = variant.facts.coding.map_or(0, |coding| accept.quality(coding));
            (quality > 0).then_some(((quality, Reverse(variant.size)), index))
        });
        match ranked.max_by_key(|&(rank, _)| rank) {
            Some((rank, index)) if own.is_none_or(|own| rank > own) => Some(&mut self.variants[index]),
            _ => own.map(|_| self),
        }
    }

    /// The response to a GET of the whole on a connection that stays open: head, body as far as it is in memory, and
    /// what is to be sent behind it.
    #[inline]
    pub(crate) fn ready(&mut self, date_cache: &DateCache) -> (&Rc<Vec<u8>>, Option<FileSpan>) {
        if self.ready_second != date_cache.second() {
            // In place, unless a client is still being sent the old second's.
            Rc::make_mut(&mut self.ready)[head::DATE].copy_from_slice(date_cache.text());
            self.ready_second = date_cache.second();
        }
        (&self.ready, self.span(0..self.size))
    }

    /// How much of the ready-made response is its head.
    pub(crate) fn head_bytes(&self) -> usize {
        self.head_bytes
    }

    /// Writes any response to a GET or HEAD with the file, and returns what is to be sent behind it.
    pub(crate) fn write(&self, out: &mut Vec<u8>, reply: &Reply<'_>, date_cache: &DateCache) -> Rest {
        let content_type = self.facts.content_type.as_bytes();
        let several = match &reply.part {
            Part::Ranges(ranges, boundary) => {
                Some((boundary, Multipart::new(boundary, ranges, &self.facts.content_type, self.size)))
            }
            _ => None,
        };
        head::begin(out, if matches!(reply.part, Part::Whole) { 200 } else { 206 }, date_cache);
        match &several {
            Some((boundary, _)) => {
                head::field_with(out, "Content-Type", |out| multipart::push_content_type(out, boundary))
            }
            None => head::field(out, "Content-Type", content_type),
        }
        let content_length = match (&reply.part, &several) {
            (Part::Range(range), _) => range.length(),
            (_, Some((_, multipart))) => multipart.content_length(),
            _ => self.size,
        };
        head::field_with(out, "Content-Length", |out| push_decimal(out, content_length));
        if let Part::Range(range) = reply.part {
            head::field_with(out, "Content-Range", |out| push_content_range(out, range, self.size));
        }
        self.push_fields_of_all(out);
        if let Some(algorithm) = reply.digest
            && let Some(digest) = &self.facts.digests[algorithm as usize]
        {
            head::field_with(out, "Repr-Digest", |out| push_repr_digest(out, algorithm, digest));
        }
        head::end(out, reply.persistence);
        match (&reply.part, several) {
            _ if reply.is_head => Rest::default(),
            (_, Some((_, multipart))) => self.write_ranges(out, multipart),
            (Part::Range(range), None) => self.write_span(out, range.first..range.last + 1),
            _ => self.write_span(out, 0..self.size),
        }
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
        date_cache: &DateCache,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Rest {
        head::begin(out, status, date_cache);
        fields(out);
        head::field(out, "Content-Type", self.facts.content_type.as_bytes());
        head::field_with(out, "Content-Length", |out| push_decimal(out, self.size));
        head::end(out, persistence);
        if with_body { self.write_span(out, 0..self.size) } else { Rest::default() }
    }

    /// Writes a 304 (RFC 9110, 15.4.5): the validators, and nothing that describes the body.
    pub(crate) fn write_not_modified(&self, out: &mut Vec<u8>, persistence: Persistence, date_cache: &DateCache) {
        head::begin(out, 304, date_cache);
        self.push_validators(out);
        out.extend_from_slice(self.facts.policy.fields_of_304.as_bytes());
        head::end(out, persistence);
    }

    /// The fields that all of 200 and 206 have.
    fn push_fields_of_all(&self, out: &mut Vec<u8>) {
        self.push_validators(out);
        if let Some(coding) = self.facts.coding {
            head::field(out, "Content-Encoding", coding.name().as_bytes());
        }
        head::field(out, "Accept-Ranges", b"bytes");
        out.extend_from_slice(self.facts.policy.fields.as_bytes());
    }

    /// The validators, and the fields that the settings add.
    fn push_validators(&self, out: &mut Vec<u8>) {
        if let Some(second) = self.facts.last_modified {
            head::field(out, "Last-Modified", &date::imf_fixdate(second));
        }
        head::field_with(out, "ETag", |out| EntityTag { weak: false, opaque: &self.facts.tag }.push(out));
        if self.facts.varies {
            head::field(out, "Vary", b"Accept-Encoding");
        }
    }

    /// Writes a part of the body, if it is in memory.
    fn write_span(&self, out: &mut Vec<u8>, span: Range<u64>) -> Rest {
        if let Source::Memory = self.source {
            out.extend_from_slice(&self.body()[span.start as usize..span.end as usize]);
        }
        Rest { file: self.span(span), segments: None }
    }

    /// Writes a body of several parts, or what comes before the first of a file's.
    fn write_ranges(&self, out: &mut Vec<u8>, multipart: Multipart<'_>) -> Rest {
        let Source::File(file) = &self.source else {
            multipart.write(out, self.body());
            return Rest::default();
        };
        let span = |range: ByteRange| FileSpan { file: Rc::clone(file), offset: range.first, len: range.length() };
        let mut segments = multipart.into_segments(span);
        let Some((text, file)) = segments.next() else {
            return Rest::default();
        };
        out.extend_from_slice(&text);
        Rest { file, segments: Some(Box::new(segments)) }
    }

    /// The bytes of a file in memory.
    fn body(&self) -> &[u8] {
        &self.ready[self.head_bytes..]
    }

    #[inline]
    fn span(&self, span: Range<u64>) -> Option<FileSpan> {
        match &self.source {
            Source::Memory => None,
            Source::File(file) => {
                Some(FileSpan { file: Rc::clone(file), offset: span.start, len: span.end - span.start })
            }
        }
    }
}

/// What a file and its variants have in common.
struct Common<'c> {
    content_type: Cow<'static, str>,
    varies: bool,
    policy: &'c Arc<ResponsePolicy>,
    date_cache: &'c DateCache,
}

impl Common<'_> {
    fn make(&self, loaded: LoadedFile) -> Object {
        let LoadedFile { file, bytes, coding, digests, variants, neighbours } = loaded;
        let now = self.date_cache.second();
        let stamp = file.stamp;
        let facts = Facts {
            stamp,
            unsettled: is_unsettled(&stamp, now)
                || neighbours.iter().filter_map(|neighbour| neighbour.stamp).any(|stamp| is_unsettled(&stamp, now)),
            neighbours,
            tag: tag_of(&stamp, coding, self.policy.etag),
            // RFC 9110, 8.8.2.1: a time after the Date must not be sent.
            last_modified: Some(stamp.modified_s).filter(|second| (0..=now).contains(second)),
            content_type: self.content_type.clone(),
            coding,
            varies: self.varies,
            digests,
            policy: Arc::clone(self.policy),
        };
        let source = if bytes.is_some() { Source::Memory } else { Source::File(Rc::new(file.waiting())) };
        let variants = variants.into_iter().map(|variant| self.make(variant)).collect();
        Object::assemble(facts, stamp.size, source, variants, bytes.as_deref().unwrap_or_default(), self.date_cache)
    }
}

/// What a head comes to, most often.
const HEAD_BYTES_USUAL: usize = 320;

const _: () = assert!(head::DATE.end - head::DATE.start == IMF_FIXDATE_BYTES);

fn is_unsettled(stamp: &Stamp, now: i64) -> bool {
    let changed_s = (stamp.changed_ns / 1_000_000_000) as i64;
    now.saturating_sub(changed_s.max(stamp.modified_s)) < SETTLED_AFTER_S
}

/// `inode-mtime-size-ctime` in hexadecimal digits, or `mtime-size`. With the change time, which no program can set, it changes
/// whenever the content does, but for a second write of the same length to the same file within one tick of the file system's
/// clock. That of a coding has its name behind it: two representations must not share one (RFC 9110, 8.8.3), not even where one
/// inode has both names.
fn tag_of(stamp: &Stamp, coding: Option<Coding>, source: EtagSource) -> Vec<u8> {
    let modified_ns = i128::from(stamp.modified_s) * 1_000_000_000 + i128::from(stamp.modified_ns);
    let mut tag = Vec::with_capacity(64);
    if source == EtagSource::ChangeTime {
        push_hex(&mut tag, stamp.inode);
        tag.push(b'-');
    }
    // Of 128 bits the low 64 span 584 years.
    push_hex(&mut tag, modified_ns as u64);
    tag.push(b'-');
    push_hex(&mut tag, stamp.size);
    if source == EtagSource::ChangeTime {
        tag.push(b'-');
        push_hex(&mut tag, stamp.changed_ns as u64);
    }
    if let Some(coding) = coding {
        tag.push(b'-');
        tag.extend_from_slice(coding.name().as_bytes());
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_state_changes_the_tag() {
        let stamp =
            Stamp { device: 1, inode: 2, size: 3, modified_s: 4, modified_ns: 5, changed_ns: 6, ..Stamp::default() };
        let tag_of = |stamp: &Stamp, coding| tag_of(stamp, coding, EtagSource::ChangeTime);
        let tag = tag_of(&stamp, None);
        assert_eq!(tag, b"2-ee6b2805-3-6");
        for other in [
            Stamp { inode: 3, ..stamp },
            Stamp { size: 4, ..stamp },
            Stamp { modified_s: 5, ..stamp },
            Stamp { modified_ns: 6, ..stamp },
            Stamp { changed_ns: 7, ..stamp },
        ] {
            assert_ne!(tag_of(&other, None), tag);
        }
        assert_eq!(tag_of(&stamp, Some(Coding::Brotli)), b"2-ee6b2805-3-6-br");
    }

    #[test]
    fn a_tag_of_the_modification_time_is_the_same_on_every_host() {
        let stamp =
            Stamp { device: 1, inode: 2, size: 3, modified_s: 4, modified_ns: 5, changed_ns: 6, ..Stamp::default() };
        let tag_of = |stamp: &Stamp, coding| tag_of(stamp, coding, EtagSource::ModificationTime);
        assert_eq!(tag_of(&stamp, None), b"ee6b2805-3");
        assert_eq!(tag_of(&Stamp { device: 7, inode: 8, changed_ns: 9, ..stamp }, None), b"ee6b2805-3");
        assert_eq!(tag_of(&stamp, Some(Coding::Gzip)), b"ee6b2805-3-gzip");
        for other in [Stamp { size: 4, ..stamp }, Stamp { modified_s: 5, ..stamp }, Stamp { modified_ns: 6, ..stamp }] {
            assert_ne!(tag_of(&other, None), b"ee6b2805-3");
        }
    }

    #[test]
    fn a_fresh_change_is_not_trusted() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, changed_ns: 100_000_000_000, ..Stamp::default() };
        assert!(is_unsettled(&stamp, 100));
        assert!(is_unsettled(&stamp, 101));
        assert!(!is_unsettled(&stamp, 102));
        assert!(is_unsettled(&stamp, 0), "a change in the future");
    }
}
