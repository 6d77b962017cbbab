"""``pocketquery search``."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pocketquery.sdk.commands import (
    Parsed,
    Subparsers,
    add_adapter,
    add_bundle,
    add_command,
    add_filter,
    add_index,
    add_index_public_key,
    add_public_key,
    chosen_public_key,
    print_json,
    stdin_lines,
)
from pocketquery.sdk.errors import InvalidInputError, PocketQueryWarning
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.languages.reading import unread_query
from pocketquery.sdk.results.filters import language_filter
from pocketquery.sdk.results.hits import Hit, Hits
from pocketquery.sdk.searching.terminal import Page
from pocketquery.sdk.searching.where import parse_condition
from pocketquery.sdk.validation import number, whole
from pocketquery.sdk.words.language import CODE_OF

__all__ = ["search", "unknown_field"]

_NO_GROUPS = "none"
_LEAST_RELATED = 0.15  # see docs/how-to/search.md
_MOST_FIELDS = 20  # that are named


def search(subparsers: Subparsers) -> None:
    """Add ``pocketquery search``."""
    parser = add_command(
        subparsers,
        "search",
        "Search an index; the query never leaves this machine.",
        """\
examples:
  pocketquery search "what did I plant in March"
  pocketquery search '"spring onions" +seeds -indoors' -n 3
  pocketquery search "tomatoes" --where path^=garden/ --where "date>=2024-05"
  pocketquery search --index index "tomatoes" --mode lexical --group-by none
  pocketquery search --bundle demo/bundle --index demo/index "sugar" \\
      --filter '{"year": {"$gte": 2000}}' --json
  pocketquery search - < queries.txt

