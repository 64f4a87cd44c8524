//! Trees of files in one directory, each requested as often as the others: three of ACME's, and
//! HEAnet's.

use crate::file::TreeFile;
use crate::layout::Layout;

const ACME_SMALL_FILES: u64 = 1000;
const ACME_SMALL_BYTES: u64 = 512;
const ACME_BIG_FILES: u64 = 10;

/// The source says 5 MB, beside networks in decimal units.
const ACME_BIG_BYTES: u64 = 5_000_000;

const HEANET_BYTES: [u64; 4] = [100, 1000, 2000, 10_000];

/// ACME's small files.
pub(crate) fn acme_small() -> Layout {
    let files = (0..ACME_SMALL_FILES).map(|n| TreeFile::new(format!("{n:04}.html"), ACME_SMALL_BYTES, 1.0, 0));
    Layout { files: files.collect(), classes: vec!["512 bytes".to_owned()] }
}

/// ACME's big files, for the test of bandwidth and the one with modems.
pub(crate) fn acme_big() -> Layout {
    let files = (0..ACME_BIG_FILES).map(|n| TreeFile::new(format!("{n}.bin"), ACME_BIG_BYTES, 1.0, 0));
    Layout { files: files.collect(), classes: vec!["5 MB".to_owned()] }
}

/// HEAnet's files of known sizes, each a class.
pub(crate) fn heanet() -> Layout {
    let files =
        HEANET_BYTES.iter().enumerate().map(|(class, size)| TreeFile::new(format!("{size}.txt"), *size, 1.0, class));
    Layout { files: files.collect(), classes: HEANET_BYTES.map(|size| format!("{size} bytes")).to_vec() }
}
