"""A folder of results: made new for every measurement, never overwritten, and without names of the machine and its user."""

import datetime
import getpass
import hashlib
import io
import json
import lzma
import os
import pathlib
import re
import socket
import tarfile

BENCH = pathlib.Path(__file__).resolve().parent.parent
CHECKOUT = BENCH.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "thalweg-bench"
#: A measurement keeps no more of its programs' output than this; of a longer one it notes length and checksum.
PACKED_BYTES_MAX = 256 * 1024


class Results:
    """raw.jsonl has a line per run. The programs' output is collected in output/, and packed into output.tar.xz by `finish`."""

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
        """Writes the output of a program to a file of its own, and returns the file's name."""
        folder = self.folder / "output"
        self._unpack(folder)
        folder.mkdir(exist_ok=True)
        taken = {row.get("output") for row in self.rows()}
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
        number = 1
        while (path := folder / f"{stem}{'' if number == 1 else f'.{number}'}.txt").exists() or f"output/{path.name}" in taken:
            number += 1
        text = f"$ {' '.join(command)}\n{run['output']}"
        if run["errors"].strip():
            text += f"\n--- stderr\n{run['errors']}"
        path.write_text(self.clean(text))
        return f"output/{path.name}"

    def finish(self, readme):
        """Ends a measurement: packs output/ and writes README.md with a note on it."""
        self._pack(self.folder / "output")
        self.table(readme)

    def table(self, readme):
        """Writes README.md, and the note on the output of a finished measurement."""
        note = self._output_note()
        self.write("README.md", f"{readme.rstrip()}\n\n{note}\n" if note else readme)

    def _pack(self, folder):
        """Packs output/ into output.tar.xz and removes it; if that is too long, leaves output/ there and notes its checksum."""
        files = sorted(folder.glob("*")) if folder.is_dir() else []
        if not files:
            return
        packed = PackedTar()
        with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for path in files:
                # Without times and owners, the same files always make the same archive.
                info = tarfile.TarInfo(f"output/{path.name}")
                info.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(info, file)
        packed.close()
        archive = self.folder / "output.tar.xz"
        archive.unlink(missing_ok=True)
        note = {"files": len(files), "tar_bytes": packed.tar_bytes, "tar_sha256": packed.sha256.hexdigest(), "packed": packed.fits()}
        path = self.folder / "settings.json"
        settings = json.loads(path.read_text()) if path.exists() else {}
        self.write("settings.json", json.dumps(settings | {"output": note}, indent=2) + "\n")
        if packed.fits():
            archive.write_bytes(packed.bytes())
            for path in files:
                path.unlink()
            folder.rmdir()

    def _unpack(self, folder):
        """Makes output/ again of output.tar.xz, for a measurement that goes on after it was finished."""
        archive = self.folder / "output.tar.xz"
        if folder.exists() or not archive.exists():
            return
        folder.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile():
                    (folder / pathlib.PurePosixPath(member.name).name).write_bytes(tar.extractfile(member).read())

    def _output_note(self):
        path = self.folder / "settings.json"
        note = json.loads(path.read_text()).get("output") if path.exists() else None
        if not note:
            return None
        if note["packed"]:
            return f"`output.tar.xz` has the output of the programs (files: {note['files']})."
        return (f"The output of the programs is not kept: {note['files']} file(s), as a tar archive {note['tar_bytes']:,} bytes with the SHA-256 "
                f"`{note['tar_sha256']}`.")

    def write(self, name, text):
        (self.folder / name).write_text(self.clean(text))

    def write_packed(self, name, text):
        """Writes NAME.xz."""
        (self.folder / f"{name}.xz").write_bytes(lzma.compress(self.clean(text).encode(), preset=9))

    def settings(self, new):
        """Keeps the settings of a new folder; returns those that an old one was made with."""
        path = self.folder / "settings.json"
        if path.exists():
            return json.loads(path.read_text())
        self.write("settings.json", json.dumps(new, indent=2, default=str) + "\n")
        return new


class PackedTar:
    """A sink for a tar archive: compresses it, counts it and takes its checksum; gives up the compressed bytes beyond PACKED_BYTES_MAX."""

    def __init__(self):
        self.sha256, self.tar_bytes = hashlib.sha256(), 0
        self._compressor, self._compressed = lzma.LZMACompressor(preset=9), io.BytesIO()

    def write(self, chunk):
        self.sha256.update(chunk)
        self.tar_bytes += len(chunk)
        if self.fits():
            self._compressed.write(self._compressor.compress(chunk))
        return len(chunk)

    def close(self):
        if self.fits():
            self._compressed.write(self._compressor.flush())

    def fits(self):
        return self._compressed.tell() <= PACKED_BYTES_MAX

    def bytes(self):
        return self._compressed.getvalue()
