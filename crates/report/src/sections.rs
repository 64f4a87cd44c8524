//! The parts of the page that are text: the limit, the machine, how to repeat it, the words.

use std::collections::BTreeMap;

use maud::{Markup, html};
use thalweg_units::display;

use super::{trials, words};
use crate::document::{Document, Find, HostDocument, Interface, LimitedBy, ServerObservation, Trial};

/// The small facts below the answer.
pub(super) fn facts(document: &Document) -> Markup {
    let plan = &document.plan;
    let limits = words::limits(&plan.limits);
    let find = document.find.as_ref();
    let interval = find.and_then(|find| find.interval95);
    let bracket = find.and_then(|find| find.lower_bound.zip(find.upper_bound));
    let lower_bound_only = find.is_some_and(Find::is_lower_bound);
    html! {
        dl.facts {
            div { dt { "Verdict" } dd { (trials::badge(document.verdict)) @if lower_bound_only { " as a lower bound only" } } }
            div { dt { "Status codes" } dd { (statuses(&document.trials)) } }
            @if let Some([low, high]) = interval {
                div { dt { "Capacity, 95 % interval" } dd { (words::rate(low)) " to " (words::per_second(high)) } }
            }
            @if let (None, Some((low, high))) = (interval, bracket) {
                div { dt { "Bracket of this search" } dd { (words::rate(low)) " to " (words::per_second(high)) } }
            }
            @if !limits.is_empty() { div { dt { "Limits" } dd { (limits) } } }
            div { dt { "Target" } dd { (plan.target) @if plan.address != plan.target { " (" (plan.address) ")" } } }
            div { dt { "Load" } dd { (plan.load) } }
            div { dt { "Started" } dd { time datetime=(document.started) { (words::date(&document.started)) } } }
            div { dt { "Measured on" } dd { (document.host.name) } }
        }
        @if document.host.shared_with_target {
            p.notice { strong { "Client and server ran on the same host." } " They competed for CPU time, so the "
                "figures are valid for this host with both on it." }
        }
    }
}

/// The target's responses by status code.
fn statuses(trials: &[Trial]) -> String {
    let (codes, followed) = Trial::responses_in(trials);
    let counts: Vec<String> = codes.iter().map(|(code, count)| format!("{} × {code}", words::count(count))).collect();
    match (counts.is_empty(), followed) {
        (true, _) => "no response".to_owned(),
        (false, 0) => counts.join(", "),
        (false, _) => format!("{}; {} followed", counts.join(", "), words::counted(followed, "redirect")),
    }
}

/// The bottleneck, and the evidence for it.
pub(super) fn limit(document: &Document, find: &Find) -> Markup {
    let (title, lead) = match find.limit {
        LimitedBy::Server => ("Bottleneck: the server", "The target itself limited the rate."),
        LimitedBy::Client => {
            ("Bottleneck: the client", "The client reached its ceiling first; the target may handle more.")
        }
        LimitedBy::Network => (
            "Bottleneck: the network",
            "The path between client and target limited the \
            rate.",
        ),
        LimitedBy::Undetermined => ("Bottleneck: undetermined", "The evidence does not show one."),
    };
    html! {
        section {
            h2 { (title) }
            p { (lead) }
            (evidence(find))
            (headroom(document, find))
        }
    }
}

/// The evidence for the bottleneck.
pub(super) fn evidence(find: &Find) -> Markup {
    html! {
        @if !find.evidence.is_empty() { ul.evidence { @for evidence in &find.evidence { li { (evidence) } } } }
    }
}

/// The client's ceiling against the requested rate, as bars.
fn headroom(document: &Document, find: &Find) -> Markup {
    /// Below this, the method does not take the client for idle enough to judge the target.
    const WANTED: f64 = 1.5;
    let Some(ceiling) = find.client_ceiling.filter(|ceiling| *ceiling > 0.0) else {
        return html! {};
    };
    let offered_to_target = document.trials.iter().filter(|trial| trial.phase != "calibrate");
    let offered = offered_to_target.filter_map(|trial| trial.offered_rate).fold(0.0, f64::max);
    let bars = [
        ("client's ceiling against the built-in sink", Some(ceiling), "ceiling"),
        ("highest rate offered", Some(offered).filter(|rate| *rate > 0.0), "offered"),
        ("highest rate that passed", find.lower_bound, "passed"),
    ];
    let longest = bars.iter().filter_map(|(_, rate, _)| *rate).fold(ceiling, f64::max);
    html! {
        h3 { "Headroom of the client" }
        dl.bars {
            @for (name, rate, class) in bars { @if let Some(rate) = rate {
                dt { (name) }
                dd {
                    span class={ "bar " (class) } style=(format!("width:{:.1}%", rate / longest * 100.0)) {}
                    span.figure { (words::per_second(rate)) }
                }
            } }
        }
        @if let Some(rate) = find.lower_bound.filter(|rate| *rate > 0.0) {
            // Other evidence than this may have named the server or the network.
            p { "The client's ceiling is " strong { (format!("{:.1} times", ceiling / rate)) } " the highest rate that passed"
                @if matches!(find.limit, LimitedBy::Client | LimitedBy::Undetermined) {
                    "; " (format!("{WANTED} times")) " or more is needed to rule out the client"
                } "." }
        }
    }
}

