//! Tests of the whole page and of its sentences.

use std::fs;

use thalweg_measure::outcome::Outcome;
use thalweg_measure::{Summary, Verdict};

use super::{answer, html, html_of_several, sample, svg, table_of_several, write_html};
use crate::document::{Document, Kind, LimitedBy, Overload, OverloadShape, Sweep, SweepEnd, SweptTarget, Trial};

fn searched(change: impl FnOnce(&mut Document)) -> Document {
    let mut document = sample::search();
    change(&mut document);
    document
}

fn bounds(lower: Option<f64>, upper: Option<f64>, limit: LimitedBy) -> impl FnOnce(&mut Document) {
    move |document| {
        let find = document.find.as_mut().expect("a search has an answer");
        (find.lower_bound, find.upper_bound, find.limit) = (lower, upper, limit);
    }
}

fn ran(change: impl FnOnce(&mut Document, &mut Trial)) -> Document {
    let mut document = sample::run();
    let mut trial = document.trials.pop().expect("a run has a trial");
    change(&mut document, &mut trial);
    document.trials.push(trial);
    document
}

#[test]
fn searches_are_answered_in_a_sentence() {
    use LimitedBy::{Client, Network, Server, Undetermined};
    let (lower, upper) = (Some(41_237.0), Some(42_070.0));
    for (document, expected) in [
        (
            sample::search(),
            "nginx at http://127.0.0.1:8080/ handles 41,237 requests/s with p99 < 50 ms; the bottleneck is the server.",
        ),
        (
            searched(bounds(lower, upper, Network)),
            "nginx at http://127.0.0.1:8080/ handles 41,237 requests/s with p99 < 50 ms; the bottleneck is the network.",
        ),
        (
            searched(bounds(lower, upper, Undetermined)),
            "nginx at http://127.0.0.1:8080/ handles 41,237 requests/s with p99 < 50 ms; the bottleneck is \
             undetermined.",
        ),
        (
            searched(bounds(lower, upper, Client)),
            "nginx at http://127.0.0.1:8080/ handles at least 41,237 requests/s with p99 < 50 ms; the bottleneck is the client.",
        ),
        (
            searched(bounds(lower, None, Client)),
            "nginx at http://127.0.0.1:8080/ handles at least 41,237 requests/s with p99 < 50 ms; the client could not \
             offer more.",
        ),
        (
            searched(bounds(lower, None, Undetermined)),
            "nginx at http://127.0.0.1:8080/ handles at least 41,237 requests/s with p99 < 50 ms; no higher rate was \
             confirmed to fail.",
        ),
        (
            searched(bounds(None, Some(10.0), Server)),
            "nginx at http://127.0.0.1:8080/ met p99 < 50 ms at none of the rates tried, down to 10.0 requests/s.",
        ),
        (
            searched(bounds(None, None, Undetermined)),
            "No rate was confirmed to pass or to fail for nginx at http://127.0.0.1:8080/.",
        ),
        (
            searched(|document| {
                bounds(None, None, Client)(document);
                document.verdict = Verdict::Invalid;
            }),
            "The capacity of nginx at http://127.0.0.1:8080/ is unknown: the client, not the target, fell short.",
        ),
        (
            searched(|document| document.verdict = Verdict::Invalid),
            "The capacity of nginx at http://127.0.0.1:8080/ is unknown: the client fell short. The highest rate that \
             passed was 41,237 requests/s.",
        ),
        (
            searched(|document| {
                document.plan.limits.clear();
                document.trials.iter_mut().for_each(|trial| trial.server = None);
            }),
            "http://127.0.0.1:8080/ handles 41,237 requests/s; the bottleneck is the server.",
        ),
        (
            searched(|document| {
                bounds(None, upper, Server)(document);
                document.plan.limits.clear();
            }),
            "nginx at http://127.0.0.1:8080/ passed at none of the rates tried, down to 42,070 requests/s.",
        ),
        (
            searched(|document| document.find = None),
            "The search on nginx at http://127.0.0.1:8080/ ended without a result.",
        ),
    ] {
        assert_eq!(answer::sentence(&document), expected);
    }
}