"quotes" ask for a phrase, +word for a word that must be there, -word for one that must not.
""",
        _run,
    )
    parser.add_argument(
        "query", nargs="?", help="what to look for; - or none: each line of stdin is a query"
    )
    add_bundle(parser)
    add_adapter(parser)
    add_public_key(parser)
    add_index(parser)
    add_index_public_key(parser)
    parser.add_argument(
        "-n", "-k", dest="k", type=Parsed(whole(1), int), default=10, help="hits (default: 10)"
    )
    parser.add_argument(
        "--offset",
        type=Parsed(whole(0), int),
        default=0,
        metavar="N",
        help="pass over the N best: the second page of ten begins at 10 (default: 0)",
    )
    parser.add_argument(
        "--mode",
        choices=("dense", "lexical", "hybrid"),
        default="hybrid",
        help="by meaning, by words, or both (default: hybrid)",
    )
    parser.add_argument(
        "--min-score",
        type=Parsed(number(), float),
        metavar="SCORE",
        help=f"leave out lower scores (default: {_LEAST_RELATED} in hybrid mode, under which "
        "hardly anything answers a query; else none)",
    )
    parser.add_argument(
        "--group-by",
        default="path",
        metavar="FIELD",
        help="show the best passage of each value of a field (default: path, which is one hit a "
        f'file; "{_NO_GROUPS}" shows every passage)',
    )
    add_filter(parser)
    parser.add_argument(
        "--language",
        action="append",
        metavar="LANGUAGE",
        help="only documents in this language: de or german; can be given several times",
    )
    parser.add_argument(
        "--where",
        type=_condition,
        action="append",
        default=[],
        metavar="CONDITION",
        help="only documents that meet it: tags=garden, path^=notes/ (begins with), title~pump "
        "(has), date>=2024-05, year<2020, done!=true; more than one must all hold",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a hit, a line")


def _condition(text: str) -> dict[str, Any]:
    try:
        return parse_condition(text)
    except InvalidInputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _run(options: argparse.Namespace) -> int:
    from pocketquery.sdk.indexing.default_index import bundle_for, searched_index
    from pocketquery.sdk.loading import load

    queries = [options.query] if options.query not in (None, "-") else list(_queries())
    place, key = searched_index(options.index), chosen_public_key(options)
    encoder = load(bundle_for(place, options.bundle), adapter=options.adapter, public_key=key)
    with open_index(place, encoder=encoder, public_key=options.index_public_key) as index:
        page = Page(folder=index.source.root if index.source else None)
        _check_group(index, options.group_by)
        for position, query in enumerate(queries):
            asked = _search_options(options)
            if options.mode == "hybrid" and query.strip() and not encoder.reads(query):
                asked["min_score"] = options.min_score  # as of --mode lexical
                message = unread_query(encoder.name, encoder.languages)
                warnings.warn(message, PocketQueryWarning, stacklevel=1)
            hits = index.search(query, **asked)
            if options.json:
                _print_lines(index, query, hits)
                continue
            if len(queries) > 1:
                print(end="\n" * (position > 0))
                page.heading(query)
            for hit in hits:
                snippet = index.snippet(hit, query, length=page.snippet_length)
                page.show(hit, snippet, index.snippet(_name(hit), query, length=1000))
            if hits.absent_phrases:
                page.say("no document has the words in quotes as they stand: each counts by itself")
            if not hits:
                for sentence in _advice(index, query, asked):
                    page.say(sentence)
    return 0


def _queries() -> Iterator[str]:
    if sys.stdin.isatty():
        raise InvalidInputError(
            'there is no query; expected one: pocketquery search "what did I plant"'
        )
    return (line for line in stdin_lines() if line.strip())


def _search_options(options: argparse.Namespace) -> dict[str, Any]:
    least = options.min_score
    if least is None and options.mode == "hybrid":
        least = _LEAST_RELATED
    conditions = [*([options.filter] if options.filter else []), *options.where]
    if options.language:
        codes = [CODE_OF.get(one.lower(), one) for one in options.language]
        conditions.append(language_filter(codes))
    return {
        "k": options.k,
        "offset": options.offset,
        "mode": options.mode,
        "min_score": least,
        "filter": {"$and": conditions} if conditions else None,
        "group_by": None if options.group_by == _NO_GROUPS else options.group_by,
    }


def _check_group(index: Index, field: str) -> None:
    if field in ("path", _NO_GROUPS):  # an index without paths has one document a group
        return
    for name, meant in index.unknown_fields({field: None}).items():
        raise InvalidInputError(unknown_field(index, name, meant))


def _print_lines(index: Index, query: str, hits: Hits) -> None:
    for hit in hits:
        print_json({"query": query, **asdict(hit), "snippet": asdict(index.snippet(hit, query))})


def _name(hit: Hit) -> str:
    """The title of a passage, which has the headings above it; else these."""
    title, headings = hit.metadata.get("title"), hit.metadata.get("headings")
    if isinstance(title, str) and title.strip():
        return title
    return " > ".join(map(str, headings)) if isinstance(headings, list) else ""


def _advice(index: Index, query: str, asked: dict[str, Any]) -> Iterator[str]:
    """That nothing was found, why, and what to try."""
    yield "nothing found"
    if asked["offset"] and index.search(query, **asked | {"offset": 0, "k": 1}):
        yield f"there are fewer than {asked['offset'] + 1} hits: a smaller --offset shows the last"
        return
    if asked["filter"]:
        unknown = index.unknown_fields(asked["filter"])
        for name, meant in unknown.items():
            yield unknown_field(index, name, meant)
        if unknown:
            return
    if asked["min_score"] is not None:
        best = index.search(query, **asked | {"min_score": None, "k": 1})
        if best:
            in_words = asked | {"min_score": None, "mode": "lexical", "k": 1}
            has_words = asked["mode"] == "hybrid" and index.search(query, **in_words)
            by_words = ", or --mode lexical for those that have its words" if has_words else ""
            score = math.floor(best[0].score * 100) / 100  # never rounded up to the limit
            yield (
                f"the best score is {score:.2f}, below {asked['min_score']:g}; to see such "
                f"hits: --min-score -1{by_words}"
            )
            return
    if asked["filter"] and index.search(query, **asked | {"filter": None, "k": 1}):
        yield "other documents are found without the conditions (--where, --filter, --language)"
    elif any(sign in query for sign in '"+'):
        yield 'documents without the "phrase" or +word were left out; try it as plain words'
    elif asked["mode"] == "lexical":
        yield "no document has these words; without --mode lexical their meaning counts, too"


def unknown_field(index: Index, name: str, meant: str | None) -> str:
    """That no document has the field ``name``, and which there are."""
    near = f' (did you mean "{meant}"?)' if meant else ""
    fields = ", ".join(list(index.fields())[:_MOST_FIELDS]) or "none"
    return f'no document has the field "{name}"{near}; there are: {fields}'
