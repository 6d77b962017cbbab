"""Runs on Ray in a process of their own, for Ray and pytest's warnings do not go together.

python ray_runs.py MODE CORPUS OUTPUT
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.indexing.document_encoder import DocumentEncoder, EncoderSource
from pocketquery_corpus.encoding import encode_corpus
from pocketquery_corpus.engine import Engine


@dataclass(frozen=True)
class Spoilt:
    """Opens an encoder that ends its process, or waits forever, at its third call, once."""

    marker: Path
    wait: bool = False

    def __call__(self) -> DocumentEncoder:
        plain = EncoderSource().open()
        calls = 0

        def encode(texts: list[str]) -> NDArray[Any]:
            nonlocal calls
            calls += 1
            if calls == 3 and not self.marker.exists():
                self.marker.write_text(str(os.getpid()))
                if self.wait:
                    time.sleep(10_000)
                os.kill(os.getpid(), signal.SIGKILL)
            return plain.encode(texts)

        return replace(plain, encode=encode)


def main(mode: str, corpus: str, output: Path) -> None:
    """Encode on Ray; print the result."""
    marker = output.with_name(f"{output.name}.spoilt")
    encoders: dict[str, Callable[[], DocumentEncoder]] = {
        "plain": EncoderSource().open,
        "killed": Spoilt(marker),
        "waits": Spoilt(marker, wait=True),
    }
    try:
        report = encode_corpus(
            [corpus], encoders[mode], output, batch_size=16, engine=Engine("ray", 1)
        )
    except PocketQueryError as error:
        print(type(error).__name__, error)
        return
    print(report.documents, report.shards, report.resumed, marker.exists())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
