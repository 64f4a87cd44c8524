//! HAProxy in front of the server, with the PROXY protocol: clients are known behind it, over plain
//! HTTP and over TLS that goes through it.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::curl::{Reply, fetch};
use crate::process::{PATIENCE, Process, free_port, program, thalweg, until};
use crate::server::{TEXT, Tree};

/// A server behind HAProxy.
struct Behind {
    folder: TempDir,
    _tree: Tree,
    server: Process,
    proxy: Process,
    /// The ports of the proxy: for plain HTTP, and for TLS.
    ports: [u16; 2],
}

impl Behind {
    fn start() -> Self {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        let [ports, own] = [(); 2].map(|()| [free_port(), free_port()]);
        let (root, log) = (tree.root(), folder.path().join("access.log"));
        let listen = own.map(|port| format!("{{ address = \"127.0.0.1:{port}\", proxy_protocol = true }}"));
        let text = format!(
            "listen = [{}]\ntrusted_proxies = [\"127.0.0.1\"]\n[log]\naccess = {log:?}\n[tls]\nself_signed = true\n\
             listen = [\"127.0.0.1:{}\"]\n[[site]]\nroot = {root:?}\ndeny = [\"127.0.0.77\"]\n",
            listen.join(", "),
            own[1]
        );
        let file = folder.path().join("thalweg.toml");
        fs::write(&file, text).unwrap();
        let server = Process::start(&mut thalweg(&["serve", "--config", file.to_str().unwrap()]));
        until("the server to listen", PATIENCE, || {
            (server.stdout().matches("listening on").count() >= 2).then_some(())
        });
        let mut text = "defaults\nmode tcp\ntimeout connect 10s\ntimeout client 50s\ntimeout server 50s\n".to_owned();
        for (front, back) in ports.iter().zip(own) {
            text += &format!("listen to{back}\nbind 127.0.0.1:{front}\nserver s 127.0.0.1:{back} send-proxy-v2\n");
        }
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program(&["haproxy"], "haproxy"));
        let proxy = Process::start(command.args(["-db", "-f"]).arg(&file));
        for port in ports {
            until("HAProxy to listen", PATIENCE, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        }
        Self { folder, _tree: tree, server, proxy, ports }
    }

    /// Fetches a file over both ports from an address of a client.
    fn fetch(&self, client: &str) -> [Reply; 2] {
        let [plain, tls] = self.ports;
        [format!("http://127.0.0.1:{plain}"), format!("https://127.0.0.1:{tls}")]
            .map(|url| fetch(&["--insecure", "--interface", client], &format!("{url}/text.txt")))
    }
}

#[test]
fn clients_are_known_behind_haproxy_over_http_and_tls() {
    let behind = Behind::start();
    for client in ["127.0.0.9", "127.0.0.10"] {
        for reply in behind.fetch(client) {
            assert!(reply.status == 200 && reply.body == TEXT, "{client}: {reply:?}");
        }
    }
    // Lists of networks are about the client, not about the proxy.
    assert_eq!(behind.fetch("127.0.0.77").map(|reply| reply.status), [403, 403]);
    let log = || fs::read_to_string(behind.folder.path().join("access.log")).unwrap_or_default();
    until("the access log", PATIENCE, || (log().lines().count() >= 6).then_some(()));
    for client in ["127.0.0.9", "127.0.0.10", "127.0.0.77"] {
        let lines = log().lines().filter(|line| line.split(' ').next() == Some(client)).count();
        assert_eq!(lines, 2, "{client}: {}", log());
    }
    behind.proxy.signal("TERM");
    behind.server.signal("TERM");
    let ended = behind.server.wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
