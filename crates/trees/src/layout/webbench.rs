//! A tree like that of WebBench's static test: file classes, each of files of one size.

use crate::file::TreeFile;
use crate::layout::Layout;

/// Size in bytes, share of requests in percent, files, and ending of each class.
const CLASSES: [(u64, f64, u64, &str); 8] = [
    (223, 20.0, 1000, "gif"),
    (735, 8.0, 1000, "gif"),
    (1522, 12.0, 1000, "gif"),
    (2895, 20.0, 1000, "gif"),
    (6040, 14.0, 1000, "htm"),
    (11_426, 16.0, 1000, "htm"),
    (22_132, 7.0, 1000, "htm"),
    (100_000, 1.0, 150, "htm"),
];

const FILES_PER_DIRECTORY: u64 = 100;

/// WebBench's tree. The test's requests for files that do not exist are left out.
pub(crate) fn webbench() -> Layout {
    let mut layout = Layout::default();
    for (class, (size, share, files, ending)) in CLASSES.into_iter().enumerate() {
        layout.classes.push(format!("{size} bytes"));
        for number in 0..files {
            let (directory, place) = (number / FILES_PER_DIRECTORY, number % FILES_PER_DIRECTORY);
            let path = format!("{size}/{directory}/{place:02}.{ending}");
            layout.files.push(TreeFile::new(path, size, share / files as f64, class));
        }
    }
    layout
}
