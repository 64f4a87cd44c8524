//! Servers of `thalweg serve` that form a cluster: what each fetches from the origin, one that is
//! killed, one that is added to the list, and clients that pretend to be peers.

use std::fmt::Write as _;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

use crate::content::numbered;
use crate::curl::fetch;
use crate::process::{PATIENCE, free_port, until};
use crate::server::{Server, Tree};

/// Two parts and a half.
const BIG_BYTES: usize = 40 << 20;

struct Cluster {
    folder: TempDir,
    tree: Tree,
    origin: Server,
    /// The list of servers, as each configuration has it.
    list: String,
}

struct Node {
    server: Server,
    url: String,
}

impl Cluster {
    fn new(list: &str) -> Self {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        fs::write(tree.root().join("big"), big()).unwrap();
        fs::write(folder.path().join("token"), "0123456789abcdef").unwrap();
        let text = format!(
            "[log]\naccess = \"origin.log\"\n[[site]]\nroot = {:?}\n[[site.rule]]\ncache_control = \"max-age=600\"\n",
            tree.root()
        );
        let file = folder.path().join("origin.toml");
        fs::write(&file, text).unwrap();
        Self { origin: Server::configured(&file, &[]), folder, tree, list: list.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set_peers(&self, urls: &[&str]) {
        // As an editor does it.
        fs::write(self.path("peers.new"), urls.join("\n")).unwrap();
        fs::rename(self.path("peers.new"), self.path("peers")).unwrap();
    }

    fn start(&self, host: &str, port: u16) -> Node {
        let url = format!("http://{host}:{port}");
        let file = self.path(&format!("{port}.toml"));
        let (volume, list) = (self.path(&format!("{port}.volume")), &self.list);
        let text = format!(
            "[disk_cache]\nvolumes = [{{ path = {volume:?}, size = \"4GiB\" }}]\n[log]\nlevel = \"notice\"\n[[origin]]\n\
             name = \"o\"\nurl = \"{}/\"\n[cluster]\nurl = {url:?}\ntoken = \"token\"\n{list}\n[[site]]\n\
             [[site.mount]]\npath = \"/m/\"\norigins = [\"o\"]\n",
            self.origin.url
        );
        fs::write(&file, text).unwrap();
        Node { server: Server::configured(&file, &["--listen", &format!("127.0.0.1:{port}")]), url }
    }

    /// Requests and bytes that the origin was asked for of a file.
    fn fetched(&self, name: &str) -> (usize, u64) {
        let log = fs::read_to_string(self.path("origin.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&format!("GET /{name} "))).collect();
        let bytes = lines.iter().map(|line| line.split(' ').nth(9).unwrap().parse::<u64>().unwrap());
        (lines.len(), bytes.sum())
    }
}

impl Node {
    #[track_caller]
    fn serves(&self, name: &str, content: &[u8]) {
        let reply = fetch(&[], &format!("{}/m/{name}", self.server.url));
        assert!(reply.status == 200 && reply.body == content, "{name}: {} {:?}", reply.status, reply.fields);
    }

    fn waits_for(&self, text: &str) {
        let what = format!("{text:?} in the error log");
        until(&what, PATIENCE, || self.server.process.stderr().contains(text).then_some(()));
    }
}

fn big() -> Vec<u8> {
    numbered(BIG_BYTES)
}

fn put(folder: &Path, name: &str, content: &[u8]) {
    fs::write(folder.join(name), content).unwrap();
}

#[test]
fn a_cluster_fetches_each_part_once_without_a_dead_server_and_with_a_new_one() {
    let cluster = Cluster::new("peers_file = \"peers\"");
    let ports = [(); 4].map(|()| free_port());
    let urls = ports.map(|port| format!("http://127.0.0.1:{port}"));
    let [a, b, c, d] = urls.each_ref().map(String::as_str);
    cluster.set_peers(&[a, b, c]);
    let nodes: Vec<Node> = ports[..3].iter().map(|port| cluster.start("127.0.0.1", *port)).collect();
    for _ in 0..2 {
        nodes.iter().for_each(|node| node.serves("big", &big()));
    }
    until("the origin's log", PATIENCE, || (cluster.fetched("big").1 >= BIG_BYTES as u64).then_some(()));
    assert_eq!(cluster.fetched("big"), (3, BIG_BYTES as u64));

    let small = |number: usize| format!("small{number}");
    (0..40).for_each(|number| put(&cluster.tree.root(), &small(number), b"hello"));
    nodes[0].server.process.signal("KILL");
    (0..10).for_each(|number| nodes[1..].iter().for_each(|node| node.serves(&small(number), b"hello")));
    let requests = |count: usize| (0..count).map(|number| cluster.fetched(&small(number)).0).sum::<usize>();
    until("the origin's log", PATIENCE, || (requests(10) >= 10).then_some(()));
    assert_eq!(requests(10), 10, "each of them once");

    cluster.set_peers(&[b, c, d]);
    let new = cluster.start("127.0.0.1", ports[3]);
    nodes[1..].iter().for_each(|node| node.waits_for("the servers of the cluster are now"));
    // It has what another one had before it from that one.
    new.serves("small1", b"hello");
    (10..40)
        .for_each(|number| [&nodes[1], &nodes[2], &new].iter().for_each(|node| node.serves(&small(number), b"hello")));
    until("the origin's log", PATIENCE, || (requests(40) >= 40).then_some(()));
    assert_eq!(requests(40), 40, "each of them once");

    fs::write(cluster.path("peers"), "junk").unwrap();
    new.waits_for("\"junk\" is not the URL of a server");
    nodes[1].serves("text.txt", crate::server::TEXT);
}

#[test]
fn a_client_that_pretends_to_be_a_peer_is_refused() {
    let port = free_port();
    let cluster = Cluster::new(&format!("peers = [\"http://127.0.0.1:{}\"]", free_port()));
    let node = cluster.start("127.0.0.1", port);
    node.serves("text.txt", crate::server::TEXT);
    for name in ["text.txt", "data.json"] {
        let reply = fetch(&["--header", "Thalweg-Peer: 0123456789abcdef"], &format!("{}/m/{name}", node.server.url));
        assert_eq!(reply.status, 502, "{name}");
    }
    node.waits_for("does not prove that it has the cluster's token");
    assert_eq!(cluster.fetched("data.json").0, 0);
}

/// A DNS server that answers with records of type SRV for these ports of `localhost`, which live a
/// second.
fn name_server() -> (u16, Arc<Mutex<Vec<u16>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (port, ports) = (socket.local_addr().unwrap().port(), Arc::<Mutex<Vec<u16>>>::default());
    let answered = Arc::clone(&ports);
    thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut bytes) {
            let question = &bytes[12..length];
            let end = question.iter().position(|byte| *byte == 0).unwrap() + 5;
            let ports = answered.lock().unwrap();
            let mut answer = bytes[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, ports.len() as u8, 0, 0, 0, 0]);
            answer.extend(&question[..end]);
            for port in &*ports {
                answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 1, 0, 17, 0, 0, 0, 0]);
                answer.extend(port.to_be_bytes());
                answer.extend(b"\x09localhost\x00");
            }
            socket.send_to(&answer, client).unwrap();
        }
    });
    (port, ports)
}

