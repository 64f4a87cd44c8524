"""Settings of the kernel that hold for a measurement and are put back at its end."""

import contextlib


@contextlib.contextmanager
def written(settings):
    """Writes each value to its file; what they held before is written back at the end. OSError where that is not permitted or not there."""
    before = {path: path.read_text() for path in settings}
    try:
        for path, value in settings.items():
            path.write_text(value)
        yield
    finally:
        for path, value in before.items():
            with contextlib.suppress(OSError):
                path.write_text(value)
