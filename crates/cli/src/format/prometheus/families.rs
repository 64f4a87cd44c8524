//! The figures of results as families of samples: names, explanations and labels.
//!
//! Names are a contract with queries and alerts: families are added, never renamed.

use thalweg_measure::{Summary, Verdict};
use thalweg_report::Labelled;
use thalweg_report::document::{Compare, Document, Find, LimitedBy, Measured, Sweep, Trial};

use super::super::cases::{CaseEnd, test_cases};
use super::super::quantities::span_s;

/// Labels in the order in which they are written.
pub(super) type Labels = Vec<(&'static str, String)>;

const TARGET: &str = "target";

/// A name with all its samples.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(super) struct Sample {
    pub(super) labels: Labels,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Number(f64),
    /// Quantiles by the values of their label, ascending, in seconds as their sum is.
    Distribution {
        quantiles: Vec<(&'static str, f64)>,
        sum: f64,
        count: u64,
    },
}

/// Families in the order in which they were first used.
#[derive(Debug, Default)]
pub(super) struct Families(Vec<Family>);

impl Family {
    pub(super) fn is_summary(&self) -> bool {
        self.samples.iter().any(|sample| matches!(sample.value, Value::Distribution { .. }))
    }
}

impl Families {
    /// The figures of all these results. Those that only their ids tell apart have them as a label.
    pub(super) fn of(results: &[Labelled<'_>]) -> Self {
        let mut families = Self::default();
        let labels: Vec<Labels> = results.iter().map(|result| labels_of(*result)).collect();
        for ((_, document), own) in results.iter().zip(&labels) {
            let is_alone = labels.iter().filter(|labels| *labels == own).count() == 1;
            let own = if is_alone { own.clone() } else { with(own, "run", document.id.clone()) };
            families.add_document(document, &own);
        }
        families
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Family> {
        self.0.iter()
    }

    fn add(&mut self, name: &'static str, help: &'static str, labels: Labels, value: Value) {
        let sample = Sample { labels, value };
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => self.0.push(Family { name, help, samples: vec![sample] }),
        }
    }

    fn number(&mut self, name: &'static str, help: &'static str, labels: Labels, number: f64) {
        self.add(name, help, labels, Value::Number(number));
    }

    /// One sample for each of these values of a label.
    fn by(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &Labels,
        label: &'static str,
        values: impl IntoIterator<Item = (String, f64)>,
    ) {
        for (value, number) in values {
            self.number(name, help, with(labels, label, value), number);
        }
    }

    /// A state: 1 for that which is so, 0 for the others.
    fn state(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &Labels,
        label: &'static str,
        states: impl IntoIterator<Item = (&'static str, bool)>,
    ) {
        let states = states.into_iter().map(|(state, is_so)| (state.to_owned(), f64::from(u8::from(is_so))));
        self.by(name, help, labels, label, states);
    }

    fn add_document(&mut self, document: &Document, labels: &Labels) {
        let version = with(&with(labels, "version", document.version.clone()), "load", document.plan.load.clone());
        self.number("info", "Version of Thalweg, and the load in words; always 1", version, 1.0);
        if let Ok(started) = document.started.parse::<jiff::Timestamp>() {
            let seconds = started.as_millisecond() as f64 / 1e3;
            self.number(
                "start_timestamp_seconds",
                "Start of the command, since 1970-01-01 UTC",
                labels.clone(),
                seconds,
            );
        }
        let verdicts = Verdict::ALL;
        let verdicts = verdicts.map(|one| (one.name(), one == document.verdict));
        self.state("verdict", "Verdict on the whole: 1 for the one that was given", labels, "verdict", verdicts);
        self.add_limits(document, labels);
        match (&document.suite, &document.compare, &document.find, &document.sweep) {
            (Some(measured), ..) => self.add_suite(measured, labels),
            (None, Some(compare), ..) => self.add_compare(compare, labels),
            (None, None, Some(find), _) => self.add_find(document, find, labels),
            (None, None, None, Some(sweep)) => self.add_sweep(document, sweep, labels),
            (None, None, None, None) => {
                document.trials.last().into_iter().for_each(|trial| self.add_trial(trial, labels));
            }
        }
    }

    /// Which limits the one trial of a run has met, if it could be judged.
    fn add_limits(&mut self, document: &Document, labels: &Labels) {
        let is_one_trial = document.suite.is_none()
            && document.compare.is_none()
            && document.find.is_none()
            && document.sweep.is_none();
        if !is_one_trial {
            return;
        }
        let cases = test_cases(document).into_iter().filter(|case| case.name.contains(['<', '>']));
        let judged = cases.filter(|case| matches!(case.end, CaseEnd::Passed | CaseEnd::Failed));
        let met = judged.map(|case| (case.name, f64::from(u8::from(case.end == CaseEnd::Passed))));
        self.by("limit_met", "Whether a limit was met", labels, "limit", met);
    }

    fn add_trial(&mut self, trial: &Trial, labels: &Labels) {
        let counts = &trial.counts;
        let stages = [
            ("offered", counts.offered),
            ("sent", counts.sent),
            ("completed", counts.completed),
            ("good", counts.good),
        ];
        let stages = stages.map(|(stage, count)| (stage.to_owned(), count as f64));
        self.by("requests", "Requests that came as far as this", labels, "stage", stages);
        let outcomes = trial.outcomes.iter().map(|(outcome, count)| (outcome.name().to_owned(), count as f64));
        self.by("outcomes", "Offered requests by the one outcome that each has", labels, "outcome", outcomes);
        let codes = trial.status_codes.iter().map(|(code, count)| (code.to_string(), count as f64));
        self.by("responses", "Responses by status code", labels, "code", codes);
        let rates = [
            ("offered", trial.offered_rate),
            ("sent", Some(trial.rates.sent)),
            ("completed", Some(trial.rates.completed)),
            ("good", Some(trial.rates.good)),
        ];
        let rates = rates.into_iter().filter_map(|(stage, rate)| Some((stage.to_owned(), rate?)));
        let help = "Requests per second that came as far as this, in the measured part";
        self.by("requests_per_second", help, labels, "stage", rates);
        self.add_bytes(trial, labels);
        for (name, help, summary) in [
            ("response_time_seconds", "From the intended time of a request to its last byte", &trial.response_time_us),
            ("service_time_seconds", "From sending a request to its last byte", &trial.service_time_us),
            ("first_byte_seconds", "From sending a request to the first byte of its response", &trial.first_byte_us),
            ("lag_seconds", "Lateness of the measuring client", &trial.lag_us),
            ("queue_seconds", "Wait for a connection that the target kept busy", &trial.queue_us),
            ("connect_seconds", "Time to establish a connection", &trial.connect_us),
        ] {
            if summary.count > 0 {
                self.add(name, help, labels.clone(), distribution(summary));
            }
        }
        let client = &trial.client;
        let used = [("user", client.cpu_user_s), ("system", client.cpu_sys_s)];
        let used = used.map(|(mode, seconds)| (mode.to_owned(), seconds));
        self.by("client_cpu_seconds", "CPU time of the load threads", labels, "mode", used);
        let help = "Share of the busiest load CPU that was used";
        self.number("client_busiest_cpu_ratio", help, labels.clone(), client.busiest_core);
    }

    fn add_bytes(&mut self, trial: &Trial, labels: &Labels) {
        let bytes = &trial.bytes;
        let parts = [("head", bytes.head_received), ("body", bytes.body_received), ("framing", bytes.framing_received)];
        let parts = parts.map(|(part, count)| (part.to_owned(), count as f64));
        self.by("received_bytes", "Bytes of responses, without TCP", labels, "part", parts);
        let parts = [("head", bytes.head_sent), ("body", bytes.body_sent)];
        let parts = parts.map(|(part, count)| (part.to_owned(), count as f64));
        self.by("sent_bytes", "Bytes of requests, without TCP", labels, "part", parts);
        let connections = &trial.connections;
        let states = [("opened", connections.opened), ("failed", connections.failed), ("peak", connections.peak)];
        let states = states.map(|(state, count)| (state.to_owned(), count as f64));
        let help = "Connections that were opened, that failed, and that were open at the same time at most";
        self.by("connections", help, labels, "state", states);
        self.number("measured_seconds", "Length of the measured part", labels.clone(), trial.seconds);
        let help = "From the start of the measured part to the end of the last request";
        self.number("span_seconds", help, labels.clone(), span_s(trial));
    }

    fn add_find(&mut self, document: &Document, find: &Find, labels: &Labels) {
        let capacity = [
            ("threshold", find.threshold),
            ("interval_low", find.interval95.map(|[low, _]| low)),
            ("interval_high", find.interval95.map(|[_, high]| high)),
            ("highest_passed", find.lower_bound),
            ("lowest_failed", find.upper_bound),
            ("client_ceiling", find.client_ceiling),
        ];
        let capacity = capacity.into_iter().filter_map(|(bound, rate)| Some((bound.to_owned(), rate?)));
        let help = "Capacity: the threshold with its 95 % interval, the rates that bound it, the client's own ceiling";
        self.by("capacity_requests_per_second", help, labels, "bound", capacity);
        let parts = [
            ("server", LimitedBy::Server),
            ("client", LimitedBy::Client),
            ("network", LimitedBy::Network),
            ("undetermined", LimitedBy::Undetermined),
        ];
        let parts = parts.map(|(name, part)| (name, part == find.limit));
        self.state("bottleneck", "Bottleneck: 1 for the part that was named", labels, "part", parts);
        let count = |wanted: Verdict| {
            document.trials.iter().filter(|trial| trial.is_judged() && trial.verdict == wanted).count() as f64
        };
        let trials = Verdict::ALL.map(|one| (one.name().to_owned(), count(one)));
        self.by("trials", "Judged trials of a search by verdict", labels, "verdict", trials);
        if let Some(overload) = &find.overload {
            let help = "Whether the target carried its load again after an overload";
            self.number("recovered", help, labels.clone(), f64::from(u8::from(overload.recovered)));
        }
    }

    fn add_sweep(&mut self, document: &Document, sweep: &Sweep, labels: &Labels) {
        for target in &sweep.targets {
            let mut labels = labels.clone();
            labels.iter_mut().filter(|(name, _)| *name == TARGET).for_each(|(_, value)| *value = target.target.clone());
            if let Some(passed) = target.passed {
                let help = "Highest rate of a sweep that passed, with all lower ones";
                self.number("passed_requests_per_second", help, labels.clone(), passed);
            }
            for trial in target.trials.iter().filter_map(|position| document.trials.get(*position)) {
                let rate = trial.offered_rate.unwrap_or_default();
                self.add_trial(trial, &with(&labels, "offered_rate", rate.to_string()));
            }
        }
    }

    fn add_compare(&mut self, compare: &Compare, labels: &Labels) {
        for metric in &compare.metrics {
            let labels = with(labels, "metric", metric.metric.clone());
            let sides = [("a", metric.a), ("b", metric.b)];
            let sides = sides.into_iter().filter_map(|(side, value)| Some((side.to_owned(), value?)));
            let help = "Value of a compared metric by side, in its unit";
            self.by("compared_value", help, &with(&labels, "unit", metric.unit.clone()), "side", sides);
            let ratios = [
                ("effect", metric.effect),
                ("interval_low", metric.interval95.map(|[low, _]| low)),
                ("interval_high", metric.interval95.map(|[_, high]| high)),
            ];
            let ratios = ratios.into_iter().filter_map(|(bound, ratio)| Some((bound.to_owned(), ratio?)));
            let help = "Ratio B / A of a compared metric, with its 95 % interval";
            self.by("compared_ratio", help, &labels, "bound", ratios);
            self.number("compared_pairs", "Pairs of rounds that count", labels, metric.pairs as f64);
        }
    }

    fn add_suite(&mut self, measured: &Measured, labels: &Labels) {
        let labels = with(labels, "suite", measured.suite.name().to_owned());
        for figure in &measured.figures {
            let Some(value) = figure.value else { continue };
            let labels = with(&with(&labels, "figure", figure.name.clone()), "unit", figure.unit.name().to_owned());
            self.number("suite_figure", "Figure of a suite, in its unit", labels.clone(), value);
            let ends = figure.interval95.map(|[low, high]| [("low", low), ("high", high)]);
            let ends = ends.into_iter().flatten().map(|(end, value)| (end.to_owned(), value));
            self.by("suite_figure_interval", "95 % interval of a figure of a suite", &labels, "end", ends);
        }
    }
}

/// The labels that all samples of a result have.
fn labels_of((label, document): Labelled<'_>) -> Labels {
    let mut labels = vec![("kind", document.kind.name().to_owned()), (TARGET, document.plan.target.clone())];
    labels.extend(label.map(|label| ("label", label.to_owned())));
    labels
}

/// The labels with one more.
fn with(labels: &Labels, name: &'static str, value: String) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value));
    labels
}

fn distribution(summary: &Summary) -> Value {
    const US_PER_S: f64 = 1e6;
    let quantiles = [
        ("0", summary.min),
        ("0.5", summary.p50),
        ("0.75", summary.p75),
        ("0.9", summary.p90),
        ("0.95", summary.p95),
        ("0.99", summary.p99),
        ("0.999", summary.p999),
        ("0.9999", summary.p9999),
        ("1", summary.max),
    ]
    .map(|(quantile, us)| (quantile, us / US_PER_S));
    let sum = summary.mean * summary.count as f64 / US_PER_S;
    Value::Distribution { quantiles: quantiles.into(), sum, count: summary.count }
}
