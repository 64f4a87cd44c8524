//! URL lists: a target a line, with its weight and the conditions on its response.
//!
//! Check files are kept by [`CheckTable`](crate::CheckTable). Both have the same lines: a target,
//! then conditions as [`Check::parse`](crate::Check::parse) reads them, separated by blanks. In a
//! list the conditions may be missing, and a weight may stand before them. Empty lines, and lines
//! whose first word begins with `#`, are passed over. The caller decides on which hosts a URL may
//! be.

use std::fmt;
use std::io::BufRead;

use crate::input::check::{ListEntry, entry};
use crate::input::text::{ENTRIES_MAX, InputError, Lines, ReadError};

/// Reads a list of URLs and paths, and gives each entry out as it comes. A word that begins with a
/// slash is a target already; all else goes through `target_of`, which makes a target of a URL on
/// the right host.
///
/// # Errors
/// The first line that is wrong or whose entry was refused, that there is none, or that the file
/// cannot be read.
pub fn read_list<E: fmt::Display>(
    file: &str,
    source: impl BufRead,
    mut target_of: impl FnMut(&str) -> Result<String, E>,
    mut on_entry: impl FnMut(ListEntry) -> Result<(), InputError>,
) -> Result<(), ReadError> {
    let mut lines = Lines::new(file, source);
    let mut count = 0;
    while let Some(line) = lines.next()? {
        if line.number > ENTRIES_MAX {
            return Err(line.error(0, format!("the file has more than {ENTRIES_MAX} lines")).into());
        }
        if let Some(entry) = entry(line, &mut target_of)? {
            on_entry(entry)?;
            count += 1;
        }
    }
    if count == 0 { Err(InputError::new(file, 1, 1, "the file contains no URL").into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::check::Check;

    fn target_of(url: &str) -> Result<String, String> {
        match url.strip_prefix("http://host") {
            Some(path) => Ok(path.to_owned()),
            None => Err(format!("{url} is not on the target's host")),
        }
    }

    fn read(text: &[u8]) -> Result<Vec<ListEntry>, ReadError> {
        let mut entries = Vec::new();
        read_list("l", text, target_of, |entry| {
            entries.push(entry);
            Ok(())
        })?;
        Ok(entries)
    }

    fn check_refused(text: &[u8], expected: &str) {
        assert_eq!(read(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn lists_have_targets_and_checks() {
        let text =
            "# all\n\n/a\r\n  http://host/b?c \n/d.txt\tstatus=200, length=512 \r\n  # more\n/e header:X=\"a b\"";
        let list = read(text.as_bytes()).unwrap();
        let shown: Vec<_> = list.iter().map(|entry| (entry.target.as_str(), entry.line, entry.column)).collect();
        assert_eq!(shown, [("/a", 3, 1), ("/b?c", 4, 3), ("/d.txt", 5, 1), ("/e", 7, 1)]);
        let checks: Vec<_> = list.into_iter().map(|entry| entry.check).collect();
        let expected = ["status=200,length=512", "header:X=\"a b\""].map(|text| Some(Check::parse(text).unwrap()));
        assert_eq!(checks, [&[None, None], expected.as_slice()].concat());
    }

    #[test]
    fn a_weight_stands_before_the_checks() {
        let list = read(b"/a 0.25\n/b .5 status=200\n/c\t7e-3  \n/d status=200\n").unwrap();
        let weights: Vec<_> = list.iter().map(|entry| entry.weight).collect();
        assert_eq!(weights, [Some(0.25), Some(0.5), Some(7e-3), None]);
        let checks: Vec<_> = list.into_iter().map(|entry| entry.check.is_some()).collect();
        assert_eq!(checks, [false, true, false, true]);
    }

    #[test]
    fn errors_in_a_list_are_named_with_their_place() {
        check_refused(b"\n# nothing\n", "l:1:1: the file contains no URL");
        check_refused(b"/a\n ftp://x/\n", "l:2:2: ftp://x/ is not on the target's host");
        check_refused(
            "/ü\n".as_bytes(),
            "l:1:2: \"/ü\": this character is not allowed in a URI; percent-encode it, such as %20",
        );
        check_refused(b"/a#b\n", "l:1:3: a fragment is never sent to a server; remove it");
        check_refused(b"/a\n/\xff\n", "l:2:2: the text is not valid UTF-8");
        check_refused(b"/a status=200,length=x", &format!("l:1:22: {}", thalweg_units::parse_size("x").unwrap_err()));
        let weight =
            |shown: &str| format!("{shown} is not a weight; expected a number greater than 0 and at most 1e100");
        check_refused(b"/a 1\n/b 0 status=200", &format!("l:2:4: {}", weight("\"0\"")));
        check_refused(b"/a -1", &format!("l:1:4: {}", weight("\"-1\"")));
        check_refused(b"/a 1e999", &format!("l:1:4: {}", weight("\"1e999\"")));
        check_refused(b"/a 5x", &format!("l:1:4: {}", weight("\"5x\"")));
        check_refused(b"/a 1 2", "l:1:6: \"2\": expected status=, length=, sha256= or header:");
        check_refused(b"/a  /b", "l:1:5: \"/b\": expected status=, length=, sha256= or header:");
        check_refused(
            b"/a status=200 \"x\"",
            "l:1:11: \"200 \\\"x\\\"\" is not a status; expected for example 200, 2xx or 200|206",
        );
    }
}
