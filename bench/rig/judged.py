"""A client that judges each answer of a cache by the world that the cache's origin serves.

An answer is right if it is whole, all of its bytes are of the version that it names, the origin had that version when it said so (X-Origin-Time),
and that is neither longer ago than the version may be used nor before a purge that was acknowledged before the request was sent."""

import asyncio
import collections
import re
import time

from .origin import gone

#: The cache counts whole seconds, and a response that came while a request waited may be up to a second older.
SLACK_S, SLACK_UNSTORED_S = 0.05, 1.05
#: A failure of the origin excuses that of an answer for so long.
FAULT_S = 5
#: The most that a client waits for an answer, beside its own pauses.
TIME_OUT_S = 60


class Wrong(Exception):
    """An answer that no right cache gives."""


class Excused(Exception):
    """No answer, or half of one, for a reason that is not the cache's."""


class Connection:
    """A connection to the cache. `sent` are the requests that were not answered yet."""

    def __init__(self, world, port, pause=None):
        self.world, self.port, self.pause = world, port, pause
        self.sent, self.bytes = collections.deque(), 0
        #: When the last bytes of a body came.
        self.heard = time.monotonic()

    async def open(self):
        self.opened = time.monotonic()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=256 << 10)
        return self

    def abort(self):
        self.writer.transport.abort()

    def send(self, *requests):
        """Sends requests in one piece: (method, target, fields)."""
        for request in requests:
            self.sent.append((*request, time.monotonic(), self.world.floor(request[1])))
        self.writer.write(b"".join(f"{method} /{target} HTTP/1.1\r\nHost: cache\r\n".encode()
                                   + "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode() + b"\r\n"
                                   for method, target, fields in requests))

    async def answer(self, stop_after=None):
        """Reads and judges the next answer, or only so many bytes of its body; returns its status, version and fields."""
        method, target, asked, at, floor = self.sent.popleft()
        version, before = None, self.bytes
        try:
            async with asyncio.timeout(TIME_OUT_S) as self.time_out:
                status, fields = await self._head()
                if status >= 500:
                    self._excuse(target, None, at, f"status {status}")
                version = self._version(target, status, fields, asked)
                if method in ("GET", "HEAD"):
                    self._judge_age(version, status, fields, at, floor)
                await self._body(method, status, fields, version, asked, stop_after)
        except TimeoutError:
            raise Wrong(f"{method} {target} {asked}, sent at {at:.3f}: not answered after {TIME_OUT_S} s, with {version.tag if version else 'no head'} and "
                        f"{self.bytes - before} bytes so far, the last of them {time.monotonic() - self.heard:.1f} s ago, reading with pauses of {self.pause} s") from None
        except (OSError, asyncio.IncompleteReadError) as error:
            self._excuse(target, version, at, f"{type(error).__name__} {error}", self.opened)
        except Wrong as wrong:
            raise Wrong(f"{method} {target} {asked}, sent at {at:.3f}: {wrong}") from None
        return status, version, fields

    def _excuse(self, target, version, sent_at, reason, since=None):
        """An answer without end is no fault of the cache if the origin failed, or has no longer what the answer began with. A reset takes along whole
        answers that were not read yet: the reason may be that of a later request on the connection."""
        targets = [target, *(later[1] for later in self.sent)]
        has_failed = any(self.world.fault(one) >= sent_at - FAULT_S or self.world.changed(one) >= sent_at - FAULT_S for one in targets)
        died = self.world.life(version)[1] if version else float("inf")
        if has_failed or died < time.monotonic() or self.world.is_down(since or sent_at):
            raise Excused(reason) from None
        raise Wrong(f"{targets}, sent at {sent_at:.3f}: {reason} at {time.monotonic():.3f}, and the origin did not fail") from None

    async def _head(self):
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = text.split("\r\n")
        return int(line.split(" ")[1]), {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in rest if field)}

    def _version(self, target, status, fields, asked):
        if status in (204, 416):
            return None
        name = fields.get("x-version") or fields.get("etag", asked.get("If-None-Match", "")).strip('"')
        found = re.fullmatch(r"(\d+)\.(\d+)", name)
        if not found or int(found[1]) != target:
            raise Wrong(f"status {status} names version {name!r}: {fields}")
        version = self.world.version(target, int(found[2]))
        if status in (200, 206) and fields.get("etag") != version.tag or status != 304 and (status == 404) != (version.status == 404):
            raise Wrong(f"status {status} with fields of another version: {fields}")
        if status == 304 and asked.get("If-None-Match", version.tag) != version.tag:
            raise Wrong(f"304 for a version that was not asked for: {fields}")
        return version

    def _judge_age(self, version, status, fields, at, floor):
        if version is None:
            return
        born, died = self.world.life(version)
        said = float(fields.get("x-origin-time", min(died, time.monotonic())))
        slack = SLACK_S if version.max_age else SLACK_UNSTORED_S
        shown = f"version {version.tag} lived from {born:.3f} to {died:.3f}, the origin said it at {said:.3f}: {fields}"
        if not born <= said + 1e-5 or said > died + 1e-5:
            raise Wrong(f"the stamp is not of this version; {shown}")
        if said + version.max_age < at - slack:
            raise Wrong(f"{at - said - version.max_age:.3f} s too old; {shown}")
        if said < floor or died <= floor:
            raise Wrong(f"a purge at {floor:.3f} was acknowledged before; {shown}")

    async def _body(self, method, status, fields, version, asked, stop_after):
        if status == 206 and fields.get("content-type", "").startswith("multipart/byteranges"):
            return await self._parts(version, fields)
        first, end = 0, version.size if status == 200 else 0
        if status == 206:
            first, end = parse_range(fields["content-range"], version)
            self._judge_range(asked, first, end, version.size)
        if status == 404:
            end = len(gone(version))
        if method == "HEAD" or status in (204, 304):
            if status == 200 and int(fields.get("content-length", end)) != end:
                raise Wrong(f"the length of {end} bytes is told as {fields['content-length']}")
            return None
        if status == 416:
            await self.reader.readexactly(int(fields.get("content-length", 0)))
            return None
        at, wanted = first, end if stop_after is None else min(end, first + stop_after)
        async for piece in self._pieces(fields):
            right = at + len(piece) <= end and (
                gone(version)[at:at + len(piece)] == piece if status == 404 else version.has(at, piece))
            if not right:
                raise Wrong(f"{len(piece)} bytes at {at} are not those of {version.tag}, of {version.size} bytes: {fields}")
            at += len(piece)
            self.bytes += len(piece)
            self.heard = time.monotonic()
            if self.pause:
                await asyncio.sleep(self.pause)
                self.time_out.reschedule(self.time_out.when() + self.pause)
            if stop_after is not None and at >= wanted:
                return None
        if at != end:
            raise Wrong(f"{version.tag} ended in order at {at} instead of {end}: {fields}")
        return None

    @staticmethod
    def _judge_range(asked, first, end, size):
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.get("Range", ""))
        if not wanted:
            return
        want = (max(0, size - int(wanted[2])), size) if not wanted[1] else (int(wanted[1]), min(size, int(wanted[2]) + 1) if wanted[2] else size)
        if (first, end) != want:
            raise Wrong(f"the range {first} to {end} is not what was asked for")

    async def _pieces(self, fields):
        if fields.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
        elif "content-length" in fields:
            left = int(fields["content-length"])
            while left:
                piece = await self.reader.read(min(left, 128 << 10))
                if not piece:
                    raise asyncio.IncompleteReadError(b"", left)
                left -= len(piece)
                yield piece
        else:
            while piece := await self.reader.read(128 << 10):
                yield piece

    async def _parts(self, version, fields):
        """The parts of multipart/byteranges, each against the version."""
        body = b"".join([piece async for piece in self._pieces(fields)])
        boundary = re.search(r'boundary="?([^";]+)', fields["content-type"])[1].encode()
        for part in body.split(b"--" + boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            first, end = parse_range(re.search(rb"content-range: *([^\r]*)", head, re.IGNORECASE)[1].decode(), version)
            if len(content) != end - first + 2 or not version.has(first, content[:-2]):
                raise Wrong(f"a part from {first} to {end} is not of {version.tag}: {fields}")
            self.bytes += end - first


def parse_range(text, version):
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", text)
    if not found or int(found[3]) != version.size or int(found[2]) >= version.size:
        raise Wrong(f"{version.tag} has {version.size} bytes, and the answer says {text!r}")
    return int(found[1]), int(found[2]) + 1