/// Title, heading and chart once named the highest rate that passed, beside an interval of another.
#[test]
fn the_capacity_is_that_of_the_estimate_everywhere() {
    let estimated = |interval95: [f64; 2]| {
        searched(move |document| {
            let find = document.find.as_mut().expect("a search");
            (find.threshold, find.interval95) = (Some(41_800.0), Some(interval95));
        })
    };
    let document = estimated([41_000.0, 42_600.0]);
    assert_eq!(
        answer::sentence(&document),
        "nginx at http://127.0.0.1:8080/ handles 41,800 requests/s (95 % interval 41,000 to 42,600 requests/s) with \
         p99 < 50 ms; the bottleneck is the server."
    );
    assert_eq!(answer::title(&document), "41,800/s – http://127.0.0.1:8080/ – Thalweg");
    let page = html(&document);
    assert!(page.contains("capacity 41,800/s") && !page.contains("passes 41,237/s"), "the chart has another rate");
    let document = estimated([36_000.0, 47_000.0]);
    assert_eq!(
        answer::sentence(&document),
        "The capacity of nginx at http://127.0.0.1:8080/ is not determinable in this time: 36,000 to 47,000 requests/s \
         with p99 < 50 ms (95 % interval); the bottleneck is the server."
    );
}

fn overload(recovery_s: Option<f64>) -> Overload {
    Overload {
        shape: OverloadShape::Collapse,
        recovered: recovery_s.is_some(),
        recovery_s,
        held_rate: 640.0,
        overload_rate: 1280.0,
        failed_rate: Some(120.0),
        points: Vec::new(),
        waited_s: recovery_s.unwrap_or(61.0),
        failed_looks: 9,
        times: 1,
    }
}

/// The page once named what was left of a damaged target as its capacity.
#[test]
fn a_collapse_is_said_first() {
    let collapsed = searched(|document| {
        bounds(Some(640.0), Some(1280.0), LimitedBy::Server)(document);
        document.find.as_mut().unwrap().overload = Some(overload(None));
    });
    let what = "nginx at http://127.0.0.1:8080/ collapsed: it handled 640/s before the overload at 1,280/s, and then not even 120/s";
    assert_eq!(answer::sentence(&collapsed), format!("{what}; it did not recover within 61 s."));
    assert_eq!(answer::title(&collapsed), "collapsed – http://127.0.0.1:8080/ – Thalweg");
    let recovered = searched(|document| {
        bounds(Some(700.0), Some(710.0), LimitedBy::Server)(document);
        document.find.as_mut().unwrap().overload = Some(overload(Some(12.0)));
    });
    let takes =
        "nginx at http://127.0.0.1:8080/ handles 700 requests/s with p99 < 50 ms; the bottleneck is the server.";
    assert_eq!(answer::sentence(&recovered), format!("{what}; it recovered after 12 s. {takes}"));
}

/// A target that kept its goodput was once said to have collapsed, and its capacity was left out.
#[test]
fn an_overload_without_a_look_at_the_recovery_is_no_collapse() {
    let kept = searched(|document| {
        bounds(Some(640.0), Some(660.0), LimitedBy::Server)(document);
        let flat = Overload { shape: OverloadShape::Flat, failed_rate: None, waited_s: 0.0, ..overload(None) };
        document.find.as_mut().unwrap().overload = Some(flat);
    });
    let sentence = answer::sentence(&kept);
    assert!(sentence.contains(" handles 640 requests/s with p99 < 50 ms; "), "{sentence}");
    assert_eq!(answer::title(&kept), "640/s – http://127.0.0.1:8080/ – Thalweg");
}