/// The CPU use of client and server in the trial that the page shows in full.
pub(super) fn both_ends(trial: &Trial) -> Markup {
    let client = &trial.client;
    html! {
        h3 { "Client and server during this trial" }
        dl.facts {
            div { dt { "Client" } dd { (client.driver) " on CPU " (cpus(&client.cpus)) } }
            div { dt { "Client's busiest CPU" } dd { (share(client.busiest_core)) } }
            div { dt { "Client's CPU time" } dd {
                (cpu_seconds(client.cpu_user_s)) " user, " (cpu_seconds(client.cpu_sys_s)) " kernel"
            } }
            div { dt { "Waited for a CPU" } dd { (cpu_seconds(client.run_queue_wait_s)) } }
            div { dt { "Connections" } dd {
                (display::count(trial.connections.opened)) " opened, " (display::count(trial.connections.peak)) " at most at the same \
                    time"
            } }
            div { dt { "Bytes" } dd {
                (display::bytes(trial.bytes.received)) " in, " (display::bytes(trial.bytes.sent)) " out"
            } }
            @if let Some(server) = &trial.server { (server_facts(server)) }
        }
    }
}

fn server_facts(server: &ServerObservation) -> Markup {
    let busiest = server.cpus_busy.iter().max_by(|a, b| a.1.total_cmp(b.1));
    html! {
        div { dt { "Server" } dd { (server.process) ", " (format!("{:.2}", server.cpu_cores)) " CPUs" } }
        @if let Some((cpu, busy)) = busiest {
            div { dt { "Busiest CPU of the server's side" } dd { "CPU " (cpu) ", " (share(*busy)) } }
        }
        div { dt { "CPU time stolen by the hypervisor" } dd { (display::percent(server.stolen)) } }
        div { dt { "Segments retransmitted" } dd { (display::percent(server.retransmitted)) } }
        div { dt { "Listen queue overflows" } dd { (display::count(server.listen_overflows)) } }
    }
}

/// The machine that measured.
pub(super) fn machine(host: &HostDocument, shown: Option<&Trial>) -> Markup {
    html! {
        section {
            h2 { "Machine" }
            (machine_facts(host, shown))
        }
    }
}

/// The same without a heading.
pub(super) fn machine_facts(host: &HostDocument, shown: Option<&Trial>) -> Markup {
    let disclosure = &host.disclosure;
    html! {
        dl.facts {
            div { dt { "Host" } dd { (host.name) } }
            div { dt { "Kernel" } dd { (host.kernel) ", " (host.machine) } }
            div { dt { "CPU" } dd { (host.cpu_model) } }
            div { dt { "CPUs online" } dd { (host.cpus) } }
            div { dt { "Load threads on CPU" } dd { (cpus(&host.load_cpus)) } }
            @if let Some(trial) = shown { div { dt { "Driver" } dd { (trial.client.driver) } } }
            div { dt { "Memory" } dd { (display::bytes(host.memory_bytes)) } }
            div { dt { "Clock source" } dd { (host.clock_source) } }
            div { dt { "File descriptors" } dd { (display::count(host.descriptors)) } }
            @if !disclosure.governors.is_empty() { div { dt { "Frequency governor" } dd { (words::enumerated(&disclosure.governors)) } } }
            @if let Some(group) = &disclosure.control_group { div { dt { "Control group" } dd { (group) } } }
            @for interface in &disclosure.interfaces {
                div { dt { "Interface " (interface.name) } dd { (words::enumerated(&interface_facts(interface))) } }
            }
        }
        @if !host.findings.is_empty() { (host_findings(&host.findings)) }
        @if !host.sysctls.is_empty() { (settings("Kernel settings", &host.sysctls)) }
        @if !disclosure.limits.is_empty() { (settings("Resource limits", &disclosure.limits)) }
    }
}

/// The findings of the checks before the measurement.
fn host_findings(findings: &[thalweg_doctor::Finding]) -> Markup {
    html! {
        h3 { "Checks of this host" }
        ul {
            @for finding in findings {
                li {
                    (finding.level) ": " (finding.is)
                    @if !finding.spoils.is_empty() { "; " (finding.spoils) }
                    @for command in &finding.mend { br; code { (command) } }
                }
            }
        }
    }
}

