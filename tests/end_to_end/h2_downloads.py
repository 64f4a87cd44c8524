"""Downloads that share connections of HTTP/2, by Python's `h2`, which has nothing in common with the server.

    h2_downloads.py PORT CONNECTIONS STREAMS PATH SHA256 [CA_FILE HOST]

Opens CONNECTIONS connections with STREAMS downloads each. When a part of each has come and its window is used up, it prints `begun` and waits for
SIGUSR1; then it takes the rest of all of them, and prints how many were whole. A connection that the server has announced the end of is finished. With CA_FILE it
speaks TLS to HOST.
"""

import hashlib
import selectors
import signal
import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.events
import h2.settings

WINDOW = 40_000
SECONDS_MAX = 50
GOAWAY = 7


class Client:
    def __init__(self, port, streams, path, tls):
        self.socket, host = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX), "h"
        if tls:
            ca_file, host = tls
            context = ssl.create_default_context(cafile=ca_file)
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
            assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
        self.h2.increment_flow_control_window(streams * WINDOW)
        self.digests, self.taken, self.unreturned, self.whole = {}, {}, {}, {}
        self.opens_windows, self.partial = False, b""
        for _ in range(streams):
            stream = self.h2.get_next_available_stream_id()
            self.h2.send_headers(stream, [(":method", "GET"), (":scheme", "http"), (":authority", host), (":path", path)], end_stream=True)
            self.digests[stream], self.taken[stream], self.unreturned[stream] = hashlib.sha256(), 0, 0
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def open_windows(self):
        self.opens_windows = True
        for stream, count in self.unreturned.items():
            if count and stream not in self.whole:
                self.h2.acknowledge_received_data(count, stream)
        self.flush()

    def without_goaway(self, data):
        """The whole frames so far but GOAWAY, behind which `h2` takes nothing, though streams go on (RFC 9113, 6.8)."""
        self.partial += data
        frames, at = [], 0
        while at + 9 <= len(self.partial):
            end = at + 9 + int.from_bytes(self.partial[at : at + 3], "big")
            if end > len(self.partial):
                break
            if self.partial[at + 3] != GOAWAY:
                frames.append(self.partial[at:end])
            at = end
        self.partial = self.partial[at:]
        return b"".join(frames)

    def receive(self):
        """Takes what has come. False: the server has ended the connection."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            return False
        if not data:
            return False
        for event in self.h2.receive_data(self.without_goaway(data)):
            if isinstance(event, h2.events.DataReceived):
                self.digests[event.stream_id].update(event.data)
                self.taken[event.stream_id] += len(event.data)
                if self.opens_windows:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                else:
                    self.unreturned[event.stream_id] += event.flow_controlled_length
            elif isinstance(event, h2.events.StreamEnded):
                self.whole[event.stream_id] = self.digests[event.stream_id].hexdigest()
        self.flush()
        # What TLS has decrypted already does not make the socket readable.
        return self.receive() if isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() else True


def take(clients, is_done):
    selector = selectors.DefaultSelector()
    for client in clients:
        if not is_done(client):
            selector.register(client.socket, selectors.EVENT_READ, client)
    while selector.get_map():
        ready = selector.select(SECONDS_MAX)
        if not ready:
            sys.exit("nothing came any more")
        for key, _ in ready:
            if not key.data.receive() or is_done(key.data):
                selector.unregister(key.fileobj)


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    port, connections, streams = map(int, sys.argv[1:4])
    path, digest = sys.argv[4:6]
    clients = [Client(port, streams, path, sys.argv[6:8]) for _ in range(connections)]
    take(clients, lambda client: all(taken >= WINDOW for taken in client.taken.values()))
    print("begun", flush=True)
    signal.sigwait({signal.SIGUSR1})
    for client in clients:
        client.open_windows()
    take(clients, lambda client: len(client.whole) == streams)
    print(sum(whole == digest for client in clients for whole in client.whole.values()), "whole", flush=True)


if __name__ == "__main__":
    main()
