//! The `thalweg` command: arguments become one checked plan, the plan runs, and its result is
//! printed.
//!
//! Only this crate reads arguments, prints and exits. A command is a function from its arguments to
//! an exit code; all faults in arguments and files are found before a socket opens.
#![forbid(unsafe_code)]

mod arrivals;
mod byte_progress;
mod cache;
mod client_tls;
mod command_line;
mod compare;
mod compare_text;
mod configuration;
mod curl;
mod demo;
mod disk;
mod doctor;
mod exit;
mod files;
mod find;
mod format;
mod interrupt;
mod length;
mod load_options;
mod log_file;
mod manual;
mod observe;
mod options;
mod output;
mod page;
mod pipelines;
mod preflight;
mod progress;
mod purge_online;
mod reach;
mod replay;
mod report;
mod requests;
mod run;
mod runs;
mod second_client;
mod secret_file;
mod serve;
mod sessions;
mod standard_input;
mod stored_objects;
mod stored_run;
mod style;
mod suite;
mod suite_table;
mod suite_text;
mod sweep;
mod table;
mod terminal;
mod text;
mod yardstick;

use std::process::ExitCode;

use crate::options::Command;

fn main() -> ExitCode {
    let options = match command_line::read() {
        Ok(options) => options,
        Err(code) => return code,
    };
    options.color.apply();
    let ended = match &options.command {
        Command::Run(options) => run::run(options),
        Command::Find(options) => find::find(options),
        Command::Sweep(options) => sweep::sweep(options),
        Command::Suite(options) => suite::suite(options),
        Command::Compare(options) => compare::compare(options),
        Command::Replay(options) => replay::replay(options),
        Command::Sessions(options) => sessions::sessions(options),
        Command::Report(options) => report::report(options),
        Command::Runs(options) => runs::runs(options),
        Command::Files(options) => files::files(options),
        Command::Serve(options) => serve::serve(options),
        Command::Demo(options) => demo::demo(options),
        Command::Observe(options) => observe::observe(options),
        Command::Cache(options) => cache::cache(options),
        Command::Disk(options) => disk::disk(options),
        Command::Doctor(options) => doctor::doctor(options),
        Command::Yardstick(options) => yardstick::yardstick(options),
        Command::Schema => output::schema(),
        Command::Completions(options) => manual::completions(options),
        Command::Man(options) => manual::man(options),
    };
    ended.unwrap_or_else(|failure| {
        if let Some((command, options)) = options.command.output() {
            output::give_out_failure(command, &failure, options);
        }
        failure.report()
    })
}
