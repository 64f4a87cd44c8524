//! The time that other programs or the hypervisor took from a trial, in the document's words.

use std::time::Duration;

use thalweg_measure::trial::TrialFigures;
use thalweg_report::document::SpoiledSecond;
use thalweg_units::display;

use crate::environment::{CpuUseOfOthers, Taken};

/// The time that other programs, or the hypervisor, took from a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// The time that the judgement rests on.
    pub clean: Duration,
    /// The time that was left out.
    pub lost: Duration,
    /// The seconds of which some was left out.
    pub seconds: Vec<SpoiledSecond>,
}

impl Disturbance {
    pub(super) fn of(figures: &TrialFigures, others: &CpuUseOfOthers) -> Self {
        let seconds = figures.left_out.seconds().map(|(second, lost)| {
            let cpu = lost.cpu as usize;
            let waited = lost.waited_ns as f64 / 1e9;
            let (amount, cause) = cause_of(others.in_second(second, cpu), waited, cpu, others);
            SpoiledSecond { t: second as f64, lost_s: lost.lost_ns as f64 / 1e9, cause, amount }
        });
        Self { clean: figures.clean(), lost: figures.left_out.total(), seconds: seconds.collect() }
    }

    /// The disturbance as a whole, in words; `None` if there was none.
    pub(super) fn summary(figures: &TrialFigures, others: &CpuUseOfOthers) -> Option<String> {
        let worst = figures.left_out.seconds().max_by_key(|(_, lost)| lost.waited_ns)?.1;
        let cpu = worst.cpu as usize;
        let waited_s = figures.left_out.seconds().map(|(_, lost)| lost.waited_ns as f64 / 1e9).sum::<f64>();
        let taken = others.by_cpu().get(&cpu).copied().unwrap_or_default();
        Some(cause_of(taken, waited_s / figures.duration.as_secs_f64().max(1e-3), cpu, others).1)
    }
}

/// The share of a CPU that was taken, and by what. `waited` is the share of the time in which a
/// load thread waited for it.
fn cause_of(taken: Taken, waited: f64, cpu: usize, others: &CpuUseOfOthers) -> (f64, String) {
    /// A smaller share is lost in the clock ticks of the kernel's accounts.
    const SHARE_MIN: f64 = 0.02;
    let (programs, stolen) = (taken.programs(), taken.stolen());
    if stolen > programs && stolen > SHARE_MIN {
        return (stolen, format!("the hypervisor took {} of CPU {cpu}", display::percent(stolen)));
    }
    let share = programs.max(waited);
    let by = others.busiest.as_ref().map_or_else(String::new, |(_, name)| format!(" ({name})"));
    (share, format!("another program used {} of CPU {cpu}{by}", display::percent(share)))
}

#[cfg(test)]
mod tests {
    use thalweg_measure::{IntervalSeries, LoopKind};

    use super::*;

    /// CPU 1 in the second from 1 s on.
    fn taken(programs: f64, stolen: f64, busiest: &str) -> CpuUseOfOthers {
        let mut others = CpuUseOfOthers::default();
        others.busiest = Some((1, busiest.to_owned()));
        others.add(1, 1, Taken { time_ns: 1e9, programs_ns: programs * 1e9, stolen_ns: stolen * 1e9 });
        others
    }

    #[test]
    fn causes_are_said_with_their_amounts() {
        let mut figures =
            TrialFigures::new(LoopKind::Open, Some(1.0), Duration::from_secs(3), IntervalSeries::new(1_000_000, 2));
        figures.left_out.add_wait(1_200_000_000, 20_000_000, 1);
        figures.left_out.add_time(1_200_000_000, 1_420_000_000);
        let said = |others: &CpuUseOfOthers| {
            let seen = Disturbance::of(&figures, others);
            assert_eq!((seen.clean, seen.lost), (Duration::from_millis(2780), Duration::from_millis(220)));
            assert_eq!((seen.seconds[0].t, seen.seconds[0].lost_s), (1.0, 0.22));
            seen.seconds[0].cause.clone()
        };
        assert_eq!(said(&taken(0.31, 0.0, "python3")), "another program used 31.0 % of CPU 1 (python3)");
        assert_eq!(said(&taken(0.05, 0.2, "cc1")), "the hypervisor took 20.0 % of CPU 1");
        assert_eq!(said(&CpuUseOfOthers::default()), "another program used 2.00 % of CPU 1");
    }
}
