"""Writes the bundle that is shipped for a recorded device: `PYTHONPATH=. python -m tests.helpers.ship [RECORDING]`."""

import sys
from pathlib import Path

from pega_tune.autotune.replay.bundling import bundle_recording
from pega_tune.autotune.replay.codec import decode
from pega_tune.profiles.bundle.files import write_bundle
from pega_tune.profiles.bundle.packaged import file_name
from pega_tune.profiles.policy.sources import PACKAGED
from tests.helpers.recordings import STANDARD


def ship(source: Path, folder: Path) -> Path:
    """Makes a bundle of a recording and puts it under its name into a folder, which is created if it is missing."""
    bundle = bundle_recording(decode(source.read_bytes()))
    folder.mkdir(exist_ok=True)
    target = folder / file_name(bundle.device)
    write_bundle(bundle, target)
    return target


if __name__ == "__main__":
    ship(Path(sys.argv[1]) if sys.argv[1:] else STANDARD, PACKAGED)
