"""Clients that attack a server, and others that count how they fare beside them. Written for Python 3 without further packages.

    attackers.py attack PORT SECONDS ROLE=COUNT ...    roles: deaf, silent, halting, idle, hello, half_hello
    attackers.py ask PORT SECONDS GRACE_SECONDS        prints a line of JSON

An attacker that the server closes comes again at once. `deaf` asks for a large file and does not read; `silent` sends nothing; `halting` sends the
head of a request byte by byte; `idle` asks for one small file and stays; `hello` begins a TLS handshake and says nothing more, `half_hello` not even
the whole of the first message. Who asks does so for small files, on a new connection each time or on one
that is kept, and downloads large files at a modem's speed. What happens in the first GRACE_SECONDS is not counted.
"""

import heapq
import json
import select
import socket
import ssl
import statistics
import sys
import time

LARGE = b"GET /sparse.bin HTTP/1.1\r\nHost: h\r\n\r\n"
SMALL = b"GET /text.txt HTTP/1.1\r\nHost: h\r\n\r\n"


def client_hello():
    outgoing = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a.test").do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


HELLO = client_hello()
FIRST = {"hello": HELLO, "half_hello": HELLO[:100], "deaf": LARGE, "silent": b"", "halting": b"GET / HTTP/1.1\r\nX: ", "idle": SMALL, "small": SMALL, "kept": SMALL, "modem": LARGE}
ASKERS = {"modem": 20, "small": 8, "kept": 8}
EVERY_S = {"small": 0.05, "kept": 0.2, "modem": 0.1, "halting": 0.5}
MODEM_BYTES = 420
CONNECTS_PER_TURN = 50


class Client:
    def __init__(self, role):
        self.role, self.stream, self.received, self.asked = role, None, b"", None


class Clients:
    def __init__(self, port, seconds, roles, grace_s=0):
        self.port, self.began = port, time.monotonic()
        self.until, self.counts_from = self.began + seconds, self.began + grace_s
        self.poll, self.clients, self.alarms, self.number = select.epoll(), {}, [], 0
        self.coming = [Client(role) for role, count in roles for _ in range(count)]
        self.took_s = []
        self.counts = {"answered": 0, "refused": 0, "closed": 0, "modems_lost": 0, "modem_bytes": 0, "connects": 0}

    def at(self, delay_s, client):
        self.number += 1
        heapq.heappush(self.alarms, (time.monotonic() + delay_s, self.number, client))

    def come(self, client):
        client.stream = stream = socket.socket()
        client.received, client.asked = b"", time.monotonic()
        if client.role in ("modem", "deaf"):
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.setblocking(False)
        stream.connect_ex(("127.0.0.1", self.port))
        self.counts["connects"] += 1
        self.clients[stream.fileno()] = client
        # What is not read is not waited for either, but its end is.
        reads = 0 if client.role in ("deaf", "modem") else select.EPOLLIN
        self.poll.register(stream.fileno(), select.EPOLLOUT | select.EPOLLRDHUP | reads)

    def over(self, client):
        self.clients.pop(client.stream.fileno())
        client.stream.close()
        client.stream = None

    def count(self, what):
        if time.monotonic() >= self.counts_from:
            self.counts[what] += 1

    def ended(self, client):
        """The server has closed."""
        self.over(client)
        if client.role == "modem":
            self.counts["modems_lost"] += 1
        elif client.role in ("small", "kept"):
            # One that has its answer has its next turn already.
            if client.asked:
                self.count("closed")
                self.at(EVERY_S["small"], client)
        else:
            self.coming.append(client)

    def on_event(self, client, events):
        reads = select.EPOLLIN if client.role not in ("deaf", "modem") else 0
        if events & select.EPOLLOUT:
            self.poll.modify(client.stream.fileno(), select.EPOLLRDHUP | reads)
            if FIRST[client.role]:
                client.stream.send(FIRST[client.role])
            if client.role in ("modem", "halting"):
                self.at(EVERY_S[client.role], client)
        if events & select.EPOLLIN:
            client.received += (got := client.stream.recv(65536))
            if client.role in ("small", "kept"):
                self.on_answer(client)
            if not got and client.stream:
                self.ended(client)
        elif events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            self.ended(client)

    def on_answer(self, client):
        head, found, body = client.received.partition(b"\r\n\r\n")
        fields = head.lower().split(b"\r\n")
        length = next((int(field[15:]) for field in fields if field.startswith(b"content-length:")), 0)
        if not found or len(body) < length:
            return
        self.count("answered" if b" 200 " in fields[0] else "refused")
        self.took_s.append(time.monotonic() - client.asked)
        client.received, client.asked = b"", None
        if client.role == "small" or b"connection: close" in fields:
            self.over(client)
        self.at(EVERY_S[client.role], client)

    def on_alarm(self, client):
        if client.stream is None:
            return self.come(client) if client.role in ("small", "kept") else None
        try:
            if client.role == "modem":
                self.counts["modem_bytes"] += len(client.stream.recv(MODEM_BYTES))
            elif client.role == "halting":
                client.stream.send(b"x")
            elif client.asked is None:
                client.asked = time.monotonic()
                client.stream.send(SMALL)
                return
        except BlockingIOError:
            pass
        except OSError:
            return self.ended(client)
        if client.role in ("modem", "halting"):
            self.at(EVERY_S[client.role], client)

    def run(self):
        while (now := time.monotonic()) < self.until:
            coming, self.coming = self.coming[:CONNECTS_PER_TURN], self.coming[CONNECTS_PER_TURN:]
            for client in coming:
                self.come(client)
            while self.alarms and self.alarms[0][0] <= now:
                self.on_alarm(heapq.heappop(self.alarms)[2])
            wait_s = 0 if self.coming else min(self.alarms[0][0] if self.alarms else self.until, self.until) - time.monotonic()
            for number, events in self.poll.poll(max(wait_s, 0)):
                if client := self.clients.get(number):
                    try:
                        self.on_event(client, events)
                    except OSError:
                        self.ended(client)
        now = time.monotonic()
        waiting = [client for client in self.clients.values() if client.role in ("small", "kept") and client.asked]
        self.counts["median_ms"] = statistics.median(self.took_s) * 1000 if self.took_s else None
        self.counts["unanswered"] = sum(now - client.asked > 2 for client in waiting)
        return self.counts


def main():
    what, port, seconds, *more = sys.argv[1:]
    if what == "attack":
        clients = Clients(int(port), float(seconds), [(role, int(count)) for role, _, count in (word.partition("=") for word in more)])
    else:
        clients = Clients(int(port), float(seconds), ASKERS.items(), float(more[0]))
    print("begun", flush=True)
    print(json.dumps(clients.run()), flush=True)


main()
