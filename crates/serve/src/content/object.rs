//! Objects: metadata, validators, and the source of a body's bytes.
//!
//! An object is ready to be served: its origin determined everything that a response states of it
//! when it opened the object. The encoding of responses is not known here, except for the place
//! where a session keeps the fields that it has rendered.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_sys::{File, FileChanged, FileSpan};
use thalweg_tier::{Content, Fragments, Object as TierObject};
use thalweg_wire::coding::Coding;
use thalweg_wire::digest::Algorithm;
use thalweg_wire::validator::{EntityTag, Validators};

use crate::content::forwarded::{Described, Forwarded};
use crate::content::policy::ResponsePolicy;
use crate::content::relay::{BodyReader, MadeBody, MemoryBody};
use crate::content::tier::Inbox;

/// An origin's object under a name. The parts that the most common request needs lie together,
/// apart from the metadata.
pub(crate) struct Object {
    rendering: Rendering,
    rendered_fields: Option<Box<RenderedFields>>,
    length: u64,
    source: Source,
    /// The same in content codings, each with validators of its own.
    variants: Box<[Object]>,
    metadata: Box<Metadata>,
}

/// The metadata of an object.
pub(crate) struct Metadata {
    /// The opaque part of the entity tag, which is strong unless it is forwarded.
    pub(crate) tag: Vec<u8>,
    /// Seconds since 1970-01-01 UTC; not later than the present.
    pub(crate) last_modified: Option<i64>,
    pub(crate) content_type: Cow<'static, str>,
    pub(crate) coding: Option<Coding>,
    /// The request decides which of several codings is sent.
    pub(crate) varies: bool,
    pub(crate) digests: Digests,
    pub(crate) policy: Arc<ResponsePolicy>,
    /// There if it is an origin's, and its fields are.
    pub(crate) forwarded: Option<Box<Forwarded>>,
}

/// Digests of an object, at the index of [`Algorithm::ALL`].
pub(crate) type Digests = [Option<Box<[u8]>>; Algorithm::ALL.len()];

/// The bytes of a body in memory, and in front of them the head that a session has rendered for the
/// most common request: the whole object on a connection that stays open. So a session has a cache
/// of rendered heads whose key is the object, and head and body leave in one send.
pub(crate) struct Rendering {
    pub(crate) bytes: Rc<Vec<u8>>,
    /// 0 until a head is rendered.
    pub(crate) head_bytes: usize,
    /// The second of the head's Date.
    pub(crate) second: i64,
}

/// Fields of the most common response that a session has rendered apart from the body.
pub(crate) struct RenderedFields {
    pub(crate) bytes: Vec<u8>,
    /// The second of their Date.
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

/// The source of a body's bytes.
pub(crate) enum Source {
    /// From memory: they are in the [rendering](Rendering), behind its head.
    Memory,
    /// From the file, by the kernel.
    File(Rc<File>),
    /// From the cache tier, which may still fetch them.
    Fragments(Arc<dyn Fragments>, Arc<Inbox>),
    /// Made while they are sent.
    Made(Arc<dyn MadeBody>, Arc<Inbox>),
}

impl Object {
    /// An object whose body is in memory.
    pub(crate) fn in_memory(metadata: Metadata, body: Vec<u8>, variants: Box<[Self]>) -> Self {
        let length = body.len() as u64;
        let (rendering, metadata) = (Rendering::of(body), Box::new(metadata));
        Self { rendering, rendered_fields: None, length, source: Source::Memory, variants, metadata }
    }

    /// An object whose body is a whole file, which the kernel sends.
    pub(crate) fn in_file(metadata: Metadata, file: File, variants: Box<[Self]>) -> Self {
        let length = file.stamp.size;
        let (rendering, metadata) = (Rendering::of(Vec::new()), Box::new(metadata));
        Self { rendering, rendered_fields: None, length, source: Source::File(Rc::new(file)), variants, metadata }
    }

    /// An object whose body is made while it is sent.
    pub(crate) fn made(
        metadata: Metadata,
        (body, inbox): (Arc<dyn MadeBody>, Arc<Inbox>),
        variants: Box<[Self]>,
    ) -> Self {
        let (rendering, metadata) = (Rendering::of(Vec::new()), Box::new(metadata));
        Self { rendering, rendered_fields: None, length: 0, source: Source::Made(body, inbox), variants, metadata }
    }

