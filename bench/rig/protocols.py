"""File servers that speak TLS and HTTP/2, one CPU each; and the load generators that do."""

import json
import re

from . import file_servers, process


class Thalweg(file_servers.Thalweg):
    def __init__(self, program, driver, certificate):
        super().__init__(program, driver)
        self.certificate = certificate

    def command(self, folder, www, port, log):
        command = super().command(folder, www, port, log)
        return [*command, "--tls", ":".join(map(str, self.certificate))] if self.certificate else command


class Nginx(file_servers.Nginx):
    def __init__(self, program, certificate):
        super().__init__(program, sendfile=True)
        self.name, self.certificate = "nginx", certificate

    def command(self, folder, www, port, log):
        command = super().command(folder, www, port, log)
        config = folder / "nginx.conf"
        more = "http2_max_concurrent_streams 128; http2_max_requests 1000000000; "
        if self.certificate:
            more += "ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.3; ".format(*self.certificate)
        listen = "backlog=4096 ssl http2" if self.certificate else "backlog=4096 http2"
        config.write_text(config.read_text().replace("backlog=4096", listen).replace("keepalive_timeout", more + "keepalive_timeout"))
        return command


class H2o(file_servers.H2o):
    def __init__(self, program, certificate):
        super().__init__(program)
        self.certificate = certificate

    def command(self, folder, www, port, log):
        command = super().command(folder, www, port, log)
        if self.certificate:
            config = folder / "h2o.yaml"
            ssl = "  ssl:\n    certificate-file: {}\n    key-file: {}\n    minimum-version: TLSv1.3\n".format(*self.certificate)
            config.write_text(config.read_text().replace(f"  port: {port}\n", f"  port: {port}\n{ssl}"))
        return command


class Nghttpd(file_servers.FileServer):
    name, program, version_arguments = "nghttpd", "nghttpd", ["--version"]

    def __init__(self, program, certificate):
        super().__init__(program)
        self.certificate = certificate

    def command(self, folder, www, port, log):
        usual = [self.path, "--address", "127.0.0.1", "--htdocs", str(www), "--workers", "1"]
        if not self.certificate:
            return [*usual, "--no-tls", str(port)]
        chain, key = self.certificate
        return [*usual, str(port), str(key), str(chain)]


class Canned(file_servers.FileServer):
    """The floor: records sealed in place, frames that are counted."""

    name, program, version_arguments = "canned", "floor", ["--help"]

    def __init__(self, program, case, certificate):
        super().__init__(program)
        self.case, self.certificate = case, certificate

    def command(self, folder, www, port, log):
        command = [self.path, "server", "--driver", "epoll", "--port", str(port), "--bytes", str(self.case.bytes)]
        command += ["--certificate", ":".join(map(str, self.certificate))] if self.certificate else []
        command += ["--streams", str(self.case.streams)] if self.case.streams else []
        return command + (["--close"] if self.case.close else []) + (["--resume"] if self.case.resume else [])


#: The largest response that the canned server sends.
CANNED_BYTES_MAX = 1 << 17


def all_servers(thalweg, floor, case, certificate):
    """Those that are here and speak what the case is about."""
    certificate = certificate if case.tls else None
    found = [Thalweg(thalweg, "uring", certificate), Thalweg(thalweg, "epoll", certificate)]
    # nghttpd speaks HTTP/2 alone.
    for kind in (Nginx, H2o, Nghttpd) if case.streams else (Nginx, H2o):
        if program := process.on_path(kind.program):
            found.append(kind(program, certificate))
    return found + ([Canned(floor, case, certificate)] if case.bytes <= CANNED_BYTES_MAX else [])


class Tool:
    """A load generator with one thread."""

    def __init__(self, name, command, count):
        self.name, self.command, self.count = name, command, count


def h2load(case, url, port, seconds):
    protocol = ["-m", str(case.streams)] if case.streams else ["--h1"]
    return ["h2load", "-t", "1", "-c", str(case.connections), *protocol, "-D", str(seconds), url]


def h2load_count(text):
    counted = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", text)
    return int(counted[2]), int(counted[3]) + int(counted[4])


def wrk(case, url, port, seconds):
    close = ["-H", "Connection: close"] if case.close else []
    return ["wrk", "-t1", f"-c{case.connections}", f"-d{seconds}s", *close, url]


def wrk_count(text):
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    return int(re.search(r"(\d+) requests in", text)[1]), sum(map(int, errors.groups())) if errors else 0


def canned_client(program):
    def command(case, url, port, seconds):
        layers = (["--tls"] if case.tls else []) + (["--streams", str(case.streams)] if case.streams else [])
        layers += (["--close"] if case.close else []) + (["--resume"] if case.resume else [])
        path = url.split("/", 3)[3]
        return [program, "client", "--driver", "epoll", "--port", str(port), "--connections", str(case.connections), "--path", f"/{path}",
                "--seconds", str(seconds), *layers]
    return Tool("canned", command, lambda text: (json.loads(text)["requests"], 0))


def thalweg_client(program, driver, cpu):
    def command(case, url, port, seconds):
        protocol = ["--http", "2", "--connections", str(case.connections), "--streams", str(case.streams),
                    "--workers", str(case.connections * case.streams)] if case.streams else ["--workers", str(case.connections)]
        close = ["--calls", "1"] if case.close else []
        secure = ["--insecure", "--resume", "tickets" if case.resume else "never"] if case.tls else []
        return [program, "run", url, *protocol, *close, *secure, "--duration", f"{seconds}s", "--json", "--cores", str(cpu), "--driver", driver]

    def count(text):
        counts = json.loads(text)["trials"][0]["counts"]
        return counts["good"], counts["offered"] - counts["good"]
    return Tool(f"thalweg {driver}", command, count)


def all_tools(thalweg, floor, case, cpu):
    """Those that are here and speak what the case is about. h2load waits for ever where a server closes; wrk knows HTTP/1 alone, and
    neither can resume."""
    found = [thalweg_client(thalweg, driver, cpu) for driver in ("uring", "epoll")]
    if not case.close and process.on_path("h2load"):
        found.append(Tool("h2load", h2load, h2load_count))
    if not case.streams and not case.resume and process.on_path("wrk"):
        found.append(Tool("wrk", wrk, wrk_count))
    return [*found, canned_client(floor)]
