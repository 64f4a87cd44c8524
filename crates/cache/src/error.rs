//! How operations of the cache fail. Damaged records are no errors: they are counted, and missed.

use std::{io, path::PathBuf};

/// A failed operation on a volume or on the whole cache.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or device could not be created or opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// The medium failed.
    #[error("{doing} the volume: {error}")]
    Io {
        /// The operation: "reading", "writing" or "listing".
        doing: &'static str,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// No superblock of a volume is there.
    #[error("no volume of a cache is there; create one first")]
    NotAVolume,
    /// Both superblocks are damaged.
    #[error("both superblocks of the volume are damaged; create the volume anew")]
    SuperblocksDamaged,
    /// The volume has another format.
    #[error("the volume has format {found}, and this version reads format {known}; create the volume anew")]
    Format {
        /// The format in the superblock.
        found: u32,
        /// The format of this version.
        known: u32,
    },
    /// The medium does not have the size that the volume was created with.
    #[error("the volume was created with {created} bytes, and its file has {found}; create the volume anew")]
    SizeChanged {
        /// The size in the superblock.
        created: u64,
        /// The medium's size.
        found: u64,
    },
    /// A setting that no volume can have.
    #[error("{0}")]
    Setting(String),
    /// A fragment is longer than a record may be.
    #[error("a fragment of {bytes} bytes; at most {most} fit")]
    FragmentTooLong {
        /// Its length.
        bytes: usize,
        /// The longest one that fits.
        most: usize,
    },
    /// The medium is read-only.
    #[error("the volume is read-only")]
    ReadOnly,
    /// Readers hold so many stripes that none may be overwritten now.
    #[error("readers hold the stripes that would be overwritten next")]
    Busy,
    /// The volume was taken out after too many failures of its medium.
    #[error("the volume was taken out after {0} failures of its medium")]
    Lost(u64),
    /// The volumes are not all of one cache.
    #[error("{given} volumes were named, and the cache of the first one has {volumes}; name all volumes of one cache")]
    Incomplete {
        /// The number of volumes that were named.
        given: usize,
        /// The number of volumes by the first one's superblock.
        volumes: u64,
    },
    /// All volumes are lost.
    #[error("no volume is left")]
    NoVolume,
    /// A purge is in force, but a crash may undo it.
    #[error("the purge is in force but could not be made durable: {0}")]
    PurgeNotDurable(#[source] Box<Error>),
}

impl Error {
    pub(crate) fn reading(error: io::Error) -> Self {
        Self::Io { doing: "reading", error }
    }

    pub(crate) fn writing(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
            return Self::ReadOnly;
        }
        Self::Io { doing: "writing", error }
    }

    /// Whether the medium itself failed, as opposed to a state that passes or a wrong call.
    pub fn is_of_medium(&self) -> bool {
        match self {
            Self::Io { .. } | Self::ReadOnly => true,
            Self::PurgeNotDurable(cause) => cause.is_of_medium(),
            _ => false,
        }
    }
}
