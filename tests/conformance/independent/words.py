"""Text to terms, and queries, by docs/formats/words.md; its stems are snowballstemmer's own."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import snowballstemmer

from tests.conformance.independent.characters import Characters, table

__all__ = ["Analyzer", "Query", "Vocabulary", "common_terms", "expand", "within"]

_TABLES = table("words.json")
_CLASSES = {
    name: Characters(text)
    for name, text in _TABLES.items()
    if name != "unicode" and ">" not in text
}
_REPLACED = {
    name: {
        chr(int(one, 16)): "".join(chr(int(point, 16)) for point in other.split("+"))
        for one, _, other in (pair.partition(">") for pair in _TABLES[name].split())
    }
    for name in ("digits", "alike", "folded")
}
_BLANKS = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CHUNK = re.compile(f"[^{_BLANKS}]+")
_SIGNS = "_-.,'@&+:>/#$"
_CHAIN = re.compile(
    r"h+|k+|((?<![w0.])\.(?=w)|(?<![w0-])--(?=w)|(?<![w0#])#(?=[w0])|(?<![w0@$])[@$](?=w))?"
    r"([w0]+(?:(?:_+|[-.'@&]|\+{1,2}|::|->)[w0]+)*)((?:\+{1,2}|#)(?![w0]))?"
)
_OF_CHUNK = (
    r"(?<![w0/.-])[w0]{1,3}/[w0]{1,3}(\+{1,2})?(?![w0/.-])",
    r"(?<![w0_])__[w0]+(_+[w0]+)*__(?![w0_])",
)
_SCRIPTS = {
    "english": ("41-24F 1E00-1EFF", "basque catalan czech danish dutch english esperanto estonian "
                "finnish french german hungarian indonesian irish italian lithuanian norwegian "
                "polish portuguese romanian serbian spanish swedish turkish"),
    "greek": ("370-3FF 1F00-1FFF", "greek"),
    "russian": ("400-52F", "russian serbian"),
    "armenian": ("530-58F", "armenian"),
    "": ("590-5FF", "yiddish"),
    "arabic": ("600-6FF 750-77F", "arabic persian"),
    "hindi": ("900-97F", "hindi nepali"),
    "tamil": ("B80-BFF", "tamil"),
}  # fmt: skip
_COMPOUNDING = "german dutch swedish danish norwegian finnish estonian hungarian".split()


@dataclass
class Terms:
    """What a chunk has, raw at first."""

    words: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    compounds: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


@dataclass
class Query:
    """A query as read."""

    plain: str
    terms: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    excluded: list[frozenset[str]] = field(default_factory=list)
    phrases: list[list[str]] = field(default_factory=list)
    excluded_phrases: list[list[str]] = field(default_factory=list)
    required_phrases: list[list[str]] = field(default_factory=list)
    prefix: str = ""


def within(phrase: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a text's words have a phrase."""
    phrase = list(phrase)
    starts = range(len(words) - len(phrase) + 1)
    return any(list(words[at : at + len(phrase)]) == phrase for at in starts)


def _is(name: str, character: str) -> bool:
    return character in _CLASSES[name]


def _emoji(chunk: str, made: Terms) -> str:
    """Step 1."""
    rest, at = "", 0

    def one(at: int) -> int:
        if at < len(chunk) and _is("emoji", chunk[at]):
            at += 1
            at += chunk[at : at + 1] == "\ufe0f"
            return at + ("\U0001f3fb" <= chunk[at : at + 1] <= "\U0001f3ff")
        return at

    while at < len(chunk):
        stop = one(at)
        flag = re.compile("[\U0001f1e6-\U0001f1ff]{2}|\U0001f3f4[\U000e0061-\U000e007a]+\U000e007f")
        if match := flag.match(chunk, at):
            stop = match.end()
        elif stop > at:
            while chunk[stop : stop + 1] == "\u200d":
                after = one(stop + 1)
                if after == stop + 1 and chunk[after : after + 1] in list("♀♂⚕⚖✈"):
                    after += 1 + (chunk[after + 1 : after + 2] == "\ufe0f")
                if after == stop + 1:
                    break
                stop = after
        if stop == at:
            rest, at = rest + chunk[at], at + 1
            continue
        whole = chunk[at:stop].replace("\ufe0f", "")
        parts = [re.sub("[\U0001f3fb-\U0001f3ff]", "", part) for part in whole.split("\u200d")]
        made.words += parts
        if whole != parts[0]:
            made.compounds.append(whole)
        rest, at = rest + " ", stop
    return rest


