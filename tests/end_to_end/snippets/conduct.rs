//! How commands of snippets are run: servers stay, measurements are interrupted after a while as
//! Ctrl-C does it, and everything else runs to its end.

use std::time::{Duration, Instant};

use crate::process::{ExitedProcess, until};

use super::markdown::{Block, CommandLine};
use super::world::{Group, World};

/// Measurements that last longer are interrupted.
const PATIENCE_DEFAULT: Duration = Duration::from_millis(1500);
/// A server that has not said by then where it listens has none to say it of.
const START: Duration = Duration::from_secs(5);
/// Commands that have to end by themselves, and interrupted ones, do so within this time.
const END: Duration = Duration::from_secs(30);

/// Load generators of others, which may take as long.
const OTHER_LOADS: [&str; 3] = ["ab", "h2load", "httperf"];

/// The way in which a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// It runs until the end of its snippet, and is then interrupted.
    Stays,
    /// It may be interrupted before its end.
    Measures,
    /// It runs to its end.
    Ends,
}

/// Runs the commands of a block in order and returns their faults.
pub(crate) fn run(block: &Block, world: &mut World) -> Vec<String> {
    if block.contains("thalweg runs") || block.contains("thalweg report") {
        world.store_runs();
    }
    let wanted = block.number("exit");
    let patience =
        block.number("patience").map_or(PATIENCE_DEFAULT, |seconds| Duration::from_secs(seconds.unsigned_abs().into()));
    let mut faults = Vec::new();
    let mut has_wanted = wanted.is_none();
    for CommandLine { line, text } in block.commands() {
        let place = format!("{}:{line}: {}", block.file, text.lines().next().unwrap_or_default());
        prepare(block, &text, world);
        let conduct = conduct_of(&text);
        let line = text.trim_end().trim_end_matches('&');
        let mut group = world.start(line);
        match conduct {
            Conduct::Stays => {
                await_start(&mut group);
                if group.ended().is_some_and(|code| code != 0) {
                    let ended = group.wait(END);
                    has_wanted |= wanted.is_some() && ended.code == wanted;
                    faults.extend(fault(&place, conduct, &ended, false, wanted));
                } else {
                    world.keep(place, group);
                }
            }
            Conduct::Measures | Conduct::Ends => {
                let (ended, is_interrupted) = carry_out(group, conduct, patience);
                // Whether the machine was too busy to tell is not what the block is about.
                has_wanted |= ended.code == wanted || (wanted == Some(1) && ended.code == Some(3));
                faults.extend(fault(&place, conduct, &ended, is_interrupted, wanted));
            }
        }
    }
    if !has_wanted {
        faults.push(format!("{}: no command ended with {wanted:?}, which the block announces", block.place()));
    }
    faults
}

/// Brings about what a command takes for granted: a server where it sends requests to, with the
/// tree of its suite.
fn prepare(block: &Block, command: &str, world: &mut World) {
    let starts_its_own = command.contains("--restart");
    if !starts_its_own {
        ports(command).into_iter().for_each(|port| world.serve_at(port));
    }
    let suite = command.split_once("thalweg suite ").and_then(|(_, rest)| rest.split_whitespace().next());
    if let Some(suite) =
        suite.filter(|suite| !["all", "origin"].contains(suite) && !block.contains(&format!("thalweg files {suite}")))
    {
        world.prepare(&format!("thalweg files {suite} /srv/suite && cp -r /srv/suite/. /srv/mirror/"));
    }
}

/// The ports that a command sends requests to.
fn ports(command: &str) -> Vec<u16> {
    let is_client = ["run", "find", "sweep", "compare", "suite", "replay"]
        .iter()
        .any(|name| command.contains(&format!("thalweg {name} ")));
    if !is_client && !command.starts_with("curl ") && !command.contains("httperf ") {
        return Vec::new();
    }
    let mut ports: Vec<u16> = command
        .split("http://")
        .skip(1)
        .filter_map(|rest| {
            let authority = rest.split(['/', ' ', '\'', '"']).next()?;
            authority.rsplit_once(':').map_or(Some(80), |(_, port)| port.parse().ok())
        })
        .collect();
    for (name, port) in [("URL", 8080), ("URL_A", 8080), ("URL_B", 8081)] {
        let is_named = command.split([' ', '=']).any(|word| word == name);
        ports.extend(is_named.then_some(port));
    }
    ports
}

fn conduct_of(command: &str) -> Conduct {
    let Some((before, arguments)) = command.split_once("thalweg ") else {
        let is_load = OTHER_LOADS.contains(&command.split(' ').next().unwrap_or_default());
        return if is_load { Conduct::Measures } else { Conduct::Ends };
    };
    if !before.is_empty() && before.contains(['|', '&']) {
        return Conduct::Ends;
    }
    let has = |option: &str| arguments.split_whitespace().any(|argument| argument == option);
    let mut words = arguments.split_whitespace();
    match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        ("serve", _) if has("--check") || has("--print-config") => Conduct::Ends,
        ("yardstick", _) if has("--truth") => Conduct::Ends,
        ("serve" | "yardstick" | "observe", _) | ("suite", "origin") => Conduct::Stays,
        ("run" | "find" | "sweep" | "compare" | "suite" | "replay" | "demo" | "disk" | "files" | "doctor", _) => {
            Conduct::Measures
        }
        _ => Conduct::Ends,
    }
}

