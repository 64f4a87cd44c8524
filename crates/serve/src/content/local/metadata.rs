//! Objects of loaded files: their entity tags, dates and media types, and the state by which a
//! change of the file is recognised.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use thalweg_sys::File;
use thalweg_sys::file::Stamp;
use thalweg_wire::coding::Coding;
use thalweg_wire::encode::push_hex;

use crate::config::EtagSource;
use crate::content::local::loaded_file::{Companion, LoadedFile, OpenCompanion};
use crate::content::local::miss::Miss;
use crate::content::media_type;
use crate::content::object::{Metadata, Object};
use crate::content::policy::ResponsePolicy;

/// A change that is younger than this when a file is read may be followed by another one with the
/// same time stamps, whose granularity is a clock tick of the kernel (1 to 10 ms), or a second or
/// two on some file systems.
const SETTLED_AFTER_S: i64 = 2;

/// The state of a file and its companions when they were read.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct FileState {
    stamp: Stamp,
    companions: Vec<Companion>,
    /// The file, or a companion, had changed so shortly before it was read that an equal stamp
    /// later does not prove it unchanged.
    is_unsettled: bool,
}

impl FileState {
    /// Whether the file has to be read again to be sure that it has not changed.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// Whether a file that was opened just now under the same name has this state, and its
    /// companions have.
    pub(super) fn is_of(&self, file: &File, open: &mut OpenCompanion<'_>) -> Result<bool, Miss> {
        if self.is_unsettled || self.stamp != file.stamp {
            return Ok(false);
        }
        for companion in &self.companions {
            if open(&companion.name)?.map(|file| file.stamp) != companion.stamp {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Makes an object of a file, whose path beneath the root of its tree gives the media type. `now_s`
/// is the present second.
pub(super) fn object_of(
    mut loaded: LoadedFile,
    path: &[u8],
    policy: &Arc<ResponsePolicy>,
    now_s: i64,
) -> (Object, FileState) {
    let content_type = match &policy.content_type {
        Some(content_type) => Cow::Owned(content_type.clone()),
        None => media_type::type_of(path),
    };
    let companions = mem::take(&mut loaded.companions);
    let stamp = loaded.file.stamp;
    let mut stamps = companions.iter().filter_map(|companion| companion.stamp).chain([stamp]);
    let is_unsettled = stamps.any(|stamp| is_unsettled(&stamp, now_s));
    let shared = SharedMetadata { content_type, varies: !loaded.variants.is_empty(), policy, now_s };
    (shared.object_of(loaded), FileState { stamp, companions, is_unsettled })
}

/// The metadata that a file and its variants have in common.
struct SharedMetadata<'p> {
    content_type: Cow<'static, str>,
    varies: bool,
    policy: &'p Arc<ResponsePolicy>,
    now_s: i64,
}

impl SharedMetadata<'_> {
    fn object_of(&self, loaded: LoadedFile) -> Object {
        let LoadedFile { file, bytes, coding, digests, variants, .. } = loaded;
        let stamp = &file.stamp;
        let metadata = Metadata {
            tag: tag_of(stamp, coding, self.policy.etag),
            // RFC 9110, 8.8.2.1: a time after the Date must not be sent.
            last_modified: Some(stamp.modified_s).filter(|second| (0..=self.now_s).contains(second)),
            content_type: self.content_type.clone(),
            coding,
            varies: self.varies,
            digests,
            policy: Arc::clone(self.policy),
            forwarded: None,
        };
        let variants = variants.into_iter().map(|variant| self.object_of(variant)).collect();
        match bytes {
            Some(bytes) => Object::in_memory(metadata, bytes, variants),
            None => Object::in_file(metadata, file.waiting(), variants),
        }
    }
}

fn is_unsettled(stamp: &Stamp, now_s: i64) -> bool {
    let changed_s = (stamp.changed_ns / 1_000_000_000) as i64;
    now_s.saturating_sub(changed_s.max(stamp.modified_s)) < SETTLED_AFTER_S
}

/// `inode-mtime-size-ctime` in hexadecimal digits, or `mtime-size`. With the change time, which no
/// program can set, it changes whenever the content does, but for a second write of the same length
/// to the same file within one tick of the file system's clock. That of a coding has its name
/// behind it: two representations must not share one (RFC 9110, 8.8.3), not even where one inode
/// has both names.
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
