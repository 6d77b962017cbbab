"""``pocketquery augment``: make views of queries, measure them, keep them for training."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import Parsed, add_command
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import SEED, whole

if TYPE_CHECKING:
    from pocketquery.client.views.augmenters import Augmenter
    from pocketquery_research.augmentation.measure import Audit

__all__ = ["augment"]

_EPILOG = """\
examples:
  pocketquery augment --queries log.tsv --lang en --augmenter template --audit
  pocketquery augment --queries log.tsv --output views.sqlite --variants 4 \\
      --augmenter '{"name": "pegasus", "model": "models/pegasus"}'
  pocketquery augment --queries log.tsv --lexicon words.tsv
  pocketquery augment --queries log.tsv --audit \\
      --augmenter '{"name": "lexicon", "path": "words.tsv"}'

An augmenter is a name, or JSON with its parameters and, where it may be unavailable, a "fallback".
Models are folders on this machine; nothing is downloaded. Measure an augmenter with --audit first.
Training draws from the cache without the model:

  pocketquery pretrain --objective query_bert ... \\
      --set 'query_bert.light=[{"name": "cached", "path": "views.sqlite", "augmenter": "pegasus"}]'

Heavy views are made of light ones: fill the cache for those, too, with --after pegasus. A run that
was killed goes on where it was when it is called again.
"""


def augment(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    # What is heavy is imported only where it is needed: the shell loads every command's module.
    from pocketquery.server.corpus.mining.inputs import add_inputs

    parser = add_command(
        subparsers, "augment", "Make views of queries, and look at them.", _EPILOG, _augment
    )
    add_inputs(parser, "queries")
    add = parser.add_argument_group("what is done").add_argument
    add("--augmenter", metavar="NAME|JSON", help="which one")
    add("--output", metavar="FILE", help="the cache its variants go into")
    add("--audit", action="store_true", help="print figures and 20 samples instead")
    add("--lexicon", metavar="FILE", help="write a table of words used alike, of these queries")
    add("--variants", type=int, default=1, metavar="N", help="of each query (default: 1)")
    add("--after", metavar="NAME", help="also of the variants that NAME left in the cache")
    add("--teacher", metavar="MODEL", help="with --audit: cosines in its space")
    add("--limit", type=Parsed(whole(), int), metavar="N", help="only the first N queries")
    add("--batch-size", type=int, default=32, metavar="N", help="texts at once (default: 32)")
    add("--seed", type=Parsed(SEED, int), default=0, help="of everything random (default: 0)")
    add("--json", action="store_true", help="print one JSON object")


def _augment(arguments: argparse.Namespace) -> int:
    asked = [name for name in ("output", "audit", "lexicon") if getattr(arguments, name)]
    if len(asked) != 1:
        found = " and ".join(f"--{name}" for name in asked) or "none of them"
        raise InvalidInputError(f"found {found}; expected one of --output, --audit, --lexicon")
    if asked == ["lexicon"]:
        return _lexicon(arguments)
    if not arguments.augmenter:
        raise InvalidInputError(f"--{asked[0]} without --augmenter; expected a name or JSON")
    return _audit(arguments) if asked == ["audit"] else _fill(arguments)


def _fill(arguments: argparse.Namespace) -> int:

    from pocketquery_research.augmentation.fill import fill
    from pocketquery_research.augmentation.variant_cache import VariantCache

    augmenter = _chosen(arguments.augmenter)
    totals = {"texts": 0, "made": 0, "present": 0, "unchanged": 0}
    with VariantCache(arguments.output) as cache:
        source = cache.one_named(arguments.after).identity if arguments.after else None
        for lang, texts in _queries(arguments).items():
            if source is not None:
                texts += [one for text in texts for one in cache.variants(text, source).values()]
            filled = fill(
                cache,
                augmenter,
                texts,
                variants=arguments.variants,
                seed=arguments.seed,
                lang=lang or None,
                batch_size=arguments.batch_size,
                show_progress_bar=True,
            )
            totals = {name: totals[name] + getattr(filled, name) for name in totals}
    figures = {"cache": arguments.output, "augmenter": augmenter.name, **totals}
    if arguments.json:
        print(json.dumps(figures))
        return 0
    print(f"cache      {arguments.output}  ({augmenter.name}, {augmenter.strength})")
    print(f"texts      {totals['texts']:,}")
    print(f"variants   {totals['made']:,} made, {totals['present']:,} were there")
    print(f"unchanged  {totals['unchanged']:,} of those made")
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    import random

    from pocketquery_research.augmentation.measure import audit

    queries = _queries(arguments)
    texts = [text for group in queries.values() for text in group]
    encode = None
    if arguments.teacher:
        from pocketquery.server.modeling import SentenceEncoder

        encode = SentenceEncoder.load(arguments.teacher, device="cpu").encode
    report = audit(
        _chosen(arguments.augmenter),
        texts,
        rng=random.Random(arguments.seed),
        encode=encode,
        lang=next(iter(queries)) or None if len(queries) == 1 else None,
    )
    print(json.dumps(report.to_dict(), ensure_ascii=False) if arguments.json else _shown(report))
    return 0


def _lexicon(arguments: argparse.Namespace) -> int:
    from pocketquery_research.augmentation.lexicon import (
        check_lexicon_place,
        nearest_words,
        write_lexicon,
    )
    from pocketquery_research.augmentation.word2vec import Word2VecConfig, train_word2vec

    check_lexicon_place(arguments.lexicon)  # before the work
    texts = [text for group in _queries(arguments).values() for text in group]
    vectors = train_word2vec(texts, Word2VecConfig(seed=arguments.seed))
    table = nearest_words(vectors, texts)
    write_lexicon(arguments.lexicon, table)
    figures = {"lexicon": arguments.lexicon, "words": len(table), "known": len(vectors.words)}
    found = f"{len(table):,} words have others used alike, of {len(vectors.words):,}"
    print(json.dumps(figures) if arguments.json else f"lexicon  {arguments.lexicon}  ({found})")
    return 0


def _chosen(choice: str) -> Augmenter:
    """The augmenter that a name, or an object in JSON, says."""
    from pocketquery.client.views.augmenter_choice import choose
    from pocketquery.server.objectives.augmenter_catalogue import CATALOGUE

    if not choice.lstrip().startswith("{"):
        return choose(choice, CATALOGUE)
    try:
        return choose(json.loads(choice), CATALOGUE)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"--augmenter is {choice!r}, which is not JSON ({error}); expected a name, or an "
            'object such as {"name": "typo", "rate": 0.2}'
        ) from error


def _queries(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Texts by language, in their order."""
    from itertools import islice

    from pocketquery.server.corpus.mining.inputs import named_groups

    by_language: dict[str, list[str]] = {}
    for group in islice(named_groups(arguments)[1], arguments.limit):
        if group.texts and group.texts[0].strip():  # of a blank line there is no text
            by_language.setdefault(group.lang, []).append(group.texts[0])
    return by_language


def _shown(report: Audit) -> str:
    lines = [
        f"augmenter      {report.name}",
        f"texts          {report.texts:,}",
        f"unchanged      {report.identity_rate:.1%}",
        f"token overlap  {report.token_jaccard:.3f} (Jaccard, mean)",
        f"length         {report.length_ratio:.3f} of the text's (mean)",
    ]
    for place, count in enumerate(report.cosines):
        if count:
            least = -1 + 2 * place / len(report.cosines)
            lines.append(f"cosine         {least:+.1f} to {least + 0.1:+.1f}  {count:,}")
    lines += ["", *(f"- {text}\n  {view}" for text, view in report.samples)]
    return "\n".join(lines)
