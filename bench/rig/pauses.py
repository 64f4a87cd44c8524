"""How long a machine's CPUs stand still by themselves: a lower bound for every program's 99th percentile.

A hypervisor that has something else to do takes a CPU away for milliseconds, and need not account for it as stolen time. Programs that do nothing
but look at the clock, one on each CPU and all at once, see it."""

import subprocess
import sys

from . import process

PAUSE_MS = 3

#: Prints which share of the time went by between two looks at the clock that were further apart than a pause. A look takes less than a
#: microsecond; what else wants the CPU and is let in by this priority counts too.
LOOK_ON = """
import gc, os, sys, time
try:
    os.nice(-20)
except OSError:
    pass
gc.disable()
seconds, pause, now = float(sys.argv[1]), float(sys.argv[2]), time.monotonic
paused, began = 0.0, now()
last = began
while last - began < seconds:
    at = now()
    if at - last > pause:
        paused += at - last
    last = at
print(paused / (last - began))
"""


def shares(cpus, seconds):
    """For each of these CPUs the share of the time in which it stood still for longer than PAUSE_MS at once."""
    arguments = [sys.executable, "-c", LOOK_ON, str(seconds), str(PAUSE_MS / 1e3)]
    lookers = [subprocess.Popen(process.pinned(cpu, arguments), stdout=subprocess.PIPE, text=True) for cpu in cpus]
    return [float(looker.communicate(timeout=seconds * 3 + 10)[0]) for looker in lookers]
