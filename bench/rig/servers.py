"""The servers that the load goes to: nginx with a configuration of its own, and the floor's canned server.

Both say how many requests they have served, which is the count that all clients share."""

import pathlib
import re
import signal
import subprocess
import time
import urllib.request

from . import process

FILES, FILE_BYTES = 1000, 512
START_S = 5


class Failed(Exception):
    """A server that did not start or did not respond."""


def write_files(www):
    www.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        (www / f"{number:03}.txt").write_text((f"file {number}\n" * FILE_BYTES)[:FILE_BYTES])


class Nginx:
    """nginx with one worker (or more), on CPUs of its own, without a log; stub_status on a path of its own."""

    def __init__(self, folder, port, cpu, workers=1, connections=8192, more="", listen=None, sendfile="off"):
        self.folder, self.port = pathlib.Path(folder), port
        self.url = f"http://127.0.0.1:{port}/000.txt"
        program = process.on_path("nginx")
        if not program:
            raise Failed("nginx is missing: bench/peers nginx")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = self.folder / "nginx.conf"
        listens = "\n    ".join(f"listen {address};" for address in listen or [f"127.0.0.1:{port} backlog=4096"])
        temporary = " ".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        self.config.write_text(f"""daemon off; worker_processes {workers}; pid {self.folder}/pid; error_log {self.folder}/error.log;
worker_rlimit_nofile {connections + 1000};
events {{ worker_connections {connections}; }}
http {{
  access_log off; sendfile {sendfile}; open_file_cache max=10000; keepalive_requests 1000000000; keepalive_timeout 600;
  {temporary}
  {more}
  server {{
    {listens}
    root {self.folder}/www;
    location = /status {{ stub_status; }}
  }}
}}
""")
        # The worker may be another user than the one who writes the files.
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        command = [program, "-p", str(self.folder), "-c", str(self.config)]
        self.child = subprocess.Popen(process.pinned(cpu, command) if cpu is not None else command, stderr=subprocess.PIPE)
        self._wait(workers)

    def _wait(self, workers):
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self.child.poll() is not None:
                raise Failed(f"nginx has ended: {self.child.stderr.read().decode(errors='replace').strip()}")
            try:
                urllib.request.urlopen(self.url, timeout=1).read()
                if len(process.children(self.child.pid)) >= workers:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        self.stop()
        raise Failed(f"nginx did not respond within {START_S} s")

    def pids(self):
        return process.children(self.child.pid)

    def cpu_s(self):
        return process.cpu_s(self.pids())

    def served(self):
        """Requests served so far, without those of this method."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=10).read().decode()
        self.looks = getattr(self, "looks", 0) + 1
        return int(re.search(r"requests\s+\d+ \d+ (\d+)", text).group(1)) - self.looks

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    @staticmethod
    def version():
        run = subprocess.run([process.on_path("nginx"), "-v"], capture_output=True, text=True, check=False)
        return (run.stderr + run.stdout).strip()


class Floor:
    """The canned server. Its count comes when it ends, so each run has one of its own."""

    def __init__(self, program, port, cpu, driver, close, more=()):
        self.url = f"http://127.0.0.1:{port}/000.txt"
        command = [program, "server", "--driver", driver, "--port", str(port), *(["--close"] if close else []), *more]
        pinned = process.pinned(cpu, command) if cpu is not None else command
        self.child = subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.child.stderr.readline()
        if not line.startswith("floor: listening on 127.") or "error" in line:
            self.child.kill()
            self.child.wait()
            raise Failed(line.strip() or "floor has ended without a word")

    def pids(self):
        return [self.child.pid]

    def cpu_s(self):
        return process.cpu_s(self.pids())

    def stop(self):
        """Ends it, and returns what it says at its end."""
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return ""
