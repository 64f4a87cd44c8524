"""A world of objects that change, shared by processes: its versions, the bytes of each, and when each was born.

A byte sequence of a version is a section of one random sequence, which begins at a place of the version's own and goes round. So a few bytes tell
the version and the offset that they belong to, and comparing them costs what `memcmp` costs."""

import functools
import hashlib
import mmap
import random
import time

#: A prime: no power of two, such as a fragment of the cache, is a multiple of the length of the round.
ROUND = 1_048_573
SECTION_MAX = 1 << 20
_bytes = random.Random(1).randbytes(ROUND)
_ROUNDS = memoryview(_bytes * 3)
#: Last-Modified of version 0; each later version is a minute newer, so that no two share a second.
EPOCH_S = 1_500_000_000


class Version:
    """One version of an object: `status` 200 or 404, `size` in bytes, `max_age` in seconds (0 is sent as no-cache)."""

    def __init__(self, target, number, status, size, max_age):
        self.target, self.number, self.status, self.size, self.max_age = target, number, status, size, max_age
        self.tag = f'"{target}.{number}"'
        self.modified = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(EPOCH_S + 60 * number))
        self._begin = int.from_bytes(hashlib.blake2b(self.tag.encode(), digest_size=8).digest(), "big") % ROUND

    def section(self, first, end):
        """The bytes from `first` up to `end`, at most SECTION_MAX of them."""
        begin = (first + self._begin) % ROUND
        return _ROUNDS[begin:begin + end - first]

    def has(self, first, received):
        """Whether these bytes are those from `first` on."""
        received = memoryview(received)
        return all(self.section(first + at, first + min(at + SECTION_MAX, len(received))) == received[at:at + SECTION_MAX]
                   for at in range(0, len(received), SECTION_MAX))

    def sections(self, first, end, length):
        while first < end:
            yield self.section(first, min(end, first + length))
            first += length


class World:
    """Objects 0 to `objects` - 1 with at most `versions` versions each. Only the origin's process changes it; all that it forks read it.

    `describe(target, number)` gives (status, size, max_age) of a version."""

    def __init__(self, objects, versions, describe):
        self.objects, self.versions, self.describe = objects, versions, describe
        self._births = self._array(objects * (versions + 1))
        self._current = self._array(objects, "q")
        self._floors, self._faults = self._array(objects), self._array(objects)
        #: When the server was last stopped, and when it was last ready again.
        self.server = self._array(2)
        #: When the clients end.
        self.until = self._array(1)
        self.counts = self._array(8, "q")
        now = time.monotonic()
        for target in range(objects):
            self._births[target * (versions + 1)] = now

    @staticmethod
    def _array(length, kind="d"):
        return memoryview(mmap.mmap(-1, max(1, length) * 8)).cast(kind)

    @functools.lru_cache(maxsize=20_000)  # noqa: B019: one world per program
    def version(self, target, number):
        return Version(target, number, *self.describe(target, number))

    def current(self, target):
        return self.version(target, self._current[target])

    def change(self, target):
        """Makes the next version the current one, and returns it; the same one if there were too many."""
        number = self._current[target] + 1
        if number < self.versions:
            self._births[target * (self.versions + 1) + number] = time.monotonic()
            self._current[target] = number
        return self.current(target)

    def life(self, version):
        """When it was born and when the next one was, in seconds of the monotonic clock."""
        at = version.target * (self.versions + 1) + version.number
        return self._births[at], self._births[at + 1] or float("inf")

    def changed(self, target):
        """When its current version was born; never for the first one."""
        version = self.current(target)
        return self.life(version)[0] if version.number else 0

    def purged(self, target, since):
        """Notes that a purge was acknowledged: no later request gets anything that the origin said before `since`."""
        self._floors[target] = max(self._floors[target], since)

    def floor(self, target):
        return self._floors[target]

    def note_fault(self, target):
        self._faults[target] = time.monotonic()
        self.counts[Count.FAULTS] += 1

    def fault(self, target):
        """When the origin failed a request for this object last."""
        return self._faults[target]

    def is_down(self, since):
        """Whether the server has been down at any time since then."""
        down, up = self.server
        return down > up or up >= since


class Count:
    """Places of the origin's counts."""

    REQUESTS, BYTES, FAULTS, CHANGES, RANGES, VALIDATIONS = range(6)


def random_objects(seed, is_lasting):
    """Status, size and lifetime of each version: most are small, a tenth of the objects has several fragments, a tenth of the versions are deletions.
    Those of objects that `is_lasting` says so of are fresh for an hour, others for at most 5 s."""

    def describe(target, number):
        draw = random.Random(seed << 40 | target << 16 | number)
        size = int(2 ** draw.uniform(0, 16)) if target % 10 else int(2 ** draw.uniform(17, 22.5))
        lifetime = 3600 if is_lasting(target) else draw.choice([0, 1, 1, 2, 2, 3, 5])
        return (404 if draw.random() < 0.1 else 200), size, lifetime

    return describe


def is_of_a_body(sample):
    """Whether these bytes, a few, are in the one sequence of which all bodies are."""
    return _bytes.find(sample) >= 0
