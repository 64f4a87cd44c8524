//! The behaviour of TCP connections: their ends, their start after a pause, their pace.

use thalweg_units::display;

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// How long the kernel takes to notice that a peer has vanished, for programs that ask it to.
pub(super) fn keepalive(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let names = ["net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"];
    let [Some(time_s), Some(interval_s), Some(probes)] = names.map(|name| host.sysctl_number(name)) else {
        return Vec::new();
    };
    if !load.serves() {
        return Vec::new();
    }
    let noticed_s = time_s.saturating_add(interval_s.saturating_mul(probes));
    let noticed = display::time(noticed_s.saturating_mul(1_000_000_000));
    // Download servers that rely on it keep a process or a slot for each vanished client meanwhile.
    let is = format!("{} is {time_s}: with SO_KEEPALIVE, a vanished client is noticed after {noticed}", names[0]);
    if time_s <= KEEPALIVE_DEFAULT_S {
        return vec![Finding::ok(format!("{is}; thalweg serve has deadlines of its own"))];
    }
    let spoils =
        format!("a server without deadlines of its own keeps the connections of vanished clients for {noticed}");
    vec![Finding::of(Level::Hint, is, spoils).set(names[0], 300)]
}

const KEEPALIVE_DEFAULT_S: u64 = 7200;

/// Whether a kept connection starts its next response slowly.
pub(super) fn slow_start(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let name = "net.ipv4.tcp_slow_start_after_idle";
    let Some(on) = host.sysctl_number(name).filter(|_| load.serves()) else { return Vec::new() };
    let is = format!("{name} is {on}");
    if on == 0 || load.over_loopback() {
        return vec![Finding::ok(is)];
    }
    let spoils = "a kept connection that paused sends its next response at the rate of a new one";
    vec![Finding::of(Level::Hint, is, spoils).set(name, 0)]
}

/// The congestion control and the queueing discipline that it wants.
pub(super) fn congestion(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(control) = host.sysctl("net.ipv4.tcp_congestion_control") else { return Vec::new() };
    let qdisc = host.sysctl("net.core.default_qdisc").unwrap_or_else(|| "not shown".to_owned());
    let is = format!("TCP congestion control is {control}, the default queueing discipline {qdisc}");
    if !control.starts_with("bbr") {
        return vec![Finding::ok(is)];
    }
    if load.over_loopback() {
        let spoils = "it paces what is sent with a timer per connection, on loopback too, which costs CPU time";
        return vec![Finding::of(Level::Hint, is, spoils).set("net.ipv4.tcp_congestion_control", "cubic")];
    }
    if qdisc.starts_with("fq") && qdisc != "fq_codel" || !load.serves() {
        return vec![Finding::ok(is)];
    }
    let spoils = "without fq, TCP paces each connection with a timer of its own, which costs CPU time";
    vec![
        Finding::of(Level::Hint, is, spoils)
            .set("net.core.default_qdisc", "fq")
            .mended_by("tc qdisc replace dev DEVICE root fq, for interfaces that are up already"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    #[test]
    fn settings_of_tcp_are_judged_by_the_side_and_the_path() {
        let fake = FakeHost::with_sysctls(&[
            ("net.ipv4.tcp_keepalive_time", "7200"),
            ("net.ipv4.tcp_keepalive_intvl", "75"),
            ("net.ipv4.tcp_keepalive_probes", "9"),
            ("net.ipv4.tcp_slow_start_after_idle", "1"),
            ("net.ipv4.tcp_congestion_control", "bbr"),
            ("net.core.default_qdisc", "fq_codel"),
        ]);
        let (serve, rate): (PlannedLoad, PlannedLoad) = ("serve".parse().unwrap(), "rate 5/s".parse().unwrap());
        let local = PlannedLoad { shared_host: true, ..rate.clone() };
        let level =
            |rule: fn(&Host, &PlannedLoad) -> Vec<Finding>, load| rule(&fake.host, load).first().map(|f| f.level);
        assert!(keepalive(&fake.host, &serve)[0].is.contains("2.19 h"));
        assert_eq!(
            [&serve, &rate, &local].map(|load| level(slow_start, load)),
            [Some(Level::Hint), None, Some(Level::Ok)]
        );
        assert_eq!(
            [&serve, &rate, &local].map(|load| level(congestion, load)),
            [Some(Level::Hint), Some(Level::Ok), Some(Level::Hint)]
        );
        fake.write("/proc/sys/net/core/default_qdisc", "fq");
        assert_eq!(level(congestion, &serve), Some(Level::Ok));
        fake.write("/proc/sys/net/ipv4/tcp_keepalive_time", "86400");
        assert_eq!(level(keepalive, &serve), Some(Level::Hint));
    }
}
