//! A mirror of a Debian-like archive.

use crate::draw::Draw;
use crate::file::TreeFile;
use crate::layout::Layout;
use crate::layout::archive::{
    PACKAGE_BYTES_MIN, PACKAGES_OF_SUITE, SourceNames, architecture, package_bytes, package_name, packages_of_source,
    pool_folder, version,
};
use crate::name::TreeName;

/// Bytes of a mirror if none are given.
pub(crate) const BYTES_DEFAULT: u64 = 1_000_000_000;

/// A smaller mirror would have a few packages only.
pub(crate) const BYTES_MIN: u64 = 10_000_000;

/// A mirror of this size has some seven million files, whose names take about a gigabyte.
pub(crate) const BYTES_MAX: u64 = 10_000_000_000_000;

/// No package has more than this part of a small mirror.
const PARTS_MIN: u64 = 20;

/// Random bytes before the hole of a sparse file.
const SPARSE_RANDOM_BYTES: u64 = 4096;

/// Index files of a suite with their bytes, fixed and for each package, as in Debian 12.
const INDEXES: [(&str, u64, u64); 4] = [
    ("InRelease", 151_075, 0),
    ("main/binary-amd64/Packages.xz", 0, 139),
    ("main/binary-amd64/Packages.gz", 0, 190),
    ("main/Contents-amd64.gz", 0, 183),
];

/// A mirror of `bytes` bytes. Files of at least `sparse` bytes are holes. The indexes of the first
/// suite are the most popular files, in the order above; all others follow in a random order.
pub(crate) fn mirror(seed: u64, bytes: u64, sparse: Option<u64>) -> Layout {
    let mut files = packages(seed, bytes);
    let mut indexes = indexes(files.len() as u64);
    files.extend(indexes.split_off(INDEXES.len()));
    shuffle(seed, &mut files);
    files.splice(0..0, indexes);
    for (place, file) in files.iter_mut().enumerate() {
        file.weight = 1.0 / (place + 1) as f64;
        if sparse.is_some_and(|sparse| file.size >= sparse) {
            file.random = file.size.min(SPARSE_RANDOM_BYTES);
        }
    }
    Layout { files, classes: vec!["dists".to_owned(), "pool".to_owned()] }
}

/// The index files of so many packages. No suite has more packages than a real one.
fn indexes(packages: u64) -> Vec<TreeFile> {
    let mut files = Vec::new();
    for suite in 0..packages.div_ceil(PACKAGES_OF_SUITE) {
        let packages = (packages - suite * PACKAGES_OF_SUITE).min(PACKAGES_OF_SUITE);
        let index =
            |(name, fixed, each)| TreeFile::new(format!("dists/suite{suite}/{name}"), fixed + each * packages, 0.0, 0);
        files.extend(INDEXES.map(index));
    }
    files
}

/// The files of the pool, such that they and the indexes have `bytes` bytes together.
fn packages(seed: u64, bytes: u64) -> Vec<TreeFile> {
    let mut draw = Draw::new(TreeName::Mirror, seed, "packages");
    let mut names = SourceNames::default();
    let fixed: u64 = INDEXES.iter().map(|(_, fixed, _)| fixed).sum();
    let each: u64 = INDEXES.iter().map(|(_, _, each)| each).sum();
    let mut left = bytes;
    let mut files: Vec<TreeFile> = Vec::new();
    loop {
        let source = names.next(&mut draw);
        let folder = pool_folder(&source);
        let version = version(&mut draw);
        for number in 0..packages_of_source(&mut draw) {
            let size = package_bytes(&mut draw, bytes / PARTS_MIN);
            let package = package_name(&source, number);
            let path = format!("pool/main/{folder}/{source}/{package}_{version}_{}.deb", architecture(&mut draw));
            let is_first_of_suite = (files.len() as u64).is_multiple_of(PACKAGES_OF_SUITE);
            let of_indexes = each + if is_first_of_suite { fixed } else { 0 };
            // The last package takes the rest, which is large enough for no further one.
            if left < size + of_indexes + (PACKAGE_BYTES_MIN + each + fixed) {
                files.push(TreeFile::new(path, left - of_indexes, 0.0, 1));
                return files;
            }
            left -= size + of_indexes;
            files.push(TreeFile::new(path, size, 0.0, 1));
        }
    }
}

/// Brings files into a random order (Fisher and Yates).
fn shuffle(seed: u64, files: &mut [TreeFile]) {
    let mut draw = Draw::new(TreeName::Mirror, seed, "popularity");
    for last in (1..files.len()).rev() {
        files.swap(last, draw.below(last as u64 + 1) as usize);
    }
}