#[test]
fn the_servers_of_a_cluster_are_those_of_the_dns() {
    let (resolver, records) = name_server();
    let list = format!("peers_srv = \"_thalweg._tcp.example\"\nresolver = \"127.0.0.1:{resolver}\"\nsrv_time = \"1s\"");
    let cluster = Cluster::new(&list);
    let ports = [free_port(), free_port()];
    let nodes = ports.map(|port| cluster.start("localhost", port));
    // There are none yet.
    nodes.iter().for_each(|node| node.waits_for("the name has no records of type SRV"));
    *records.lock().unwrap() = ports.to_vec();
    let mut urls = nodes.each_ref().map(|node| node.url.clone());
    urls.sort();
    let mut line = String::new();
    write!(line, "the servers of the cluster are now {}", urls.join(", ")).unwrap();
    nodes.iter().for_each(|node| node.waits_for(&line));
    nodes.iter().for_each(|node| node.serves("big", &big()));
    until("the origin's log", PATIENCE, || (cluster.fetched("big").1 >= BIG_BYTES as u64).then_some(()));
    assert_eq!(cluster.fetched("big"), (3, BIG_BYTES as u64));
    records.lock().unwrap().truncate(1);
    nodes[1].waits_for(&format!("the servers of the cluster are now http://localhost:{}\n", ports[0]));
}
