//! Settings of made-up hosts are changed and put back, with failures and interruptions.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::host::sysctl_path;
use crate::host::tests::FakeHost;

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

struct Bench {
    fake: FakeHost,
    state: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let fake = FakeHost::with_sysctls(&[
            ("net.core.somaxconn", "128"),
            ("net.ipv4.ip_local_port_range", "32768\t60999"),
            ("net.ipv4.tcp_tw_reuse", "2"),
        ]);
        fake.write(BOOT, "first\n");
        fake.write("/proc/self/ns/mnt", "");
        symlink("net:[1]", fake.host.path("/proc/self/ns/net")).unwrap();
        Self { fake, state: tempfile::tempdir().unwrap() }
    }

    fn host(&self) -> &Host {
        &self.fake.host
    }

    fn fix(&self, changes: &[Change]) -> Vec<Step> {
        fix(self.host(), self.state.path(), changes, |_| {}).unwrap()
    }

    fn undo(&self) -> Option<Vec<Step>> {
        undo(self.host(), self.state.path(), |_| {}).unwrap()
    }

    fn value(&self, name: &str) -> String {
        self.host().sysctl(name).unwrap()
    }

    fn record_exists(&self) -> bool {
        self.state.path().join("doctor-undo.json").exists()
    }
}

fn change(name: &str, value: &str) -> Change {
    Change { path: sysctl_path(name), value: value.to_owned() }
}

fn usual() -> Vec<Change> {
    vec![
        change("net.core.somaxconn", "4096"),
        change("net.ipv4.ip_local_port_range", "1024 65535"),
        change("net.ipv4.tcp_tw_reuse", "2"),
    ]
}

#[test]
fn what_is_fixed_is_put_back_exactly() {
    let bench = Bench::new();
    let steps = bench.fix(&usual());
    assert!(matches!(
        [&steps[0].outcome, &steps[1].outcome, &steps[2].outcome],
        [Outcome::Done, Outcome::Done, Outcome::AsBefore]
    ));
    assert_eq!((bench.value("net.core.somaxconn"), steps[0].before.as_deref()), ("4096".to_owned(), Some("128")));
    let steps = bench.undo().unwrap();
    assert_eq!(steps.len(), 2, "a setting that was as wanted has nothing to put back");
    assert_eq!(
        fs::read_to_string(bench.host().path(&sysctl_path("net.ipv4.ip_local_port_range"))).unwrap(),
        "32768\t60999\n"
    );
    assert_eq!(bench.value("net.core.somaxconn"), "128");
    assert!(!bench.record_exists());
    assert!(bench.undo().is_none(), "there is nothing left to undo");
}

#[test]
fn a_second_fix_keeps_the_values_from_before_the_first() {
    let bench = Bench::new();
    bench.fix(&usual());
    bench.fix(&[change("net.core.somaxconn", "8192")]);
    assert_eq!(bench.value("net.core.somaxconn"), "8192");
    bench.undo();
    assert_eq!(bench.value("net.core.somaxconn"), "128");
}

#[test]
fn a_setting_that_somebody_else_has_changed_since_is_left_alone() {
    let bench = Bench::new();
    bench.fix(&usual());
    bench.fake.write(&sysctl_path("net.core.somaxconn"), "1000\n");
    let steps = bench.undo().unwrap();
    let of_queue = steps.iter().find(|step| step.path.ends_with("somaxconn")).unwrap();
    assert!(
        matches!(&of_queue.outcome, Outcome::ChangedSince { written: Some(value) } if value == "4096"),
        "{of_queue:?}"
    );
    assert_eq!(bench.value("net.core.somaxconn"), "1000");
    assert_eq!(bench.value("net.ipv4.ip_local_port_range"), "32768\t60999");
}

#[test]
fn a_failure_with_one_setting_does_not_stop_the_others() {
    let bench = Bench::new();
    let steps = bench.fix(&[&[change("net.ipv4.absent", "1")], &usual()[..]].concat());
    assert!(steps[0].failed() && matches!(steps[1].outcome, Outcome::Done), "{steps:?}");
    assert_eq!(bench.undo().unwrap().len(), 2, "the one that failed has nothing to put back");
}

#[test]
fn an_interruption_at_any_point_can_be_undone() {
    // The record of a fix that was killed before its first, between two, and after its last write.
    for written in 0..=2 {
        let bench = Bench::new();
        let store = Store::open(bench.state.path()).unwrap();
        let mut record = Record::of(bench.host());
        for change in usual() {
            record.plan(&change, read(bench.host(), &change.path));
        }
        store.write(&record).unwrap();
        drop(store);
        usual().iter().take(written).for_each(|change| write(bench.host(), &change.path, Some(&change.value)).unwrap());
        // Half of a record that was being replaced lies beside it.
        fs::write(bench.state.path().join(".doctor-undo.json.partial"), "{").unwrap();
        assert!(bench.undo().unwrap().iter().all(|step| !step.failed()));
        assert_eq!(bench.value("net.core.somaxconn"), "128", "after {written} writes");
        assert_eq!(bench.value("net.ipv4.ip_local_port_range"), "32768\t60999", "after {written} writes");
        assert!(!bench.record_exists());
    }
}

