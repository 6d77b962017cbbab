"""``pocketquery mine tokenizer``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pocketquery.server.corpus.mining.inputs import add_inputs, named_source
from pocketquery.server.corpus.mining.outputs import add_mode, add_output

__all__ = ["add_tokenizer"]

_EPILOG = """\
examples:
  pocketquery mine tokenizer --documents articles --vocabulary 8000 --output tokenizer
  pocketquery mine tokenizer --documents en fr ko --kind wordpiece --output tokenizer

The result is a Hugging Face tokenizer. The table says, language by language, how many subword
tokens a word takes, and how many of them are unknown or single bytes.
"""


def add_tokenizer(modes: Any) -> None:
    """Add the mode's parser."""
    parser = add_mode(modes, "tokenizer", "a vocabulary for the texts", _EPILOG)
    add_inputs(parser, "documents", "sessions", "pairs", "queries")
    add = parser.add_argument
    add("--kind", default="unigram", help="unigram (default) or wordpiece")
    add("--vocabulary", type=int, default=0, metavar="N", help="ids (default: by the languages)")
    add("--max-length", type=int, default=64, help="the table counts longer texts (default: 64)")
    add_output(parser, _tokenizer)


def _tokenizer(arguments: argparse.Namespace) -> int:
    from pocketquery.server.corpus.new_tokenizer import TokenizerConfig, train_tokenizer
    from pocketquery.server.corpus.tokenizer_report import report_tokenizer

    source = named_source(arguments)
    config = TokenizerConfig(arguments.kind, arguments.vocabulary, seed=arguments.seed)
    tokenizer = train_tokenizer(source, arguments.output, config)
    reports = report_tokenizer(tokenizer, source, max_length=arguments.max_length)
    rows = [
        {
            "language": report.language,
            "texts": report.texts,
            "pieces_per_word": round(report.pieces_per_word, 3),
            "unknown": round(report.unknown_rate, 5),
            "bytes": round(report.byte_rate, 5),
            "truncated": round(report.truncated_share, 3),
        }
        for report in reports
    ]
    if arguments.json:
        print(json.dumps({"path": arguments.output, "ids": len(tokenizer), "languages": rows}))
        return 0
    print(f"tokenizer {arguments.output}  ({len(tokenizer):,} ids)")
    for row in rows:
        print("  ".join(f"{name} {value or '-'}" for name, value in row.items()))
    return 0
