//! `thalweg find --restarts`: commands that restart the server, and fail to. `crates/virtual-lab`
//! tests the interval across the searches.

use std::time::Duration;

use crate::document;
use crate::process::{ExitedProcess, Process, free_port, thalweg};
use crate::yardstick_server::yardstick_command;

const SEARCHES_PATIENCE: Duration = Duration::from_secs(120);
/// Short searches, of which none has an overload.
const SHORT: [&str; 8] = ["--duration", "500ms", "--width", "20%", "--budget", "20s", "--overload", "no"];

fn find(port: u16, restarts: &str, command: &str) -> ExitedProcess {
    let url = format!("http://127.0.0.1:{port}/");
    let arguments = ["find", &url, "--json", "--restarts", restarts, "--restart-cmd", command];
    Process::start(&mut thalweg(&[&arguments[..], &SHORT].concat())).wait(SEARCHES_PATIENCE)
}

#[test]
fn a_first_restart_that_fails_is_said() {
    let ended = find(free_port(), "2", "exit 3");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""));
    assert!(ended.stderr.contains("restart 1: \"exit 3\" failed"), "{}", ended.stderr);
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_restart_that_fails_keeps_the_searches_before_it() {
        let port = free_port();
        let command = format!(
            "test {{n}} = 1 || {{ echo no more >&2; exit 7; }}; exec {}",
            yardstick_command(port, "--service 2ms")
        );
        let ended = find(port, "3", &command);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let document = document::of(&ended);
        let reason = document["reasons"][0].as_str().expect("a text");
        assert!(reason.starts_with("restart 2 of 3: ") && reason.contains("no more"), "{reason}");
        assert_eq!(document["find"]["restarts"].as_array().map(Vec::len), Some(1));
        assert_eq!(document["find"]["interval95"], serde_json::Value::Null);
    }
}
