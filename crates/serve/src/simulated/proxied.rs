//! Clients behind proxies: those that a field of a request names, and those that a PROXY header in
//! front of a connection does.

use thalweg_caching::FieldLines;
use thalweg_wire::forwarded::ClientField;

use super::tier::{Delivery, Ending, Kind, ScriptedTier, forwarding};
use super::*;
use crate::config::RequestLimit;

/// The only proxy that is trusted, by the last part of its address.
const PROXY: u8 = 1;

fn source(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, number).into()
}

/// A server that trusts the proxy, and lets in nobody of 192.0.2.0/24.
fn config(folder: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(folder, Vec::<ListenAddr>::new());
    config.trusted_proxies = vec!["127.0.1.1".parse().unwrap()];
    config.networks.deny = vec!["192.0.2.0/24".parse().unwrap()];
    config
}

/// Runs clients, each with the last part of its address, against a server of a configuration.
fn arrive(
    change: impl FnOnce(&mut ServerConfig),
    sim: SimConfig,
    clients: &[(u8, Vec<Step>)],
) -> (Vec<Outcome>, Totals) {
    let folder = folder();
    let mut config = config(folder.path());
    change(&mut config);
    assert_eq!(config.check(), []);
    let mut driver = Sim::new(sim);
    let start = driver.now();
    let (mut world, published) = world_of(&mut driver, &config, folder.path(), Vec::new());
    world.newcomers = clients.iter().map(|(number, steps)| (start, source(*number), steps.clone())).collect();
    run(&mut driver, &mut world).unwrap();
    (world.outcomes(start), published[0].totals())
}

fn get(fields: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

/// Requests with these fields on one connection, one after the other.
fn gets(fields: &[&str]) -> Vec<Step> {
    vec![send(&fields.iter().map(|fields| get(fields)).collect::<String>()), Step::Finish]
}

fn statuses(outcome: &Outcome) -> Vec<u16> {
    naive::take_all(&outcome.received, &["GET"]).iter().map(|response| response.status).collect()
}

#[test]
fn networks_are_those_of_the_client_that_a_trusted_proxy_names() {
    let fields = [
        "X-Forwarded-For: 192.0.2.1\r\n",
        "X-Forwarded-For: 198.51.100.1\r\n",
        "X-Forwarded-For: 198.51.100.1, 192.0.2.1\r\n",
        "X-Forwarded-For: 192.0.2.1, 198.51.100.1\r\n",
        "X-Forwarded-For: 192.0.2.1, 127.0.1.1\r\n",
        "Forwarded: for=192.0.2.1\r\n",
        "",
    ];
    let clients = [(PROXY, gets(&fields)), (2, gets(&fields))];
    let (outcomes, totals) = arrive(|_| {}, SimConfig::calm(1), &clients);
    assert_eq!(statuses(&outcomes[0]), [403, 200, 403, 200, 403, 200, 200]);
    assert_eq!(statuses(&outcomes[1]), [200; 7], "nobody else is believed");
    assert_eq!(totals.requests_denied, 3);
    let (outcomes, _) = arrive(|config| config.client_field = ClientField::Forwarded, SimConfig::calm(1), &clients);
    assert_eq!(statuses(&outcomes[0]), [200, 200, 200, 200, 200, 403, 200]);
}

#[test]
fn requests_are_limited_by_the_client_and_not_by_its_proxy() {
    let change = |config: &mut ServerConfig| {
        config.limits.requests_per_client = RequestLimit { rate: Some("1/h".parse().unwrap()), burst: 2 };
        config.limits.connections_per_client_max = 1;
    };
    let one = "X-Forwarded-For: 198.51.100.1\r\n";
    let other = "X-Forwarded-For: 198.51.100.2\r\n";
    let clients = [(PROXY, gets(&[one, other, one, one, other])), (PROXY, gets(&[one, other])), (2, gets(&[one; 3]))];
    let (outcomes, _) = arrive(change, SimConfig::calm(1), &clients);
    let mut answered: Vec<_> = outcomes.iter().flat_map(statuses).collect();
    answered.sort_unstable();
    assert_eq!(answered, [200, 200, 200, 200, 200, 200, 429, 429, 429, 429], "two of each of three clients");
    assert_eq!(statuses(&outcomes[2]), [200, 200, 429]);
}

fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 198.51.100.99 4711 80\r\n").into_bytes()
}

fn v2(client: [u8; 4]) -> Vec<u8> {
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", &client[..], &[198, 51, 100, 99, 0, 80, 0, 80]].concat()
}

fn with_headers(config: &mut ServerConfig) {
    config.proxy_protocol = vec![SERVER.into()];
}

