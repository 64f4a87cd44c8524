//! Figures of a real archive, and names like those in it.
//!
//! They are those of `main` for amd64 in Debian 12: 63,440 packages from 34,169 sources, of
//! 1,501,529 bytes on average.

use std::collections::HashSet;

use crate::draw::Draw;

/// Sizes of packages: of 100,000 packages so many are smaller than so many bytes. Between two
/// entries sizes are taken as evenly distributed, which makes the average 1.8 % larger than the
/// archive's.
const SIZES: [(u64, u64); 37] = [
    (0, 880),
    (1_000, 1_152),
    (2_000, 2_556),
    (5_000, 5_132),
    (10_000, 7_824),
    (15_000, 10_588),
    (20_000, 13_772),
    (25_000, 17_824),
    (30_000, 22_640),
    (35_000, 28_612),
    (40_000, 36_356),
    (45_000, 46_188),
    (50_000, 59_164),
    (55_000, 77_448),
    (60_000, 104_128),
    (65_000, 142_068),
    (70_000, 203_344),
    (75_000, 295_848),
    (80_000, 455_432),
    (85_000, 767_300),
    (90_000, 1_452_824),
    (92_000, 1_998_344),
    (94_000, 3_018_300),
    (95_000, 3_863_204),
    (96_000, 5_671_592),
    (97_000, 8_093_112),
    (98_000, 11_467_228),
    (98_500, 15_505_208),
    (99_000, 21_958_880),
    (99_250, 29_909_608),
    (99_500, 44_845_772),
    (99_650, 54_563_848),
    (99_800, 92_502_092),
    (99_900, 170_769_960),
    (99_950, 281_755_500),
    (99_990, 857_104_180),
    (100_000, 1_535_845_016),
];

/// Of 1000 sources so many make at most this number of packages.
const PACKAGES_OF_SOURCE: [(u64, u64); 5] = [(726, 1), (850, 2), (929, 3), (956, 4), (969, 5)];

/// The others make from 6 to this number, so that the average is that of the archive.
const PACKAGES_MAX: u64 = 24;

/// Of 1000 sources so many are libraries.
const LIBRARIES: u64 = 164;

/// Of 1000 packages so many are for amd64; the others are for all architectures.
const AMD64: u64 = 510;

/// Packages of a suite.
pub(super) const PACKAGES_OF_SUITE: u64 = 63_440;

/// The smallest package.
pub(super) const PACKAGE_BYTES_MIN: u64 = SIZES[0].1;

/// A package's size in bytes, at most `bytes_max`.
pub(super) fn package_bytes(draw: &mut Draw, bytes_max: u64) -> u64 {
    /// The parts into which each hundred-thousandth is divided.
    const PARTS: u64 = 1000;
    loop {
        let rank = draw.below(100_000 * PARTS);
        let above = SIZES.iter().position(|(rank_max, _)| rank < rank_max * PARTS).unwrap_or(SIZES.len() - 1);
        let (low, low_bytes) = SIZES[above - 1];
        let (high, high_bytes) = SIZES[above];
        let bytes = low_bytes + (high_bytes - low_bytes) * (rank - low * PARTS) / ((high - low) * PARTS);
        if bytes <= bytes_max {
            return bytes;
        }
    }
}

/// The packages that a source makes.
pub(super) fn packages_of_source(draw: &mut Draw) -> u64 {
    let rank = draw.below(1000);
    match PACKAGES_OF_SOURCE.iter().find(|(rank_max, _)| rank < *rank_max) {
        Some((_, packages)) => *packages,
        None => 6 + draw.below(PACKAGES_MAX - 5),
    }
}

/// An architecture.
pub(super) fn architecture(draw: &mut Draw) -> &'static str {
    if draw.below(1000) < AMD64 { "amd64" } else { "all" }
}

/// A version.
pub(super) fn version(draw: &mut Draw) -> String {
    format!("{}.{}.{}-{}", draw.below(10), draw.below(30), draw.below(20), 1 + draw.below(9))
}

/// Names of sources; none comes twice.
#[derive(Debug, Default)]
pub(super) struct SourceNames {
    known: HashSet<String>,
}

impl SourceNames {
    /// Another name.
    pub(super) fn next(&mut self, draw: &mut Draw) -> String {
        const CONSONANTS: &[u8] = b"bcdfghjklmnpqrstvwxz";
        const VOWELS: &[u8] = b"aeiou";
        let mut letter = |letters: &[u8]| letters[draw.below(letters.len() as u64) as usize] as char;
        let mut name = String::new();
        loop {
            for letters in [CONSONANTS, VOWELS, CONSONANTS] {
                name.push(letter(letters));
            }
            // One syllable is no name, and a name that is taken gets a further one.
            if name.len() > 3 && !self.known.contains(&name) {
                break;
            }
        }
        if draw.below(1000) < LIBRARIES {
            let library = format!("lib{name}");
            if self.known.insert(library.clone()) {
                return library;
            }
        }
        self.known.insert(name.clone());
        name
    }
}

/// The folder of a source below `pool/main`: its first letter, or four of a library.
pub(super) fn pool_folder(source: &str) -> &str {
    if source.starts_with("lib") { &source[..source.len().min(4)] } else { &source[..1] }
}

/// The name of a source's package with that number.
pub(super) fn package_name(source: &str, number: u64) -> String {
    const ENDINGS: [&str; 8] = ["", "-dev", "-doc", "-data", "-common", "-bin", "-tools", "-utils"];
    match ENDINGS.get(number as usize) {
        Some(ending) => format!("{source}{ending}"),
        None => format!("{source}-plugin{number}"),
    }
}
