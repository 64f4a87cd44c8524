//! The file sets of SPECweb96 and SPECweb99, and ACME's single directory of the former.
//!
//! Both have directories of 36 files: four classes of nine files, which are larger by equal steps.
//! The classes' shares of requests are the same; the shares of the nine files differ.

use crate::file::TreeFile;
use crate::layout::Layout;

/// Shares of requests by class.
const CLASS_SHARES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];

/// Bytes by which a file is larger than the one before, in each class. SPECweb96's table begins
/// with 102, 204, 1024, 2048 and 10,240 bytes: multiples of a tenth of a kibibyte, rounded down.
const CLASS_STEPS: [f64; 4] = [102.4, 1024.0, 10_240.0, 102_400.0];

const FILES: usize = 9;

/// SPECweb96's accesses are distributed in a class as a Poisson distribution around its midpoint,
/// which is the fifth of nine files.
const POISSON_MEAN: f64 = 5.0;

/// Ranks of SPECweb99's nine files: the fifth is the most popular one.
const ZIPF_RANKS: [f64; FILES] = [9.0, 6.0, 4.0, 3.0, 1.0, 2.0, 5.0, 7.0, 8.0];

/// The load of SPECweb96 for which the number of directories is computed if none is given.
pub(crate) const OPERATIONS_PER_S_DEFAULT: f64 = 100.0;

/// Connections of SPECweb99 for which the number of directories is computed if none is given.
pub(crate) const CONNECTIONS_DEFAULT: f64 = 100.0;

/// The highest load that a file set is made for; it would have some five terabytes.
pub(crate) const LOAD_MAX: f64 = 1e6;

/// SPECweb96's directories at this target load: `10 * sqrt(operations per second / 5)`.
pub(crate) fn specweb96_directories(operations_per_s: f64) -> usize {
    ((operations_per_s / 5.0).sqrt() * 10.0) as usize
}

/// SPECweb99's directories for so many simultaneous connections: 25, and a fifth of the operations
/// per second that they make with 400,000 bit/s each and 122,000 bits an operation.
pub(crate) fn specweb99_directories(connections: f64) -> usize {
    (25.0 + (400_000.0 / 122_000.0 * connections) / 5.0) as usize
}

/// One directory of SPECweb96 at the top of the tree.
pub(crate) fn acme_spec() -> Layout {
    let mut layout = layout();
    push_directory(&mut layout, "", 1.0, &poisson_shares());
    layout
}

/// SPECweb96's file set; all directories are as popular as each other.
pub(crate) fn specweb96(operations_per_s: f64) -> Layout {
    let mut layout = layout();
    for number in 0..specweb96_directories(operations_per_s) {
        push_directory(&mut layout, &format!("dir{number:05}/"), 1.0, &poisson_shares());
    }
    layout
}

/// SPECweb99's file set; the popularity of directories follows Zipf's law with exponent 1.
pub(crate) fn specweb99(connections: f64) -> Layout {
    let mut layout = layout();
    for number in 0..specweb99_directories(connections) {
        let directory = format!("file_set/dir{number:05}/");
        push_directory(&mut layout, &directory, 1.0 / (number + 1) as f64, &zipf_shares());
    }
    layout
}

fn layout() -> Layout {
    let classes = (0..CLASS_SHARES.len()).map(|class| format!("class {class}")).collect();
    Layout { files: Vec::new(), classes }
}

fn push_directory(layout: &mut Layout, prefix: &str, weight: f64, file_shares: &[f64; FILES]) {
    for (class, (class_share, step)) in CLASS_SHARES.into_iter().zip(CLASS_STEPS).enumerate() {
        for (number, file_share) in file_shares.iter().enumerate() {
            let size = (step * (number + 1) as f64) as u64;
            let path = format!("{prefix}class{class}_{number}");
            layout.files.push(TreeFile::new(path, size, weight * class_share * file_share, class));
        }
    }
}

/// SPECweb96's shares of the files of a class: Poisson's, cut off and made to add up to 1.
fn poisson_shares() -> [f64; FILES] {
    let mut term = 1.0;
    normalized(std::array::from_fn(|number| {
        term *= POISSON_MEAN / (number + 1) as f64;
        term
    }))
}

/// SPECweb99's shares of the files of a class: 0.039, 0.059, 0.088, 0.118, 0.353, 0.177, 0.071,
/// 0.050 and 0.044.
fn zipf_shares() -> [f64; FILES] {
    normalized(ZIPF_RANKS.map(|rank| 1.0 / rank))
}

fn normalized(shares: [f64; FILES]) -> [f64; FILES] {
    let sum: f64 = shares.iter().sum();
    shares.map(|share| share / sum)
}