#[test]
fn a_proxy_header_names_the_client_however_it_is_cut() {
    let request = get("");
    for (header, status) in [
        (v1("198.51.100.1"), 200),
        (v1("192.0.2.1"), 403),
        (v2([198, 51, 100, 1]), 200),
        (v2([192, 0, 2, 1]), 403),
        (b"PROXY UNKNOWN\r\n".to_vec(), 200),
    ] {
        for cut in 0..=header.len() + 10 {
            let all = [&header[..], request.as_bytes(), request.as_bytes()].concat();
            let (first, second) = all.split_at(cut);
            let steps =
                vec![Step::Send(first.to_vec()), Step::Rest(1_000_000), Step::Send(second.to_vec()), Step::Finish];
            let (outcomes, totals) = arrive(with_headers, SimConfig::calm(1), &[(PROXY, steps)]);
            assert_eq!(statuses(&outcomes[0]), [status; 2], "{} cut at {cut}", header.escape_ascii());
            assert_eq!((totals.accepted, totals.open), (1, 0));
        }
    }
}

#[test]
fn limits_of_connections_see_the_client_of_a_proxy_header() {
    let change = |config: &mut ServerConfig| {
        with_headers(config);
        config.limits.connections_per_client_max = 1;
    };
    let of = |client: &str| {
        vec![Step::Send([v1(client), get("").into_bytes()].concat()), Step::Rest(SECOND_NS), Step::Finish]
    };
    let clients = ["198.51.100.1", "198.51.100.2", "198.51.100.1"].map(|client| (PROXY, of(client)));
    let (outcomes, _) = arrive(change, SimConfig::calm(1), &clients);
    let answered: Vec<_> = outcomes.iter().map(|outcome| statuses(outcome)[0]).collect();
    assert_eq!(answered, [200, 200, 503]);
}

#[test]
fn proxy_headers_of_others_and_of_another_form_are_not_taken() {
    let header = v1("198.51.100.1");
    let request = get("").into_bytes();
    let whole = [header.clone(), request.clone()].concat();
    let clients = [
        (2, vec![Step::Send(whole)]),
        (PROXY, vec![Step::Send(request)]),
        (PROXY, vec![Step::Send(b"\x16\x03\x01\x02\0\x01\0".to_vec())]),
        (PROXY, vec![Step::Send(header[..20].to_vec())]),
        (PROXY, vec![Step::Send(header[..20].to_vec()), Step::Finish]),
        (PROXY, vec![]),
    ];
    let (outcomes, totals) = arrive(with_headers, SimConfig::calm(1), &clients);
    for (outcome, (number, steps)) in outcomes.iter().zip(&clients) {
        assert!(outcome.received.is_empty(), "{number} {steps:?}");
    }
    let head_time = Limits::default().head_time;
    assert!(outcomes[..3].iter().chain([&outcomes[4]]).all(|outcome| outcome.lasted < head_time / 2));
    let late = head_time - Duration::from_millis(100)..head_time + Duration::from_secs(11);
    assert!(late.contains(&outcomes[3].lasted) && late.contains(&outcomes[5].lasted), "{:?}", outcomes[3].lasted);
    assert_eq!((totals.denied, totals.requests, totals.open), (1, 0, 0));
}

#[test]
fn a_connection_without_its_proxy_header_does_not_outlive_the_server() {
    let steps = vec![Step::Send(b"PROXY TCP4".to_vec()), Step::Drain(SECOND_NS)];
    let (outcomes, _) = arrive(with_headers, SimConfig::calm(1), &[(PROXY, steps)]);
    assert!(outcomes[0].lasted <= Duration::from_secs(2));
}

#[test]
fn proxy_headers_survive_a_rough_network() {
    for seed in 0..20 {
        let pipeline = [v2([198, 51, 100, 1]), PIPELINE.as_bytes().to_vec()].concat();
        let clients = vec![(PROXY, vec![Step::Send(pipeline), Step::Finish]); 3];
        let (outcomes, _) = arrive(with_headers, SimConfig::rough(seed), &clients);
        outcomes.iter().for_each(|outcome| check_pipeline(outcome, &format!("seed {seed}")));
    }
}

/// The fields that the origin gets of a request with these, from somebody.
fn fields_at_origin(number: u8, fields: &str) -> Vec<String> {
    let tier = ScriptedTier::new([("/a", Delivery::of(Kind::Failed(502), 0, 1, Ending::Complete))]);
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), Vec::new());
    let mut config = forwarding(&["GET"]);
    config.trusted_proxies = vec!["127.0.1.1".parse().unwrap()];
    world.forward(&tier, &config);
    world.newcomers = [(driver.now(), source(number), gets(&[fields]))].into();
    run(&mut driver, &mut world).unwrap();
    let fields = tier.last_fields();
    fields.lines().map(|(name, value)| format!("{name}: {}", value.escape_ascii())).collect()
}

#[test]
fn origins_are_told_of_clients_by_nobody_but_this_server_and_its_proxies() {
    let claims = "X-Forwarded-For: 198.51.100.1\r\nForwarded: for=198.51.100.2\r\nX-Forwarded-Proto: https\r\n";
    assert_eq!(fields_at_origin(2, claims), ["X-Forwarded-For: 127.0.1.2"]);
    assert_eq!(fields_at_origin(2, ""), ["X-Forwarded-For: 127.0.1.2"]);
    let expected = ["X-Forwarded-Proto: https", "X-Forwarded-For: 198.51.100.1, 127.0.1.1"];
    assert_eq!(fields_at_origin(PROXY, claims), expected);
}
