"""`thalweg yardstick` as a server, with the truth that it knows about itself."""

import json
import subprocess
import urllib.request

from . import process


class Yardstick:
    """A running yardstick on a CPU of its own; `options` as of the command."""

    def __init__(self, thalweg, options, cpu):
        command = [thalweg, "yardstick", *options, "--listen", "127.0.0.1:0", "--cores", str(cpu)]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.url = None
        for line in self.child.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                break
        if not self.url:
            raise RuntimeError(f"the yardstick has not started: {self.child.communicate()[1].strip()}")
        self.figures_url = f"{self.url}.yardstick"

    def figures(self):
        with urllib.request.urlopen(self.figures_url, timeout=10) as page:
            return json.load(page)["figures"]

    def stop(self):
        self.child.terminate()
        try:
            self.child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill_session(self.child.pid)
            self.child.communicate()


def truth(thalweg, options):
    """The truth about a model, without a server."""
    return json.loads(subprocess.run([thalweg, "yardstick", *options, "--truth", "--json"], check=True, capture_output=True).stdout)["truth"]
