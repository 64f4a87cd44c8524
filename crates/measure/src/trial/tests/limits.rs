//! Limits on other figures than response times and errors.

use super::*;

/// There were limits on response times and errors alone.
#[test]
fn rates_and_other_times_have_limits_too() {
    let mut figures = good_trial();
    let good = figures.rates().good;
    check(
        &figures,
        &[&format!("rate>={}/s", good / 2.0), "bytes_per_s>=1"],
        Verdict::Fail,
        &["0 B/s misses the limit bytes_per_s>=1"],
    );
    check(&figures, &[&format!("rate>={good}/s")], Verdict::Pass, &[]);
    let missed = format!("rate>={}/s", good * 2.0);
    let reason = format!("{} misses the limit {missed}", thalweg_units::display::rate(good));
    check(&figures, &[&missed], Verdict::Fail, &[&reason]);
    let nothing = "no response was measured, so connect_max<1ms cannot be confirmed";
    check(&figures, &["connect_max<1ms"], Verdict::Fail, &[nothing]);
    figures.first_byte.record_n(30_000_000, 100);
    figures.connect.record_n(1000, 100);
    check(&figures, &["connect_max<1ms", "first_byte_p99<1s"], Verdict::Pass, &[]);
    let judged = verdict(&figures, &["first_byte_p99<20ms".parse().unwrap()]);
    assert!(judged.reasons[0].to_string().ends_with(" misses the limit first_byte_p99<20ms"), "{judged:?}");
}
