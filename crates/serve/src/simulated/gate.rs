//! Requests that are refused, redirected or answered from elsewhere.

use super::*;
use crate::config::{DeniedClients, MountConfig, RequestLimit, Routing, Rule, SiteConfig};

fn source(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, number).into()
}

/// A client with the last part of its address, the milliseconds after which it comes, and what it
/// does.
type Newcomer = (u8, u64, Vec<Step>);

/// Runs these clients against a server of a configuration, which is one of a folder with `change`.
fn arrive(change: impl FnOnce(&mut ServerConfig), clients: Vec<Newcomer>) -> (Vec<Outcome>, Totals) {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("sub/b.html"), "the letter b\n").unwrap();
    let mut config = ServerConfig::new(folder.path(), Vec::<ListenAddr>::new());
    change(&mut config);
    assert_eq!(config.check(), []);
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = driver.now();
    let (mut world, published) = world_of(&mut driver, &config, folder.path(), Vec::new());
    let newcomers =
        clients.into_iter().map(|(number, ms, steps)| (start.plus_ns(ms * 1_000_000), source(number), steps));
    world.newcomers = newcomers.collect();
    run(&mut driver, &mut world).unwrap();
    (world.outcomes(start), published[0].totals())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// Requests one after the other on one connection, which they are the last of.
fn gets(paths: &[&str]) -> Vec<Step> {
    vec![send(&paths.iter().map(|path| get(path)).collect::<String>()), Step::Finish]
}

fn statuses(outcome: &Outcome) -> Vec<u16> {
    naive::take_all(&outcome.received, &["GET"]).iter().map(|response| response.status).collect()
}

fn networks(allow: &[&str], deny: &[&str]) -> crate::config::NetworkLists {
    let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    crate::config::NetworkLists { allow: list(allow), deny: list(deny) }
}

fn limit(rate: &str, burst: u32) -> RequestLimit {
    RequestLimit { rate: Some(rate.parse().unwrap()), burst }
}

#[test]
fn clients_of_denied_networks_get_a_403_and_keep_their_connection() {
    let change = |config: &mut ServerConfig| {
        config.networks = networks(&[], &["127.0.1.2", "127.0.1.8/29"]);
        let root = config.sites[0].mounts[0].root.join("sub");
        let mount = MountConfig { networks: networks(&["127.0.1.1"], &[]), ..MountConfig::new("/inner/", root) };
        config.sites[0].mounts.push(mount);
    };
    let paths = ["/a", "/a", "/missing", "/inner/b.html"];
    let clients = [1, 2, 3, 9].map(|number| (number, 0, gets(&paths))).to_vec();
    let (outcomes, totals) = arrive(change, clients);
    assert_eq!(statuses(&outcomes[0]), [200, 200, 404, 200]);
    assert_eq!(statuses(&outcomes[1]), [403; 4]);
    assert_eq!(statuses(&outcomes[2]), [200, 200, 404, 403]);
    assert_eq!(statuses(&outcomes[3]), [403; 4]);
    assert_eq!((totals.requests_denied, totals.requests_limited, totals.denied), (9, 0, 0));
    assert_eq!(totals.responses, [5, 0, 11, 0]);
}

#[test]
fn connections_of_denied_networks_are_closed_if_that_is_set() {
    let change = |config: &mut ServerConfig| {
        config.networks = networks(&["127.0.1.1"], &[]);
        config.denied_clients = DeniedClients::Close;
    };
    let (outcomes, totals) = arrive(change, vec![(1, 0, gets(&["/a"])), (2, 0, gets(&["/a"]))]);
    assert_eq!(statuses(&outcomes[0]), [200]);
    assert!(outcomes[1].received.is_empty());
    assert_eq!((totals.denied, totals.accepted, totals.requests), (1, 1, 1));
}

#[test]
fn other_methods_and_targets_are_refused_too() {
    let change = |config: &mut ServerConfig| config.networks = networks(&["127.0.1.1"], &[]);
    for request in ["OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"]
    {
        let steps = vec![send(request), Step::Finish];
        let (outcomes, totals) = arrive(change, vec![(2, 0, steps)]);
        assert_eq!((statuses(&outcomes[0]), totals.requests_denied), (vec![403], 1), "{request}");
    }
}

#[test]
fn a_client_has_its_rate_over_all_its_connections() {
    let change = |config: &mut ServerConfig| config.limits.requests_per_client = limit("2/s", 3);
    let four = gets(&["/a"; 4]);
    let clients = vec![(1, 0, four.clone()), (1, 10, four.clone()), (2, 20, four.clone()), (1, 2000, four)];
    let (outcomes, totals) = arrive(change, clients);
    // The first waits for the disk, and is counted once all the same.
    assert_eq!(statuses(&outcomes[0]), [200, 200, 200, 429]);
    assert_eq!(statuses(&outcomes[1]), [429; 4]);
    assert_eq!(statuses(&outcomes[2]), [200, 200, 200, 429], "another client");
    assert_eq!(statuses(&outcomes[3]), [200, 200, 200, 429], "a second and a half later");
    let refused = &naive::take_all(&outcomes[1].received, &["GET"; 4])[0];
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!((totals.requests_limited, totals.requests_denied), (7, 0));
}

