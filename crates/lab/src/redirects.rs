//! Redirects in words: where a response leads that was not followed, and what to do about it.

use thalweg_measure::trial::{RedirectSample, Redirects};
use thalweg_units::display;
use url::Url;

use crate::credentials;

/// A sentence about the redirects of a trial that were not followed; `None` if there were none.
/// `target` is the URL of the trial.
pub(crate) fn sentence(redirects: &Redirects, target: &Url) -> Option<String> {
    let sample = redirects.sample.as_ref()?;
    let leads = leads(sample, target);
    let reasons = [
        (redirects.other_host, "they lead to another host, port or scheme"),
        (redirects.no_location, "their Location is missing or not an address"),
        (redirects.too_many, "as many redirects as --follow allows led there, perhaps in a loop"),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{}, because {why}", display::count(*count)))
        .collect();
    if reasons.is_empty() {
        return Some(format!("{leads}; {}", advice(sample, target)));
    }
    Some(format!("redirects that were not followed: {}; {leads}", reasons.join("; ")))
}

/// The target of one redirect, in a clause.
pub(crate) fn leads(sample: &RedirectSample, target: &Url) -> String {
    let RedirectSample { status, target: requested, location } = sample;
    if location.is_empty() {
        return format!("{requested} was answered with the redirect {status}, which has no Location");
    }
    let to = destination(sample, target).map_or_else(|| location.clone(), |url| credentials::shown(url.as_str()));
    format!("{requested} was answered with the redirect {status} to {to}")
}

/// The advice on a redirect that was not to be followed.
pub(crate) fn advice(sample: &RedirectSample, target: &Url) -> String {
    let status = sample.status;
    let good = format!("take it for good with --check status={status}");
    match destination(sample, target) {
        None => good,
        Some(url) if url.origin() == target.origin() => format!("use that URL, follow it with --follow, or {good}"),
        Some(_) => format!("use that URL (--follow stays on one host), or {good}"),
    }
}

fn destination(sample: &RedirectSample, target: &Url) -> Option<Url> {
    let location = Some(&sample.location).filter(|location| !location.is_empty())?;
    target.join(&sample.target).ok()?.join(location).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(redirects: &Redirects, location: &str, expected: &str) {
        let target = Url::parse("http://h:8080/").unwrap();
        let sample = Some(RedirectSample { status: 301, target: "/docs".into(), location: location.into() });
        let redirects = Redirects { sample, ..redirects.clone() };
        assert_eq!(sentence(&redirects, &target).as_deref(), Some(expected));
    }

    #[test]
    fn a_redirect_says_where_it_leads_and_what_to_do() {
        let none = Redirects::default();
        let good = "take it for good with --check status=301";
        let here = format!(
            "/docs was answered with the redirect 301 to http://h:8080/docs/; use that URL, follow it with --follow, or {good}"
        );
        check(&none, "/docs/", &here);
        check(&none, "http://user:secret@h:8080/docs/", &here);
        check(
            &none,
            "https://h/",
            &format!(
                "/docs was answered with the redirect 301 to https://h/; use that URL (--follow stays on one host), or {good}"
            ),
        );
        check(&none, "", &format!("/docs was answered with the redirect 301, which has no Location; {good}"));
        let some = Redirects { followed: 9, other_host: 1_200, too_many: 1, ..none };
        check(
            &some,
            "//other/",
            "redirects that were not followed: 1,200, because they lead to another host, port or scheme; 1, because as \
             many redirects as --follow allows led there, perhaps in a loop; /docs was answered with the redirect 301 to \
             http://other/",
        );
        assert_eq!(
            sentence(&Redirects { followed: 9, ..Redirects::default() }, &Url::parse("http://h/").unwrap()),
            None
        );
    }
}
