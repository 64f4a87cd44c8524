//! The Debian package and the tarball of `packaging/package`: they are made from the built program,
//! and the package is installed, removed and purged beneath a root of its own.

use std::path::Path;
use std::process::Command;

use crate::process::{PATIENCE, Process};

/// Installs, checks, removes and purges the package beneath a copy of the root that is written to
/// nowhere else: an overlay in a mount namespace, on a file system in memory.
const INSTALL: &str = r##"
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
cp "$2" "$1/root/package.deb"
exec chroot "$1/root" sh -eux -c '
    dpkg --install /package.deb
    /usr/bin/thalweg --version
    test -s /lib/systemd/system/thalweg.service
    test -s /usr/share/doc/thalweg/operating.md
    gzip -dc /usr/share/man/man1/thalweg-serve.1.gz | grep -q "^\.TH thalweg-serve 1"
    bash -n /usr/share/bash-completion/completions/thalweg
    grep -q "^#compdef thalweg" /usr/share/zsh/vendor-completions/_thalweg
    grep -q "complete -c thalweg" /usr/share/fish/vendor_completions.d/thalweg.fish
    getent passwd thalweg
    mkdir -p /srv
    /usr/bin/thalweg serve --config /etc/thalweg/thalweg.toml --check --sandbox off --listen 127.0.0.1:0
    echo "# edited" >> /etc/thalweg/thalweg.toml
    dpkg --remove thalweg
    test ! -e /usr/bin/thalweg
    grep -q edited /etc/thalweg/thalweg.toml
    dpkg --purge thalweg
    test ! -e /etc/thalweg
    test ! -e /usr/share/doc/thalweg
    ! dpkg --status thalweg
'
"##;

#[test]
fn the_package_is_installed_used_and_purged_without_a_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = make_packages(folder.path());
    let said = String::from_utf8_lossy(&made);
    assert!(said.contains("runs on glibc 2."), "the oldest glibc is said: {said}");
    let named = |ending: &str| {
        let files = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
        let found: Vec<_> = files.filter(|file| file.to_string_lossy().ends_with(ending)).collect();
        assert_eq!(found.len(), 1, "one {ending} in {found:?}");
        found[0].clone()
    };
    let listed = Command::new("tar").arg("-tzf").arg(named(".tar.gz")).output().expect("tar");
    let listed = String::from_utf8_lossy(&listed.stdout);
    for file in ["usr/bin/thalweg\n", "usr/share/man/man1/thalweg-find.1.gz\n", "usr/share/doc/thalweg/README.md\n"] {
        assert!(listed.contains(file), "{file} in {listed}");
    }

    let root = tempfile::tempdir().expect("a folder");
    let mut install = Command::new("unshare");
    install.args(["--mount", "--propagation", "private", "sh", "-c", INSTALL, "install"]).arg(root.path());
    install.arg(named(".deb")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let ended = Process::start(&mut install).wait(PATIENCE);
    assert!(ended.code == Some(0), "{}\n{}", ended.stdout, ended.stderr);
}

#[test]
fn a_package_above_its_size_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = packaging(folder.path(), "1");
    assert!(ended.code != Some(0), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("the stripped program has") && ended.stderr.contains("above the 1000000"),
        "{}",
        ended.stderr
    );
}

fn make_packages(folder: &Path) -> Vec<u8> {
    let ended = packaging(folder, "1000");
    assert!(ended.code == Some(0), "{}\n{}", ended.stdout, ended.stderr);
    ended.stdout.into()
}

/// Runs `packaging/package` on the program under test, uncompressed.
fn packaging(folder: &Path, megabytes_max: &str) -> crate::process::ExitedProcess {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/package");
    let mut command = Command::new(script);
    command.arg(env!("CARGO_BIN_EXE_thalweg")).arg(folder);
    command.env("MEGABYTES_MAX", megabytes_max).env("COMPRESSION", "none");
    Process::start(&mut command).wait(PATIENCE)
}
