//! A log on a disk that is full for a while.

use std::fs;
use std::io::Write;
use std::process::Command;

use serde_json::Value;

use crate::operation::{Place, body, ended_well, listening};
use crate::process::{PATIENCE, Process, until};

/// Pages of the disk, of 4 KiB each.
const DISK_PAGES: usize = 16;

/// Starts a server in a mount namespace of its own, with a small disk at `disk` in the place.
/// `None` where this is forbidden, which is reported clearly.
fn start(place: &Place, config: &str) -> Option<(Process, String)> {
    let disk = place.path("disk");
    let size = DISK_PAGES * 4096;
    let script = format!("mount -t tmpfs -o size={size} none {disk} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), "serve", "--config", config]);
    let mut server = Process::start(&mut command);
    let starts = until("a server or its end", PATIENCE, || {
        let ended = server.ended().is_some();
        (ended || server.stdout().contains("listening on")).then_some(!ended)
    });
    if starts {
        let address = listening(&mut server, 0);
        return Some((server, address));
    }
    assert!(!server.stderr().contains("thalweg:"), "{}", server.stderr());
    // Not printed by a macro, whose output of tests that succeed is swallowed.
    let why = server.stderr();
    let _ =
        writeln!(std::io::stderr(), "\nSKIPPED: full_disk: this host allows no mounts ({}); run as root", why.trim());
    None
}

#[test]
fn a_full_disk_leaves_no_half_line_and_each_lost_one_is_counted() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    let config = place.path("thalweg.toml");
    let text = "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"disk/access.log\"\n[status]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(&config, format!("{text}[[site]]\nroot = \"{}\"\n", place.path("root"))).unwrap();
    let Some((server, address)) = start(&place, &config) else { return };
    let said = server.stdout();
    let status = said.lines().find_map(|line| line.strip_prefix("status on http://")).unwrap().trim_end_matches('/');
    let lines = || {
        let status: Value = serde_json::from_slice(&body(status, "/status.json")).unwrap();
        let count = |name: &str| status["log"][name].as_u64().unwrap();
        (count("lines_written"), count("lines_lost"))
    };
    // As its namespace sees it.
    let disk = format!("/proc/{}/root{}", server.id(), place.path("disk"));
    let log = format!("{disk}/access.log");
    let mut asked = 0;
    let mut ask = |count: u64| {
        for _ in 0..count {
            // A prime length, so that no page ends with a line.
            assert_eq!(body(&address, &format!("/name?{asked:0>397}")), b"first");
            asked += 1;
        }
        until("the lines", PATIENCE, || {
            let (written, lost) = lines();
            (written + lost == asked).then_some((written, lost))
        })
    };
    assert_eq!(ask(3), (3, 0));
    let whole = |expected: u64| {
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.ends_with('\n'), "half a line: {:?}", &text[text.len() - 100..]);
        let is_whole = |line: &str| line.starts_with("127.0.0.1 - - [") && line.ends_with(" 200 5 \"-\" \"-\"");
        assert!(text.lines().all(is_whole), "{text}");
        assert_eq!(text.lines().count() as u64, expected);
    };
    whole(3);
    let fill = |pages: usize| fs::write(format!("{disk}/filler"), vec![b'x'; pages * 4096]).unwrap();
    // Several times, so that one of the cuts falls into a line.
    let mut before = 3;
    for round in 1..=3 {
        let used = (fs::metadata(&log).unwrap().len() as usize).div_ceil(4096);
        fill(DISK_PAGES - used - 1);
        let (written, lost) = ask(20);
        assert!(lost > 0 && written > before, "round {round}: {written} written, {lost} lost");
        whole(written);
        fs::remove_file(format!("{disk}/filler")).unwrap();
        let (after, lost_after) = ask(3);
        assert_eq!((after, lost_after), (written + 3, lost));
        whole(after);
        before = after;
    }
    server.signal("TERM");
    ended_well(&server.wait(PATIENCE));
}
