//! The served tree: its file system, how it is mounted, its room, and the watches on its folders.

use std::path::Path;

use thalweg_sys::host::room_of;
use thalweg_units::display::{bytes, count, percent};

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// File systems on which other hosts or programs change files without the kernel's knowledge.
const REMOTE: [&str; 8] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse", "glusterfs"];

/// A mounted file system, as `/proc/self/mountinfo` has it.
struct Mount {
    point: String,
    options: Vec<String>,
    kind: String,
}

/// The mount with the tree: the longest mount point above it, the last one mounted there.
fn mount_of(host: &Host, tree: &Path) -> Option<Mount> {
    let tree = host.path(tree.to_str()?).canonicalize().ok()?;
    let tree = Path::new("/").join(tree.strip_prefix(host.path("/").canonicalize().ok()?).ok()?);
    let text = host.text("/proc/self/mountinfo")?;
    let above = text.lines().filter_map(mount).filter(|mount| tree.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.len())
}

/// One line: identifiers, root, mount point, options, optional fields, a dash, the kind.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let fields: Vec<&str> = before.split(' ').collect();
    let point = fields.get(4)?.replace("\\040", " ");
    let options = fields.get(5)?.split(',').map(str::to_owned).collect();
    Some(Mount { point, options, kind: after.split(' ').next()?.to_owned() })
}

/// Whether reading a file writes its time of access.
pub(super) fn access_times(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(mount) = load.tree.as_deref().and_then(|tree| mount_of(host, tree)) else { return Vec::new() };
    let has = |name: &str| mount.options.iter().any(|option| option == name);
    let remedy = format!("mount -o remount,noatime {} (and noatime in /etc/fstab)", mount.point);
    let how = |name: &str| format!("{} is mounted with {name}", mount.point);
    if has("noatime") || has("ro") {
        return vec![Finding::ok(how(if has("ro") { "ro" } else { "noatime" }))];
    }
    if has("relatime") {
        let spoils = "the first read of each file on a day writes to the disk";
        return vec![Finding::of(Level::Hint, how("relatime"), spoils).mended_by(remedy)];
    }
    let spoils = "every read of a file writes its time of access to the disk";
    vec![Finding::of(Level::Warning, how("strictatime"), spoils).mended_by(remedy)]
}

/// The kind of the file system.
pub(super) fn file_system(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(mount) = load.tree.as_deref().and_then(|tree| mount_of(host, tree)) else { return Vec::new() };
    let is = format!("{} is a file system of the kind {}", mount.point, mount.kind);
    if REMOTE.iter().any(|kind| mount.kind == *kind || mount.kind.starts_with("fuse.")) {
        let spoils = "changes by other hosts are not reported, so files are checked by their age, and each read may wait \
                      for the network";
        return vec![
            Finding::of(Level::Hint, is, spoils).mended_by("serve from a local disk, filled by a mirroring job"),
        ];
    }
    vec![Finding::ok(is)]
}

/// The room of the file system with the tree.
pub(super) fn room(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    const FREE_MIN: f64 = 0.05;
    let Some(tree) = load.tree.as_deref().filter(|_| host.is_this()) else { return Vec::new() };
    let Ok(room) = room_of(tree) else {
        let is = format!("{} cannot be read", tree.display());
        return vec![
            Finding::of(Level::Error, is, "there is nothing to serve")
                .mended_by("another folder, or other permissions"),
        ];
    };
    let share = room.bytes_free as f64 / room.bytes.max(1) as f64;
    let is = format!("{} of {} are free ({})", bytes(room.bytes_free), bytes(room.bytes), percent(share));
    if room.files_free == Some(0) {
        let spoils = "no file can be created any more: mirroring jobs and logs fail";
        return vec![Finding::of(Level::Warning, is, spoils).mended_by("remove files (df -i)")];
    }
    if share >= FREE_MIN {
        return vec![Finding::ok(is)];
    }
    let spoils = "mirroring jobs and logs on it fail soon, and a full file system scatters new files";
    vec![Finding::of(Level::Hint, is, spoils).mended_by("remove files, or enlarge it")]
}

/// Watches on folders, by which the server learns of changes.
pub(super) fn watches(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    /// The least that the kernel chooses by itself.
    const USUAL_MIN: u64 = 8192;
    let name = "fs.inotify.max_user_watches";
    let Some(watches) = host.sysctl_number(name).filter(|_| !load.measures()) else { return Vec::new() };
    let is = format!("{name} is {}", count(watches));
    if watches >= USUAL_MIN {
        return vec![Finding::ok(is)];
    }
    let spoils = "changes in further folders are noticed by age only, a second later";
    vec![Finding::of(Level::Hint, is, spoils).set(name, USUAL_MIN * 8)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    fn check(options: &str, kind: &str) -> (Level, Level) {
        let fake = FakeHost::with(&[
            (
                "/proc/self/mountinfo",
                &format!(
                    "1 0 8:1 / / rw,noatime - ext4 /dev/sda rw\n2 1 8:2 / /srv/a\\040b {options} shared:1 - {kind} /dev/sdb rw\n"
                ),
            ),
            ("/srv/a b/files/x", ""),
        ]);
        let load = PlannedLoad { tree: Some("/srv/a b/files".into()), .."serve".parse().unwrap() };
        (access_times(&fake.host, &load)[0].level, file_system(&fake.host, &load)[0].level)
    }

    #[test]
    fn the_mount_of_the_tree_is_examined() {
        assert_eq!(check("rw,relatime", "ext4"), (Level::Hint, Level::Ok));
        assert_eq!(check("rw", "xfs"), (Level::Warning, Level::Ok));
        assert_eq!(check("rw,noatime", "nfs4"), (Level::Ok, Level::Hint));
        assert_eq!(check("ro,relatime", "fuse.sshfs"), (Level::Ok, Level::Hint));
    }

    #[test]
    fn few_watches_are_a_hint_to_servers() {
        let fake = FakeHost::with_sysctls(&[("fs.inotify.max_user_watches", "100")]);
        assert_eq!(watches(&fake.host, &"serve".parse().unwrap())[0].level, Level::Hint);
        assert!(watches(&fake.host, &"hold 5".parse().unwrap()).is_empty());
    }
}
