//! The help that people open first: its size, its groups, its examples.

use std::process::Command;

use crate::process::{PATIENCE, Process, run_thalweg, thalweg};

/// All commands with their subcommands.
const COMMANDS: [&[&str]; 22] = [
    &["run"],
    &["find"],
    &["sweep"],
    &["suite"],
    &["suite", "all"],
    &["suite", "origin"],
    &["compare"],
    &["replay"],
    &["sessions"],
    &["report"],
    &["runs"],
    &["files"],
    &["serve"],
    &["demo"],
    &["observe"],
    &["doctor"],
    &["cache"],
    &["cache", "create"],
    &["cache", "purge"],
    &["disk"],
    &["yardstick"],
    &["schema"],
];

/// The commands that load, whose help is in groups.
const LOADING: [&str; 5] = ["run", "find", "sweep", "compare", "replay"];

/// The help in a terminal of 80 columns.
fn help(arguments: &[&str]) -> String {
    let mut command: Command = thalweg(arguments);
    let ended = Process::start(command.env("COLUMNS", "80").env("LINES", "40")).wait(PATIENCE);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{arguments:?}");
    ended.stdout
}

#[test]
fn short_help_fits_a_screen() {
    for command in COMMANDS {
        let text = help(&[command, &["-h"]].concat());
        let lines = text.lines().count();
        assert!(lines <= 40, "{command:?} has {lines} lines:\n{text}");
        // clap does not wrap the usage.
        let lines = text.lines().filter(|line| !line.starts_with("Usage: "));
        let widest = lines.max_by_key(|line| line.chars().count()).unwrap_or_default();
        assert!(widest.chars().count() <= 80, "{command:?}: {widest}");
    }
    for option in ["-h", "--help"] {
        let text = help(&[option]);
        assert!(text.lines().count() <= 50 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in ["Measure a server:", "Serve:", "Results:", "Examples:\n  thalweg run", "Exit codes:\n  0"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn long_help_is_in_groups_with_an_example_each() {
    for command in LOADING {
        let text = help(&[command, "--help"]);
        let groups: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_suffix(':'))
            .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()) && line.contains(", as in "))
            .collect();
        assert!(groups.len() >= 5, "{command}: {groups:?}");
        for group in groups {
            let (_, example) = group.split_once(", as in ").unwrap();
            for option in example.split(' ').filter(|word| word.starts_with("--")) {
                assert!(text.contains(&format!(" {option} <")), "{command} has no {option} of its example: {group}");
            }
        }
        for part in [&*format!("Examples:\n  thalweg {command} "), "Exit codes: 0 "] {
            assert!(text.contains(part), "{command} lacks {part}: {text}");
        }
    }
}

/// Options without an effect were once listed, and some of them accepted.
#[test]
fn replay_has_no_option_that_its_log_makes_meaningless() {
    let text = help(&["replay", "--help"]);
    for option in
        ["--urls", "--pick", "--method", "--body", "--calls", "--arrivals", "--seed", "--curl", "--rate", "--duration"]
    {
        assert!(!text.contains(&format!(" {option} <")), "{option}: {text}");
        let ended = run_thalweg(&["replay", "/dev/null", "http://127.0.0.1:1/", option, "1"]);
        assert_eq!(ended.code, Some(2), "{option}: {ended:?}");
        assert!(ended.stderr.contains("the log determines the requests and their times"), "{option}: {ended:?}");
    }
    for option in ["--speed", "--connections", "--timeout", "--header", "--limit", "--check", "--http", "--out"] {
        assert!(text.contains(&format!(" {option} <")), "{option}: {text}");
    }
}

/// A value that is wrong is shown as it was written, with what to write instead.
#[test]
fn wrong_values_are_answered_in_the_unit_of_their_option() {
    let url = "http://127.0.0.1:1/";
    for (arguments, parts) in [
        (&["run", url, "--rate", "5m"][..], &["5m", "/m"][..]),
        (&["run", url, "--rate", "5/d"], &["5/d", "/s, /m, /h"]),
        (&["run", url, "--duration", "10x"], &["`10x`", "ms, s, m, h"]),
        (&["run", url, "--throttle", "56"], &["`56`", "kbit"]),
        (&["run", url, "--throttle", "33.6KB/s"], &["`KB/s` may count bytes", "kbit"]),
        (&["run", url, "--rtt", "50"], &["`50`", "no unit"]),
        (&["run", url, "--streams", "99999999999"], &["99999999999", "4294967295"]),
        (&["run", url, "--retry-refused", "300"], &["300", "0 to 255"]),
        (&["run", url, "--seed", "x"], &["--seed", "whole number"]),
        (&["run", url, "--limit", "p99<50"], &["p99<50", "no unit"]),
        (&["run", url, "--limit", "errors<1"], &["errors<1", "%"]),
        (&["run", url, "--http", "3"], &["'3'", "1.0, 1.1, 2"]),
        (&["run", url, "--cores", "x"], &["x", "0,2-3"]),
        (&["run", url, "--from", "here"], &["here", "127.0.0.2"]),
        (&["run", url, "--unix-socket", ""], &["--unix-socket"]),
        (&["run", url, "--tls-min", "1.4"], &["1.4", "1.2, 1.3"]),
        (&["run", url, "--header", "x"], &["'x'", "Name: value"]),
        (&["run", url, "--body", "@"], &["'@'", "@-"]),
        (&["find", url, "--width", "3"], &["`3`", "%"]),
        (&["find", url, "--restarts", "200", "--restart-cmd", "x"], &["200", "2 to 100"]),
        (&["find", url, url, "--unix-socket", "/x"], &["--unix-socket takes one URL"]),
        (&["compare", url, url, "--rounds", "3"], &["'3'", "auto"]),
        (&["compare", url, url, "--detect", "2"], &["`2`", "%"]),
        (&["sweep", url, "--low-rate", "0", "--high-rate", "2", "--step", "1"], &["--low-rate", "`0`", "above zero"]),
        (&["replay", "log", url, "--speed", "0"], &["'0'", "twice as fast"]),
        (&["serve", "-p", "70000"], &["70000", "0 to 65535"]),
        (&["serve", "--listen", "example.org:80"], &["example.org:80", "names are not looked up"]),
        (&["serve", "--listen", "127.0.0.1"], &["127.0.0.1", "127.0.0.1:8080"]),
        (&["serve", "--tls", "x"], &["'x'", "CERT:KEY"]),
        (&["serve", "--drain", "soon"], &["soon", "--drain"]),
        (&["serve", "--status", "x"], &["'x'", "127.0.0.1:9180"]),
        (&["sessions", "log", "--gap", "1.5"], &["1.5", "whole seconds"]),
        (&["sessions", "log", "--sample", "5"], &["`5`", "%"]),
        (&["runs", "--prune", "90"], &["'90'", "90d"]),
        (&["files", "mirror", "/x", "--size", "200G"], &["200G", "GiB"]),
        (&["disk", "/", "--block", "8k"], &["8k", "KiB"]),
        (&["disk", "/", "--streams", "0"], &["'0'", "1 to 1024"]),
        (&["observe", "--port", "70000"], &["70000", "1 to 65535"]),
        (&["observe", "--interval", "10ms"], &["10ms", "100ms"]),
        (&["yardstick", "--slow-factor", "x"], &["'x'", "above 0"]),
        (&["yardstick", "--stall", "1s"], &["1s", "1s every 10s"]),
        (&["suite", "webbench", url, "--clients", "0"], &["'0'", "1 to 100000"]),
        (&["suite", "webbench", url, "--scale", "2"], &["'2'", "up to 1"]),
        (&["doctor", "--for", "hold"], &["hold", "number of connections"]),
    ] {
        let ended = run_thalweg(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{arguments:?}: {ended:?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?} lacks {part:?}: {}", ended.stderr);
        }
    }
}
