"""The table of the benchmarks: each one's command, budget and thresholds, or why it is left out.

A threshold names a figure of the JSON object that the benchmark prints, by its keys: ``a/b`` is
``figures["a"]["b"]``, a number counts places of a list, and ``*`` stands for every key. It repeats
what the benchmark itself holds the figure to, so that a stored result can be checked without being
measured again; where the two disagree the result does not count as reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = [
    "BENCHMARKS",
    "LEFT_OUT",
    "MOST_SECONDS",
    "ROOT",
    "Benchmark",
    "Bound",
    "Comparison",
    "LeftOut",
    "Need",
    "Threshold",
]

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 50 * 60
"""What all budgets together may take, on two cores with nothing else to do."""

Bound = Literal["<=", ">=", "<", ">"]
Need = Literal["demo", "data", "javascript", "transformers_js"]


class Comparison(NamedTuple):
    """One figure that was held to its threshold."""

    figure: str
    bound: Bound
    value: float
    found: float | None

    @property
    def reached(self) -> bool:
        """Whether it was; a figure that is not there was not."""
        if self.found is None or self.found != self.found:
            return False
        if self.bound in ("<=", "<"):
            return self.found < self.value or (self.bound == "<=" and self.found == self.value)
        return self.found > self.value or (self.bound == ">=" and self.found == self.value)


class Threshold(NamedTuple):
    """What a figure must reach."""

    figure: str
    bound: Bound
    value: float

    def compared(self, figures: Any) -> list[Comparison]:
        """The figures that it names, each held to it; one without a value where there is none."""
        found = list(_named(figures, self.figure.split("/"), ""))
        held = [Comparison(name, self.bound, self.value, value) for name, value in found]
        return held or [Comparison(self.figure, self.bound, self.value, None)]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that is run.

    Attributes:
        script: relative to benchmarks/.
        says: what is measured, for the page.
        budget: seconds that it takes at most on two cores with nothing else to do.
        thresholds: what its figures must reach.
        options: with which it is run; smaller than its own defaults where those take too long.
        needs: what must be there: ``demo`` (make demo), ``data`` (the public sets),
            ``javascript`` (sdk/js built, node), ``transformers_js`` (the rival's installation).
        seed: that its script draws by, for the record; None where nothing is drawn.
    """

    script: str
    says: str
    budget: int
    thresholds: tuple[Threshold, ...]
    options: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    seed: int | tuple[int, ...] | None = 0

    @property
    def name(self) -> str:
        """Of its result."""
        return Path(self.script).stem


@dataclass(frozen=True)
class LeftOut:
    """A benchmark that is not run with the others.

    Attributes:
        script: relative to benchmarks/.
        reason: why.
        stores: whether it stores its figures by itself (:func:`suite.results.store`).
        thresholds: what those must reach.
        options: with which they were found, where those are not its defaults.
        seed: that its script draws by, for the record.
    """

    script: str
    reason: str
    stores: bool = False
    thresholds: tuple[Threshold, ...] = ()
    options: tuple[str, ...] = ()
    seed: int | tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """Of what it measures."""
        return Path(self.script).stem


def _named(value: Any, keys: list[str], name: str) -> Iterator[tuple[str, float]]:
    if not keys:
        if isinstance(value, int | float):
            yield name, float(value)
        return
    if isinstance(value, list):
        value = {str(place): one for place, one in enumerate(value)}
    if not isinstance(value, dict):
        return
    for key in value if keys[0] == "*" else keys[:1]:
        if key in value:
            yield from _named(value[key], keys[1:], f"{name}/{key}" if name else key)


_T = Threshold