def _replace(text: str) -> str:
    out = ""
    for character in text:
        if _is("dropped", character):
            continue
        if _is("apostrophes", character):
            character = "'"
        elif _is("hyphens", character):
            character = "-"
        character = _REPLACED["digits"].get(character, character)
        out += _REPLACED["alike"].get(character, character)
    return out


def _normal(text: str) -> str:
    """Step 2."""
    if text.isascii():
        return _replace(text)
    text = re.sub("(?<=[\u0620-\u06ff])\u200c(?=[\u0620-\u06ff])", "-", text)
    kept, run = "", 0
    for character in _replace(text):
        decomposed = unicodedata.normalize("NFKD", character)
        moved = unicodedata.combining(decomposed[0]) or not _replace(decomposed)
        run = run + 1 if moved else 0
        kept += character if run <= 30 else ""
    return unicodedata.normalize("NFC", _replace(unicodedata.normalize("NFKD", kept)))


def _shape(character: str) -> str:
    if character.isascii():
        shape = "0" if character.isdigit() else "w" if character.isalpha() else " "
        return character if character in _SIGNS else shape
    for shape, names in {"h": ["unspaced"], "k": ["hangul"], "w": ["letters", "others"]}.items():
        if any(_is(name, character) for name in names):
            return shape
    return " "


def _letters(text: str) -> bool:
    return all(one.isalpha() if one.isascii() else _is("letters", one) for one in text)


def cut(chunk: str) -> Terms:
    """The words and compounds of a chunk."""
    made = Terms()
    text = _normal(_emoji(chunk, made))
    shape = "".join(map(_shape, text))
    for match in _CHAIN.finditer(shape):
        run = text[match.start() : match.end()]
        if match[0][0] == "h":
            letters: list[str] = []
            for one in run:
                if letters and (_is("unspaced_marks", one)):
                    letters[-1] += one
                else:
                    letters.append(one)
            made.words += letters
            made.pairs += [one + other for one, other in pairwise(letters)]
        elif match[0][0] == "k":
            made.words.append(run[:128])
            made.parts += [one + other for one, other in pairwise(run)] if len(run) > 2 else []
        else:
            _chain(made, text, shape, match)
    for pattern in _OF_CHUNK:
        made.compounds += [text[m.start() : m.end()] for m in re.finditer(pattern, shape)]
    grouped = re.finditer("(?<![w0,.])0{1,3}(,000)+(?!,?[w0])", shape)
    made.joins += [text[m.start() : m.end()].replace(",", "") for m in grouped]
    return made


def _chain(made: Terms, text: str, shape: str, match: re.Match[str]) -> None:
    start, stop = match.span(2)
    inside, of_inside = text[start:stop], shape[start:stop]
    if inside.lower().endswith("'s"):
        inside, of_inside = inside[:-2], of_inside[:-2]
    members, at = [], 0
    for sign in re.finditer(r"@|::|->|\.", of_inside):
        between = of_inside[sign.start() - 1] + of_inside[sign.end()]
        if sign[0] != "." or between != "00":
            members.append((at, sign.start()))
            at = sign.end()
    members.append((at, len(inside)))
    for first, last in members:
        _member(made, inside[first:last], of_inside[first:last])
    suffix = match[3] or ""
    if len(inside) > 128:
        return
    if len(members) > 1 and all(last - first == 1 for first, last in members):
        made.joins.append("".join(inside[first] for first, _ in members))
    elif len(members) > 1 or match[1] or suffix:
        if len(members) > 2:
            made.compounds.append(inside[members[-2][0] :] + suffix)
        if len(members) > 1 and match[1]:
            made.compounds.append(inside + suffix)
        made.compounds.append((match[1] or "") + inside + suffix)


