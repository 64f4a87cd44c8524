//! Options of `thalweg compare`.

use std::time::Duration;

use clap::Args;
use thalweg_lab::compare::Scale;
use thalweg_lab::compare::metric::Metric;
use thalweg_units::{parse_percent, parse_rate, parse_seconds};

use super::find::NamedUrl;
use super::headings::{ROUNDS, SIDES};
use super::load::LoadOptions;
use super::output::OutputOptions;
use super::request::RequestOptions;
use super::values::{parse_length, positive};

const EXAMPLES: &str = "\
Examples:
  thalweg compare http://127.0.0.1:8080/ http://127.0.0.1:8081/
  thalweg compare URL --restart-a './server --old' --restart-b './server --new'";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg compare http://127.0.0.1:8080/ http://127.0.0.1:8081/
  thalweg compare http://127.0.0.1:8080/ http://127.0.0.1:8081/ --metric p99 --rate 2000 --detect 5%
  thalweg compare http://127.0.0.1:8080/ --restart-a './server --old' --restart-b './server --new'
  thalweg compare http://127.0.0.1:8080/ --switch-cmd './set-sendfile {side} && nginx -s reload'
  thalweg compare http://127.0.0.1:8080/ --scale cores=1,2,4 --restart-cmd 'taskset -c 0-$(({n}-1)) ./server'
  thalweg compare URL_A URL_B --metric throughput --workers 64 --max-regression 2%
  thalweg compare nginx=URL_A apache=URL_B

The first --metric is the primary one: the answer and the number of rounds rest on it. Metrics: cpu_per_request (the server's CPU
time, if its processes are visible), client_cpu_per_request, capacity, throughput, bytes_per_s, and response times as p50, p99, p99.9,
mean, max (service_p99 and so on: service times). Without a load in the options, times and CPU are measured at 60 % of what the slower
side carries in a closed loop, throughput in a closed loop. docs/comparing.md describes the method.

Exit codes: 0 it worked (whatever the difference), 1 --max-regression is exceeded, a side went
away or gives no good response, 2 wrong usage, 3 INVALID (too
few valid rounds, or interrupted), 4 a target cannot be reached or a command failed.";

