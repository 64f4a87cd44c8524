#!/usr/bin/env python3
"""A server whose every response comes from the disk: `direct_reads.py ADDRESS PORT FILE`.

It reads a random block of FILE past the page cache, with a thread per connection."""

import http.server
import mmap
import os
import random
import sys
import threading

BLOCK = 4096


def serve(address, port, path):
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    # A device has no size for fstat.
    blocks = os.lseek(file, 0, os.SEEK_END) // BLOCK
    buffers = threading.local()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body leave in one segment, which the client need not wait for.
        wbufsize = BLOCK * 2

        def do_GET(self):
            if not hasattr(buffers, "block"):
                # Direct reads need an aligned buffer.
                buffers.block = mmap.mmap(-1, BLOCK)
            os.preadv(file, [buffers.block], random.randrange(blocks) * BLOCK)
            self.send_response(200)
            self.send_header("Content-Length", str(BLOCK))
            self.end_headers()
            self.wfile.write(buffers.block[:])

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 1024

        def handle_error(self, *_):
            # A client that went away is no error.
            pass

    Server((address, port), Handler).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
