//! The source documents' own figures, beside which tables put those that were measured.

use crate::document::SuiteName;

/// The figures of one document.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The document, its date and its servers' hardware, as far as it says.
    pub source: &'static str,
    /// The servers.
    pub columns: &'static [&'static str],
    /// The rows, by the names of figures; one cell for each server.
    pub rows: &'static [(&'static str, &'static [&'static str])],
}

const ACME_SERVERS: &[&str] = &["Apache", "thttpd", "Zeus", "Afterburner"];
const ACME: &str = "ACME Labs, web server comparison, about 1998; four clients on 100 Mbit/s each";

/// The document's figures; `None` where it has none of its own.
pub fn reference(suite: SuiteName) -> Option<Reference> {
    let acme = |rows| Some(Reference { source: ACME, columns: ACME_SERVERS, rows });
    match suite {
        SuiteName::AcmeSmall => acme(&[
            ("operations", &["890", "2030", "3560", "5200"]),
            ("bits", &["3,600,000", "8,300,000", "14,600,000", "21,300,000"]),
        ]),
        SuiteName::AcmeSpec => acme(&[
            ("operations", &["660", "1140", "1260", "1290"]),
            ("bits", &["79,000,000", "137,000,000", "151,000,000", "155,000,000"]),
        ]),
        SuiteName::AcmeBig => acme(&[("bits", &["297,000,000", "250,000,000", "253,000,000", "321,000,000"])]),
        SuiteName::AcmeModem => acme(&[("connections", &["90", "250", "1000", ">3000"])]),
        SuiteName::Webbench => Some(Reference {
            source: "Mindcraft, April 1999; a server with four 400 MHz Pentium II Xeon, 144 clients on 100 Mbit/s each",
            columns: &["Linux/Apache 1.3.4", "Windows NT Server 4.0/IIS 4"],
            rows: &[
                ("peak_requests", &["1,000", "3,771"]),
                ("peak_threads", &["160", "288, the most tried"]),
                ("lowest_share", &["7 %", "not known"]),
            ],
        }),
        SuiteName::Heanet => Some(Reference {
            source: "HEAnet, ftp.heanet.ie, 2005; the file of 100 bytes, while the server carried about 5,000 requests",
            columns: &["Apache 2.1.5-dev"],
            rows: &[
                ("requests_100", &["166.97"]),
                ("p50_100", &["288 ms"]),
                ("connections", &["27,317 in production"]),
            ],
        }),
        SuiteName::Specweb96 | SuiteName::Specweb99 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_cell_for_each_server() {
        for reference in SuiteName::ALL.into_iter().filter_map(reference) {
            for (name, cells) in reference.rows {
                assert_eq!(cells.len(), reference.columns.len(), "{name} of {}", reference.source);
            }
        }
    }
}
