//! Error documents of authorities (RFC 8555, 6.7) as problems.

use std::time::SystemTime;

use instant_acme::Problem as Document;

use crate::problem::{Problem, printable};

const NAMESPACE: &str = "urn:ietf:params:acme:error:";

/// The problem of an error document, the answer to `operation` at `url`.
pub(crate) fn refusal(
    document: &Document,
    operation: &'static str,
    url: &str,
    retry_after: Option<SystemTime>,
) -> Problem {
    let kind = kind(document);
    let detail = detail(document);
    let status = document.status.unwrap_or_default();
    match kind {
        "accountDoesNotExist" => Problem::AccountGone { detail },
        "rateLimited" => Problem::RateLimited { detail, retry_after },
        _ if status == 429 => Problem::RateLimited { detail, retry_after },
        "serverInternal" => Problem::Unavailable { url: url.into(), status, detail, retry_after },
        _ if status >= 500 => Problem::Unavailable { url: url.into(), status, detail, retry_after },
        kind => Problem::Refused { operation, kind: printable(kind), detail },
    }
}

/// The kind of error: its URN without the namespace of ACME.
pub(crate) fn kind(document: &Document) -> &str {
    let urn = document.r#type.as_deref().unwrap_or("about:blank");
    urn.strip_prefix(NAMESPACE).unwrap_or(urn)
}

/// The authority's words, with those on single names.
pub(crate) fn detail(document: &Document) -> String {
    let own = document.detail.as_deref().unwrap_or("it does not say why");
    let parts = document.subproblems.iter().map(|part| {
        let name = part.identifier.as_ref().map(|name| format!("{}: ", name.authorized(false)));
        format!("; {}{}", name.unwrap_or_default(), part.detail.as_deref().unwrap_or_default())
    });
    printable(&(own.to_owned() + &parts.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, expected: Problem) {
        let document = serde_json::from_str(document).expect("the document is one");
        assert_eq!(refusal(&document, "the order", "https://ca.example/order", None), expected);
    }

    #[test]
    fn an_error_document_has_a_kind() {
        let account =
            r#"{"type": "urn:ietf:params:acme:error:accountDoesNotExist", "detail": "unknown", "status": 400}"#;
        check(account, Problem::AccountGone { detail: "unknown".into() });
        let limit = r#"{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "5 per week", "status": 429}"#;
        check(limit, Problem::RateLimited { detail: "5 per week".into(), retry_after: None });
        let own = r#"{"type": "urn:ietf:params:acme:error:serverInternal", "detail": "oops", "status": 500}"#;
        let url = "https://ca.example/order".to_owned();
        check(own, Problem::Unavailable { url, status: 500, detail: "oops".into(), retry_after: None });
        let refused = |kind: &str, detail: &str| Problem::Refused {
            operation: "the order",
            kind: kind.into(),
            detail: detail.into(),
        };
        check("{}", refused("about:blank", "it does not say why"));
        check(
            r#"{"type": "urn:ietf:params:acme:error:rejectedIdentifier", "detail": "policy", "status": 403, "subproblems":
                [{"detail": "is blocked", "identifier": {"type": "dns", "value": "a.example"}}]}"#,
            refused("rejectedIdentifier", "policy; a.example: is blocked"),
        );
    }
}
