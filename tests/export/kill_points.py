"""Publishes a bundle over an older one many times, each time killed (SIGKILL) at another line.

    python -m tests.export.kill_points BUNDLE POINTS

Every point is a forked process: a trace counts the lines executed where bundles are written and
kills at the chosen one. After each, this process verifies that what is left is the old bundle or
the new one, whole, and that publishing can be done again. Prints how many were old and new.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import onnx

from pocketquery import sdk
from pocketquery.export.bundle.bundle_files import publish
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.settings import ExportOptions
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.server.modeling.tokenizer_file import tokenizer_file
from tests.kills import killed, lines_of, spread
from tests.tiny_models import bert_teacher, sentences

MODULES = ("/bundle/writing.py", "/sdk/files.py", "/sdk/folders.py", "/bundle/bundle_files.py")
LAST_LINES = 60  # where the renames are


def main(output: Path, points: int) -> None:
    """Kill at ``points`` lines, half of them among the last."""
    publish_version = _publisher(output)
    publish_version("1")
    old = output.with_name("old")
    renew(output, old)

    def write() -> None:
        publish_version("2")

    lines = lines_of(write, MODULES)
    seen: Counter[str] = Counter()
    for line in spread(lines, points, last=LAST_LINES):
        renew(old, output)
        killed(lambda: lines_of(write, MODULES, line))  # noqa: B023
        sdk.verify(output)
        seen[sdk.load(output).version] += 1
        write()
        assert sdk.load(output).version == "2"
    print(dict(seen))


def _publisher(output: Path) -> Callable[[str], None]:
    """A function that publishes the bundle of one student under a version."""
    student = bert_teacher(layers=1)
    made = output.with_name("made")
    options = ExportOptions(calibration_texts=4, parity_texts=2)
    report = export_bundle(
        student, made, calibration_texts=sentences(8), options=options, name="tiny", license="MIT"
    )
    model = onnx.load_from_string(Bundle.open(made).read("encoder.onnx"))
    file = tokenizer_file(student.tokenizer)

    def publish_version(version: str) -> None:
        manifest = report.manifest._replace(encoder_version=version)
        publish(output, manifest, file, model, ["castle rock"], None)

    return publish_version


def renew(source: Path, target: Path) -> None:
    """Put a copy of a bundle, and nothing that a kill left beside it, at ``target``."""
    for left in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
