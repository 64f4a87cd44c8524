//! The help of the top level: the commands in groups, examples, exit codes.

use std::fmt::Write;

use clap::Command;

/// The commands by purpose. One that is in none of these groups stands in a group of its own.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure a server", &["run", "find", "sweep", "compare", "replay", "suite", "demo"]),
    ("Serve", &["serve", "cache", "yardstick"]),
    ("Results", &["report", "runs", "schema"]),
    ("Hosts and input files", &["doctor", "observe", "disk", "sessions", "files"]),
];

const OTHERS: &str = "Other commands";

const EXAMPLES: &str = "\
Examples:
  thalweg run http://127.0.0.1:8080/ -c 64 -d 10     64 connections for 10 s
  thalweg run http://127.0.0.1:8080/ -r 500 -d 10    500 requests per second
  thalweg find http://127.0.0.1:8080/                its capacity
  thalweg serve                                      this folder, at port 8080

Exit codes:
  0  it worked, and every limit was met
  1  a limit was not met
  2  wrong usage, configuration or input file
  3  the measurement is INVALID: the client, not the target, fell short
  4  the target is unreachable, or this host lacks something

thalweg COMMAND -h shows the usual options of a command, --help all of them.";

/// The command with its own help.
pub(super) fn with_overview(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let visible = || command.get_subcommands().filter(|known| !known.is_hide_set());
    let width = visible().map(|known| known.get_name().len()).max().unwrap_or(0);
    let mut groups = String::new();
    let mut write_group = |title: &str, members: &mut dyn Iterator<Item = &Command>| {
        let mut members = members.peekable();
        if members.peek().is_none() {
            return;
        }
        let _ = writeln!(groups, "{header}{title}:{header:#}");
        for member in members {
            let name = member.get_name();
            let about = member.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {literal}{name:<width$}{literal:#}  {about}");
        }
        groups.push('\n');
    };
    for (title, names) in GROUPS {
        write_group(title, &mut names.iter().filter_map(|name| visible().find(|known| known.get_name() == *name)));
    }
    let is_other = |known: &&Command| !GROUPS.iter().any(|(_, names)| names.contains(&known.get_name()));
    write_group(OTHERS, &mut visible().filter(is_other));
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template).after_help(EXAMPLES)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::options::Options;

    #[test]
    fn each_command_is_in_one_group() {
        let help = with_overview(Options::command()).render_help().to_string();
        assert!(!help.contains(OTHERS), "{help}");
        for (title, names) in GROUPS {
            assert!(help.contains(&format!("{title}:\n")), "{help}");
            for name in names {
                assert_eq!(help.matches(&format!("\n  {name} ")).count(), 1, "{name}: {help}");
            }
        }
        assert!(help.contains("Exit codes:\n  0") && help.contains("Examples:\n  thalweg run"), "{help}");
    }
}