/// Options of `thalweg compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MORE_EXAMPLES, next_help_heading = ROUNDS)]
pub(crate) struct CompareOptions {
    /// URL of side A, or of the one server that has both sides
    ///
    /// NAME=URL names the side in texts and reports, in the place of A.
    #[arg(value_parser = NamedUrl::parse, help_heading = None::<&str>)]
    pub url_a: NamedUrl,
    /// URL of side B
    #[arg(value_parser = NamedUrl::parse, conflicts_with = "switch_cmd", help_heading = None::<&str>)]
    pub url_b: Option<NamedUrl>,
    /// Command that restarts side A, or is its server
    ///
    /// Before each of its rounds; run by sh, with THALWEG_SIDE=A.
    #[arg(long, value_name = "CMD", requires = "restart_b", help_heading = SIDES)]
    pub restart_a: Option<String>,
    /// The same for side B
    #[arg(long, value_name = "CMD", requires = "restart_a", help_heading = SIDES)]
    pub restart_b: Option<String>,
    /// Command that switches the one server between A and B
    ///
    /// {side} in it, $1 and $THALWEG_SIDE are A or B.
    #[arg(long, value_name = "CMD", conflicts_with = "restart_a", help_heading = SIDES)]
    pub switch_cmd: Option<String>,
    /// Switch only once: all rounds of A, then all of B; drift then cannot be told from the effect
    #[arg(long, requires = "switch_cmd", help_heading = SIDES, hide_short_help = true)]
    pub once: bool,
    /// Levels of a scaling, such as cores=1,2,4
    ///
    /// Compares them all and fits the serial share.
    #[arg(long, value_name = "[NAME=]N,N,...", value_parser = parse_scale, requires = "restart_cmd",
        conflicts_with_all = ["url_b", "restart_a", "switch_cmd", "max_regression"], help_heading = SIDES, hide_short_help = true)]
    pub scale: Option<Scale>,
    /// Command that restarts the server at a level of --scale: {n} in it, $1 and $THALWEG_N are the
    /// level
    #[arg(long, value_name = "CMD", requires = "scale", help_heading = SIDES, hide_short_help = true)]
    pub restart_cmd: Option<String>,
    /// Time for a server to accept connections after its command
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "30s", help_heading = SIDES, hide_short_help = true)]
    pub restart_timeout: Duration,
    /// Metric to compare, such as p99 or throughput
    ///
    /// Repeatable, the first one is primary [default: cpu_per_request if the server's processes are
    /// visible, p99, throughput]
    #[arg(long = "metric", value_name = "METRIC")]
    pub metrics: Vec<Metric>,
    /// Open loop: requests per second
    #[arg(short, long, short_alias = 'R', aliases = ["qps", "query-per-second"], value_name = "RATE", value_parser = parse_rate, conflicts_with = "workers")]
    pub rate: Option<f64>,
    /// Closed loop: number of workers
    #[arg(long, aliases = ["vus", "users", "clients"], value_name = "N", value_parser = positive, hide_short_help = true)]
    pub workers: Option<usize>,
    /// Measured part of each round
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = parse_length, default_value = "2s")]
    pub duration: Duration,
    /// Unmeasured warm-up of each round at the same load
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "500ms", hide_short_help = true)]
    pub warmup: Duration,
    /// Pairs of rounds, or auto
    ///
    /// As many as --detect needs.
    #[arg(long, value_name = "N", value_parser = parse_rounds, default_value = "auto")]
    pub rounds: RoundsOption,
    /// Smallest difference that is to be seen
    ///
    /// With a probability of 80 %.
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "2%", hide_short_help = true)]
    pub detect: f64,
    /// Maximum total time of all rounds [default: 5m, or unlimited with --rounds N]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub budget: Option<Duration>,
    /// Exit with 1 if B is worse by more than this
    ///
    /// Than A, in the primary metric.
    #[arg(long, value_name = "SHARE", value_parser = parse_percent)]
    pub max_regression: Option<f64>,
    /// The requests.
    #[command(flatten)]
    pub request: RequestOptions,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// The number of pairs of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundsOption {
    /// As many as it takes.
    Auto,
    /// This number.
    Fixed(usize),
}

/// Fewer pairs cannot show a difference.
const PAIRS_MIN: usize = thalweg_measure::statistics::rounds::PAIRS_MIN;

fn parse_rounds(text: &str) -> Result<RoundsOption, String> {
    match text.parse() {
        _ if text == "auto" => Ok(RoundsOption::Auto),
        Ok(pairs) if pairs >= PAIRS_MIN => Ok(RoundsOption::Fixed(pairs)),
        _ => Err(format!("expected auto, or a number of pairs of at least {PAIRS_MIN}; fewer can show no difference")),
    }
}

/// The parameter of a scaling that has no name.
const SCALE_PARAMETER: &str = "n";

fn parse_scale(text: &str) -> Result<Scale, String> {
    let (parameter, list) = text.split_once('=').unwrap_or((SCALE_PARAMETER, text));
    let wrong = || format!("{text:?} is not a scaling; expected ascending levels such as cores=1,2,4");
    let levels: Vec<u32> = list.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let is_ascending = levels.windows(2).all(|two| two[0] < two[1]);
    if levels.len() < 2 || levels[0] == 0 || !is_ascending || parameter.is_empty() {
        return Err(wrong());
    }
    Ok(Scale { parameter: parameter.to_owned(), levels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalings_are_ascending_levels() {
        let scale = parse_scale("cores=1,2,4").unwrap();
        assert_eq!((scale.parameter.as_str(), &scale.levels[..]), ("cores", &[1, 2, 4][..]));
        assert_eq!(parse_scale("1,2").unwrap().parameter, SCALE_PARAMETER);
        for wrong in ["", "1", "2,1", "1,1", "0,1", "cores=", "=1,2", "a,b"] {
            assert!(parse_scale(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn rounds_are_a_number_that_can_show_something() {
        assert_eq!(parse_rounds("auto"), Ok(RoundsOption::Auto));
        assert_eq!(parse_rounds("8"), Ok(RoundsOption::Fixed(8)));
        for wrong in ["", "7", "many", "-8"] {
            assert!(parse_rounds(wrong).is_err(), "{wrong:?}");
        }
    }
}
