//! The announcement of a load that will take long by its own numbers, so that no user starts one by
//! mistake.

use std::time::Duration;

use thalweg_load::Plan;

use crate::exit::remark;

/// Loads of this length and more are announced. Shorter ones are soon over, or interrupted.
const ANNOUNCED_FROM: Duration = Duration::from_secs(86_400);

/// Prints on stderr how long the load will take and when it will end, if that is long.
pub(crate) fn announce(plan: &Plan) {
    if let Some(text) = announcement(plan.length_min(), jiff::Timestamp::now()) {
        remark(&text);
    }
}

fn announcement(length: Duration, now: jiff::Timestamp) -> Option<String> {
    if length < ANNOUNCED_FROM {
        return None;
    }
    let days = length.as_secs_f64() / 86_400.0;
    let end = jiff::SignedDuration::try_from(length).ok().and_then(|length| now.checked_add(length).ok());
    let until = end.map_or_else(String::new, |end| format!(", until {} UTC", end.strftime("%Y-%m-%d %H:%M")));
    Some(format!("this load takes {days:.1} days{until}; Ctrl-C stops it and prints the results so far"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_of_many_days_is_announced_with_its_end() {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let day = ANNOUNCED_FROM;
        assert_eq!(announcement(day - Duration::from_nanos(1), now), None);
        let said = announcement(day * 10 + day / 2, now).unwrap();
        assert!(said.contains("takes 10.5 days, until 2026-03-12 00:00 UTC;"), "{said}");
        // The end lies beyond the calendar.
        let said = announcement(Duration::from_nanos(i64::MAX as u64) * 40, now).unwrap();
        assert!(said.contains("takes 4270079.6 days;"), "{said}");
    }
}
