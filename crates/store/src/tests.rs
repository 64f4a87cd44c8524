use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use tempfile::TempDir;

use super::*;

fn run(id: &str) -> NewRun<'_> {
    NewRun { id, kind: "find", started: id, target: "http://h/", label: Some("a"), note: None }
}

const END: FinishedRun<'_> =
    FinishedRun { verdict: "pass", capacity: Some(500.0), answer: "h handles 500/s.", interrupted: false };

fn scratch() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/runs.sqlite");
    (folder, path)
}

#[test]
fn a_finished_run_has_its_document_and_an_unfinished_one_its_parts() {
    let (_folder, path) = scratch();
    let mut store = Store::open(&path).unwrap();
    store.begin(&run("1"), "{\"head\":1}").unwrap();
    store.add_trial("1", "first").unwrap();
    store.add_trial("1", "second").unwrap();
    let reader = Store::open_to_read(&path).unwrap().unwrap();
    assert_eq!(reader.find("1").unwrap().state, State::Running, "its process is this one");
    let parts = StoredDocument { document: "{\"head\":1}".into(), trials: vec!["first".into(), "second".into()] };
    assert_eq!(reader.document("1").unwrap(), parts);

    store.finish(&run("1"), &END, "whole").unwrap();
    assert_eq!(reader.document("1").unwrap(), StoredDocument { document: "whole".into(), trials: vec![] });
    let record = reader.find("1").unwrap();
    assert_eq!(
        (record.state, record.verdict.as_deref(), record.capacity),
        (State::Complete, Some("pass"), Some(500.0))
    );
}

#[test]
fn a_run_whose_process_is_gone_was_interrupted() {
    let (_folder, path) = scratch();
    let store = Store::open(&path).unwrap();
    store.begin(&run("1"), "{}").unwrap();
    let (this, _) =
        Process::current().unwrap().to_string().rsplit_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    store.connection.execute("UPDATE runs SET process = ?1", [format!("{this} 1")]).unwrap();
    assert_eq!(store.find("1").unwrap().state, State::Interrupted);
}

#[test]
fn runs_are_found_by_name() {
    let (_folder, path) = scratch();
    let mut store = Store::open(&path).unwrap();
    for id in ["20260101-aa", "20260102-bb", "20260103-cc"] {
        store.finish(&run(id), &END, "").unwrap();
    }
    let found = |name: &str| store.find(name).map(|run| run.id).map_err(|error| error.to_string());
    assert_eq!(found("last").unwrap(), "20260103-cc");
    assert_eq!(found("last~2").unwrap(), "20260101-aa");
    assert_eq!(found("20260102").unwrap(), "20260102-bb");
    assert!(found("2026").unwrap_err().contains("20260101-aa, 20260102-bb, 20260103-cc"));
    for unknown in ["", "last~3", "last~x", "x%", "lasting"] {
        assert!(found(unknown).unwrap_err().contains("no run"), "{unknown}");
    }
}

#[test]
fn lists_are_filtered_and_runs_are_removed() {
    let (_folder, path) = scratch();
    let mut store = Store::open(&path).unwrap();
    for (id, kind, label) in [("1", "run", None), ("2", "find", Some("a")), ("3", "find", Some("b"))] {
        store.finish(&NewRun { kind, label, ..run(id) }, &END, "").unwrap();
    }
    let ids = |filter: Filter| -> Vec<String> { store.list(&filter).unwrap().into_iter().map(|run| run.id).collect() };
    assert_eq!(ids(Filter { kind: Some("find".into()), ..Filter::default() }), ["3", "2"]);
    assert_eq!(ids(Filter { label: Some("a".into()), ..Filter::default() }), ["2"]);
    assert_eq!(ids(Filter { limit: Some(1), ..Filter::default() }), ["3"]);
    assert_eq!(store.delete_before("3").unwrap(), 2);
    store.compact().unwrap();
    assert_eq!(ids(Filter::default()), ["3"]);
}

#[test]
fn processes_write_at_once() {
    let (_folder, path) = scratch();
    let write = |writer: usize| {
        let mut store = Store::open(&path).unwrap();
        for number in 0..20 {
            let id = format!("{writer}-{number}");
            store.begin(&run(&id), "{}").unwrap();
            store.add_trial(&id, "trial").unwrap();
            store.finish(&run(&id), &END, "whole").unwrap();
        }
    };
    thread::scope(|scope| (0..4).for_each(|writer| drop(scope.spawn(move || write(writer)))));
    assert_eq!(Store::open(&path).unwrap().list(&Filter::default()).unwrap().len(), 80);
}

#[test]
fn processes_create_a_store_at_once() {
    for _ in 0..50 {
        let (_folder, path) = scratch();
        let start = Barrier::new(4);
        let open = || {
            start.wait();
            drop(Store::open(&path).unwrap());
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(open))));
    }
}

#[test]
fn a_newer_store_is_left_alone() {
    let (_folder, path) = scratch();
    drop(Store::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let messages = [Store::open(&path).unwrap_err().to_string(), Store::open_to_read(&path).unwrap_err().to_string()];
    for message in messages {
        assert!(message.contains("newer version") && message.contains("format 99"), "{message}");
    }
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_file_that_is_no_store_is_called_damaged() {
    let (_folder, path) = scratch();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for content in [b"no database, however long it may be ".repeat(200), b"SQLite format 3\0xx".repeat(100)] {
        fs::write(&path, &content).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert!(fs::read(&path).unwrap() == content);
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = Store::open(&folder.path().join("file/runs.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(Store::open_to_read(&folder.path().join("none")).unwrap().is_none());
}

#[test]
fn a_store_on_a_read_only_medium_can_be_read() {
    let (_folder, path) = scratch();
    let mut store = Store::open(&path).unwrap();
    store.finish(&run("1"), &END, "whole").unwrap();
    drop(store);
    let folder = path.parent().unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
    let read = Store::open_to_read(&path).unwrap().unwrap().document("1").unwrap().document;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(read, "whole");
}
