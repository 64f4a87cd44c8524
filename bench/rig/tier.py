"""`thalweg serve` as a cache in front of one origin: started, stopped, killed and started again over one volume."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from . import machine

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

    def start(self, started=None):
        """Starts it and returns the seconds until it answered a connection. `started` is called with the pid at once."""
        begun = time.monotonic()
        with self.log.open("ab") as log:
            self.child = subprocess.Popen([*self.prefix, *self.command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if started:
            started(self.child.pid)
        while time.monotonic() < begun + START_S:
            self.alive()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return time.monotonic() - begun
            except OSError:
                time.sleep(0.005)
        self.kill()
        raise Failed(f"it did not listen within {START_S} s: {self.last_words()}")

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
