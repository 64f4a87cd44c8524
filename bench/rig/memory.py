"""Memory and CPU time of a client and its server over a run, sampled once per second, and what is made of it."""

import time
import urllib.request

from . import process


class Samples:
    """Give `take` to `process.measure`. `probe` is a URL that is requested once per sample: does the server still respond to others?
    With `slabs`, the kernel's caches of objects are kept by name."""

    def __init__(self, server_pids, probe=None, slabs=False):
        self.server_pids, self.probe, self.slabs, self.rows = server_pids, probe, slabs, []
        self.sockets_before = process.socket_memory()

    def take(self, pid, elapsed_s):
        client = process.tree(pid)
        sockets = process.socket_memory()
        row = {"t": round(elapsed_s, 2), "client": process.memory_kb(client) | {"cpu_s": process.cpu_s(client)},
               "server": process.memory_kb(self.server_pids) | {"cpu_s": process.cpu_s(self.server_pids)},
               "tcp_sockets": sockets.get("tcp_in_use", 0) - self.sockets_before.get("tcp_in_use", 0),
               "tcp_bytes": sockets.get("tcp_bytes", 0) - self.sockets_before.get("tcp_bytes", 0),
               "kernel": process.kernel_memory()}
        if self.slabs:
            row["slabs_kb"] = process.slabs_kb()
        if self.probe:
            row["probe_ms"] = self.request()
        self.rows.append(row)

    def request(self):
        began = time.monotonic()
        try:
            urllib.request.urlopen(self.probe, timeout=5).read()
        except OSError:
            return None
        return round((time.monotonic() - began) * 1e3, 2)

    def alive(self):
        """The samples that found the client."""
        return [row for row in self.rows if row["client"]["rss_kb"]]

    def at(self, t):
        """Of them, the one nearest to this time."""
        return min(self.alive(), key=lambda row: abs(row["t"] - t), default=None)

    def full_at(self, sockets):
        """When there were so many TCP sockets more than before, for the first time."""
        return next((row["t"] for row in self.rows if row["tcp_sockets"] >= sockets), None)

    def cpu_share(self, since, until):
        """Share of a CPU that the client and the server took between these times."""
        first, last = self.at(since), self.at(until)
        if not first or last["t"] <= first["t"]:
            return None
        return {side: (last[side]["cpu_s"] - first[side]["cpu_s"]) / (last["t"] - first["t"]) for side in ("client", "server")}


def quantile(values, q):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None
