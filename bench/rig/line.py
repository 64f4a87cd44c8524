"""A slow line's retransmission timeout, for readers on loopback that read as slowly as such a line carries.

A receive window of 30 KB takes 7 s over a line of 33.6 kbit/s, and so does the way there and back: a server's kernel waits longer than that before
it sends anything again, or probes a closed window (RFC 6298, section 2; RFC 9293, section 3.8.6.1). Loopback brings the window
at once, and a reader that reads a piece every few seconds leaves it closed in between. The kernel then probes it after half a second, and again, which no
line would see: 14,000 times a second for 30,000 readers. And it does so in bunches. A timer of more than 252 ms goes off at a multiple of 32 ms,
one of more than 2 s at a multiple of 256 ms (HZ 250; linux/kernel/time/timer.c), so that over eight hundred connections probe in the same
instant and both CPUs work on nothing else for five to ten milliseconds."""

import pathlib

from . import settings

#: Linux 6.11. Sockets take it over when they are made; Documentation/networking/ip-sysctl.rst.
RTO_MIN_US = pathlib.Path("/proc/sys/net/ipv4/tcp_rto_min_us")
RTO_MIN_S = 8

NETSTAT = pathlib.Path("/proc/net/netstat")


def simulated():
    """Has the sockets that are made meanwhile wait at least as long as over a slow line. OSError where that is not permitted or not there."""
    return settings.written({RTO_MIN_US: str(RTO_MIN_S * 1_000_000)})


def window_probes():
    """Window probes that kernels have sent since the machine has started."""
    lines = [row.split() for row in NETSTAT.read_text().splitlines() if row.startswith("TcpExt:")]
    return int(dict(zip(*lines))["TCPWinProbe"])
