//! The error of a catalog that cannot be opened.

use std::io;
use std::path::PathBuf;

/// The reason why the sites of a configuration cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A folder cannot be served.
    #[error("cannot open the folder {}: {error}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A rule's pattern for names of files cannot be understood.
    #[error("in the pattern of a rule: {0}")]
    Pattern(globset::Error),
    /// A field that settings add cannot be written.
    #[error("a header of a rule: {0}")]
    Header(thalweg_wire::encode::EncodeError),
    /// A redirect or a rewrite cannot be understood.
    #[error("a redirect or rewrite: {0}")]
    Routing(String),
}
