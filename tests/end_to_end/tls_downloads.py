"""Downloads over TLS and HTTP/1.1, each on a connection of its own, by Python's `ssl`, which is OpenSSL.

    tls_downloads.py PORT CONNECTIONS PATH SHA256 CA_FILE HOST

When half of each has come, it prints `begun` and waits for SIGUSR1; then it takes the rest of all of them, and prints how many were whole.
"""

import hashlib
import selectors
import signal
import socket
import ssl
import sys

SECONDS_MAX = 50
TAKEN_AT_ONCE = 1 << 16


class Download:
    def __init__(self, port, path, context, host):
        plain = socket.socket()
        # Ethernet's segments and a short buffer: over loopback's own the kernel takes megabytes for a client that reads nothing.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1448)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        plain.settimeout(SECONDS_MAX)
        plain.connect(("127.0.0.1", port))
        self.socket = context.wrap_socket(plain, server_hostname=host)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        first = b""
        while b"\r\n\r\n" not in first:
            first += self.socket.recv(TAKEN_AT_ONCE)
        head, _, body = first.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        self.length, self.taken, self.digest = int(fields[b"content-length"]), len(body), hashlib.sha256(body)
        self.socket.setblocking(False)

    def take(self, bound):
        """Takes what there is, up to so many bytes in all."""
        try:
            while self.taken < bound:
                data = self.socket.recv(min(TAKEN_AT_ONCE, bound - self.taken))
                if not data:
                    sys.exit(f"broken off after {self.taken} bytes")
                self.taken += len(data)
                self.digest.update(data)
        except ssl.SSLWantReadError:
            pass

    def is_ended(self):
        """Whether nothing but the end of TLS and of the connection comes."""
        self.socket.settimeout(SECONDS_MAX)
        return self.socket.recv(1) == b""


def take(downloads, bound):
    selector = selectors.DefaultSelector()
    for download in downloads:
        download.take(bound(download))
        if download.taken < bound(download):
            selector.register(download.socket, selectors.EVENT_READ, download)
    while selector.get_map():
        ready = selector.select(SECONDS_MAX)
        if not ready:
            sys.exit("nothing came any more")
        for key, _ in ready:
            key.data.take(bound(key.data))
            if key.data.taken == bound(key.data):
                selector.unregister(key.fileobj)


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    port, connections = map(int, sys.argv[1:3])
    path, digest, ca_file, host = sys.argv[3:7]
    context = ssl.create_default_context(cafile=ca_file)
    downloads = [Download(port, path, context, host) for _ in range(connections)]
    take(downloads, lambda download: download.length // 2)
    print("begun", flush=True)
    signal.sigwait({signal.SIGUSR1})
    take(downloads, lambda download: download.length)
    print(sum(download.digest.hexdigest() == digest and download.is_ended() for download in downloads), "whole", flush=True)


if __name__ == "__main__":
    main()