BENCHMARKS = (
    Benchmark(
        "tokenizer.py",
        "our WordPiece beside `tokenizers`, queries seen for the first time",
        30,
        (_T("first_seen_over_tokenizers", "<=", 0.5),),
    ),
    Benchmark(
        "encode_latency.py",
        "one query: ours beside bare tokenizer and session, and beside sentence-transformers",
        60,
        (_T("ours_over_bare", "<=", 1.15), _T("teacher_over_ours", ">=", 5)),
        needs=("demo",),
        seed=None,
    ),
    Benchmark(
        "cold_start.py",
        "processor time from process start to the first vector, beside fastembed and the teacher",
        60,
        (_T("ours_over_fastembed", "<=", 0.5), _T("ours_over_teacher", "<=", 0.1)),
        needs=("demo",),
        seed=None,
    ),
    Benchmark(
        "search.py",
        "10,000 and 100,000 documents beside faiss's exact 8-bit scan",
        300,
        (
            _T("*/recall_at_10", ">=", 0.99),
            _T("10000/over_faiss", "<=", 1.2),
            _T("100000/over_faiss", "<=", 1),
            _T("*/of_float32", "<=", 0.3),
        ),
    ),
    Benchmark(
        "quality.py",
        "retrieval on five collections, clean and mistyped, beside teacher, BM25 and model2vec",
        480,
        (
            _T("retention", ">=", 0.95),
            _T("over_model2vec/*", ">", 1),
            _T("hybrid_over_bm25", ">", 1),
            _T("hybrid_over_teacher", ">", 1),
        ),
        needs=("data",),
        seed=(1, 2, 3),
    ),
    Benchmark(
        "default_encoder.py",
        "the built-in encoder: found, weight, time, beside larger ones and rivals",
        600,
        (
            _T("default/bytes", "<=", 6_000_000),
            _T("default/retention_mean", ">=", 0.96),
            _T("default/retention/*", ">=", 0.93),
            _T("default/mistyped_over_teacher", ">=", 1),
            _T("default/p50_over_reference", "<=", 0.6),
            _T("first_vector/over_fastembed", "<=", 0.4),
            _T("first_vector/peak_bytes", "<=", 90_000_000),
        ),
        needs=("data",),
        seed=(1, 2, 3),
    ),
    Benchmark(
        "string_graph.py",
        "the graph that takes text: ids equal to the device's own tokenizer, language by language",
        180,
        (_T("english", ">=", 0.999), _T("difficult/*/equal_without_U+0000", ">=", 0.999)),
        options=("--most", "300"),
        needs=("data",),
        seed=1,
    ),
    Benchmark(
        "training_step.py",
        "the local training step beside eager torch: time, memory",
        90,
        (
            _T("time_ratio_3x384", "<=", 1),
            _T("time_ratio_2x128", "<=", 1),
            _T("memory_ratio_3x384", "<=", 0.7),
            _T("memory_ratio_2x128", "<=", 0.7),
            _T("after_import_mb_3x384", "<=", 60),
            _T("after_import_mb_2x128", "<=", 60),
        ),
    ),
    Benchmark(
        "federated_bytes.py",
        "bytes of a round's messages, down and up",
        30,
        (
            _T("down_bytes", "<=", 100_000),
            _T("up_bytes", "<=", 100_000),
            _T("down_share", "<=", 0.01),
            _T("up_share", "<=", 0.01),
        ),
    ),
    Benchmark(
        "aggregation.py",
        "server memory for 10,000 updates over that for 10, beside Flower's FedAvg",
        150,
        (_T("memory_of_rounds", "<=", 1.1), _T("memory_of_journal", "<=", 1.1)),
    ),
    Benchmark(
        "secure_sum.py",
        "private rounds: bytes and processor time of a device and of the server",
        150,
        (
            _T("down_bytes", "<=", 100_000),
            _T("up_bytes", "<=", 100_000),
            _T("device_ms", "<=", 150),
            _T("training_share", "<=", 0.05),
            _T("server_seconds", "<=", 30),
        ),
    ),
    Benchmark(
        "gateway_load.py",
        "updates a second that a gateway takes, waits at half of that, memory with many devices",
        240,
        (
            _T("updates_per_second", ">=", 1000),
            _T("p99_ms", "<=", 250),
            _T("memory_of_many", "<=", 1.1),
        ),
    ),
    Benchmark(
        "mining.py",
        "LCS mining beside a suffix automaton in plain Python; ten times the corpus",
        120,
        (
            _T("speed_over_plain_python", ">=", 20),
            _T("time_per_pair_growth", "<=", 1.25),
            _T("memory_over_sorting", "<=", 2),
        ),
    ),
    Benchmark(
        "pretraining_throughput.py",
        "tokens a second beside sentence-transformers' trainer",
        150,
        (_T("ratio", ">=", 1.3),),
        seed=None,
    ),
    Benchmark(
        "js_contrast.py",
        "CPDAE's contrast in blocks beside its definition",
        60,
        (
            _T("blockwise_gb", "<=", 1),
            _T("speedup", ">=", 10),
            _T("difference", "<=", 1e-5),
        ),
    ),
    Benchmark(
        "javascript.py",
        "the JavaScript SDK beside Python's, in Node and Chromium: ids, vectors, hits, times",
        180,
        (
            _T("other_ids", "<=", 0),
            _T("other_bits", "<=", 0),
            _T("other_hits", "<=", 0),
            _T("node_over_python", "<=", 1.2),
            _T("chromium_encode_ms", "<=", 15),
            _T("chromium_over_onnxruntime_web", "<=", 1.2),
            _T("chromium_search_ms", "<=", 30),
            _T("page_bytes", "<=", 12_000_000),
            _T("page_first_ms", "<=", 1500),
            _T("page_further_ms", "<=", 50),
            _T("chromium_cosine_mean", ">=", 0.9999),
            _T("chromium_cosine_least", ">=", 0.999),
        ),
        options=("--texts", "20000", "--queries", "1000"),
        needs=("javascript",),
        seed=(41, 42),
    ),
    Benchmark(
        "transformers_js.py",
        "a page's first vector beside transformers.js with the same model",
        60,
        (
            _T("cosine", ">=", 0.999),
            _T("ms_of_theirs", "<", 1),
            _T("bytes_of_theirs", "<", 0.5),
        ),
        needs=("javascript", "transformers_js"),
        seed=None,
    ),
)

