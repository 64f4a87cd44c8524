"""File servers on one CPU, each configured by its own means to do the same: keep connections, serve a folder, write a log or none.

Each is set up as its documentation advises for static files; what had to be chosen stands beside it. Where one has two ways of sending
files, both are here."""

import pathlib
import signal
import socket
import subprocess
import time

from . import process
from .servers import Failed

START_S = 10


class FileServer:
    """A server of the files in `www`, pinned to one CPU, on one port of 127.0.0.1."""

    name, program, version_arguments = "", "", ["-v"]
    #: Whether it can write an access log here; the others have no row in that table.
    logs = False

    def __init__(self, program):
        self.path = program

    def start(self, folder, www, port, cpu, log):
        """Starts it with nothing left of a run before. `log` is the access log's path, or None."""
        folder.mkdir(parents=True, exist_ok=True)
        self.port = port
        command = process.pinned(cpu, self.command(folder, www, port, log))
        self.errors = (folder / "errors.txt").open("w+")
        self.child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                # A parent that listens may still be starting its workers.
                time.sleep(0.2)
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        self.errors.seek(0)
        raise Failed(f"{self.name} did not start: {self.errors.read().strip()[-500:]}")

    def command(self, folder, www, port, log):
        raise NotImplementedError

    def pids(self):
        return process.tree(self.child.pid)

    def cpu_s(self):
        return process.cpu_s(self.pids())

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def version(self):
        run = subprocess.run([self.path, *self.version_arguments], capture_output=True, text=True, check=False)
        return (run.stdout + run.stderr).strip().splitlines()[0]


class Thalweg(FileServer):
    program, version_arguments, logs = "thalweg", ["--version"], True

    def __init__(self, program, driver, suffix=""):
        super().__init__(program)
        self.driver, self.name = driver, f"thalweg {driver}{suffix}"

    def command(self, folder, www, port, log):
        more = ["--access-log", str(log), "--log-format", "combined"] if log else []
        return [self.path, "serve", str(www), "--listen", f"127.0.0.1:{port}", "--driver", self.driver, *more]


class Nginx(FileServer):
    """Tuned: sendfile (or not), an open-file cache, one worker, no log unless a case wants one; a log is buffered as its manual advises.

    `deferred` has it accept connections when their request is there, as thalweg does; nginx does so only if configured to."""

    program, logs = "nginx", True

    def __init__(self, program, sendfile, deferred=False):
        super().__init__(program)
        self.sendfile, self.deferred = sendfile, deferred
        self.name = ("nginx sendfile" if sendfile else "nginx") + (" deferred" if deferred else "")

    def command(self, folder, www, port, log):
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        access = f"{log} combined buffer=64k flush=1s" if log else "off"
        config = folder / "nginx.conf"
        config.write_text(f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  include /etc/nginx/mime.types;
  access_log {access}; sendfile {"on" if self.sendfile else "off"}; tcp_nopush on; open_file_cache max=10000 inactive=600s;
  open_file_cache_valid 60s; keepalive_requests 1000000000; keepalive_timeout 600;
  {temporary}
  server {{ listen 127.0.0.1:{port} backlog=4096{' deferred' if self.deferred else ''}; root {www}; }}
}}
""")
        return [self.path, "-p", str(folder), "-c", str(config)]


class Lighttpd(FileServer):
    name, program, logs = "lighttpd", "lighttpd", True

    def command(self, folder, www, port, log):
        config = folder / "lighttpd.conf"
        access = f'server.modules = ("mod_accesslog")\naccesslog.filename = "{log}"\n' if log else ""
        config.write_text(f"""server.document-root = "{www}"
server.bind = "127.0.0.1"
server.port = {port}
server.max-connections = 8192
server.max-fds = 16384
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 600
server.listen-backlog = 4096
server.event-handler = "linux-sysepoll"
mimetype.assign = (".html" => "text/html", ".txt" => "text/plain", "" => "application/octet-stream")
{access}""")
        return [self.path, "-D", "-f", str(config)]


class H2o(FileServer):
    name, program, version_arguments, logs = "h2o", "h2o", ["--version"], True

    def command(self, folder, www, port, log):
        config = folder / "h2o.yaml"
        access = f"access-log: {log}\n" if log else ""
        config.write_text(f"""num-threads: 1
