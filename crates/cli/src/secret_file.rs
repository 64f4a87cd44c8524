//! Files with secrets that other users of this host can read: the operator is told, with the
//! command that changes it. Nothing is refused for it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::exit::remark;

/// The right of all users to read a file.
const OTHERS_READ: u32 = 0o004;

/// The files that were warned of.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Warns of a file that other users can read, once in the life of the process.
pub(crate) fn warn(path: &Path) {
    if let Some(warning) = warning(path)
        && TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    {
        remark(&format!("warning: {warning}"));
    }
}

/// The warning about a file that other users can read.
pub(crate) fn warning(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    let path = path.display();
    (mode & OTHERS_READ != 0)
        .then(|| format!("all users of this host can read the secret in {path}; `chmod o= {path}` ends that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_others_can_read_is_told_with_the_command_that_ends_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "0123456789abcdef").unwrap();
        for (mode, is_told) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let told = warning(&path);
            assert_eq!(told.is_some(), is_told, "{mode:o}");
            assert!(told.is_none_or(|told| told.contains(&format!("`chmod o= {}`", path.display()))));
        }
        assert_eq!(warning(&folder.path().join("missing")), None);
    }
}