def _member(made: Terms, text: str, shape: str) -> None:
    words = [text[found.start() : found.end()] for found in re.finditer("[w0]+", shape)]
    made.words += [word[:128] for word in words]
    for word in words:
        if re.match("[a-z][a-z0-9]+[A-Z]|.*[A-Z][A-Z0-9][A-Z][a-z][a-z]", word):
            pieces = re.sub("([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])", r"\1\2 ", word).split()
            made.parts += pieces if min(map(len, pieces)) > 1 else []
    if len(words) == 1 or len(text) > 128:
        return
    if "'" in text:
        ends = re.search("'(t|re|ve|ll|d|m)$|^o'", text, re.IGNORECASE | re.ASCII)
        made.joins += [text.replace("'", "")] if len(words) == 2 and ends else []
        return
    if re.match(r"[vV][0-9]+\.[0-9]", text):
        text, shape = text[1:], shape[1:]
    number = re.search(r"0+(\.0+)+(?![w0])", shape)
    if number and number[0] != shape:
        made.compounds.append(text[number.start() : number.end()])
    joined = re.sub(r"(?<![0-9])[-_]+|[-_]+(?![0-9])", "", text)
    (made.joins if _letters(joined) else made.compounds).append(joined)
    if "_" in text:
        made.compounds.append(text)


def _folded(text: str) -> str:
    return "".join(
        one.lower() if one.isascii() else _REPLACED["folded"].get(one, one) for one in text
    )


def _bare(text: str) -> str:
    kept = [one for one in unicodedata.normalize("NFD", text) if not "\u0300" <= one <= "\u036f"]
    return unicodedata.normalize("NFC", "".join(kept).replace("\u0131", "i"))


class Analyzer:
    """Terms in a language."""

    def __init__(self, language: str = "english") -> None:
        self.language = language
        self._stems: dict[str, Callable[[str], str]] = {}

    def lower(self, word: str) -> str:
        """A word in lower case."""
        return _folded(word.replace("I", "\u0131") if self.language == "turkish" else word)

    def term(self, word: str) -> str:
        """A word's term."""
        word = self.lower(word)
        if 3 <= len(word) <= 64 and not re.search("[0-9]", word):
            word = self._stemmer(word[0])(word) or word
        return _bare(word)

    def _stemmer(self, letter: str) -> Callable[[str], str]:
        for own, (characters, languages) in _SCRIPTS.items():
            if letter in Characters(characters) and self.language != "none":
                name = self.language if self.language in languages.split() else own
                if name and name not in self._stems:
                    module = getattr(snowballstemmer, f"{name}_stemmer")
                    made: Any = getattr(module, f"{name.capitalize()}Stemmer")()
                    self._stems[name] = made.stemWord
                return self._stems.get(name, str)
        return str

    def _terms(self, chunk: str) -> Terms:
        made = cut(chunk)

        def terms(words: list[str]) -> list[str]:
            return [term for term in map(self.term, words) if term]

        compounds = [_bare(_folded(one)) for one in made.compounds]
        return Terms(
            terms(made.words), terms(made.pairs), compounds, terms(made.joins), terms(made.parts)
        )

    def occurrences(self, texts: Sequence[str]) -> tuple[Counter[tuple[str, int]], list[int]]:
        """By (term, text), and lengths."""
        counts: Counter[tuple[str, int]] = Counter()
        lengths = [0] * len(texts)
        for row, text in enumerate(texts):
            for chunk in _CHUNK.findall(text):
                made = self._terms(chunk)
                lengths[row] += len(made.words) + len(made.pairs)
                every = made.words + made.pairs + made.compounds + made.joins + made.parts
                counts.update((term, row) for term in every)
        return counts, lengths

    def sequence(self, text: str) -> list[str]:
        """The words' terms."""
        return [term for chunk in _CHUNK.findall(text) for term in self._terms(chunk).words]

    def _sharpest(self, chunk: str) -> frozenset[str]:
        made = self._terms(chunk)
        return frozenset(made.compounds[-1:] or made.joins or made.pairs or made.words)

    def query(self, text: str, *, prefix: bool = False) -> Query:
        """A query as read."""
        plain, parts = _parts(text)
        query, whole = Query(plain), set[str]()
        for chunk in _CHUNK.findall(plain):
            made = self._terms(chunk)
            whole.update(made.words, made.pairs)
            alone = len(_CHUNK.findall(plain)) == 1 and not made.compounds
            joined = 1.0 if alone else 0.5
            own = 0.5 if made.compounds else 0.75 if made.joins else 1.0
            weighed = [(own, made.words), (own, made.pairs), (1.0, made.compounds)]
            for weight, terms in [*weighed, (joined, made.joins), (0.5, made.parts)]:
                for term in terms:
                    query.terms[term] = query.terms.get(term, 0.0) + weight
            for term in made.compounds[:-1]:
                query.terms[term] -= 0.5
            for word in cut(chunk).words:
                term = self.term(word)
                if len(term) >= 4 and _every_letter(term):
                    query.words.setdefault(term, self.lower(word))
        query.beside = frozenset(query.terms) - whole
        for excludes, phrase, body, required in parts:
            if phrase:
                (query.excluded_phrases if excludes else query.phrases).append(self.sequence(body))
                query.required_phrases += [self.sequence(body)] if required else []
            elif excludes:
                query.excluded.append(self._sharpest(body))
            else:
                query.required |= self._sharpest(body)
        chunks = _CHUNK.findall(text)
        if prefix and text and _has_word(text[-1]) and plain.endswith(chunks[-1]):
            query.prefix = _bare(_folded((cut(chunks[-1]).words or [""])[-1]))
        return query


