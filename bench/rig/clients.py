"""Processes of random clients of a cache, which judge each answer.

They abort half-way, read slowly, ask for ranges, for several at once, with conditions, by HEAD, in pipelines, and change objects by unsafe methods."""

import asyncio
import collections
import multiprocessing
import random
import signal
import time

from . import judged

FAILURES_KEPT = 20
#: The share of exchanges that a purge comes before.
PURGES = 0.002


class Processes:
    """So many processes, each with clients of its own, until `world.until` has passed."""

    def __init__(self, number, seed, world, *arguments, **more):
        self.world, self.pipes, self.children = world, [], []
        world.until[0] = float("inf")
        for at in range(number):
            mine, its = multiprocessing.get_context("fork").Pipe(duplex=False)
            child = multiprocessing.get_context("fork").Process(target=self._run, args=(Clients(world, *arguments, seed=seed * 1000 + at, **more), its))
            child.start()
            its.close()
            self.pipes.append(mine)
            self.children.append(child)

    @staticmethod
    def _run(clients, pipe):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pipe.send(asyncio.run(clients.run()))

    def results(self):
        """Lets them end. Returns the counts, the first failures, and the times of exchanges in seconds, sorted."""
        self.world.until[0] = time.monotonic()
        counts, failures, times = collections.Counter(), [], []
        for pipe in self.pipes:
            try:
                found = pipe.recv() if pipe.poll(judged.TIME_OUT_S + 30) else None
            except EOFError:
                found = None
            if not found:
                found = {"counts": {"wrong": 1}, "failures": ["a process of clients has ended early or hangs"], "times": []}
            counts.update(found["counts"])
            failures += found["failures"]
            times += found["times"]
        self.stop()
        return counts, failures, sorted(times) or [0]

    def stop(self):
        for child in self.children:
            child.terminate()
            child.join()


class Clients:
    """Clients on so many connections in one process; `targets` are the objects that they ask for, `writes` the share of unsafe methods. `purging` is
    the port that takes purges and the token that it wants."""

    def __init__(self, world, port, connections, targets, seed, writes=0.01, purging=None):
        self.purging = purging
        self.world, self.port, self.connections, self.targets, self.writes = world, port, connections, targets, writes
        self.random = random.Random(seed)
        self.counts, self.failures, self.times = collections.Counter(), [], []
        self.known = {}

    async def run(self):
        await asyncio.gather(*(self.client() for _ in range(self.connections)))
        return {"counts": dict(self.counts), "failures": self.failures, "times": sorted(self.times)}

    async def client(self):
        while time.monotonic() < self.world.until[0]:
            begun = time.monotonic()
            pause = self.random.uniform(0.01, 0.1) if self.random.random() < 0.03 else None
            connection = judged.Connection(self.world, self.port, pause)
            try:
                await connection.open()
                for _ in range(self.random.randrange(1, 40)):
                    if not await self.exchange(connection):
                        break
            except OSError as error:
                if not self.world.is_down(begun):
                    self.fail(f"no connection at {begun:.3f}: {error}")
                await asyncio.sleep(0.05)
            except judged.Excused as reason:
                self.counts["excused"] += 1
                kind = str(reason) if str(reason).startswith("status") else str(reason).partition(" ")[0]
                self.counts[f"excused: {kind}"] += 1
            except judged.Wrong as wrong:
                self.fail(str(wrong))
            finally:
                self.counts["bytes"] += connection.bytes
                if hasattr(connection, "writer"):
                    connection.abort()

    def fail(self, text):
        self.counts["wrong"] += 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(text)

    async def exchange(self, connection):
        """One to four requests and their answers; whether the connection goes on."""
        if self.random.random() < self.writes:
            method = self.random.choice(["PUT", "POST", "DELETE"])
            target = self.target()
            connection.send((method, target, {"Content-Length": "0"}))
            status, _, fields = await connection.answer()
            if status == 204:
                self.world.purged(target, float(fields["x-origin-time"]))
            self.counts[f"{method} {status}"] += 1
            return True
        if self.purging and self.random.random() < PURGES:
            await self.purge()
        begun = time.monotonic()
        requests = [self.request() for _ in range(self.random.choice([1, 1, 1, 1, 2, 4]))]
        connection.send(*requests)
        for method, target, fields in requests:
            stop_after = self.random.randrange(1, 100_000) if method == "GET" and self.random.random() < 0.03 else None
            status, version, answered = await connection.answer(stop_after)
            self.counts["answers"] += 1
            self.counts[f"status {status}"] += 1
            self.counts["hits"] += ";hit" in answered.get("cache-status", "").replace(" ", "")
            if version is not None and version.status == 200:
                self.known[target] = version
            if stop_after is not None:
                self.counts["aborted"] += 1
                return False
            if answered.get("connection", "").lower() == "close":
                return False
        if len(self.times) < 200_000:
            self.times.append(time.monotonic() - begun)
        return True

    async def purge(self):
        """Purges one object, those whose names begin alike, or all; hard or soft. What the origin said before is not used for later requests."""
        target, draw = self.target(), self.random.random()
        key, value = ("url", f"/{target}") if draw < 0.8 else ("prefix", f"/{self.random.randrange(1, 100)}" if draw < 0.98 else "/")
        soft = self.random.random() < 0.5
        body = f"{key}={value}" + ("&soft=true" if soft else "")
        port, token = self.purging
        sent = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"POST /purge HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
                         f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = await asyncio.wait_for(reader.read(), judged.TIME_OUT_S)
            writer.close()
        except (OSError, asyncio.TimeoutError) as error:
            if not self.world.is_down(sent):
                self.fail(f"purge of {value} at {sent:.3f}: {error!r}")
            return
        status = answer[9:12].decode()
        self.counts[f"purge by {key}{', soft' if soft else ''}: {status or 'cut off'}"] += 1
        if status == "200":
            for one in [target] if key == "url" else self.targets:
                if f"/{one}".startswith(value):
                    self.world.purged(one, sent)
        elif status or not self.world.is_down(sent):
            self.fail(f"purge of {value} at {sent:.3f}: {answer[:300]!r}")

    def target(self):
        """Some are asked for far more often than others."""
        return self.targets[int(len(self.targets) * self.random.random() ** 2)]

    def request(self):
        target, draw = self.target(), self.random.random()
        method, fields, known = "GET", {}, self.known.get(target)
        if draw < 0.08:
            method = "HEAD"
        elif known and draw < 0.20:
            fields["If-None-Match"] = known.tag
        elif known and draw < 0.28:
            fields["If-Modified-Since"] = known.modified
        elif known and draw < 0.55:
            first = self.random.randrange(known.size)
            last = self.random.randrange(first, known.size)
            fields["Range"] = self.random.choice([f"bytes={first}-{last}", f"bytes={first}-", f"bytes=-{last + 1}",
                                                  f"bytes=0-{first // 2},{first}-{last}"])
            if draw < 0.40:
                fields["If-Range"] = self.random.choice([known.tag, known.modified])
        return method, target, fields
