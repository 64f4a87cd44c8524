//! Each driver against each, with real sockets: a bounded number of requests, all of them answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const FLOOR: &str = env!("CARGO_BIN_EXE_floor");
const REQUESTS: u64 = 1000;

/// A server on a port of the kernel's choice, killed should the test end before it does.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(driver: &str, more: &[&str]) -> Self {
        let mut child = Command::new(FLOOR)
            .args(["server", "--driver", driver, "--port", "0"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("it is piped");
        BufReader::new(stderr).read_line(&mut line).expect("it says where it listens");
        let port = line.trim().rsplit(':').next().expect("an address has a port").to_owned();
        assert!(line.starts_with("floor: listening on"), "{line}");
        Self { child, port }
    }

    /// The output at its end.
    fn totals(&mut self) -> String {
        let mut output = String::new();
        self.child.stdout.take().expect("it is piped").read_to_string(&mut output).expect("it is text");
        assert!(self.child.wait().expect("it has ended").success());
        output
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(driver: &str, port: &str, more: &[&str]) -> (bool, String, String) {
    let output = Command::new(FLOOR)
        .args(["client", "--driver", driver, "--port", port])
        .args(more)
        .output()
        .expect("the client starts");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn check(client_driver: &str, server_driver: &str, more: &[&str], connections: &str) {
    // The client sends one request more than it counts, to learn the length of a response.
    let mut server = Server::start(server_driver, &[more, &["--requests", "1001"]].concat());
    let requests = REQUESTS.to_string();
    let bounds = ["--requests", &requests, "--connections", connections];
    let (success, output, errors) = client(
        client_driver,
        &server.port,
        &[more, &bounds].concat().into_iter().filter(is_clients).collect::<Vec<_>>(),
    );
    let pair = format!("{client_driver} client, {server_driver} server, {more:?}, {connections} connections");
    assert!(success, "{pair}: {errors}");
    assert!(output.contains("\"requests\": 1000,"), "{pair}: {output}");
    assert!(server.totals().contains("\"requests\": 1001,"), "{pair}");
}

/// The length of the body is the server's alone; the client finds it out.
fn is_clients(argument: &&str) -> bool {
    !argument.starts_with("--bytes")
}

#[test]
fn every_request_is_answered() {
    for client in ["epoll", "uring"] {
        for server in ["epoll", "uring"] {
            for connections in ["1", "64"] {
                check(client, server, &[], connections);
                check(client, server, &["--close"], connections);
            }
        }
    }
}

#[test]
fn a_response_of_many_pieces_is_one_response() {
    for client in ["epoll", "uring"] {
        for server in ["epoll", "uring"] {
            check(client, server, &["--bytes=100000"], "8");
            check(client, server, &["--bytes=100000", "--close"], "8");
        }
    }
}

#[test]
fn files_are_sent_as_they_are() {
    // More than a socket takes at once, and shorter than a chunk.
    let paths = [("floor-large", 3_000_000), ("floor-small", 10)].map(|(name, bytes)| {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let content: Vec<u8> = (0..bytes).map(|index: u32| (index * 7 % 251) as u8).collect();
        std::fs::write(&path, &content).expect("there is room for temporary files");
        (path, content)
    });
    let mut arguments = vec!["--requests", "4"];
    for (path, _) in &paths {
        arguments.extend(["--file", path.to_str().expect("its name is text")]);
    }
    let mut server = Server::start("epoll", &arguments);
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", server.port)).expect("it listens");
    for (_, content) in paths.iter().cycle().take(4) {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the connection stays");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head comes");
            head.push(byte[0]);
        }
        assert!(String::from_utf8_lossy(&head).contains(&format!("Content-Length: {}\r\n", content.len())));
        let mut body = vec![0; content.len()];
        stream.read_exact(&mut body).expect("a body comes");
        assert!(body == *content);
    }
    assert!(server.totals().contains("\"requests\": 4,"));
    for (path, _) in &paths {
        std::fs::remove_file(path).expect("it is there");
    }
}

/// A certificate of its own in a folder of the system's, and its key: `CHAIN:KEY`.
fn certificate() -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate can be made");
    let files = [("chain", made.cert.pem()), ("key", made.signing_key.serialize_pem())].map(|(name, text)| {
        let path = std::env::temp_dir().join(format!("floor-{name}-{}.pem", std::process::id()));
        std::fs::write(&path, text).expect("there is room for temporary files");
        path.to_str().expect("its name is text").to_owned()
    });
    files.join(":")
}

#[test]
fn tls_and_http_2_carry_every_request() {
    let certificate = certificate();
    let secure = ["--certificate", &certificate];
    for (server, client_arguments) in [
        (vec!["--streams", "1"], vec!["--streams", "32"]),
        (secure.to_vec(), vec!["--tls"]),
        ([&secure[..], &["--close"]].concat(), vec!["--tls", "--close"]),
        ([&secure[..], &["--close", "--resume"]].concat(), vec!["--tls", "--close", "--resume"]),
        ([&secure[..], &["--streams", "1", "--bytes", "40000"]].concat(), vec!["--tls", "--streams", "4"]),
    ] {
        let mut server = Server::start("epoll", &[&server[..], &["--requests", "1000"]].concat());
        let bounds = ["--requests", "1000", "--connections", "8"];
        let (success, output, errors) = client("epoll", &server.port, &[&client_arguments[..], &bounds].concat());
        assert!(success, "{client_arguments:?}: {errors}");
        assert!(output.contains("\"requests\": 1000,"), "{client_arguments:?}: {output}");
        assert!(server.totals().contains("\"requests\": 1000,"), "{client_arguments:?}");
    }
    for path in certificate.split(':') {
        std::fs::remove_file(path).expect("it is there");
    }
    let (success, _, errors) = client("uring", "1", &["--tls"]);
    assert!(!success && errors.contains("only with --driver epoll"), "{errors}");
}

#[test]
fn a_run_of_a_second_ends() {
    for driver in ["epoll", "uring"] {
        for more in [&[][..], &["--close"]] {
            let server = Server::start(driver, more);
            let (success, output, errors) = client(driver, &server.port, &[more, &["--seconds", "1"]].concat());
            assert!(success, "{driver}: {errors}");
            assert!(output.contains("\"seconds\": 1."), "{driver}: {output}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_told() {
    // No process listens on port 1 of loopback, and only root could.
    for driver in ["epoll", "uring"] {
        let (success, _, errors) = client(driver, "1", &["--requests", "1"]);
        assert!(!success);
        assert!(errors.contains("asking 127.0.0.1:1"), "{errors}");
    }
}
