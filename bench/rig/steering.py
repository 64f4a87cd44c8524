"""Steering: the packets of a connection are worked on by the CPU on which the socket's owner runs (receive flow steering), on loopback.

Between two machines each one's network work is done by its own CPUs, and a network card with a queue per CPU finds the right one. On loopback
the kernel works on a packet on the CPU that has sent it: a client's acknowledgement makes the *client's* CPU send what the server's kernel holds
ready, and what a large file costs the server is then charged to its client, more or less of it from one second to the next. Steered, both ends
pay for what is theirs. The price is an interrupt between the CPUs for most packets, which weighs little for segments of 64 KiB and much for
small responses; so this is for large files only.

Linux, Documentation/networking/scaling.rst."""

import pathlib

from . import settings

#: What is written, and where. Loopback has one queue; 32768 flows are the document's own suggestion for a moderately busy server.
SETTINGS = {
    pathlib.Path("/proc/sys/net/core/rps_sock_flow_entries"): "32768",
    pathlib.Path("/sys/class/net/lo/queues/rx-0/rps_flow_cnt"): "32768",
}
CPUS = pathlib.Path("/sys/class/net/lo/queues/rx-0/rps_cpus")


def steered(cpus):
    """Has packets of loopback steered to these CPUs meanwhile. OSError where that is not permitted or not there."""
    return settings.written(SETTINGS | {CPUS: mask(cpus)})


def mask(cpus):
    """A set of CPUs as the kernel writes it: hexadecimal, in groups of 32."""
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))