def _every_letter(term: str) -> bool:
    return all(_shape(one) in "whk" and unicodedata.category(one)[0] == "L" for one in term)


def _has_word(text: str) -> bool:
    return any(_shape(one) in "w0hk" for one in _normal(text))


_HYPHENS = "".join(chr(point) for point in range(0x3000) if _is("hyphens", chr(point)))
_ESCAPED = re.escape(_HYPHENS)
_MARKS = ('"\u201c\u201d\u201e\u201f\u301d\u301e\u301f\uff02', "«»", "‹›")
_PHRASES = [f"[{some}](?P<phrase{n}>[^{some}]+)[{some}](?!\\w)" for n, some in enumerate(_MARKS)]
_PART = re.compile(
    rf"(?<!\S)(?P<sign>[+＋{_ESCAPED}])?(?:{'|'.join(_PHRASES)})"
    rf"|(?<!\S)(?P<operator>[+＋{_ESCAPED}])(?P<chunk>(?:[^\w\s+{_ESCAPED}]?[^\W\d])\S*)"
)


def _parts(text: str) -> tuple[str, list[tuple[bool, bool, str, bool]]]:
    """The plain text; of each part whether it excludes, whether it is a phrase, what is in it, and
    whether it stands behind a +."""
    parts, plain, done, words = [], "", 0, 0
    for match in _PART.finditer(text):
        groups = match.groupdict()
        phrase = next((body for name, body in groups.items() if "phrase" in name and body), "")
        body = phrase or groups["chunk"]
        if not _has_word(body):
            continue
        excludes = (groups["sign"] or groups["operator"] or "+") in _HYPHENS
        before = text[done : match.start()]
        words += sum(map(_has_word, _CHUNK.findall(before))) + (not phrase)
        plain += before + ("" if excludes else body)
        required = not excludes and (groups["sign"] or groups["operator"]) is not None
        parts.append((excludes, bool(phrase), body, required))
        done = match.end()
    if words + sum(map(_has_word, _CHUNK.findall(text[done:]))) > 7:
        return text.strip(), []
    return (plain + text[done:]).strip(), parts


