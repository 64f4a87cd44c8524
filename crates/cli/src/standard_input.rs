//! Standard input in the place of a file (`-`). It can be read only once, so its bytes are kept in
//! a temporary file without a name, which any number of readers can open: one for each target, and
//! the second client process of a search. Logs of a replay are none of this: `log_file` reads them.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

use crate::exit::{Failure, remark};

/// Its name in messages.
const SHOWN: &str = "standard input";

/// The bytes that came, until this process ends.
static COPY: OnceLock<File> = OnceLock::new();

/// Whether a file's name stands for standard input.
pub(crate) fn is_meant(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A file's name as messages and results show it.
pub(crate) fn shown(file: &Path) -> String {
    if is_meant(file) { SHOWN.to_owned() } else { file.display().to_string() }
}

/// The path by which a file can be opened; `what` is its role, for messages.
///
/// # Errors
/// Standard input cannot be read or kept.
pub(crate) fn readable<'f>(what: &str, file: &'f Path) -> Result<Cow<'f, Path>, Failure> {
    if !is_meant(file) {
        return Ok(Cow::Borrowed(file));
    }
    let kept = match COPY.get() {
        Some(kept) => kept,
        None => {
            let kept = keep(what)?;
            COPY.get_or_init(|| kept)
        }
    };
    Ok(Cow::Owned(path_of(kept)))
}

/// Refuses several readers of standard input. Readers are the options that name a file, with it.
///
/// # Errors
/// More than one of the files is standard input.
pub(crate) fn ensure_one_reader(readers: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let mut options = readers.iter().filter(|(_, file)| file.is_some_and(is_meant)).map(|(option, _)| option);
    match (options.next(), options.next()) {
        (Some(one), Some(other)) => Err(Failure::usage(format!(
            "{one} and {other} both read standard input, and only one can: give the other one a file"
        ))),
        _ => Ok(()),
    }
}

/// Prints on stderr that the program waits for a person, if it does.
pub(crate) fn announce(what: &str) {
    if io::stdin().is_terminal() {
        remark(&format!("reading the {what} from the terminal: Ctrl-D on an empty line ends it, Ctrl-C the program"));
    }
}

/// Arguments of this program for another process of it, which reads the same bytes from the copy.
pub(crate) fn arguments_for_another(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(kept) = COPY.get() else { return arguments };
    renamed(arguments, &path_of(kept))
}

fn renamed(mut arguments: Vec<OsString>, path: &Path) -> Vec<OsString> {
    let with = |front: &str| Some(OsString::from(format!("{front}{}", path.display())));
    for at in 0..arguments.len() {
        let option = at.checked_sub(1).and_then(|before| arguments[before].to_str());
        let new = match (option, arguments[at].to_str()) {
            (Some("--urls"), Some("-")) => with(""),
            (Some("--body" | "--check"), Some("@-")) => with("@"),
            (_, Some("--urls=-")) => with("--urls="),
            (_, Some("--body=@-")) => with("--body=@"),
            (_, Some("--check=@-")) => with("--check=@"),
            _ => None,
        };
        if let Some(new) = new {
            arguments[at] = new;
        }
    }
    arguments
}

/// A link of the kernel to the open file, which each reader opens with a position of its own.
fn path_of(kept: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", process::id(), kept.as_raw_fd()))
}

fn keep(what: &str) -> Result<File, Failure> {
    announce(what);
    let folder = std::env::temp_dir();
    let refused = |error: io::Error| {
        Failure::unreachable(format!(
            "the {what} comes from standard input, and cannot be kept in {}: {error}; set TMPDIR to another folder, or \
             give a file",
            folder.display()
        ))
    };
    let mut copy = tempfile::tempfile_in(&folder).map_err(refused)?;
    io::copy(&mut io::stdin().lock(), &mut copy).map_err(refused)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_file_is_standard_input() {
        let (dash, file) = (Some(Path::new("-")), Some(Path::new("list")));
        assert!(ensure_one_reader(&[("--urls", dash), ("--body", file), ("--check", None)]).is_ok());
        let refused = ensure_one_reader(&[("--urls", dash), ("--body", None), ("--check", dash)]).unwrap_err();
        assert!(refused.to_string().starts_with("--urls and --check both read"), "{refused}");
        assert_eq!((shown(Path::new("-")), shown(Path::new("./-"))), ("standard input".to_owned(), "./-".to_owned()));
    }

    #[test]
    fn another_process_reads_the_copy() {
        let check = |arguments: &[&str], expected: &[&str]| {
            let renamed = renamed(arguments.iter().map(OsString::from).collect(), Path::new("/f"));
            assert_eq!(renamed, expected.iter().map(OsString::from).collect::<Vec<_>>());
        };
        check(&["find", "--urls", "-", "--body=@-"], &["find", "--urls", "/f", "--body=@/f"]);
        check(&["--body", "@-", "--check=@-", "--urls=-"], &["--body", "@/f", "--check=@/f", "--urls=/f"]);
        // A text that is a body, not a file.
        check(&["--body", "-", "--label", "-"], &["--body", "-", "--label", "-"]);
    }
}