#[test]
fn rates_of_sites_and_mounts_are_their_own() {
    let change = |config: &mut ServerConfig| {
        let root = config.sites[0].mounts[0].root.join("sub");
        config.sites[0].request_limit = limit("1/min", 3);
        let mount = MountConfig { request_limit: limit("1/h", 1), ..MountConfig::new("/inner/", root) };
        config.sites[0].mounts.push(mount);
    };
    let paths = ["/inner/b.html", "/inner/b.html", "/a", "/a", "/a"];
    let (outcomes, _) = arrive(change, vec![(1, 0, gets(&paths))]);
    assert_eq!(statuses(&outcomes[0]), [200, 429, 200, 200, 429]);
    let refused = naive::take_all(&outcomes[0].received, &["GET"; 5]);
    assert_eq!(refused[1].field("retry-after"), Some("3600"));
    assert_eq!(refused[4].field("retry-after"), Some("60"));
}

fn route(config: &mut ServerConfig) {
    let to = |redirect: &str, redirect_status| Routing {
        redirect: Some(redirect.to_owned()),
        redirect_status,
        rewrite: None,
    };
    let rewrite = |path: &str| Routing { rewrite: Some(path.to_owned()), ..Routing::default() };
    let rule = |folder: &str, files: Option<&str>, routing| Rule {
        folder: Some(folder.to_owned()),
        files: files.map(str::to_owned),
        routing,
        ..Rule::default()
    };
    config.sites[0].rules = vec![
        rule("/old/", None, to("https://new.example/{path}{query}", Some(308))),
        rule("/", Some("*.htm"), rewrite("/{folder}{*}.html")),
        rule("/alias/", None, rewrite("/{path}")),
        rule("/climb/", Some("x*"), rewrite("/sub/{*}/a")),
    ];
    let mut moved = SiteConfig { names: vec!["moved.example".to_owned()], ..SiteConfig::default() };
    moved.routing = to("https://new.example/{path}", None);
    config.sites.push(moved);
}

/// Requests one path of a host, and checks status, location and body.
#[track_caller]
fn check_routed(host: &str, path: &str, expected: (u16, Option<&str>, &str)) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let (outcomes, _) = arrive(route, vec![(1, 0, vec![send(&request), Step::Finish])]);
    let response = &naive::take_all(&outcomes[0].received, &["GET"])[0];
    let body = String::from_utf8_lossy(&response.body);
    let body = if response.status == 200 { &*body } else { "" };
    assert_eq!((response.status, response.field("location"), body), expected, "{host} {path}");
}

#[test]
fn redirects_name_the_rest_of_the_path_and_nothing_that_ends_the_field() {
    check_routed("h", "/old/a/b?x=1", (308, Some("https://new.example/a/b?x=1"), ""));
    check_routed("h", "/old", (308, Some("https://new.example/"), ""));
    check_routed("h", "/old/%0d%0aSet-Cookie:%20x", (308, Some("https://new.example/%0D%0ASet-Cookie:%20x"), ""));
    check_routed("h", "/old//evil.example/", (308, Some("https://new.example/evil.example/"), ""));
    check_routed("h", "/old/%5c%5cevil.example", (308, Some("https://new.example/%5C%5Cevil.example"), ""));
    check_routed("moved.example", "/any/thing?q", (302, Some("https://new.example/any/thing"), ""));
    check_routed("moved.example", "/", (302, Some("https://new.example/"), ""));
}

#[test]
fn rewrites_are_served_under_the_requested_path() {
    check_routed("h", "/sub/b.htm", (200, None, "the letter b\n"));
    check_routed("h", "/alias/a", (200, None, "the letter a\n"));
    check_routed("h", "/alias/sub", (301, Some("/alias/sub/"), ""));
    // What a rewrite leads to is not routed again.
    check_routed("h", "/alias/old/a", (404, None, ""));
    check_routed("h", "/climb/x..", (404, None, ""));
    check_routed("h", "/climb/x", (404, None, ""));
}

#[test]
fn a_rewrite_leads_past_no_list_of_networks() {
    let change = |config: &mut ServerConfig| {
        let root = config.sites[0].mounts[0].root.join("sub");
        let mount = MountConfig { networks: networks(&["127.0.1.1"], &[]), ..MountConfig::new("/inner/", root) };
        config.sites[0].mounts.push(mount);
        let routing = Routing { rewrite: Some("/inner/{path}".to_owned()), ..Routing::default() };
        config.sites[0].rules.push(Rule { folder: Some("/outer/".to_owned()), routing, ..Rule::default() });
    };
    let clients = vec![(1, 0, gets(&["/outer/b.html"])), (2, 0, gets(&["/outer/b.html"]))];
    let (outcomes, _) = arrive(change, clients);
    assert_eq!((statuses(&outcomes[0]), statuses(&outcomes[1])), (vec![200], vec![403]));
}