def common_terms(query: Query, analyzer: Analyzer) -> list[str]:
    """The terms of a query's words that are common in the language that has most of them, where
    that are two at least."""
    words = [word for chunk in _CHUNK.findall(query.plain) for word in cut(chunk).words]
    listed = table("common_words.json")
    of_words = [
        {one for one, some in listed.items() if _folded(word) in some.split()} for word in words
    ]
    counts = Counter(language for languages in of_words for language in languages)
    if max(counts.values(), default=0) < 2:
        return []
    spoken = {language for language in counts if counts[language] == max(counts.values())}
    terms = [
        analyzer.term(word) for word, some in zip(words, of_words, strict=True) if some & spoken
    ]
    needed = query.required | {term for phrase in query.phrases for term in phrase}
    return list(dict.fromkeys(one for one in terms if one in query.terms and one not in needed))


class Vocabulary:
    """Terms and how many documents have each."""

    def __init__(self, terms: Iterable[str], frequency: Callable[[str], int]) -> None:
        self.terms = set(terms)
        self.frequency = frequency


def expand(
    query: Query, vocabulary: Vocabulary, analyzer: Analyzer
) -> tuple[dict[str, float], dict[str, str]]:
    """The weights of a query's terms and of what the vocabulary adds; of compounds of a word that
    is nowhere, its term."""
    weights, instead, terms = dict(query.terms), dict[str, str](), vocabulary.terms

    def add(term: str, weight: float) -> None:
        weights[term] = max(weights.get(term, 0.0), weight)

    def begun(word: str) -> list[str]:
        lengths = range(len(word) - 1, max(len(word) - 5, 3) - 1, -1)
        return [word[:length] for length in lengths if word[:length] in terms][:1]

    if query.prefix:
        longer = [term for term in terms if term.startswith(query.prefix)] or begun(query.prefix)
        for term in sorted(longer, key=lambda one: (-vocabulary.frequency(one), one))[:20]:
            add(term, 0.7)
    unknown = [term for term in query.words if term not in terms]
    for term, typed in query.words.items():
        weight = query.terms[term]
        if term in unknown:
            most = 0 if term not in unknown[:16] else 2 if len(term) >= 8 else 1
            near = [(_distance(term, one), -vocabulary.frequency(one), one) for one in terms
                    if abs(len(one) - len(term)) <= most]  # fmt: skip
            best = [(d, one) for d, _, one in sorted(near) if 0 < d <= most][:3]
            for distance, one in best or [(2, one) for one in begun(_bare(typed))]:
                add(one, weight * 0.5**distance)
        if analyzer.language in _COMPOUNDING:
            for one in _compounds(term, typed, terms, analyzer):
                add(one, weight * (0.5 if term in unknown else 0.25))
                if term in unknown and one not in query.terms:
                    instead.setdefault(one, term)
    return weights, instead


def _compounds(term: str, typed: str, terms: set[str], analyzer: Analyzer) -> list[str]:
    longer = {one for one in terms if len(one) >= len(term) + 3
              and (one.startswith(term) or one.endswith(term))}  # fmt: skip
    within = analyzer.term("bananas" + typed).removeprefix("bananas")
    if len(within) >= 4 and within not in terms:
        longer |= {one for one in terms if one.endswith(within) and len(one) >= len(within) + 3}
    parts = []
    for split in range(4, len(typed) - 3):
        before, head = typed[:split], analyzer.term(typed[split:])
        for link in ("", "s", "es", "n", "en", "er", "e"):
            stem = analyzer.term(before.removesuffix(link))
            is_there = head in terms and stem in terms and min(len(head), len(stem)) >= 3
            if before.endswith(link) and is_there:
                parts += [stem, head]
                break
    return sorted(longer, key=lambda one: (len(one), one))[:30] + parts


def _distance(one: str, other: str) -> int:
    """Optimal string alignment."""
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if not i or not j:
                rows[i][j] = i + j
                continue
            cost = min(rows[i - 1][j], rows[i][j - 1]) + 1
            cost = min(cost, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 1] + other[j - 2]:
                cost = min(cost, rows[i - 2][j - 2] + 1)
            rows[i][j] = cost
    return rows[-1][-1]