#[test]
fn the_bracket_of_a_search_is_not_called_a_95_percent_interval() {
    let page = html(&sample::search());
    assert!(page.contains("Bracket of this search"), "it is there under its own name");
    let text = page.split("<script").next().expect("the page begins before its scripts");
    assert!(!text.contains("95 %") && !text.contains("interval95"), "a bracket has no coverage");
}

#[test]
fn calibration_and_probe_carry_no_badge() {
    let document = searched(|document| {
        document.trials.truncate(2);
        document.trials.iter_mut().for_each(|trial| trial.verdict = Verdict::Invalid);
    });
    let page = html(&document);
    assert_eq!(page.matches("badge invalid").count(), 0);
    assert_eq!(page.matches(">not judged<").count(), 2);
}

#[test]
fn a_search_that_ends_at_the_clients_ceiling_is_a_lower_bound() {
    let page = html(&searched(bounds(Some(41_237.0), None, LimitedBy::Client)));
    assert!(page.contains("as a lower bound only"));
    assert!(!html(&sample::search()).contains("as a lower bound only"));
}

#[test]
fn a_p99_that_misses_its_limit_by_a_hair_is_not_shown_as_the_limit() {
    let document = ran(|document, trial| {
        document.verdict = Verdict::Fail;
        trial.response_time_us.p99 = 50_040.0;
    });
    assert!(answer::sentence(&document).ends_with("p99 50.04 ms."), "{}", answer::sentence(&document));
    assert!(html(&document).contains("50.04 ms"));
}

#[test]
fn runs_are_answered_in_a_sentence() {
    for (document, expected) in [
        (sample::run(), "5,000/s offered for 10 s: all 50,000 requests good, p99 "),
        (
            ran(|_, trial| *trial = sample::trial("run", 0.0, 60_000.0, 10.0)),
            "60,000/s offered for 10 s: 423,550 of 600,000 requests good (50,999 timeout and 125,451 not sent), p99 ",
        ),
        (
            ran(|_, trial| sample::make_all_end(trial, Outcome::Refused)),
            "5,000/s offered for 10 s: none of 50,000 requests good (50,000 refused).",
        ),
        (
            ran(|document, trial| {
                document.verdict = Verdict::Invalid;
                sample::make_invalid(trial);
            }),
            "5,000/s offered for 10 s: the client fell short, so the trial says nothing about nginx at \
             http://127.0.0.1:8080/.",
        ),
        (
            ran(|_, trial| *trial = sample::closed("run", 8000.0, 10.0)),
            "Closed loop for 10 s, 8,000/s good: all 80,000 requests good, p99 ",
        ),
        (
            ran(|_, trial| *trial = sample::trial("run", 0.0, 0.001, 10.0)),
            "0.00100/s offered for 10 s: no request was due.",
        ),
        (sample::document(Kind::Run, vec![]), "Nothing was run against http://127.0.0.1:8080/."),
    ] {
        let sentence = answer::sentence(&document);
        assert!(sentence.starts_with(expected), "{sentence}\n{expected}");
        assert!(sentence.ends_with('.') && !sentence.contains(".."), "{sentence}");
    }
}

#[test]
fn the_page_asks_for_nothing() {
    for document in [sample::search(), sample::run()] {
        let page = html(&document);
        for fetching in ["src=", "@import", "<link rel=\"stylesheet", "<img", "<iframe", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(fetching), "{fetching}");
        }
        for attribute in ["href=\"", "url("] {
            for (at, _) in page.match_indices(attribute) {
                let value = &page[at + attribute.len()..];
                assert!(value.starts_with("data:") || value.starts_with('#'), "{}", &value[..40]);
            }
        }
        assert!(
            page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"),
            "a policy holds it to that"
        );
    }
}

/// It once had 5.4 MB, nearly all of it a library for charts.
#[test]
fn a_page_is_small() {
    for document in [sample::search(), sample::run()] {
        let (page, data) = (html(&document).len(), serde_json::to_string(&document).unwrap().len());
        assert!(page - data < 300_000, "{page} bytes, {data} of them the document");
    }
}

