//! ACME's downloads at the speed of a modem: how many at once a server carries.

use thalweg_report::document::Unit;
use thalweg_units::display;
use thalweg_wire::Version;

use super::held::{self, HoldRules};
use super::stage::{Stage, Stop};

/// The name of the figure.
const CONNECTIONS: &str = "connections";
/// The modem's speed.
const MODEM_BITS_PER_S: u64 = 33_600;
/// The share of the pace from which on a connection makes its rate: reads are pieces, of which the
/// window's ends cut one.
const CONFORMING_SHARE: f64 = 0.95;

/// Searches the most downloads at 33.6 kbit/s.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Stop> {
    stage.declare(CONNECTIONS, "max connections", Unit::Connections);
    search(stage, CONNECTIONS, MODEM_BITS_PER_S)
}

/// Searches the most downloads at this pace, with the rules of the document.
pub(super) fn search(stage: &mut Stage<'_>, figure: &str, pace_bits_per_s: u64) -> Result<(), Stop> {
    let conforming_bits_per_s = (pace_bits_per_s as f64 * CONFORMING_SHARE) as u64;
    stage.choose(format!(
        "a download reads {}, counts while it makes {} or more, and takes a file from the first byte; when it ends the \
         connection requests the next one",
        display::link_rate(pace_bits_per_s),
        display::link_rate(conforming_bits_per_s)
    ));
    stage.choose(
        "a number of connections is held if all are open at the end of a window of 30 s, all have made their rate, and \
         no request has failed; a number that is missed is tried twice; the document does not say how long connections \
         were held",
    );
    stage.choose("HTTP/1.1 with connections that are kept: a download outlasts the window, its end is not measured");
    stage.choose(
        "clients read slowly from the socket, with a receive window of a few reads, as a modem would drain it; the link \
         is not slowed, so delays and losses of a telephone line are not simulated",
    );
    let scaled = stage.settings.scaled("the window of a step is shorter, but at least 2 s");
    stage.measured.choices.extend(scaled);
    held::search(
        stage,
        figure,
        HoldRules { pace_bits_per_s, conforming_bits_per_s, errors_below: 0.0, version: Version::Http11 },
    )
}
