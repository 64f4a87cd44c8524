//! Unix sockets of `thalweg serve`: the owners of their files, and the users who may connect.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::operation::{Place, Successor, ended_well, listening, said};
use crate::process::{PATIENCE, Process, program, run_thalweg, thalweg, until};

/// The users of the server and of the proxy, which exist on every host.
const SERVER: &str = "nobody";
const PROXY: &str = "daemon";

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Mode, owner and group.
fn file_of(path: &str) -> (u32, u32, u32) {
    let there = fs::symlink_metadata(path).unwrap();
    assert!(there.file_type().is_socket(), "{path}");
    (there.permissions().mode() & 0o7777, there.uid(), there.gid())
}

fn id(option: &str, user: &str) -> u32 {
    let output = Command::new("id").args([option, user]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Sends a request through the socket as some user; returns the body, or the error.
fn ask_as(user: Option<&str>, path: &str) -> String {
    let request = "GET /name HTTP/1.0\r\n\r\n";
    let Some(user) = user else {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        return text.rsplit("\r\n").next().unwrap().to_owned();
    };
    let script = "import os, pwd, socket, sys
user = pwd.getpwnam(sys.argv[1])
os.setgroups([]); os.setgid(user.pw_gid); os.setuid(user.pw_uid)
stream = socket.socket(socket.AF_UNIX)
try:
    stream.connect(sys.argv[2])
    stream.sendall(b'GET /name HTTP/1.0\\r\\n\\r\\n')
    print(stream.makefile().read().rsplit('\\n')[-1], end='')
except OSError as error:
    print(error.strerror, end='')";
    let mut command = Command::new(program(&["python3"], "python3"));
    Process::start(command.args(["-c", script, user, path])).wait(PATIENCE).stdout
}

#[test]
fn everybody_may_connect_whatever_the_umask_unless_it_is_said_otherwise() {
    for (keys, mode) in
        [("", 0o666), ("[unix_socket]\nmode = \"0660\"\n", 0o660), ("[unix_socket]\nmode = 0o600\n", 0o600)]
    {
        let place = Place::new();
        let (socket, config) = (place.path("socket"), place.path("thalweg.toml"));
        let text = |listen: &str| format!("listen = [{listen}]\n{keys}[[site]]\nroot = \"{}\"\n", place.path("root"));
        fs::write(&config, text(&format!("\"unix:{socket}\""))).unwrap();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "umask 077; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_thalweg"),
            "serve",
            "--config",
            &config,
        ]);
        let mut server = Process::start(&mut command);
        listening(&mut server, 0);
        assert_eq!(file_of(&socket).0, mode, "{keys}");
        assert_eq!(ask_as(None, &socket), "first");
        // One that a reload adds is made from within the sandbox, by a process with threads.
        let more = place.path("more");
        fs::write(&config, text(&format!("\"unix:{socket}\", \"unix:{more}\""))).unwrap();
        server.signal("HUP");
        said(&server, "the configuration was reloaded");
        assert_eq!((file_of(&more).0, ask_as(None, &more).as_str()), (mode, "first"), "{keys}: {}", server.stderr());
        let successor = Successor::of(&server);
        ended_well(&server.wait(PATIENCE));
        assert_eq!((file_of(&socket).0, ask_as(None, &socket).as_str()), (mode, "first"), "{keys}");
        successor.end();
        assert!(!fs::exists(&socket).unwrap() && !fs::exists(&more).unwrap());
    }
}

#[test]
fn a_socket_belongs_to_the_user_who_serves_and_a_proxy_connects() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (socket, config) = (place.path("socket"), place.path("thalweg.toml"));
    let write = |keys: &str| {
        let text = format!(
            "listen = [\"unix:{socket}\"]\nuser = \"{SERVER}\"\n{keys}[[site]]\nroot = \"{}\"\n",
            place.path("root")
        );
        fs::write(&config, text).unwrap();
    };
    let own = (id("-u", SERVER), id("-g", SERVER));
    let cases = [
        ("".to_owned(), (0o666, own.0, own.1), [SERVER, PROXY].as_slice(), [].as_slice()),
        (
            format!("[unix_socket]\nmode = \"0660\"\ngroup = \"{PROXY}\"\n"),
            (0o660, own.0, id("-g", PROXY)),
            &[SERVER, PROXY],
            &["bin"],
        ),
        (
            format!("[unix_socket]\nmode = \"0600\"\nuser = \"{PROXY}\"\n"),
            (0o600, id("-u", PROXY), own.1),
            &[PROXY],
            &[SERVER, "bin"],
        ),
    ];
    for (keys, file, may, may_not) in cases {
        write(&keys);
        assert_eq!(run_thalweg(&["serve", "--config", &config, "--check"]).code, Some(0), "{keys}");
        // The second one finds what the first, which is killed, has left.
        for _ in 0..2 {
            let mut server = Process::start(&mut thalweg(&["serve", "--config", &config]));
            listening(&mut server, 0);
            assert_eq!(file_of(&socket), file, "{keys}");
            for user in may {
                assert_eq!(ask_as(Some(user), &socket), "first", "{user}: {keys}");
            }
            for user in may_not {
                assert_eq!(ask_as(Some(user), &socket), "Permission denied", "{user}: {keys}");
            }
            let successor = Successor::of(&server);
            ended_well(&server.wait(PATIENCE));
            assert_eq!((file_of(&socket), ask_as(None, &socket).as_str()), (file, "first"), "{keys}");
            crate::process::signal("KILL", successor.0);
            until("the end of the successor", PATIENCE, || (!successor.is_alive()).then_some(()));
        }
    }
    // A reload does not change an existing file, and reports that.
    write("");
    let mut server = Process::start(&mut thalweg(&["serve", "--config", &config]));
    listening(&mut server, 0);
    write("[unix_socket]\nmode = \"0600\"\n");
    server.signal("HUP");
    said(&server, "except for unix_socket (needs a restart");
    assert_eq!(file_of(&socket).0, 0o666);
    server.signal("TERM");
    ended_well(&server.wait(PATIENCE));
    assert!(!fs::exists(&socket).unwrap(), "the server removes its own file");
}

#[test]
fn the_owner_of_a_socket_has_to_exist() {
    let place = Place::new();
    let config = place.path("thalweg.toml");
    for key in ["user", "group"] {
        let text = format!(
            "listen = [\"unix:socket\"]\n[unix_socket]\n{key} = \"nobody-of-that-name\"\n[[site]]\nroot = \"{}\"\n",
            place.path("root")
        );
        fs::write(&config, text).unwrap();
        let ended = run_thalweg(&["serve", "--config", &config, "--check"]);
        assert!(ended.code == Some(2) && ended.stderr.contains("thalweg.toml:3:"), "{ended:?}");
        let ended = run_thalweg(&["serve", "--config", &config]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(&format!("unix_socket.{key}")), "{ended:?}");
    }
}
