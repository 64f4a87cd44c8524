//! Results as metrics in Prometheus' text format, for the textfile collector of node_exporter and
//! for a push gateway.
//!
//! All figures of a result are gauges, since the next result replaces them; distributions are
//! summaries. Units are Prometheus' base units, seconds and bytes. The text is valid in the text
//! format 0.0.4 and in OpenMetrics 1.0. `families` owns which figures there are.

mod families;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use thalweg_report::Labelled;

use self::families::{Families, Value};

const PREFIX: &str = "thalweg_result";

/// The metrics of one result or several.
pub(crate) fn prometheus(results: &[Labelled<'_>]) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Figures(Families::of(results))));
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).expect("a string takes everything");
    // The library has no type for summaries. Nothing else here has an unknown one.
    encoded
        .lines()
        .map(|line| match line.strip_prefix("# TYPE ").and_then(|typed| typed.strip_suffix(" unknown")) {
            Some(name) => format!("# TYPE {name} summary\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

#[derive(Debug)]
struct Figures(Families);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.iter() {
            let kind = if family.is_summary() { MetricType::Unknown } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for sample in &family.samples {
                match &sample.value {
                    Value::Number(number) => metric.encode_family(&sample.labels)?.encode_gauge(number)?,
                    Value::Distribution { quantiles, sum, count } => {
                        for (quantile, value) in quantiles {
                            let mut labels = sample.labels.clone();
                            labels.push(("quantile", (*quantile).to_owned()));
                            metric.encode_family(&labels)?.encode_gauge(value)?;
                        }
                        // A histogram without buckets is the rest of a summary.
                        let mut whole = metric.encode_family(&sample.labels)?;
                        whole.encode_histogram::<NoLabelSet>(*sum, *count, &[], None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use thalweg_measure::Verdict;
    use thalweg_report::document::{Document, Trial};

    use super::super::fixture;
    use super::*;

    /// Checks the text format 0.0.4 as strictly as Prometheus reads it: each family with its HELP
    /// and TYPE before its samples, all of it together, no series twice.
    #[track_caller]
    fn parse(text: &str) -> BTreeMap<String, f64> {
        let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
        let mut lines = text.strip_suffix("# EOF\n").expect("the end is marked").lines().peekable();
        while let Some(line) = lines.next() {
            let (family, help) = line.strip_prefix("# HELP ").expect(line).split_once(' ').expect(line);
            assert!(families.insert(family) && !help.is_empty(), "{line}");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {family} ")).expect(line);
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let (series, value) = sample.rsplit_once(' ').expect(sample);
                let name = series.split('{').next().unwrap();
                let suffix = name.strip_prefix(family).expect(sample);
                let allowed: &[&str] = if kind == "summary" { &["", "_sum", "_count"] } else { &[""] };
                assert!(allowed.contains(&suffix) && ["gauge", "summary"].contains(&kind), "{kind}: {sample}");
                assert_eq!(kind == "summary" && suffix.is_empty(), series.contains("quantile=\""), "{sample}");
                assert_eq!(samples.insert(series.to_owned(), value.parse().unwrap()), None, "{sample}: twice");
            }
        }
        samples
    }

    /// Of histograms.
    const RESOLUTION: f64 = 1e-3;

    #[track_caller]
    fn check(results: &[Labelled<'_>], expected: &[(&str, f64)]) {
        let text = prometheus(results);
        let samples = parse(&text);
        for (series, value) in expected {
            let found = samples.get(&format!("{PREFIX}_{series}")).copied();
            assert!(
                found.is_some_and(|found| (found - value).abs() <= value * RESOLUTION),
                "{series}: {found:?} in\n{text}"
            );
        }
    }

    #[test]
    fn a_run_has_its_counts_rates_and_times() {
        let document = fixture::document(vec![fixture::trial()]);
        let target = r#"kind="run",target="http://127.0.0.1:8080/a.txt?b=1""#;
        let of = |name: &str, more: &str| format!("{name}{{{target}{more}}}");
        check(
            &[(None, &document)],
            &[
                (&of("verdict", r#",verdict="pass""#), 0.0),
                (&of("verdict", r#",verdict="fail""#), 1.0),
                (&of("limit_met", r#",limit="errors<=0%""#), 0.0),
                (&of("requests", r#",stage="offered""#), 2000.0),
                (&of("outcomes", r#",outcome="good""#), 1980.0),
                (&of("outcomes", r#",outcome="truncated""#), 0.0),
                (&of("responses", r#",code="404""#), 5.0),
                (&of("requests_per_second", r#",stage="good""#), 198.0),
                (&of("response_time_seconds", r#",quantile="0.5""#), 0.0003),
                (&of("response_time_seconds", r#",quantile="1""#), 5.0),
                (&of("response_time_seconds_count", ""), 1984.0),
                (&of("received_bytes", r#",part="body""#), 1990.0 * 512.0),
                (&of("start_timestamp_seconds", ""), 1_773_500_966.535),
            ],
        );
    }

    #[test]
    fn several_results_share_their_families() {
        let first = fixture::document(vec![fixture::trial()]);
        let mut second = first.clone();
        second.plan.target = "http://b/\"\\\n".to_owned();
        second.verdict = Verdict::Pass;
        let odd = r#"verdict{kind="run",target="http://b/\"\\\n",verdict="pass"}"#;
        check(
            &[(None, &first), (None, &second)],
            &[(odd, 1.0), (r#"requests{kind="run",target="http://b/\"\\\n",stage="sent"}"#, 2000.0)],
        );
    }

    #[test]
    fn results_of_the_same_target_are_told_apart() {
        let one = fixture::document(vec![fixture::trial()]);
        let of =
            |more: &str| format!("{}{more}", r#"span_seconds{kind="run",target="http://127.0.0.1:8080/a.txt?b=1""#);
        check(&[(Some("nightly"), &one)], &[(&of(r#",label="nightly"}"#), 10.25)]);
        let (first, second) = (of(r#",label="a"}"#), of(r#",label="b"}"#));
        check(&[(Some("a"), &one), (Some("b"), &one)], &[(&first, 10.25), (&second, 10.25)]);
        let other = Document { id: "x".to_owned(), ..one.clone() };
        check(&[(None, &one), (None, &other)], &[(&of(r#",run="x"}"#), 10.25)]);
    }

    #[test]
    fn a_time_that_was_not_measured_has_no_quantiles() {
        let trial = Trial { verdict: Verdict::Invalid, ..fixture::nothing() };
        let document = Document { verdict: Verdict::Invalid, ..fixture::document(vec![trial]) };
        let samples = parse(&prometheus(&[(None, &document)]));
        assert!(!samples.keys().any(|series| series.contains("quantile")), "{samples:#?}");
        assert!(!samples.keys().any(|series| series.contains("limit_met")), "{samples:#?}");
    }
}