#[test]
fn a_restart_of_the_host_undoes_by_itself() {
    let bench = Bench::new();
    bench.fix(&usual());
    bench.fake.write(BOOT, "second\n");
    bench.fake.write(&sysctl_path("net.core.somaxconn"), "4096\n");
    assert_eq!(bench.undo().map(|steps| steps.len()), Some(0), "4096 is somebody's setting at the start now");
    assert_eq!(bench.value("net.core.somaxconn"), "4096");
    assert!(!bench.record_exists());
}

#[test]
fn settings_of_another_network_are_not_put_back_here() {
    let bench = Bench::new();
    bench.fix(&usual());
    fs::remove_file(bench.host().path("/proc/self/ns/net")).unwrap();
    symlink("net:[2]", bench.host().path("/proc/self/ns/net")).unwrap();
    assert!(bench.undo().unwrap().iter().all(|step| matches!(step.outcome, Outcome::Elsewhere)));
    assert_eq!(bench.value("net.core.somaxconn"), "4096");
    assert!(bench.record_exists(), "it can still be undone where it was done");
}

#[test]
fn settings_are_kept_across_restarts_only_where_asked_for() {
    let bench = Bench::new();
    assert!(persisted(bench.host(), &[Change { path: "/sys/x".to_owned(), value: "1".to_owned() }]).is_none());
    let kept = persisted(bench.host(), &usual()).unwrap();
    assert!(kept.value.contains("net.ipv4.ip_local_port_range = 1024 65535\n"), "{}", kept.value);
    bench.fix(&[&usual()[..], &[kept]].concat());
    let again = persisted(bench.host(), &[change("net.core.somaxconn", "9999")]).unwrap();
    assert!(
        again.value.contains("somaxconn = 9999\n") && again.value.contains("tcp_tw_reuse = 2\n"),
        "{}",
        again.value
    );
    assert_eq!(again.value.matches("somaxconn").count(), 1);
    bench.fake.write(BOOT, "second\n");
    bench.undo();
    assert!(!bench.host().path(PERSISTED).exists(), "a file outlives the restart, and is removed");
}

#[test]
fn two_at_once_and_a_full_or_foreign_record_change_nothing() {
    let bench = Bench::new();
    let first = Store::open(bench.state.path()).unwrap();
    let second = fix(bench.host(), bench.state.path(), &usual(), |_| {});
    assert!(matches!(second, Err(RecordError::Busy(_))), "{second:?}");
    drop(first);
    fs::write(
        bench.state.path().join("doctor-undo.json"),
        "{\"schema\":\"thalweg.undo/2\",\"boot\":\"\",\"network\":\"\",\"entries\":[]}",
    )
    .unwrap();
    let newer = fix(bench.host(), bench.state.path(), &usual(), |_| {});
    assert!(matches!(newer, Err(RecordError::Malformed { .. })), "{newer:?}");
    let no_folder = fix(bench.host(), Path::new("/dev/null/state"), &usual(), |_| {});
    assert!(matches!(no_folder, Err(RecordError::Io { .. })), "{no_folder:?}");
    assert_eq!(bench.value("net.core.somaxconn"), "128");
}

#[test]
fn a_record_of_another_user_is_not_trusted() {
    let bench = Bench::new();
    bench.fix(&usual());
    let record = bench.state.path().join("doctor-undo.json");
    // Only root can give a file away.
    if std::os::unix::fs::chown(&record, Some(12_345), None).is_ok() {
        let undone = undo(bench.host(), bench.state.path(), |_| {});
        assert!(matches!(undone, Err(RecordError::Foreign { owner: 12_345, .. })), "{undone:?}");
        assert_eq!(bench.value("net.core.somaxconn"), "4096");
    }
}

#[test]
fn proposals_of_two_findings_become_one() {
    let set = |level, value: u64| Finding::of(level, "", "").set("net.core.somaxconn", value);
    let findings = [set(Level::Warning, 4096), set(Level::Error, 8192), set(Level::Hint, 65_536)];
    assert_eq!(proposed(&findings, Level::Warning), [change("net.core.somaxconn", "8192")]);
    assert_eq!(proposed(&findings, Level::Hint), [change("net.core.somaxconn", "65536")]);
}

#[test]
fn the_record_has_its_place() {
    for (xdg, home, expected) in [
        (Some("/s"), Some("/h"), "/s/thalweg"),
        (Some("relative"), Some("/h"), "/h/.local/state/thalweg"),
        (None, None, "/var/lib/thalweg"),
    ] {
        assert_eq!(state_folder(xdg, home), Path::new(expected));
    }
    let bench = Bench::new();
    bench.fix(&usual());
    let mode = fs::metadata(bench.state.path().join("doctor-undo.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o022, 0, "others cannot write what root will put back");
}
