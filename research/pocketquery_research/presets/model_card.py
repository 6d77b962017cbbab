"""The model card of a built-in encoder: what it is, learnt from, and is not for."""

from __future__ import annotations

from pocketquery.sdk.bundle.manifest import Manifest
from pocketquery_research.presets.textbooks import BOOKS

__all__ = ["model_card"]

_CARD = """# {name}

A query encoder for search in English on a device: text in, a vector of {dimension} numbers out, in
the space of all-MiniLM-L6-v2 (`{space}`), whose vectors of documents it
finds. Of the same texts it can be both sides.

| | |
|---|---|
| licence | {license}, as its teacher's |
| teacher | sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) |
| student | `{shape}`, {vocabulary:,} subword tokens, {max_length} tokens a text |
| bytes | {bytes:,}, int8 |
| trained | {trained} |
| int8 beside float | cosine {cosine:.4f}; {overlap:.3f} of the ten nearest, {queries:,} queries |

**Learnt from** {texts:,} different texts and {documents:,} paragraphs: English Wikipedia (CC BY-SA
3.0; none of SQuAD's articles), {books}{science}the questions of NQ-open (CC BY-SA 3.0), users'
turns of Schema-Guided Dialogue (CC BY-SA 4.0) and CLINC150's training requests (CC BY 3.0). Of the
collections that it is measured on it has seen neither queries nor documents.

**What it finds** beside its teacher, collection by collection, and how it was measured:
docs/encoders.md.

**Not for** other languages than English, code, or telling whether a text is true or harmful. What
the teacher's vectors say of people, by the texts that it learnt from, these say too.

Made by `python -m pocketquery_research.presets.recipe make {options}`.
"""

_SCIENCE = "arXiv's abstracts (CC0), MedQuAD's answers about health (CC BY 4.0),\n"


def model_card(
    manifest: Manifest,
    *,
    options: str,
    shape: str,
    vocabulary: int,
    trained: str,
    texts: int,
    documents: int,
    with_textbooks: bool,
    with_science: bool,
) -> str:
    """The card, in Markdown.

    Args:
        manifest: of the bundle; its ``quality`` holds the ranking gate's report.
        options: of the recipe's command that say what is made.
        shape: of the student.
        vocabulary: pieces that were kept.
        trained: steps, texts a step, how many of them mistyped, and seed.
        texts: different ones, that it learnt to encode.
        documents: that it learnt to rank.
        with_textbooks: whether texts and documents are of textbooks, too.
        with_science: whether they are of papers' abstracts and answers about health, too.
    """
    gate = manifest.quality["gate"]
    passed = gate["steps"][-1]
    return _CARD.format(
        name=manifest.name,
        dimension=manifest.space.dimension,
        space=manifest.space.id,
        license=manifest.license,
        max_length=manifest.max_length,
        bytes=sum(entry.bytes for entry in manifest.files.values()),
        cosine=passed["cosine_mean"],
        overlap=passed["overlap"],
        queries=gate["queries"],
        options=options,
        shape=shape,
        vocabulary=vocabulary,
        trained=trained,
        texts=texts,
        documents=documents,
        books=f"{len(BOOKS)} of OpenStax's textbooks (CC BY 4.0),\n" if with_textbooks else "",
        science=_SCIENCE if with_science else "",
    )
