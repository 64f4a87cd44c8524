"""An origin for caches, over asyncio: serves the versions of a world, conditions and ranges included, and fails as it is told.

Each response has `X-Origin-Time`, the second of the monotonic clock at which the origin answered: a cache stores it, and takes that of a 304 in its
place (RFC 9111, 3.2), so a client sees how old an answer is without trusting the cache's own Age."""

import asyncio
import contextlib
import email.utils
import itertools
import os
import random
import signal
import time

from .versions import Count, Version

PIECE = 64 << 10
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 304: "Not Modified", 404: "Not Found", 416: "Range Not Satisfiable",
           503: "Service Unavailable"}


class Habits:
    """Shares of requests that the origin treats in some way; delay before a head and rate of a body, for each response by itself."""

    def __init__(self, unavailable=0.0, cut=0.0, slow=0.0, chunked=0.0, until_close=0.0, whole=0.0, changes_per_s=0.0, delay_s=0.0, rate=0.0,
                 cut_once_at=0):
        self.unavailable, self.cut, self.slow, self.chunked, self.until_close, self.whole = unavailable, cut, slow, chunked, until_close, whole
        self.changes_per_s, self.delay_s, self.rate, self.cut_once_at = changes_per_s, delay_s, rate, cut_once_at


class Origin:
    """A process of its own. `may_change(target)` says whether an object changes by itself; `log`, if it is a path, gets a line for each request:
    time, method, status, range and what it was asked for."""

    def __init__(self, world, port, habits, seed=1, may_change=None, log=None):
        self.world, self.port, self.habits, self.random = world, port, habits, random.Random(seed)
        self.may_change, self.log = may_change or (lambda _target: True), log
        self.cut_at = habits.cut_once_at
        parent, (listens, tells) = os.getpid(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                asyncio.run(self._serve(tells, parent))
            finally:
                os._exit(1)
        os.close(tells)
        with open(listens, "rb") as pipe:
            if not pipe.read(1):
                os.waitpid(self.pid, 0)
                raise SystemExit(f"the origin cannot listen on port {port}")

    def stop(self):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)

    async def _serve(self, tells, parent):
        self.log = open(self.log, "a", buffering=1) if self.log else None  # noqa: SIM115
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=1024)
        if self.habits.changes_per_s:
            self.changing = asyncio.create_task(self._change())
        os.write(tells, b"1")
        os.close(tells)
        # It does not outlive a program that was killed.
        while server.is_serving() and os.getppid() == parent:
            await asyncio.sleep(1)

    async def _change(self):
        targets = [target for target in range(self.world.objects) if self.may_change(target)]
        while targets:
            await asyncio.sleep(self.random.expovariate(self.habits.changes_per_s))
            self.world.change(self.random.choice(targets))
            self.world.counts[Count.CHANGES] += 1

    async def _connection(self, reader, writer):
        writer.transport.set_write_buffer_limits(high=2 * PIECE)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await self._respond(writer, *await read_request(reader)):
                pass
        writer.close()

    async def _respond(self, writer, method, target, fields):
        """Answers one request; whether the connection goes on."""
        self.world.counts[Count.REQUESTS] += 1
        habits, draw = self.habits, self.random.random
        if habits.delay_s:
            await asyncio.sleep(habits.delay_s)
        if method not in ("GET", "HEAD"):
            now = time.monotonic()
            self.world.change(target)
            writer.write(b"HTTP/1.1 204 No Content\r\nX-Origin-Time: %.6f\r\n\r\n" % time.monotonic())
            self._note(method, target, 204, fields, now)
            return True
        if draw() < habits.unavailable:
            self.world.note_fault(target)
            writer.write(head(503, [("Content-Length", "0"), ("Cache-Control", "no-store")]))
            return True
        now, version = time.monotonic(), self.world.current(target)
        is_whole = "range" in fields and draw() < habits.whole
        if is_whole:
            # A cache that needs the rest of a body cannot go on with this.
            self.world.note_fault(target)
        status, first, end = select(version, fields, method, is_whole)
        self.world.counts[Count.RANGES] += status == 206
        self.world.counts[Count.VALIDATIONS] += status == 304
        self._note(method, target, status, fields, now)
        lines = describe(version, now, status, first, end)
        body = method == "GET" and end > first and status in (200, 206, 404)
        length = end - first
        is_chunked = body and draw() < habits.chunked
        until_close = body and not is_chunked and draw() < habits.until_close
        lines += [("Transfer-Encoding", "chunked")] if is_chunked else [("Connection", "close")] if until_close else []
        if not is_chunked and not until_close and status != 304:
            lines.append(("Content-Length", str(length)))
        writer.write(head(status, lines))
        if not body:
            return True
        at = self._cut_at(first, end) if not until_close and status != 404 else end
        if draw() < habits.cut and not until_close and at == end and status != 404:
            at = first + int(length * draw())
        await self._send(writer, version, first, at, is_chunked, draw() < habits.slow)
        if is_chunked and at == end:
            writer.write(b"0\r\n\r\n")
        if at < end:
            # Only what has left counts: the rest of the buffer goes first, then the connection.
            self.world.note_fault(target)
            await asyncio.sleep(0.02)
            self.world.note_fault(target)
            writer.transport.abort()
            return False
        return not until_close

    def _cut_at(self, first, end):
        if not first < self.cut_at < end:
            return end
        at, self.cut_at = self.cut_at, 0
        return at

    async def _send(self, writer, version, first, end, is_chunked, is_slow):
        begun, sent = time.monotonic(), 0
        if version.status == 404:
            pieces = [gone(version)]
        else:
            pieces = version.sections(first, end, 2000 if is_slow and end - first < 100_000 else PIECE)
        for piece in pieces:
            if is_chunked:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), bytes(piece)))
            else:
                writer.write(piece)
            await writer.drain()
            sent += len(piece)
            self.world.counts[Count.BYTES] += len(piece)
            if is_slow:
                await asyncio.sleep(0.01)
            if self.habits.rate and (ahead := sent / self.habits.rate - (time.monotonic() - begun)) > 0.002:
                await asyncio.sleep(ahead)

    def _note(self, method, target, status, fields, now):
        if self.log:
            shown = {name: fields[name] for name in ("range", "if-range", "if-none-match") if name in fields}
            self.log.write(f"{now:.6f} {method} {target} {status} {shown}\n")


