//! Targets that are killed while they are measured. Those that collapse under an overload are
//! searched in `crates/virtual-lab`.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::document::{self, outcome};
use crate::drivers::drivers;
use crate::process::{PATIENCE, Process, thalweg, until};
use crate::repetition::{ensure, judged, repeated};
use crate::server::{Server, Tree};

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    /// A run against a server that is killed in the middle was once INVALID, as if the client had
    /// fallen short.
    #[test]
    fn a_server_that_is_killed_in_mid_run_is_a_failure() {
        let tree = Tree::new();
        for load in [
            &["--rate", "300/s"][..],
            &["--rate", "4000/s"],
            &["--conn-rate", "200/s", "--calls", "3"],
            &["--workers", "4"],
            &["--workers", "64"],
            &["--workers", "4", "--think", "5ms"],
            &["--hold", "20", "--think", "20ms"],
        ] {
            for driver in drivers() {
                repeated(|| killed_in_mid_run(&tree, &[load, &["--driver", driver]].concat()));
            }
        }
    }

    fn killed_in_mid_run(tree: &Tree, load: &[&str]) -> Result<(), String> {
        let log = tree.root().with_file_name("access.log");
        let _ = fs::remove_file(&log);
        let server = Server::of(tree, &["--access-log", log.to_str().expect("temporary folders have plain names")]);
        let url = format!("{}/text.txt", server.url);
        let run = Process::start(&mut thalweg(&[&["run", &url], load, &["--duration", "2s", "--json"]].concat()));
        until("the run to be under way", PATIENCE, || fs::metadata(&log).ok().filter(|log| log.len() > 0));
        thread::sleep(Duration::from_millis(700));
        server.process.signal("KILL");
        let ended = judged(run.wait(PATIENCE))?;
        let trial = document::trial(&ended);
        let case = format!("{load:?}: {} {}", trial["reasons"], trial["outcomes"]);
        ensure(outcome(&trial, "refused") > 0 && outcome(&trial, "good") > 0, || case.clone())?;
        assert_eq!((trial["verdict"].as_str(), ended.code), (Some("fail"), Some(1)), "{case}");
        assert!(trial["reasons"][0].as_str().is_some_and(|first| first.contains("refused")), "{case}");
        Ok(())
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_server_that_is_killed_in_a_search_is_a_failure_too() {
        let tree = Tree::new();
        let server = Server::of(&tree, &[]);
        let url = format!("{}/text.txt", server.url);
        let options = ["--connections", "8", "--duration", "2s", "--probe", "500ms", "--recovery", "2s", "--json"];
        let command = [&["find", &url, "--progress", "json"], &options[..]].concat();
        let search = Process::start(&mut thalweg(&command));
        let judged_trials = || search.stdout().matches("\"type\":\"judged\"").count();
        until("a few trials", PATIENCE, || (judged_trials() >= 4).then_some(()));
        server.process.signal("KILL");
        let ended = search.wait(Duration::from_secs(120));
        let result = ended.stdout.lines().last().expect("a stream ends with its result");
        let document: Value = serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        assert_eq!((ended.code, document["verdict"].as_str()), (Some(1), Some("fail")), "{}", document["find"]);
        let trials = document["trials"].as_array().unwrap();
        let refused = trials.iter().filter(|trial| outcome(trial, "refused") > 0 && outcome(trial, "good") == 0);
        let verdicts: Vec<&str> = refused.filter_map(|trial| trial["verdict"].as_str()).collect();
        assert!(!verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == "fail"), "{verdicts:?}");
    }
}
