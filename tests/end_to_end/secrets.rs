//! Files with tokens and keys that all users of the host can read: who reads them is warned.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::process::run_thalweg;

#[track_caller]
fn warns(arguments: &[&str], secret: &Path) {
    for (mode, is_warned) in [(0o644, true), (0o640, false)] {
        fs::set_permissions(secret, fs::Permissions::from_mode(mode)).unwrap();
        let ended = run_thalweg(arguments);
        // Standard error may be wrapped at the width of a terminal, where it is one.
        let told = format!("{} {}", ended.stdout, ended.stderr);
        let expected = format!("`chmod o= {}`", secret.display());
        assert_eq!(told.matches(&expected).count(), usize::from(is_warned), "{mode:o} {arguments:?}: {told}");
    }
}

#[test]
fn tokens_and_keys_that_others_can_read_are_named_with_the_command_that_ends_it() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(path("token"), "short").unwrap();
    let [cert, key, token] = ["cert.pem", "key.pem", "token"].map(|name| path(name).display().to_string());
    let root = folder.path().display().to_string();
    let files = format!("{cert}:{key}");
    warns(&["serve", &root, "--listen", "127.0.0.1:0", "--tls", &files, "--check"], &path("key.pem"));
    warns(&["observe", "--listen", "127.0.0.1:0", "--token-file", &token], &path("token"));
    let there = "https://127.0.0.1:1/";
    let client = ["run", there, "--requests", "1", "--workers", "1", "--insecure", "--cert", &cert, "--key", &key];
    warns(&client, &path("key.pem"));
}