#[test]
fn the_same_document_gives_the_same_bytes() {
    assert!(html(&sample::search()) == html(&sample::search()));
}

#[test]
fn hostile_strings_stay_text() {
    let hostile = "</script><script>alert(\"1\")</script><img src=x onerror='2'>";
    let document = searched(|document| {
        document.plan.target = hostile.into();
        document.plan.command = vec![hostile.into()];
        document.plan.load = hostile.into();
        document.plan.settings.insert(hostile.into(), hostile.into());
        document.plan.limits = vec![hostile.into()];
        document.host.name = hostile.into();
        document.started = hostile.into();
        document.id = hostile.into();
        document.version = hostile.into();
        document.reasons = vec![hostile.into()];
        for trial in &mut document.trials {
            trial.phase = hostile.into();
            trial.reasons = vec![hostile.into()];
            trial.server.iter_mut().for_each(|server| server.process = hostile.into());
        }
        let find = document.find.as_mut().expect("a search has an answer");
        find.evidence = vec![hostile.into()];
        find.notes = vec![hostile.into(), hostile.into()];
    });
    let page = html(&document);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "text became markup");
    let harmless = html(&sample::search());
    assert_eq!(page.matches("<script").count(), harmless.matches("<script").count(), "text opened an element");
    assert_eq!(page.matches("</script").count(), page.matches("<script").count(), "text closed an element");
}

#[test]
fn the_document_is_in_the_page() {
    let document = sample::search();
    let page = html(&document);
    let opening = "<script type=\"application/json\" id=\"result\">";
    let from = page.find(opening).expect("the document is embedded") + opening.len();
    let json = page[from..].split("</script>").next().expect("the element is closed");
    let unescaped = json.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
    assert!(json != unescaped, "the limit has a character to escape");
    assert!(unescaped == serde_json::to_string(&document).expect("it has nothing that JSON lacks"));
    let read: Document = serde_json::from_str(json).expect("it is the result document");
    assert_eq!(read.plan, document.plan);
}

#[test]
fn every_chart_has_an_alternative_and_every_id_is_unique() {
    let page = html(&sample::search());
    assert_eq!(page.matches("<figure").count(), 5);
    assert_eq!(page.matches("role=\"img\" tabindex=\"0\" aria-labelledby=\"").count(), 5);
    assert_eq!(page.matches("<figcaption id=\"").count(), 5);
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{ids:?}");
}

#[test]
fn headings_are_in_order() {
    for document in [sample::search(), sample::run()] {
        let page = html(&document);
        let levels: Vec<u32> = page
            .match_indices("<h")
            .filter_map(|(at, _)| page[at + 2..].chars().next().and_then(|c| c.to_digit(10)))
            .collect();
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    }
}

#[test]
fn corner_cases_make_a_page() {
    let zero = |summary: &mut Summary| {
        let empty = thalweg_measure::histogram::Histogram::new().summary();
        *summary = Summary { count: 5, ..empty };
    };
    for (name, document) in [
        ("a run without trials", sample::document(Kind::Run, vec![])),
        ("a search without trials", searched(|document| document.trials.clear())),
        ("no intervals", ran(|_, trial| trial.intervals.clear())),
        ("one interval", ran(|_, trial| trial.intervals.truncate(1))),
        ("all requests failed", ran(|_, trial| sample::make_all_end(trial, Outcome::Refused))),
        (
            "all trials invalid",
            searched(|document| {
                document.verdict = Verdict::Invalid;
                document.trials.iter_mut().for_each(sample::make_invalid);
                bounds(None, None, LimitedBy::Client)(document);
            }),
        ),
        (
            "percentiles of zero",
            searched(|document| {
                document.trials.iter_mut().for_each(|trial| zero(&mut trial.response_time_us));
            }),
        ),
        ("a histogram that cannot be read", ran(|_, trial| trial.response_time_us.hdr = "%".into())),
        (
            "no length",
            ran(|_, trial| {
                (trial.seconds, trial.offered_rate) = (0.0, Some(0.0));
            }),
        ),
        (
            "figures that are no numbers",
            ran(|_, trial| {
                (trial.seconds, trial.rates.good, trial.response_time_us.p99) = (f64::NAN, f64::INFINITY, -1.0);
                trial.offered_rate = Some(f64::NAN);
            }),
        ),
    ] {
        let page = html(&document);
        assert!(page.ends_with("</html>"), "{name}");
    }
}