fn interface_facts(interface: &Interface) -> Vec<String> {
    let speed = interface.speed_mbit.map(|mbit| format!("{} Mbit/s", display::count(mbit)));
    let mtu = interface.mtu.map(|bytes| format!("MTU {bytes}"));
    let driver = interface.driver.as_ref().map(|driver| format!("driver {driver}"));
    [speed, mtu, driver].into_iter().flatten().collect()
}

/// How to repeat the measurement, with the raw document.
pub(super) fn repeat(document: &Document) -> Markup {
    html! {
        section {
            h2 { "Repeat the measurement" }
            (plan_facts(document))
            p.download hidden { button type="button" id="download" { "Download the result as JSON" } }
            noscript { p { "The result as JSON is in the source of this page, in the element with id " code { "result" } "." } }
            script type="application/json" id="result" { (super::chart::json_for_script(document)) }
        }
    }
}

/// The command line, what identifies the plan and the program, and all settings.
pub(super) fn plan_facts(document: &Document) -> Markup {
    let disclosure = &document.host.disclosure;
    html! {
        div.command {
            pre tabindex="0" { code { (words::shell_command(&document.plan.command)) } }
        }
        dl.facts {
            div { dt { "Version" } dd { (document.version) @if !disclosure.build.is_empty() { ", " (disclosure.build) } } }
            div { dt { "Seed" } dd { (document.seed) } }
            div { dt { "Result ID" } dd { (document.id) } }
            div.wide { dt { "SHA-256 of the plan" } dd { code { (document.plan_sha256) } } }
            @if !disclosure.program_sha256.is_empty() {
                div.wide { dt { "SHA-256 of the program" } dd { code { (disclosure.program_sha256) } } }
            }
        }
        @if !document.plan.settings.is_empty() { (settings("All other settings", &document.plan.settings)) }
        @if !disclosure.environment.is_empty() { (settings("Environment", &disclosure.environment)) }
    }
}

fn settings(title: &str, settings: &BTreeMap<String, String>) -> Markup {
    html! {
        details {
            summary { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table { tbody { @for (name, value) in settings { tr { th scope="row" { (name) } td { (value) } } } } }
            }
        }
    }
}

/// The words of the page. Each is defined as the measuring method has it.
pub(super) fn glossary() -> Markup {
    const WORDS: [(&str, &str); 16] = [
        ("offered", "requests that the schedule called for, sent or not."),
        ("sent", "requests whose first byte was passed to the kernel."),
        ("good", "requests with a complete and correct response within the timeout."),
        ("response time", "last byte of the response minus the intended time: the headline figure."),
        ("service time", "last byte of the response minus the time at which the request was sent."),
        ("intended time", "the time at which a request is due according to the schedule."),
        ("lag", "all delay caused by the client, except the wait for a connection (queue)."),
        ("without lag", "response time minus the lag of the same request."),
        (
            "queue",
            "the wait for a free connection while the target keeps all allowed connections busy; part of the \
             response time.",
        ),
        ("open loop", "arrivals follow a schedule and do not wait for responses, like independent users."),
        ("closed loop", "each worker sends its next request after it has received its last response."),
        ("p99", "99 % of the requests took at most this time; p50 is the median."),
        ("in flight", "requests that were offered and have not ended yet."),
        ("PASS", "every limit was met, and the good responses kept up with the offered rate."),
        ("FAIL", "the target did not meet a limit or did not keep up."),
        (
            "INVALID",
            "the client fell short, or the trial was ended before its planned end, so that it says nothing about the target.",
        ),
    ];
    html! {
        section {
            details.glossary {
                summary { h2 { "Terms on this page" } }
                dl { @for (word, meaning) in WORDS { dt { (word) } dd { (meaning) } } }
            }
        }
    }
}

/// The trial that the page shows in full, in words.
pub(super) fn shown_trial(document: &Document, trial: &Trial) -> String {
    let position =
        document.trials.iter().position(|other| std::ptr::eq(other, trial)).map_or(1, |position| position + 1);
    let rate = match trial.offered_rate {
        Some(rate) => format!("{} offered", words::per_second(rate)),
        None => words::loop_kind(trial.loop_kind).to_owned(),
    };
    let length = words::seconds(trial.seconds);
    let verdict = if trial.is_judged() { trial.verdict.title() } else { "not judged" };
    format!("Trial {position}, {}: {rate} for {length}, {verdict}.", trial.phase)
}

fn cpus(cpus: &[usize]) -> String {
    words::enumerated(&cpus.iter().map(usize::to_string).collect::<Vec<_>>())
}

fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn cpu_seconds(seconds: f64) -> String {
    words::time_us(seconds * 1e6)
}