/// Waits until a server says where it listens, or an observer shows something.
fn await_start(group: &mut Group) {
    let begun = Instant::now();
    until("a server to start", END, || {
        let is_ready = !group.stdout().is_empty() && group.stdout().ends_with('\n');
        (is_ready || group.ended().is_some() || begun.elapsed() > START).then_some(())
    });
}

/// Lets a command run, and interrupts it if it measures for long.
fn carry_out(mut group: Group, conduct: Conduct, patience: Duration) -> (ExitedProcess, bool) {
    let begun = Instant::now();
    if conduct == Conduct::Measures {
        until("a measurement", END + patience, || {
            (group.ended().is_some() || begun.elapsed() > patience).then_some(())
        });
    }
    let is_interrupted = conduct == Conduct::Measures && group.ended().is_none();
    if is_interrupted {
        group.signal("INT");
    }
    (group.wait(END), is_interrupted)
}

/// The fault of an end, if it is one. A measurement that was carried out has any verdict, since
/// this machine is shared; one that was interrupted may have none.
fn fault(
    place: &str,
    conduct: Conduct,
    ended: &ExitedProcess,
    is_interrupted: bool,
    wanted: Option<i32>,
) -> Option<String> {
    let said = ended.stderr.trim();
    let is_good = match (conduct, ended.code) {
        (_, code) if wanted.is_some() && code == wanted => true,
        (Conduct::Measures, Some(0 | 1 | 3)) => true,
        (Conduct::Measures, Some(4)) => is_interrupted || is_lack_of_room(said),
        // A shell around it ends by the signal.
        (Conduct::Measures, None | Some(130)) => is_interrupted,
        (_, Some(0)) => true,
        _ => false,
    };
    (!is_good).then(|| format!("{place}: ended with {:?}: {said}", ended.code))
}

/// `thalweg disk` takes twice the memory of the host, which a world has not: only its arguments are
/// held to anything.
fn is_lack_of_room(said: &str) -> bool {
    said.contains("room") || said.contains("No space left")
}

/// Checks a configuration as `thalweg serve --check` does it, or a session file as `run` reads it.
pub(crate) fn check_toml(block: &Block, world: &mut World) -> Vec<String> {
    let mut text = block.text.join("\n");
    let is_session = block.words.contains_key("session");
    if !is_session && !text.contains("[[site]]") {
        // A fragment says nothing about the files.
        text.push_str("\n\n[[site]]\nroot = \"/srv/mirror\"\n");
    }
    world.prepare(&format!("cat > snippet.toml <<'END_OF_SNIPPET'\n{text}\nEND_OF_SNIPPET\n"));
    let command = if is_session {
        world.serve_at(8080);
        "thalweg run http://127.0.0.1:8080/ --session snippet.toml --conn-rate 10/s --conns 1 --think 0s"
    } else {
        "thalweg serve --config snippet.toml --check"
    };
    let conduct = if is_session { Conduct::Measures } else { Conduct::Ends };
    let (ended, is_interrupted) = carry_out(world.start(command), conduct, PATIENCE_DEFAULT);
    fault(&block.place(), conduct, &ended, is_interrupted, block.number("exit")).into_iter().collect()
}

#[test]
fn commands_are_told_apart() {
    for (command, conduct) in [
        ("thalweg serve /srv/mirror", Conduct::Stays),
        ("thalweg serve --config thalweg.toml --check   # check it", Conduct::Ends),
        ("thalweg run URL", Conduct::Measures),
        ("thalweg suite origin", Conduct::Stays),
        ("thalweg suite all --servers x", Conduct::Measures),
        ("ssh a cat log | thalweg replay - URL", Conduct::Ends),
        ("curl -I http://a/", Conduct::Ends),
        ("thalweg runs", Conduct::Ends),
    ] {
        assert_eq!(conduct_of(command), conduct, "{command}");
    }
}

#[test]
fn servers_are_wanted_where_requests_go() {
    for (command, expected) in [
        ("thalweg run http://127.0.0.1:8180/000 --rate 1/s", &[8180][..]),
        ("thalweg find nginx=URL http://server/ 'http://b:81/x'", &[80, 81, 8080]),
        ("thalweg compare URL_A URL_B", &[8080, 8081]),
        ("thalweg doctor --for 'http://10.0.0.1/'", &[]),
        ("curl -sI http://127.0.0.1:8080/", &[8080]),
    ] {
        assert_eq!(ports(command), expected, "{command}");
    }
}