    /// An object of the cache tier, which came at this second. A body in memory of up to
    /// `small_bytes_max` is kept with its head.
    pub(crate) fn forwarded(
        object: TierObject,
        policy: &Arc<ResponsePolicy>,
        second: i64,
        small_bytes_max: usize,
        inbox: &Arc<Inbox>,
    ) -> Self {
        let (forwarded, Described { tag, last_modified, content_type }) = Forwarded::of(&object, policy, second);
        let metadata = Metadata {
            tag,
            last_modified,
            content_type,
            coding: None,
            varies: false,
            digests: Digests::default(),
            policy: Arc::clone(policy),
            forwarded: Some(Box::new(forwarded)),
        };
        let fragments = match object.content {
            Content::Memory(bytes) if bytes.len() <= small_bytes_max => {
                return Self::in_memory(metadata, bytes.into(), Box::default());
            }
            Content::Memory(bytes) => Arc::new(MemoryBody(bytes)),
            Content::Fragments(fragments) => fragments,
        };
        Self {
            rendering: Rendering::of(Vec::new()),
            rendered_fields: None,
            length: object.length,
            source: Source::Fragments(fragments, Arc::clone(inbox)),
            variants: Box::default(),
            metadata: Box::new(metadata),
        }
    }

    /// Its properties as a forwarded one, if it is one.
    pub(crate) fn as_forwarded(&self) -> Option<&Forwarded> {
        self.metadata.forwarded.as_deref()
    }

    /// From now on it answers requests that are not asked for.
    pub(crate) fn hold(&mut self) {
        if let Some(forwarded) = &mut self.metadata.forwarded {
            forwarded.hold();
        }
    }

    /// Bytes of memory held, but for the fixed part.
    pub(crate) fn bytes(&self) -> usize {
        let forwarded = self.as_forwarded().map_or(0, Forwarded::bytes);
        // That of a stream, too, if it came in memory.
        let is_in_memory = self.is_stream() && self.as_forwarded().is_some_and(|forwarded| forwarded.is_in_memory);
        HEAD_BYTES_USUAL
            + forwarded
            + self.rendering.body().len()
            + if is_in_memory { self.length as usize } else { 0 }
            + if let Source::Made(body, _) = &self.source { body.bytes() } else { 0 }
            + self.variants.iter().map(Self::bytes).sum::<usize>()
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

    /// Bytes of the whole; 0 if they are [made](Self::is_made).
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The validators, which conditional requests compare with.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Some(EntityTag { weak: self.has_weak_tag(), opaque: &self.metadata.tag })
                .filter(|tag| !tag.opaque.is_empty()),
            last_modified: self.metadata.last_modified,
        }
    }

    fn has_weak_tag(&self) -> bool {
        self.as_forwarded().is_some_and(|forwarded| forwarded.has_weak_tag)
    }

    /// Whether its digest is known.
    pub(crate) fn has_digest(&self, algorithm: Algorithm) -> bool {
        self.metadata.digests[algorithm as usize].is_some()
    }

    /// Whether it is encoded.
    pub(crate) fn is_encoded(&self) -> bool {
        self.metadata.coding.is_some() || self.as_forwarded().is_some_and(|forwarded| forwarded.is_encoded)
    }

    /// Whether its bytes are read piece by piece.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.source, Source::Fragments(..) | Source::Made(..))
    }

    /// Whether its bytes are made while they are sent, so that nobody knows how many there are.
    pub(crate) fn is_made(&self) -> bool {
        matches!(self.source, Source::Made(..))
    }

    /// A reader of a range, or of all that is made, if its bytes are read piece by piece.
    pub(crate) fn reader(&self, range: Range<u64>) -> Option<BodyReader> {
        match &self.source {
            Source::Memory | Source::File(_) => None,
            Source::Fragments(fragments, inbox) => {
                let length = range.end - range.start;
                Some(BodyReader::new(Arc::clone(fragments).reader(range), Some(length), Arc::clone(inbox)))
            }
            Source::Made(body, inbox) => Some(BodyReader::new(body.reader(), None, Arc::clone(inbox))),
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

    /// The place for a session's rendered response with the whole.
    #[inline]
    pub(crate) fn rendering(&mut self) -> &mut Rendering {
        &mut self.rendering
    }

    /// The source of its bytes.
    #[inline]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The bytes that a body in memory is a part of, and where it begins.
    pub(crate) fn shared_bytes(&self) -> (&Rc<Vec<u8>>, usize) {
        (&self.rendering.bytes, self.rendering.head_bytes)
    }

    /// The place for a session's rendered fields of a response with the whole.
    #[inline]
    pub(crate) fn rendered_fields(&mut self) -> &mut Option<Box<RenderedFields>> {
        &mut self.rendered_fields
    }

    /// The body, if it is in memory.
    pub(crate) fn bytes_in_memory(&self) -> Option<&[u8]> {
        matches!(self.source, Source::Memory).then(|| self.rendering.body())
    }

    /// A span of the body, if that is in a file.
    #[inline]
    pub(crate) fn span(&self, span: Range<u64>) -> Option<FileSpan> {
        match &self.source {
            Source::Memory | Source::Fragments(..) | Source::Made(..) => None,
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

/// A rendered head takes about so much memory.
const HEAD_BYTES_USUAL: usize = 320;