max-connections: 8192
http1-request-timeout: 600
user: root
pid-file: {folder}/pid
error-log: {folder}/error.log
{access}listen:
  host: 127.0.0.1
  port: {port}
hosts:
  default:
    paths:
      /:
        file.dir: {www}
""")
        return [self.path, "-m", "worker", "-c", str(config)]


class Apache(FileServer):
    """The event MPM with one process of 128 threads, which is more than there are connections."""

    name, program, logs = "apache event", "apache2", True

    def command(self, folder, www, port, log):
        access = f'LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined\nCustomLog {log} combined\nBufferedLogs On\n' if log else ""
        return [self.path, "-DFOREGROUND", "-f", str(event_mpm(folder, port, ["mime"], f"""TypesConfig /etc/mime.types
EnableSendfile On
DocumentRoot {www}
<Directory {www}>
  Require all granted
  AllowOverride None
  Options None
</Directory>
{access}"""))]


def event_mpm(folder, port, modules, more):
    """Apache's configuration: the event MPM with one process of 128 threads, these modules, and more directives."""
    place = pathlib.Path("/usr/lib/apache2/modules")
    load = "\n".join(f"LoadModule {name}_module {place}/mod_{name}.so" for name in ["mpm_event", "authz_core", *modules])
    config = folder / "apache.conf"
    config.write_text(f"""ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/error.log
DefaultRuntimeDir {folder}
{load}
Listen 127.0.0.1:{port}
ServerLimit 1
StartServers 1
ThreadsPerChild 128
ThreadLimit 128
MaxRequestWorkers 128
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 600
User www-data
Group www-data
{more}""")
    return config


class Caddy(FileServer):
    name, program, version_arguments, logs = "caddy", "caddy", ["version"], False

    def command(self, folder, www, port, log):
        config = folder / "Caddyfile"
        config.write_text(f"""{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  root * {www}
  file_server
}}
""")
        # Go takes as many threads as there are CPUs to run on.
        return ["env", f"HOME={folder}", "GOMAXPROCS=1", self.path, "run", "--config", str(config), "--adapter", "caddyfile"]


class Canned(FileServer):
    """The floor: the system calls of an exchange, whatever the request."""

    program, version_arguments = "floor", ["--help"]

    def __init__(self, program, driver, close=False, body_bytes=512):
        super().__init__(program)
        self.driver, self.close, self.body_bytes, self.name = driver, close, body_bytes, f"canned {driver}"

    def command(self, folder, www, port, log):
        return [self.path, "server", "--driver", self.driver, "--port", str(port), "--bytes", str(self.body_bytes),
                *(["--close"] if self.close else [])]


class CannedFiles(FileServer):
    """The floor of large files: a head and `sendfile` in chunks of 60 KiB, of one connection in turn after the other."""

    name, program, version_arguments = "canned files", "floor", ["--help"]

    def __init__(self, program, count):
        super().__init__(program)
        self.count = count

    def command(self, folder, www, port, log):
        files = [argument for number in range(self.count) for argument in ("--file", www / f"large{number}.bin")]
        return [self.path, "server", "--driver", "epoll", "--port", str(port), *files]


def all_servers(thalweg, before, floor, close, body_bytes, large_files):
    """Those that are here, in the order in which they are shown. The floor's only where all bodies have one length."""
    found = [Thalweg(thalweg, "uring"), Thalweg(thalweg, "epoll")]
    found += [Thalweg(program, driver, f" {name}") for name, program in before for driver in ("uring", "epoll")]
    if program := process.on_path("nginx"):
        found += [Nginx(program, sendfile=True), Nginx(program, sendfile=False)]
        found += [Nginx(program, sendfile=True, deferred=True)] if close else []
    for kind in (Lighttpd, H2o, Apache, Caddy):
        if program := process.on_path(kind.program):
            found.append(kind(program))
    if body_bytes:
        found += [Canned(floor, "uring", close, body_bytes), Canned(floor, "epoll", close, body_bytes)]
    if large_files:
        found.append(CannedFiles(floor, large_files))
    return found


def missing():
    return [kind.program for kind in (Nginx, Lighttpd, H2o, Apache, Caddy) if not process.on_path(kind.program)]