#[test]
fn reports_are_written_whole_or_not_at_all() {
    let scratch = tempfile::TempDir::new().expect("the folder for temporary files takes one more");
    let folder = scratch.path();
    let path = folder.join("report.html");
    fs::write(&path, "old").expect("the folder is writable");
    let document = sample::run();
    write_html(&document, &path).expect("the folder is writable");
    assert!(fs::read_to_string(&path).expect("it was written") == html(&document));

    // A folder in the place of the report makes the last step fail.
    let taken = folder.join("taken.html");
    fs::create_dir_all(taken.join("inside")).expect("the folder is writable");
    write_html(&document, &taken).expect_err("a file does not replace a folder");
    write_html(&document, &folder.join("missing").join("report.html")).expect_err("a folder is not made up");
    write_html(&document, std::path::Path::new("/")).expect_err("a path without a name is refused");
    let mut left: Vec<_> =
        fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it is").file_name()).collect();
    left.sort();
    assert_eq!(left, ["report.html", "taken.html"], "nothing unfinished is left behind");
}

#[test]
fn several_targets_share_one_figure_and_differences_are_said() {
    let (nginx, mut other) = (sample::search(), sample::search());
    let page = html_of_several(&[(None, &nginx), (Some("<b>second</b>"), &other)]);
    assert_eq!(page.matches("id=\"targets-throughput\"").count(), 1);
    assert!(page.contains("&lt;b&gt;second&lt;/b&gt;") && !page.contains("<b>second"), "a label is text");
    assert!(page.contains("made one after the other on one host") && !page.contains("differ in more"));
    assert!(page == html_of_several(&[(None, &nginx), (Some("<b>second</b>"), &other)]), "the same bytes");
    other.plan.limits = vec!["p99<10ms".into()];
    let page = html_of_several(&[(None, &nginx), (None, &other)]);
    assert!(page.contains("differ in more than their targets: </strong>limits."), "limits are not the same");
    assert!(page.contains("http://127.0.0.1:8080/ (2)"), "names differ");
    let table = table_of_several(&[(None, &nginx), (Some("a b"), &other)], '\t');
    assert!(table.lines().all(|line| line.split('\t').count() == 6 && !line.contains(' ')), "{table}");
}

#[test]
fn a_sweep_is_answered_by_its_curves() {
    let rates = [20_000.0, 40_000.0, 60_000.0];
    let trials = rates.iter().map(|rate| sample::trial("sweep", 0.0, *rate, 10.0)).collect();
    let mut document = sample::document(Kind::Sweep, trials);
    let target =
        SweptTarget { target: "http://h/".into(), name: "h".into(), trials: vec![0, 1, 2], passed: Some(40_000.0) };
    document.sweep = Some(Sweep {
        low_rate: 20_000.0,
        high_rate: 60_000.0,
        step: 20_000.0,
        targets: vec![target],
        ended: SweepEnd::Complete,
    });
    let sentence = answer::sentence(&document);
    assert!(
        sentence.starts_with("h meets the limits up to 40,000/s; the most is 42,355/s good at 60,000/s"),
        "{sentence}"
    );
    let charts: Vec<String> = svg(&[(None, &document)]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(charts[..2], ["targets-throughput", "targets-response-time"]);
    assert!(html(&document).contains("id=\"targets-throughput\""));
}
