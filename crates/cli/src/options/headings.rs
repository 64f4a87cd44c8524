//! The groups of a command's help. Each shows how its options are written.

pub(super) const LOAD: &str = "Load, as in --rate 500 --duration 10";
pub(super) const SEARCH: &str = "Search, as in --duration 30 --width 2%";
pub(super) const ROUNDS: &str = "Comparison, as in --metric p99 --rate 2000 --detect 5%";
pub(super) const SIDES: &str = "Sides, as in --restart-a ./old.sh --restart-b ./new.sh";
pub(super) const SWEEP: &str = "Sweep, as in --low-rate 100 --high-rate 2000 --step 100";
pub(super) const REPLAY: &str = "Replay, as in --speed 2";
pub(super) const REQUESTS: &str = "Requests, as in --header 'Accept: text/html'";
pub(super) const CONNECTIONS: &str = "Connections, as in --connections 64 --timeout 2";
pub(super) const CLIENT: &str = "This client, as in --cores 1,3 --from 10.0.0.2-10.0.0.9";
pub(super) const TLS: &str = "TLS, for https://, as in --cacert ca.pem --tls-min 1.3";
pub(super) const LIMITS: &str = "Limits, as in --limit 'p99<50ms' --check status=200";
pub(super) const OBSERVATION: &str = "Observation, as in --observe 10.0.0.1:9177";
pub(super) const OUTPUT: &str = "Output, as in --out report.html --label nginx-1.28";
