//! Objects: metadata, validators, and where the bytes of a body come from.
//!
//! An object is ready to be served: all that a response says of it was found out when its origin opened it. How a response says
//! that is not known here; only the place where a session keeps what it has rendered of it is.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_sys::file::Stamp;
use thalweg_sys::{File, FileChanged, FileSpan};
use thalweg_wire::coding::Coding;
use thalweg_wire::digest::Algorithm;
use thalweg_wire::encode::push_hex;
use thalweg_wire::validator::{EntityTag, Validators};

use crate::config::EtagSource;
use crate::content::local::loaded_file::{Digests, LoadedFile, Neighbour, OpenNeighbour};
use crate::content::media_type;
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::content::stream::Stream;
use crate::date_cache::DateCache;

/// A change that is younger than this when a file is read may be followed by another one with the same time stamps, whose
/// granularity is a clock tick of the kernel (1 to 10 ms), or a second or two on some file systems.
const SETTLED_AFTER_S: i64 = 2;

/// What an origin has under a name. The parts that the most common request needs lie together, apart from the metadata.
pub(crate) struct Object {
    rendering: Rendering,
    /// `None` if that is known only when a stream has ended.
    length: Option<u64>,
    source: Source,
    /// The same in content codings, each with validators of its own.
    variants: Box<[Object]>,
    metadata: Box<Metadata>,
}

/// The metadata of an object.
pub(crate) struct Metadata {
    stamp: Stamp,
    /// The files beside it that it depends on.
    neighbours: Vec<Neighbour>,
    /// The file, or a neighbour, had changed so shortly before it was read that an equal stamp later does not prove it unchanged.
    unsettled: bool,
    /// The opaque part of the entity tag, which is strong.
    pub(crate) tag: Vec<u8>,
    /// Seconds since 1970-01-01 UTC.
    pub(crate) last_modified: Option<i64>,
    pub(crate) content_type: Cow<'static, str>,
    pub(crate) coding: Option<Coding>,
    /// Which of several codings is sent depends on the request.
    pub(crate) varies: bool,
    pub(crate) digests: Digests,
    pub(crate) policy: Arc<ResponsePolicy>,
}

/// The bytes of a body in memory, and in front of them the head that a session has rendered for the most common request: the whole
/// object on a connection that stays open. So a session has a cache of rendered heads whose key is the object, and head and
/// body leave in one send.
pub(crate) struct Rendering {
    pub(crate) bytes: Rc<Vec<u8>>,
    /// 0 until a head is rendered.
    pub(crate) head_bytes: usize,
    /// The second of the head's Date.
    pub(crate) second: i64,
}

impl Rendering {
    fn of(body: Vec<u8>) -> Self {
        Self { bytes: Rc::new(body), head_bytes: 0, second: 0 }
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }
}

/// Where the bytes of a body come from.
pub(crate) enum Source {
    /// From memory: they are in the [rendering](Rendering), behind its head.
    Memory,
    /// From the file, by the kernel.
    File(Rc<File>),
    /// From an origin that is still delivering them.
    Stream(Stream),
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
    pub(crate) fn of_page(body: &[u8], tag: Vec<u8>, last_modified: Option<i64>, policy: Arc<ResponsePolicy>) -> Self {
        let metadata = Metadata {
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
        Self {
            rendering: Rendering::of(body.to_vec()),
            length: Some(body.len() as u64),
            source: Source::Memory,
            variants: Box::default(),
            metadata: Box::new(metadata),
        }
    }

    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "no configuration names a remote origin yet; simulated ones use it all")
    )]
    /// An object whose bytes are still coming in. Its entity tag is the opaque part of a strong one, or empty for none.
    pub(crate) fn of_stream(
        stream: Stream,
        tag: Vec<u8>,
        last_modified: Option<i64>,
        policy: Arc<ResponsePolicy>,
    ) -> Self {
        let (length, page) = (stream.length(), Self::of_page(&[], tag, last_modified, policy));
        Self { length, source: Source::Stream(stream), ..page }
    }

    /// Whether it had changed so shortly before it was read that it has to be read again to be sure.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.metadata.unsettled
    }

    /// Whether a file that was opened just now under the same name is this one, and neither it nor its neighbours have changed.
    pub(crate) fn is_still(&self, file: &File, open: &mut OpenNeighbour<'_>) -> Result<bool, Refusal> {
        if self.metadata.unsettled || self.metadata.stamp != file.stamp {
            return Ok(false);
        }
        for neighbour in &self.metadata.neighbours {
            if open(&neighbour.name)?.map(|file| file.stamp) != neighbour.stamp {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of memory held, but for the fixed part.
    pub(crate) fn bytes(&self) -> usize {
        HEAD_BYTES_USUAL + self.rendering.body().len() + self.variants.iter().map(Self::bytes).sum::<usize>()
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

    /// Bytes of the whole, if that is known.
    #[inline]
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// What conditional requests compare with.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Some(EntityTag { weak: false, opaque: &self.metadata.tag }).filter(|tag| !tag.opaque.is_empty()),
            last_modified: self.metadata.last_modified,
        }
    }

    /// Whether its digest is known.
    pub(crate) fn has_digest(&self, algorithm: Algorithm) -> bool {
        self.metadata.digests[algorithm as usize].is_some()
    }

    /// Whether it is encoded.
    pub(crate) fn is_encoded(&self) -> bool {
        self.metadata.coding.is_some()
    }

    /// Whether its bytes are still coming in.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream(_))
    }

    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "no configuration names a remote origin yet; simulated ones use it all")
    )]
    /// Whether it can be sent from its beginning.
    pub(crate) fn can_be_sent(&self) -> bool {
        match &self.source {
            Source::Memory | Source::File(_) => true,
            Source::Stream(stream) => stream.is_joinable(),
        }
    }

    /// Whether ranges of it can be sent.
    pub(crate) fn has_ranges(&self) -> bool {
        match self.source {
            Source::Memory | Source::File(_) => true,
            Source::Stream(_) => false,
        }
    }

    /// Whether there are others to choose from.
    #[inline]
    pub(crate) fn has_variants(&self) -> bool {
        !self.variants.is_empty()
    }

    /// The same in content codings.
    pub(crate) fn variants(&self) -> &[Self] {
        &self.variants
    }

    /// One of these.
    pub(crate) fn variant_mut(&mut self, index: usize) -> &mut Self {
        &mut self.variants[index]
    }

    /// What a session keeps of its response with the whole.
    #[inline]
    pub(crate) fn rendering(&mut self) -> &mut Rendering {
        &mut self.rendering
    }

    /// Where its bytes come from.
    #[inline]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The body, if it is in memory.
    pub(crate) fn bytes_in_memory(&self) -> Option<&[u8]> {
        matches!(self.source, Source::Memory).then(|| self.rendering.body())
    }

    /// A span of the body, if that is in a file.
    #[inline]
    pub(crate) fn span(&self, span: Range<u64>) -> Option<FileSpan> {
        match &self.source {
            Source::Memory | Source::Stream(_) => None,
            Source::File(file) => {
                Some(FileSpan { file: Rc::clone(file), offset: span.start, len: span.end - span.start })
            }
        }
    }

    /// The metadata.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
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
        let metadata = Metadata {
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
        Object {
            rendering: Rendering::of(bytes.unwrap_or_default()),
            length: Some(stamp.size),
            source,
            variants,
            metadata: Box::new(metadata),
        }
    }
}

/// A rendered head takes about so much memory.
const HEAD_BYTES_USUAL: usize = 320;

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
