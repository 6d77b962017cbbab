"""What Python computes, written down so that the JavaScript SDK can be held to it.

``python -m tests.sdk.javascript_expectations FOLDER [TEXTS]`` writes tokenizers, texts and their
ids (100,000 diverse texts unless said otherwise), vectors of the reference bundle, and stems of
20,000 words a language.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pocketquery.sdk import load
from pocketquery.sdk.bundle.golden import parse_golden
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer, open_tokenizer
from tests.conformance.stems import stems
from tests.sdk.diverse_text import added_token, diverse_strings, rich_wordpiece
from tests.sdk.multilingual_model import made_up_texts, train_model

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "benchmarks" / "reference" / "bundle"
_BLOCK = 2048  # code points in one text
_MODELS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "identity": {"normalization_rule_name": "identity"},
    "spaces": {"remove_extra_whitespaces": False, "normalization_rule_name": "nfkc_cf"},
    "suffix": {"treat_whitespace_as_suffix": True},
    "bytes": {"byte_fallback": True, "vocab_size": 900},
    "symbols": {"user_defined_symbols": ["<sep>", "abc", "的一", "▁of"]},
    "bpe": {"model_type": "bpe", "vocab_size": 900},
    "bpe-bytes": {"model_type": "bpe", "vocab_size": 1200, "byte_fallback": True},
    "bpe-symbols": {
        "model_type": "bpe",
        "vocab_size": 900,
        "user_defined_symbols": ["<sep>", "abc", "的一"],
    },
}


def well_formed(texts: Iterable[str]) -> list[str]:
    """Those of ``texts`` that are text: no lone surrogates."""
    return [text for text in texts if not any("\ud800" <= c <= "\udfff" for c in text)]


def write_case(
    folder: Path, name: str, kind: str, data: bytes, texts: list[str], **options: Any
) -> None:
    """A tokenizer, texts and their ids."""
    max_length = int(options.pop("max_length", 128))
    tokenizer: Tokenizer = open_tokenizer(kind, data, max_length, options)
    (folder / f"{name}.tokenizer").write_bytes(data)
    content = {
        "kind": kind,
        "max_length": max_length,
        "options": options,
        "vocabulary_size": tokenizer.vocabulary_size,
        "unknown_id": tokenizer.unknown_id,
        "texts": texts,
        "ids": [tokenizer.encode(text) for text in texts],
    }
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def write_wordpiece(folder: Path, count: int) -> None:
    """The reference bundle's tokenizer and rich ones with every option, on diverse texts."""
    rich = rich_wordpiece(seed=1)
    texts = well_formed(diverse_strings(count, seed=11))
    write_case(folder, "wordpiece-rich", "wordpiece", rich, texts)
    few = texts[: max(200, count // 10)]
    reference = (REFERENCE / "tokenizer.json").read_bytes()
    write_case(folder, "wordpiece-reference", "wordpiece", reference, few)
    write_case(folder, "wordpiece-short", "wordpiece", rich, few, max_length=8)
    for number in range(16):
        options = {
            "clean_text": bool(number & 1),
            "handle_chinese_chars": bool(number & 2),
            "strip_accents": None if number & 4 else bool(number & 1),
            "lowercase": bool(number & 8),
        }
        data = rich_wordpiece(seed=2, **options)  # type: ignore[arg-type]  # as named there
        write_case(folder, f"wordpiece-{number}", "wordpiece", data, few[: len(few) // 4])
    vocabulary = json.loads(rich)["model"]["vocab"]
    flags = ["single_word", "lstrip", "rstrip", "normalized"]
    tokens = []
    free = len(vocabulary)
    for i, content in enumerate(["the", " É", "SEP", "ing ", "who what", "1984", "क", "🫠"]):
        number = vocabulary.get(content, free)
        tokens.append(added_token(content, number, **dict.fromkeys(flags[i % 4 :], True)))
        free = max(free, number + 1)
    literals = rich_wordpiece(seed=1, added_tokens=tuple(tokens))
    write_case(folder, "wordpiece-literals", "wordpiece", literals, few)


def write_code_points(folder: Path) -> None:
    """Every code point but surrogates, between letters and beside a literal; many to a text."""
    points = [*range(0xD800), *range(0xE000, 0x110000)]
    blocks = [points[i : i + _BLOCK] for i in range(0, len(points), _BLOCK)]
    texts = [" ".join(f"q{chr(point)}a" for point in block) for block in blocks]
    plain = rich_wordpiece(seed=1)
    free = len(json.loads(plain)["model"]["vocab"])
    alone = added_token("zz", free, single_word=True)
    beside = [" ".join(f"{chr(p)}zz zz{chr(p)}" for p in block) for block in blocks]
    literal = rich_wordpiece(seed=1, added_tokens=(alone,))
    for name, data, strings in (("all", plain, texts), ("beside", literal, beside)):
        write_case(folder, f"points-{name}", "wordpiece", data, strings, max_length=40 * _BLOCK)


def write_sentencepiece(folder: Path, count: int) -> None:
    """Models of either kind with every option, on diverse texts and on those of their language."""
    strange = well_formed(diverse_strings(count // 20, seed=12))
    texts = strange + made_up_texts(count // 20, seed=13)
    texts += [
        "",
        " ",
        "  the  sea ",
        "</s> x <mask> <pad>",
        "\0",
        "a\0b",
        "的一abc<sep>",
        "▁▁",
        "of of",
    ]
    for name, options in _MODELS.items():
        data = train_model(**options)
        write_case(folder, f"sentencepiece-{name}", "sentencepiece", data, texts, layout="plain")
    data = train_model()
    for name, known in (("xlm", {}), ("pruned", {"known_pieces": 200})):
        layout: dict[str, Any] = {"layout": "xlm-roberta", **known}
        write_case(folder, f"sentencepiece-{name}", "sentencepiece", data, texts, **layout)


def write_vectors(folder: Path) -> None:
    """The reference bundle's vectors of its golden texts and of diverse ones, to the bit."""
    encoder = load(REFERENCE)
    golden = parse_golden((REFERENCE / "golden.json").read_bytes())
    texts = [item.text for item in golden] + well_formed(diverse_strings(200, seed=14))
    (folder / "vectors.json").write_text(json.dumps(texts), encoding="utf-8")
    (folder / "vectors.f32").write_bytes(encoder.encode(texts).tobytes())


def main(folder: Path, count: int) -> None:
    """Write everything into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stems.json").write_text(json.dumps(stems(20_000)), encoding="utf-8")
    write_vectors(folder)
    write_wordpiece(folder, count)
    write_code_points(folder)
    write_sentencepiece(folder, count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