LEFT_OUT = (
    LeftOut(
        "indexing.py",
        "a minute, on two cores with nothing else to do: beside other work both take turns",
    ),
    LeftOut(
        "search_page.py",
        "ten minutes, most of them for encoding 10,000 documents",
        stores=True,
        options=("--store",),
        seed=0,
    ),
    LeftOut(
        "adaptation.py",
        "half an hour: four minutes of training on each of eight collections",
        stores=True,
    ),
    LeftOut(
        "privacy_attacks.py",
        "an hour or two, and a bundle with a training step",
        stores=True,
        thresholds=(
            _T("identification/plain/top1", ">=", 0.8),
            _T("identification/sum_100/top1", "<=", 0.1),
        ),
        seed=0,
    ),
    LeftOut(
        "privacy_utility.py",
        "hours, and a bundle with a training step",
        stores=True,
        thresholds=(_T("gains/difference/clean/0", ">=", -0.005),),
        seed=(1, 2, 3),
    ),
    LeftOut(
        "scale.py",
        "a quarter of an hour and more, and an encoder that it distils first",
        stores=True,
        thresholds=(_T("memory_of_many", "<=", 1.1), _T("lost", "<=", 0)),
        options=("--store",),
        seed=0,
    ),
    LeftOut(
        "buffered.py",
        "ten minutes and more, after scale.py's encoder",
        stores=True,
        thresholds=(_T("counted_ratio/*", ">", 1), _T("waiting_ratio/*", "<", 1)),
        options=("--store",),
        seed=(1, 2, 3),
    ),
    LeftOut(
        "search_million.py",
        "ten minutes and 2 GB of disk, half of it for building the index",
        stores=True,
        thresholds=(
            _T("open_ms", "<=", 10),
            _T("over_faiss", "<=", 1.2),
            _T("index_over_faiss", "<=", 1.2),
            _T("build_mb", "<=", 400),
            _T("recall_over_faiss", ">=", 1),
        ),
        options=("--store",),
        seed=0,
    ),
    LeftOut(
        "finding.py",
        "a quarter of an hour, and documentations that it takes from their repositories",
        stores=True,
        thresholds=(
            _T("words/passed", ">=", 17),
            _T("identifiers/snake_case/words_first", ">=", 0.95),
            _T("identifiers/version/words_first", ">=", 0.95),
            _T("identifiers/dotted/words_first", ">=", 0.93),
            _T("identifiers/hyphenated/words_first", ">=", 0.88),
            _T("identifiers/*/hybrid_below_words", "<=", 0.03),
            _T("ours/versions/in_three", ">=", 0.93),
            _T("pages/mrr", ">=", 0.88),
            _T("unrelated/answered_above", ">=", 0.9),
            _T("independence/other_lists", "<=", 0),
            _T("independence/other_scores", "<=", 0),
            _T("update/cpu_s", "<=", 3),
            _T("xquad/de", ">=", 0.94),
            _T("xquad/ru", ">=", 0.9),
            _T("xquad/ar", ">=", 0.91),
            _T("xquad/hi", ">=", 0.95),
            _T("over_start/mean/teacher", ">=", 0),
            _T("over_start/mean/symmetric", ">=", 0),
            _T("over_start/ndcg/*/*", ">=", -0.005),
            _T("over_start/ndcg/words/*", ">=", 0),
            _T("over_start/bytes", "<=", 1.2),
            _T("over_start/passage_bytes/*", "<=", 1.2),
            _T("over_start/mrr_above_rivals/*", ">", 0),
        ),
        options=("--store",),
        seed=0,
    ),
    LeftOut(
        "every_language.py",
        "an hour: twelve layers encode thousands of passages twice",
        stores=True,
        thresholds=(
            _T("same_share", ">=", 0.97),
            _T("same/*/share", ">=", 0.93),
            _T("across_share", ">=", 0.96),
            _T("english/*/below_teacher", "<=", 0.02),
            _T("bytes", "<=", 32_000_000),
            _T("p50_over_built_in", "<=", 6),
            _T("same/*/hybrid_below_best", "<=", 0.01),
            _T("across/*/hybrid_below_best", "<=", 0.01),
        ),
        options=("--store",),
        seed=0,
    ),
    LeftOut("javascript_ids.py", "pocketquery-multilingual must be installed, and node"),
    LeftOut("poisoning.py", "hours, after the rounds of privacy_utility.py", stores=True),
    LeftOut("ray_corpus.py", "a million texts take an hour of one core"),
)
