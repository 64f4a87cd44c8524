"""A folder of results: made new for every measurement, never written over, and without a trace of who measured where."""

import datetime
import getpass
import json
import os
import pathlib
import re
import socket

BENCH = pathlib.Path(__file__).resolve().parent.parent
CHECKOUT = BENCH.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "thalweg-bench"


class Results:
    """raw.jsonl has a line per run; what the programs printed is beside it in output/."""

    def __init__(self, folder, hide=()):
        self.folder = folder
        # The longest first: a folder inside another one must go before it.
        places = {CHECKOUT: "", CACHE / "bin": "", CACHE: "", pathlib.Path.home(): "~"}
        places |= {pathlib.Path(path): "" for path in hide}
        self.places = sorted(((str(path), name) for path, name in places.items()), key=lambda place: -len(place[0]))

    @classmethod
    def new(cls, name, parent=None, hide=()):
        parent = parent or BENCH / "results"
        stem = f"{datetime.date.today()}-{name}"
        for number in range(1, 1000):
            folder = parent / (stem if number == 1 else f"{stem}-{number}")
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            return cls(folder, hide)
        raise SystemExit(f"there are too many folders {stem}-* in {parent}")

    def clean(self, text):
        """The text without paths of this machine, its name and its user's."""
        for place, name in self.places:
            if len(place) > 1:
                text = text.replace(f"{place}/", f"{name}/" if name else "").replace(place, name or ".")
        # Short names are words as well: they are taken out only where they stand alone in quotes.
        for word in {socket.gethostname(), getpass.getuser()}:
            text = re.sub(rf'"{re.escape(word)}"', '"-"', text)
            if len(word) > 5:
                text = text.replace(word, "-")
        return text

    def add(self, row):
        with (self.folder / "raw.jsonl").open("a") as raw:
            raw.write(self.clean(json.dumps(row)) + "\n")

    def rows(self):
        path = self.folder / "raw.jsonl"
        if not path.exists():
            return []
        rows = []
        for line in path.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                # A run that was killed may have left half a line.
                continue
        return rows

    def keep_output(self, name, command, run):
        """Writes what a program has printed, and returns the name of the file."""
        folder = self.folder / "output"
        folder.mkdir(exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
        number = 1
        while (path := folder / f"{stem}{'' if number == 1 else f'.{number}'}.txt").exists():
            number += 1
        text = f"$ {' '.join(command)}\n{run['output']}"
        if run["errors"].strip():
            text += f"\n--- stderr\n{run['errors']}"
        path.write_text(self.clean(text))
        return f"output/{path.name}"

    def write(self, name, text):
        (self.folder / name).write_text(self.clean(text))

    def settings(self, new):
        """Keeps the settings of a new folder; returns those that an old one was made with."""
        path = self.folder / "settings.json"
        if path.exists():
            return json.loads(path.read_text())
        self.write("settings.json", json.dumps(new, indent=2, default=str) + "\n")
        return new
