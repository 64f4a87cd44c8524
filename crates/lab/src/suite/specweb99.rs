//! A load like SPECweb99's, not SPEC-compliant: the most simultaneous connections that conform,
//! each on a line of 400,000 bit/s and with at least 320,000 bit/s of it.

use thalweg_load::CONFORMING_BITS_PER_S;
use thalweg_report::document::Unit;
use thalweg_units::display;
use thalweg_wire::Version;

use super::held::{self, HoldRules};
use super::stage::{Stage, Stop};

/// The name of the figure.
const CONNECTIONS: &str = "connections";
/// The line of a connection.
const LINE_BITS_PER_S: u64 = 400_000;
/// The share of requests below which errors have to be.
const ERRORS_BELOW: f64 = 0.01;

/// Searches the most connections that conform.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Stop> {
    stage.declare(CONNECTIONS, "simultaneous conforming connections", Unit::Connections);
    choose(stage);
    let rules = HoldRules {
        pace_bits_per_s: LINE_BITS_PER_S,
        conforming_bits_per_s: CONFORMING_BITS_PER_S,
        errors_below: ERRORS_BELOW,
        version: Version::Http11,
    };
    let ended = held::search(stage, CONNECTIONS, rules);
    let within = stage.figure(CONNECTIONS).value.zip(stage.tree.settings().load);
    if let Some((found, load)) = within.filter(|(found, load)| found > load) {
        stage.measured.reasons.push(format!(
            "the tree was too small: it was made for {} connections, and {} conformed; SPECweb99's run rules have the tree \
             grow with the load: write it again with `thalweg files specweb99 DIR --load {found}` and measure with --load \
             {found}",
            display::count(load as u64),
            display::count(found as u64)
        ));
    }
    ended
}

fn choose(stage: &mut Stage<'_>) {
    stage.choose(
        "not SPEC-compliant: SPECweb99-like in its file set, its popularity (Zipf over directories, shares of classes and \
         files), its line speed and its condition on connections, and in nothing else",
    );
    stage.choose(format!(
        "a connection reads {} at most, and conforms from {} on; all connections of a step have to conform, with less than \
         1 % of errors among their requests",
        display::link_rate(LINE_BITS_PER_S),
        display::link_rate(CONFORMING_BITS_PER_S)
    ));
    stage.choose(
        "a step is held for a window of 30 s, where SPECweb99 has a warm-up and runs of 20 minutes, three of them; the \
         number of connections is searched, where SPECweb99 has it given",
    );
    stage.choose(
        "HTTP/1.1 with connections that are kept for as long as the server keeps them, where SPECweb99 mixes HTTP/1.0 with \
         and without keep-alive and ends kept connections after some requests",
    );
    stage.choose(match &stage.settings.dynamic {
        None => "the static share alone: the 30 % of dynamic GET and POST requests are not made".to_owned(),
        Some(path) => format!(
            "30 % of the requests are dynamic and go to {path}: 12.45 % standard GET, 12.6 % custom GET with ad rotation, \
             0.15 % CGI GET, 4.8 % POST; the server behind that path answers with as many bytes as the file has; each \
             client shows the same cookie, whatever cookie the last response had"
        ),
    });
    let scaled = stage.settings.scaled("the window of a step is shorter, but at least 2 s");
    stage.measured.choices.extend(scaled);
}
