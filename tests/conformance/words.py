"""Write conformance/words/terms.json.gz, and the tables: terms of texts, queries as they are read,
and what an index's vocabulary adds to them, by language."""

from __future__ import annotations

import gzip
import json
import random
import unicodedata
from pathlib import Path
from typing import Any

from pocketquery.sdk.words import Analyzer, Query, Vocabulary, expand
from tests.conformance import word_tables
from tests.sdk.diverse_text import diverse_strings

__all__ = ["TARGET", "cases", "main"]

TARGET = Path(__file__).parents[2] / "conformance" / "words" / "terms.json.gz"
# Format characters and combining marks are written as escapes.
_ENGLISH = """\
def get_user_name(self): returns flask.Blueprint, see CVE-2021-44228 in 3.11.7 (v2.0.1rc1)
He writes C++, C# and .NET; runs --force-reinstall @name #12 $HOME std::vector a->b __init__
don’t rock’n’roll O'Brien the dogs' e-mail re-enter co\u00adoperate zero\u200bwidth U.S.A. TCP/IP
camelCase parseHTTPResponse iPhone UPPER_SNAKE kebab-case-name I/O ＡＢＣ ﬁle Ⅷ x² ½
В Москве книги ΑΘΗΝΑ Ἀθῆναι ש\u05b8ל\u05d5\u05b9ם م\u064fح\u064eم\u0651\u064eد كتابــ ٥١۷
東京都庁は新宿に こんにちは ｶﾞｷ สวัสดีชาวโลก 한국어를 검색한다 မြန်မာ 𠮷野家
BaseHTTPServer IOError HTML5Parser XMLHttpRequest URLs JavaScript OAuthToken
@app.route("/") Node.js's DOG'S c++'s
$1,000,000, or 12,345.6 (1,00; 1,000,5) v1.2,345
party 🎉 👨\u200d👩\u200d👧 🇩🇪 👍🏽 ❤\ufe0f 1\ufe0f\u20e3 ☀
""".splitlines()
_LONG = ["a" * 200, "x-" * 90 + "y", "e" + "\u0301" * 40 + "té", "🏴\U000e0067\U000e0062\U000e007f"]
_TEXTS = {
    "english": [*_ENGLISH, " ".join(_LONG)],
    "german": [
        "Die Straßenbahnhaltestelle in München, STRASSE und Strasse",
        "Häuser Häusern Donaudampfschiff",
    ],
    "turkish": ["İSTANBUL istanbul ISPARTA ıspartalı kızın kitapları"],
    "arabic": ["والكتاب\u064f العربي\u0651ة أحمد إلى"],
    "russian": ["книгами ёлка Їжак running"],
    "hindi": ["हिन्दी किताबें ज़मीन पढ़ाई"],
    "persian": ["می\u200cخواهم کتاب\u200cها را بخوانم"],
    "finnish": ["taloissamme kävelevät running"],
    "none": ["Running dogs' cafés get_user_name книгами"],
}
_QUERIES = """\
the big dog
"big dog" +house -cat
-"big dog" cat
+get_user_name -flask.Blueprint
-word
""
"the of"
--flag -5 e-mail C++ a - b
5" disk
“big dog” «grand chien» ＋must −not
+"big dog"x "un closed
-(cat) +'quoted' -_private +1984 +2nd
runing aplication javascrpt
東京 -新宿 +한국어
+-a -+b +C++ 🎉 -👍
Strassenbahn haltestelle münchn
conf
config \nthe confi
unzip -x
HTTPServer
Prüfungen Pumpe Zeitung
Schiffahrtsprüfung Netzgeräte Pumpen Umwälzpumpe
""".splitlines()
_QUERIES += ["a" * 150, "", "  "]
# More words that no document has than are looked for.
_QUERIES.append("mapel aplle " + " ".join(chr(97 + n) * 4 for n in range(17)) + " rumning")
_VOCABULARY = """
applic run runner running javascript java config configur conformist conf strasse strassenbahn
bahn haltestell strassenbahnhaltestell munchen muncher dog dogs house household get user name word
words donau dampf schiff dampfschiff книг 東 京 東京 𠮷 한국어 apple aple ample maple
hochspannungspruf qualitatspruf umwalzpump prufstand schiffahrt netz gerat asema rautatieasem
tageszeit
""".split()


def main() -> None:
    """Write the file."""
    text = json.dumps(cases(), ensure_ascii=False, separators=(",", ":"))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    word_tables.main()


def cases() -> dict[str, Any]:
    """Texts with terms and lengths, and queries with what they become."""
    draw = random.Random(42)
    # Of an old Unicode, which every engine's normalisation knows.
    known = unicodedata.ucd_3_2_0.category
    strange = [
        text
        for text in diverse_strings(1200, seed=43)
        if not {"Cn", "Cs"}.intersection(map(known, text))
    ]
    everything = [text for texts in _TEXTS.values() for text in texts]
    pieces = [chunk for text in everything for chunk in text.split()]
    mixed = [
        "".join(draw.choices([*pieces, *"_-.'@&+:/#$ "], k=draw.randint(2, 6))) for _ in range(400)
    ]
    texts, queries = [], []
    frequencies = {term: 1 + number % 7 for number, term in enumerate(_VOCABULARY)}
    vocabulary = Vocabulary(sorted(frequencies), lambda term: frequencies.get(term, 0))
    for language in _TEXTS:
        analyzer = Analyzer(language)
        some = [*everything, *draw.sample(strange, 40), *draw.sample(mixed, 40)]
        occurrences, lengths = analyzer.occurrences(some)
        terms: list[dict[str, int]] = [{} for _ in some]
        for (term, row), count in sorted(occurrences.items()):
            terms[row][term] = count
        texts += [[language, *one] for one in zip(some, terms, lengths.tolist(), strict=True)]
        for text in [*_QUERIES, *draw.sample(mixed, 40)]:
            for prefix in (False, True):
                query = analyzer.query(text, prefix=prefix)
                weights, instead = expand(query, vocabulary, analyzer)
                expected = [list(weights.items()), list(instead.items())]
                queries.append([language, text, prefix, _plain(query), *expected])
    return {"texts": texts, "vocabulary": frequencies, "queries": queries}


def _plain(query: Query) -> dict[str, Any]:
    return {
        "plain": query.plain,
        "terms": list(query.terms.items()),
        "words": list(query.words.items()),
        "beside": sorted(query.beside),
        "required": sorted(query.required),
        "excluded": [sorted(one) for one in query.excluded],
        "phrases": query.phrases,
        "excluded_phrases": query.excluded_phrases,
        "required_phrases": query.required_phrases,
        "prefix": query.prefix,
    }


if __name__ == "__main__":
    main()