async def read_request(reader):
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = text.split("\r\n")
    method, path, _ = line.split(" ")
    fields = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in rest if field)}
    if length := int(fields.get("content-length", 0)):
        await reader.readexactly(length)
    elif fields.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    return method, int(path.strip("/").partition("?")[0]), fields


def gone(version: Version):
    return f"gone {version.target} {version.number}\n".encode()


def select(version, fields, method, ignores_ranges):
    """Status, first byte and end of the answer (RFC 9110, 13.2.2)."""
    if version.status == 404:
        return 404, 0, len(gone(version))
    if "if-none-match" in fields:
        tags = [tag.strip().removeprefix("W/") for tag in fields["if-none-match"].split(",")]
        if version.tag in tags or "*" in tags:
            return 304, 0, 0
    elif (since := email.utils.parsedate_tz(fields.get("if-modified-since", ""))) and (
            email.utils.mktime_tz(email.utils.parsedate_tz(version.modified)) <= email.utils.mktime_tz(since)):
        return 304, 0, 0
    wanted = fields.get("range", "")
    if method != "GET" or ignores_ranges or not wanted.startswith("bytes=") or "," in wanted:
        return 200, 0, version.size
    if fields.get("if-range", version.tag) not in (version.tag, version.modified):
        return 200, 0, version.size
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    if not first:
        first, last = max(0, version.size - int(last)), ""
    first, end = int(first), min(version.size, int(last) + 1) if last else version.size
    return (206, first, end) if first < end else (416, 0, 0)


def describe(version, now, status, first, end):
    lines = [("X-Origin-Time", f"{now:.6f}"), ("X-Version", version.tag.strip('"')),
             ("Cache-Control", f"max-age={version.max_age}" if version.max_age else "no-cache")]
    if version.status == 200:
        lines += [("ETag", version.tag), ("Last-Modified", version.modified)]
    if status == 206:
        lines.append(("Content-Range", f"bytes {first}-{end - 1}/{version.size}"))
    if status == 416:
        lines.append(("Content-Range", f"bytes */{version.size}"))
    return lines


def head(status, lines):
    date = email.utils.formatdate(usegmt=True)
    fields = itertools.chain([("Date", date)], lines)
    return f"HTTP/1.1 {status} {REASONS[status]}\r\n{''.join(f'{name}: {value}{chr(13)}{chr(10)}' for name, value in fields)}\r\n".encode()
