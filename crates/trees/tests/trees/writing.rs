//! Writing and comparing: nothing half-written is left, and each difference is found.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;
use thalweg_trees::{Progress, Tree, TreeError, TreeName, TreeSettings};

fn tree(name: TreeName, seed: u64) -> Tree {
    Tree::new(name, &TreeSettings { seed, ..TreeSettings::default() }).unwrap()
}

fn write(tree: &Tree, directory: &Path) {
    tree.write(directory, &mut |_| ControlFlow::Continue(())).unwrap();
}

/// The differences, as a user reads them.
fn differences(tree: &Tree, directory: &Path) -> Vec<String> {
    let verified = tree.verify(directory, &mut |_| ControlFlow::Continue(())).unwrap();
    let superfluous = verified.differences.iter().filter(|difference| difference.to_string().ends_with("superfluous"));
    let expected = tree.files().len() + superfluous.count() - verified.differences.len();
    assert_eq!(verified.files, expected as u64);
    verified.differences.iter().map(ToString::to_string).collect()
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(directory).unwrap().map(name).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let folder = TempDir::new().unwrap();
    let [first, second, other] = ["first", "second", "other"].map(|name| folder.path().join(name));
    write(&tree(TreeName::AcmeSpec, 1), &first);
    write(&tree(TreeName::AcmeSpec, 1), &second);
    write(&tree(TreeName::AcmeSpec, 2), &other);
    for file in tree(TreeName::AcmeSpec, 1).files() {
        let bytes = |directory: &Path| fs::read(directory.join(&file.path)).unwrap();
        assert_eq!(bytes(&first), bytes(&second), "{}", file.path);
        assert_ne!(bytes(&first), bytes(&other), "{}", file.path);
    }
    assert_eq!(differences(&tree(TreeName::AcmeSpec, 1), &second), [""; 0]);
    assert_eq!(differences(&tree(TreeName::AcmeSpec, 2), &second).len(), 36);
}

#[test]
fn progress_goes_from_nothing_to_everything() {
    let folder = TempDir::new().unwrap();
    let tree = tree(TreeName::AcmeSpec, 1);
    let mut seen = vec![Progress::default()];
    let mut on_progress = |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    };
    tree.write(&folder.path().join("tree"), &mut on_progress).unwrap();
    assert!(seen.is_sorted_by_key(|progress| (progress.files, progress.bytes)));
    assert_eq!(seen.last(), Some(&Progress { files: 36, bytes: tree.bytes() }));
}

#[test]
fn a_tree_that_is_broken_off_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let existing = folder.path().join("existing");
    fs::create_dir(&existing).unwrap();
    for directory in [existing.clone(), folder.path().join("new")] {
        for files in [0, 20, 36] {
            let mut on_progress = |progress: Progress| match progress.files >= files {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let error = tree(TreeName::AcmeSpec, 1).write(&directory, &mut on_progress).unwrap_err();
            assert!(matches!(error, TreeError::Interrupted), "{error}");
            assert_eq!(names(folder.path()), ["existing"]);
            assert_eq!(names(&existing), [""; 0]);
        }
    }
}

#[test]
fn an_existing_directory_keeps_its_mode_and_a_new_one_gets_the_usual_one() {
    let folder = TempDir::new().unwrap();
    let [existing, usual, new] = ["existing", "usual", "new"].map(|name| folder.path().join(name));
    fs::create_dir(&existing).unwrap();
    fs::create_dir(&usual).unwrap();
    fs::set_permissions(&existing, Permissions::from_mode(0o750)).unwrap();
    let tree = tree(TreeName::WebBench, 1);
    write(&tree, &existing);
    write(&tree, &new);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(&existing), 0o750);
    assert_eq!(mode(&new), mode(&usual));
    assert_eq!(names(&existing).len(), tree.classes().len());
    assert_eq!(differences(&tree, &existing), [""; 0]);
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("kept"), "text").unwrap();
    let refused = |directory: &Path| {
        let error = tree(TreeName::Heanet, 1).write(directory, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(names(folder.path()), ["kept"]);
        error.to_string()
    };
    let (path, kept, far) = (folder.path(), folder.path().join("kept"), folder.path().join("no/such"));
    let shown = path.display();
    let expected = format!("{shown} is not empty; name a directory that is empty or does not exist");
    assert_eq!(refused(path), expected);
    assert_eq!(refused(&kept), format!("{shown}/kept is not a directory"));
    assert_eq!(refused(&far), format!("{shown}/no does not exist; make it first"));
}

#[test]
fn each_difference_is_found() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().join("tree");
    let tree = tree(TreeName::AcmeSpec, 1);
    write(&tree, &directory);
    let path = |name: &str| directory.join(name);
    fs::remove_file(path("class0_0")).unwrap();
    OpenOptions::new().append(true).open(path("class0_1")).unwrap().set_len(99).unwrap();
    for (name, offset) in [("class0_2", 0), ("class3_8", 900_000)] {
        let file = OpenOptions::new().read(true).write(true).open(path(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[!byte[0]], offset).unwrap();
    }
    fs::remove_file(path("class0_3")).unwrap();
    symlink("class0_4", path("class0_3")).unwrap();
    fs::remove_file(path("class0_5")).unwrap();
    fs::create_dir(path("class0_5")).unwrap();
    fs::write(path("class0_5/more"), "").unwrap();
    let expected = [
        "class0_0: missing",
        "class0_1: 99 bytes instead of 204",
        "class0_2: other content from byte 0 on",
        "class0_3: not a regular file",
        "class0_5: missing",
        "class3_8: other content from byte 900000 on",
        "class0_5/more: superfluous",
    ];
    assert_eq!(differences(&tree, &directory), expected);
}

#[test]
fn holes_take_no_space_and_what_is_in_them_is_found() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().join("tree");
    let settings = TreeSettings { seed: 1, size: Some(100_000_000), sparse: Some(100_000), ..TreeSettings::default() };
    let tree = Tree::new(TreeName::Mirror, &settings).unwrap();
    write(&tree, &directory);
    assert_eq!(differences(&tree, &directory), [""; 0]);
    let largest = tree.files().iter().max_by_key(|file| file.size).unwrap();
    let path = directory.join(&largest.path);
    let metadata = fs::metadata(&path).unwrap();
    assert!(metadata.len() > 1_000_000 && metadata.blocks() * 512 <= 65_536, "{metadata:?}");
    let offset = largest.size - 10;
    File::options().write(true).open(&path).unwrap().write_all_at(b"x", offset).unwrap();
    assert_eq!(differences(&tree, &directory), [format!("{}: other content from byte {offset} on", largest.path)]);
    // The same file without a hole.
    File::options().write(true).open(&path).unwrap().write_all_at(&[0], offset).unwrap();
    assert_eq!(differences(&tree, &directory), [""; 0]);
}
