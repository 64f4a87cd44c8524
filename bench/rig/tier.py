"""`thalweg serve` as a cache in front of one origin: started, stopped, killed and started again over one volume. With the frame of a program that shows
what it guarantees: options, folder of results, bars."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from . import machine, process, results

START_S = 10


class Failed(Exception):
    """The server did not start, or has ended by itself."""


class Tier:
    """`folder` gets the configuration, the log and, unless `volume` is a path, the volume. `prefix` is put in front of the command, `mount` and `top`
    are further lines of the configuration."""

    def __init__(self, program, folder, port, origin_port, size, volume=None, prefix=(), mount="", top="", driver="auto", memory=None):
        self.folder, self.port, self.prefix = pathlib.Path(folder), port, list(prefix)
        self.folder.mkdir(exist_ok=True)
        self.volume = pathlib.Path(volume or self.folder / "volume")
        self.log = self.folder / "log"
        store = f'memory = "{memory}"' if memory else f'volumes = [{{ path = "{self.volume}", size = "{size}" }}]'
        config = self.folder / "thalweg.toml"
        config.write_text(f"""listen = ["127.0.0.1:{port}"]
driver = "{driver}"
drain = "1s"
{top}
[disk_cache]
{store}
[[origin]]
name = "origin"
url = "http://127.0.0.1:{origin_port}/"
[[site]]
[[site.mount]]
path = "/"
origins = ["origin"]
methods = ["GET", "HEAD", "POST", "PUT", "DELETE"]
{mount}
""")
        self.command = [program, "serve", "--config", str(config)]
        self.child = None

    def start(self, started=None, probe="0"):
        """Starts it and returns the seconds until it has answered a request for `probe`. `started` is called with the pid at once."""
        begun = time.monotonic()
        with self.log.open("ab") as log:
            self.child = subprocess.Popen([*self.prefix, *self.command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if started:
            started(self.child.pid)
        while time.monotonic() < begun + START_S:
            self.alive()
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.sendall(f"HEAD /{probe} HTTP/1.1\r\nHost: cache\r\nConnection: close\r\n\r\n".encode())
                    if connection.recv(1):
                        return time.monotonic() - begun
            except OSError:
                pass
            time.sleep(0.005)
        self.kill()
        raise Failed(f"it did not answer within {START_S} s: {self.last_words()}")

    def alive(self):
        if self.child.poll() is not None:
            raise Failed(f"it has ended with {self.child.returncode}: {self.last_words()}")

    def last_words(self):
        return self.log.read_text(errors="replace")[-2000:]

    def kill(self):
        """Ends it as a crash does."""
        self.child.kill()
        self.child.wait()

    def stop(self):
        """Ends it in order; its exit code, or None if it had to be killed."""
        if self.child is None or self.child.poll() is not None:
            return None
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def memory(self):
        """Resident memory of its own, in KiB: without the page cache."""
        found = re.search(r"RssAnon:\s*(\d+)", machine.read(f"/proc/{self.child.pid}/status"))
        return int(found[1]) if found else 0

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.child.pid}/fd"))
        except OSError:
            return 0

    def disk_bytes(self):
        """The blocks of its volume, as `du` counts them."""
        return self.volume.stat().st_blocks * 512


class Bars:
    """What has to hold, with what was seen."""

    def __init__(self):
        self.rows = []

    def add(self, name, passed, seen):
        self.rows.append((name, bool(passed), seen))
        return passed

    def table(self):
        return ["| bar | verdict | seen |", "| --- | --- | --- |", *(f"| {name} | {'PASS' if passed else 'FAIL'} | {seen} |" for name, passed, seen in self.rows)]

    def passed(self):
        return all(passed for _, passed, _ in self.rows)

    def exit(self, folder):
        """Prints the result and ends the program: 1 if a bar failed."""
        print((folder.folder / "README.md").read_text(), f"\n{folder.folder}", sep="")
        sys.exit(0 if self.passed() else 1)


def parse(parser, port):
    """The options that all such programs have, and theirs."""
    parser.add_argument("--seed", type=int, help="of all that is random but times (default the clock's)")
    parser.add_argument("--port", type=int, default=port, help=f"of the cache; the origin has the next one (default {port})")
    parser.add_argument("--into", type=pathlib.Path, help="where the folder of results is made (default bench/results)")
    parser.add_argument("--scratch", type=pathlib.Path, help="where volumes are made (default the system's folder for temporary files)")
    parser.add_argument("--thalweg", default=str(results.CHECKOUT / "target" / "dist" / "thalweg"))
    options = parser.parse_args()
    options.seed = int(time.time()) if options.seed is None else options.seed
    if not os.access(options.thalweg, os.X_OK):
        sys.exit(f"{parser.prog}: there is no {options.thalweg}. Build it with: cargo build --profile dist")
    process.interruptible()
    return options


@contextlib.contextmanager
def show(name, options):
    """A new folder of results, a folder for volumes that is removed at the end, and the machine."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-", dir=options.scratch) as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        folder = results.Results.new(name, options.into, [scratch, pathlib.Path(options.thalweg).resolve().parent])
        about = machine.describe()
        folder.write("machine.json", json.dumps(about, indent=2) + "\n")
        try:
            yield folder, scratch, about
        except Failed as failed:
            sys.exit(f"{name}: the server: {failed}")


def keep_log(folder, server):
    """Keeps the log of a server, the first and the last part of a long one."""
    text = server.log.read_text(errors="replace") if server.log.exists() else ""
    shown = text if len(text) < 400_000 else f"{text[:200_000]}\n...\n{text[-200_000:]}"
    folder.keep_output("server", server.command, {"output": shown, "errors": ""})
