"""What a change, a sum of changes and a noisy sum tell of the users behind them.

    python benchmarks/privacy_attacks.py [--bundle demo/bundle] [--index demo/index] [--data FOLDER]

200 users of CLINC150 and SQuAD (private_rounds/changes.py); the attacker has the release, the
settings, the index, every candidate's queries, and trains each candidate itself with other coins.

* identification: which of 100 candidates is in it, and membership: is this user in it, or is it
  somebody else; against a plain change, clipped and in 8 bits, ``up`` alone, sums of 2 to 1,000
  (of real codes; beyond the other 100 users, members are drawn from their measured covariance), and
  under noise of z = 1, 2, 4 in cohorts of 1,000. ``dp_z``: the attacker is told the change of
  every other device, and the noise is that of the devices counted on alone, which is what the
  bounds are about. ``dp_z_sum``: it sees the sum.
* queries: which queries were asked, among others on the same topics and other users'.
* inversion: which words were asked, from the change of ten steps and of one, whole and of ``up``
  alone (private_rounds/inversion.py says how), and under sums and noise. ``one_query`` is the
  row-space test where it is at home: one step on one query, which no device accepts. Matching
  gradients over soft tokens is not among the attacks: the training step is a graph that takes
  token ids.
* the same against an offer at the device's limits (client/offer_limits.py): ``limit``, five steps
  of 16 of 32 queries at the largest learning rate, and ``limit_sum``, the same with an epsilon of
  1, with which AdamW adds plain gradients.
* the same where the index's hybrid ranking teaches (``hybrid``, a weight of 1): each query pulls
  towards the documents that BM25 finds for its words.

Changes and directions are kept in ``runs``: killed and started again, it goes on. Figures go to
``docs/results``; intervals are percentiles of a bootstrap over users. The last line is one JSON
object, and the exit status is 1 where a figure that must be reached is missed:

    plain change, top-1 of 100                 at least .80, or the attack is weak
    secure sum of 100, top-1 of 100            at most .10
    under noise, all else known: AUC           its interval's lower end at most the bound
    inversion of ``up`` alone, token F1        at most .05 above the most frequent words', or
                                               docs/privacy.md says how much
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from private_rounds.attacker import (
    DISTRACTORS,
    LIMIT,
    LIMIT_SUM,
    LIMITED_TARGETS,
    LIMITS,
    ONE_STEP,
    QUERY_USERS,
    Attacker,
)
from private_rounds.changes import (
    add_arguments,
    clipped,
    open_fleet,
)
from private_rounds.directions import Dictionary, RowSpace, Words, words_of
from private_rounds.identification import (
    CANDIDATES,
    Candidates,
    auc,
    bounds,
    identification,
    membership,
    of_sums,
)
from private_rounds.inversion import Inversion, query_scores
from private_rounds.noise import CLIP, encoded_sum, encoding_of, sum_noise
from suite.results import figures_of, store

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.private.encoding import value_range
from pocketquery.client.private.noise import counted_on, sigma
from pocketquery.client.transforms import Clip, Int8
from pocketquery.sdk.arrays import Floats

SUMS = (2, 5, 10, 20, 50, 100, 1_000)
NOISES = (1.0, 2.0, 4.0)
COHORT = 1_000
PLAIN_CLIP = 1.25  # RoundSettings' default
EXACT = {  # arms of the words, and where the queries of the same changes were ranked
    "ten_steps_full": "plain",
    "ten_steps_up": "up_only",
    "limit_full": "limit",
    "hybrid_full": "hybrid",
    "limit_sum_full": "limit_sum",
    "sum_20_full": "sum_20",
    "sum_100_full": "sum_100",
    "dp_z2_full": "dp_z2",
}
SEED = 0
Figures = dict[str, Any]
Trial = tuple[int, int, NDArray[np.float64], float]
DOCS = Path(__file__).parents[1] / "docs" / "privacy.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=("sums", "limit", "queries", "inversion", "hybrid"),
        help="parts; the figures of the others stay as they are",
    )
    arguments = parser.parse_args()
    fleet, users = open_fleet(arguments)
    attacker = Attacker(fleet, users)
    result: Figures = figures_of("privacy_attacks")
    if result.get("encoder") != fleet.name:
        result = {"identification": {}, "membership": {}, "queries": {}, "inversion": {}}
    result |= {"encoder": fleet.name, "users": len(users), "candidates": CANDIDATES}
    result["seed"] = SEED
    result["bounds"] = {f"dp_z{z:g}": bounds(1 / z) for z in NOISES}
    parts = {
        "sums": against_sums,
        "limit": against_limit,
        "queries": against_queries,
        "inversion": against_inversion,
        "hybrid": against_hybrid,
    }
    for name, part in parts.items():
        if arguments.only is None or name in arguments.only:
            for kind, arm, figures in part(attacker):
                result[kind][arm] = figures
                print(f"{kind:<15} {arm:<22} {json.dumps(figures)}", flush=True)
            store("privacy_attacks", result)
    for arm, seen in EXACT.items():
        if arm in result["inversion"] and seen in result["queries"]:
            result["inversion"][arm]["exact"] = result["queries"][seen]["exact"][0]
    result["missed"] = list(problems(result))
    store("privacy_attacks", result)
    for problem in result["missed"]:
        print(f"missed: {problem}")
    print(json.dumps(result))
    return 1 if result["missed"] else 0


def against_sums(attacker: Attacker) -> Iterator[tuple[str, str, Figures]]:
    changes, replicas = attacker.changes, attacker.replicas
    up = attacker.fleet.is_up
    plain = Candidates(replicas)
    yield from both("plain", plain, changes, 1)
    yield from both("clipped_int8", plain, np.array([sent(c) for c in changes]), 1)
    yield from both("up_only", Candidates(replicas[:, up]), changes[:, up], 1)
    short = Candidates(np.array([clipped(replica, CLIP) for replica in replicas]))
    for size in SUMS:
        yield from both(f"sum_{size}", short, codes_of(changes, size), size)
    for noise in NOISES:
        yield from both(f"dp_z{noise:g}", short, codes_of(changes, COHORT, noise), 1, noise)
        coded = codes_of(changes, COHORT, noise)
        yield from both(f"dp_z{noise:g}_sum", short, coded, COHORT, noise)


def both(
    arm: str, candidates: Candidates, changes: Floats, size: int, noise: float = 0.0
) -> Iterator[tuple[str, str, Figures]]:
    """Identification and membership in sums of ``size``; with noise of a cohort of 1,000, and
    ``size`` 1 where every other device's change is known."""
    rng = np.random.default_rng(SEED)
    known = bool(noise) and size == 1
    inside, outside = of_sums(candidates, size, rng, alone=known)
    sights = []
    for label, trials in (("in", inside), ("out", outside)):
        add = noise_of(f"{arm} {label}", changes.shape[1], noise, known) if noise else None
        sights.append(candidates.sight(changes, trials, add, centred=not known))
    yield "identification", arm, identification(sights[0], SEED)
    yield "membership", arm, membership(sights[0], sights[1], SEED)


def noise_of(
    label: str, size: int, noise: float, known: bool, reach: float | None = None
) -> Callable[[int], Floats]:
    """The noise of each trial: of the devices counted on, or of the whole cohort."""
    encoding = encoding_of(size, COHORT, noise, reach)
    counted = counted_on(COHORT)
    deviation = sigma(noise, encoding, counted)
    devices = counted if known else COHORT
    return lambda number: sum_noise(encoding, devices, deviation, f"{label} {number}")


def codes_of(changes: Floats, size: int, noise: float = 0.0, reach: float | None = None) -> Floats:
    """The changes as their codes say in a group of ``size``, float32 (users, d)."""
    encoding = encoding_of(changes.shape[1], size, noise, reach)
    return np.array(
        [encoded_sum([c], encoding, f"{size} {n}") for n, c in enumerate(changes)], np.float32
    )


def sent(change: Floats) -> Floats:
    """Clipped and in 8 bits, as a plain round sends it."""
    wanted = Clip(PLAIN_CLIP).on_device({"": change})
    return Int8().on_server(Int8().on_device(wanted))[""]


def against_limit(attacker: Attacker) -> Iterator[tuple[str, str, Figures]]:
    """Identification among 100, of 40 users, from an offer at the limits."""
    replicas = attacker.at_limit("limit", LIMIT, CANDIDATES, 1)
    changes, trials = limited(replicas, attacker.at_limit("limit", LIMIT, LIMITED_TARGETS))
    candidates = Candidates(replicas, CANDIDATES, repeats=1)
    yield "identification", "limit", identification(candidates.sight(changes, trials), SEED)
    short = Candidates(np.array([clipped(r, CLIP) for r in replicas]), CANDIDATES, repeats=1)
    reach = value_range(LIMIT.steps, LIMIT.learning_rate)
    coded = codes_of(changes, COHORT, 2.0, reach)
    add = noise_of("limit", changes.shape[1], 2.0, known=True, reach=reach)
    seen = short.sight(coded, trials, add, centred=False)
    yield "identification", "limit_dp_z2", identification(seen, SEED)


def limited(replicas: Floats, targets: Floats) -> tuple[Floats, list[Trial]]:
    """The targets' changes in the candidates' places, and a trial of each of them alone."""
    changes = np.zeros_like(replicas)
    changes[: len(targets)] = targets
    weights = np.eye(len(replicas))
    return changes, [(0, user, weights[user], 1.0) for user in range(len(targets))]


def against_queries(attacker: Attacker) -> Iterator[tuple[str, str, Figures]]:
    """Which queries a user asked, among its own, 40 on the same topics and 500 of other users."""
    directions = attacker.query_directions(attacker.directions)
    mean = attacker.replicas.mean(axis=0)
    seen = attacker.changes[:QUERY_USERS]
    yield "queries", "plain", queries(attacker, seen - mean, directions, 40)
    coded = np.array([sent(change) for change in seen])
    yield "queries", "clipped_int8", queries(attacker, coded - mean, directions, 40)
    yield "queries", "up_only", queries(attacker, seen - mean, directions, 40, only_up=True)
    for size in (20, 100):
        rng = np.random.default_rng(SEED)
        sums = []
        for user in range(QUERY_USERS):
            members = rng.permutation(np.arange(QUERY_USERS, len(attacker.users)))[: size - 1]
            sums.append(seen[user] + attacker.changes[members].sum(axis=0) - size * mean)
        yield "queries", f"sum_{size}", queries(attacker, np.array(sums), directions, 40)
    add = noise_of("queries", seen.shape[1], 2.0, known=True)
    noisy = np.array([clipped(c, CLIP) + add(n) for n, c in enumerate(seen)])
    yield "queries", "dp_z2", queries(attacker, noisy - mean, directions, 40)
    own = LIMITS.least_queries
    limited = [np.concatenate([found[:own], found[40:]]) for found in directions]
    for name, config in (("limit", LIMIT), ("limit_sum", LIMIT_SUM)):
        found = attacker.at_limit(name, config, LIMITED_TARGETS)
        centred = (found - found.mean(axis=0))[:QUERY_USERS]
        yield "queries", name, queries(attacker, centred, limited, own)


def queries(
    attacker: Attacker,
    seen: Floats,
    directions: list[Floats],
    own: int,
    *,
    only_up: bool = False,
) -> Figures:
    """AUC against queries on the same topics and of other users, and how many of a user's own are
    among as many as it has, the surest ones, of them all."""
    common = np.mean([found[-DISTRACTORS:].mean(axis=0) for found in directions], axis=0)
    centred = [found - common for found in directions]
    scores = query_scores(attacker.fleet, seen, centred, own, only_up=only_up)
    near = [auc(s[:own], s[own:-DISTRACTORS]) for s in scores]
    far = [auc(s[:own], s[-DISTRACTORS:]) for s in scores]
    exact = [float((np.argsort(-s)[:own] < own).mean()) for s in scores]
    caught = [float((s[:own] > np.quantile(s[-DISTRACTORS:], 0.99)).mean()) for s in scores]
    chance = float(np.mean([own / len(s) for s in scores]))
    return {
        "auc_same_topic": mean_interval(near),
        "auc_others": mean_interval(far),
        "tpr_at_1": mean_interval(caught),
        "exact": mean_interval(exact),
        "exact_by_chance": round(chance, 4),
    }


def against_inversion(attacker: Attacker) -> Iterator[tuple[str, str, Figures]]:
    users, fleet = attacker.users, attacker.fleet
    words = Words.of(users)
    dictionary = Dictionary(fleet, attacker.directions.of_words(words.words))
    rows = RowSpace(fleet, words.words)
    half = len(users) // 2
    one = Words.of(users, ONE_STEP.batch_size)
    limited = Words.of(users, LIMITS.least_queries)
    arms = {
        "ten_steps": (words, attacker.changes),
        "one_step": (one, attacker.one_step(half)),
        "limit": (limited, attacker.at_limit("limit", LIMIT, CANDIDATES, 1)),
        "limit_sum": (limited, attacker.at_limit("limit_sum", LIMIT_SUM, LIMITED_TARGETS)),
    }
    for arm, (known, changes) in arms.items():
        for only_up in (False, True):
            attack = Inversion(fleet, known, dictionary, changes, rows, only_up=only_up)
            yield "inversion", f"{arm}_{'up' if only_up else 'full'}", inverted(attack)
    short = np.array([clipped(change, CLIP) for change in attacker.changes])
    add = noise_of("inversion", short.shape[1], 2.0, known=True)
    covered = {
        "sum_20": among_others(short, 20),
        "sum_100": among_others(short, 100),
        "dp_z2": np.array([change + add(n) for n, change in enumerate(short)]),
    }
    for arm, changes in covered.items():
        attack = Inversion(fleet, words, dictionary, changes, rows, only_up=False)
        yield "inversion", f"{arm}_full", inverted(attack)
    yield "inversion", "one_query_full", one_query(attacker, words, rows)


def against_hybrid(attacker: Attacker) -> Iterator[tuple[str, str, Figures]]:
    """The attacks on single changes, of the first 100 users, 40 and 20 of them."""
    users, fleet = attacker.users, attacker.fleet
    replicas = attacker.hybrid(CANDIDATES, 1)
    changes, trials = limited(replicas, attacker.hybrid(LIMITED_TARGETS))
    candidates = Candidates(replicas, CANDIDATES, repeats=1)
    yield "identification", "hybrid", identification(candidates.sight(changes, trials), SEED)
    seen = changes[:QUERY_USERS] - replicas.mean(axis=0)
    directions = attacker.query_directions(attacker.hybrid_directions)
    yield "queries", "hybrid", queries(attacker, seen, directions, 40)
    words = Words.of(users)
    dictionary = Dictionary(fleet, attacker.hybrid_directions.of_words(words.words))
    rows = RowSpace(fleet, words.words)
    for only_up in (False, True):
        attack = Inversion(fleet, words, dictionary, replicas, rows, only_up=only_up)
        yield "inversion", f"hybrid_{'up' if only_up else 'full'}", inverted(attack)


def among_others(changes: Floats, size: int) -> Floats:
    """Each user's change in a sum with others, float32 (users, d)."""
    rng, found = np.random.default_rng(SEED), np.empty_like(changes)
    for user, change in enumerate(changes):
        others = rng.permutation(np.delete(np.arange(len(changes)), user))[: size - 1]
        found[user] = change + changes[others].sum(axis=0)
    return found


def one_query(attacker: Attacker, words: Words, rows: RowSpace) -> Figures:
    """The row-space test on one step on a single query, from an offer that no device accepts."""
    config = LocalConfig(steps=1, batch_size=1, epsilon=1.0)
    refused = LIMITS.refusal(config, LIMITS.largest_clip, 1)
    if refused is None:
        raise SystemExit("the offer of one query is within the limits, expected a refusal")
    place = {word: number for number, word in enumerate(words.words)}
    frequency = np.argsort(-words.used.sum(axis=0), kind="stable")
    found, base = [], []
    for user in attacker.users[:LIMITED_TARGETS]:
        query = user.queries[0]
        asked = {place[word] for word in words_of(query) if word in place}
        change = attacker.fleet.change(
            [query], 0, config=config, adapter=attacker.fleet.moved(attacker.replicas.mean(axis=0))
        )
        named = np.argsort(-rows.scores(change), kind="stable")[: len(asked)]
        found.append(len(asked & set(named.tolist())) / len(asked))
        base.append(len(asked & set(frequency[: len(asked)].tolist())) / len(asked))
    return {
        "attack": "row space",
        "token_f1": round(float(np.mean(found)), 4),
        "baseline_f1": round(float(np.mean(base)), 4),
        "above_baseline": mean_interval(np.array(found) - np.array(base)),
    }


def inverted(attack: Inversion) -> Figures:
    found = {name: attack.figures(named) for name, named in attack.attacks().items()}
    baseline_f1, baseline_rouge = found.pop("frequency")
    best = max(found, key=lambda name: float(found[name][0].mean()))
    f1, rouge = found[best]
    return {
        "attack": best,
        "words": attack.count,
        "token_f1": round(float(f1.mean()), 4),
        "baseline_f1": round(float(baseline_f1.mean()), 4),
        "above_baseline": mean_interval(list(f1 - baseline_f1)),
        "rouge1": round(float(rouge.mean()), 4),
        "baseline_rouge1": round(float(baseline_rouge.mean()), 4),
        "by_attack": {name: round(float(values[0].mean()), 4) for name, values in found.items()},
    }


def mean_interval(values: Sequence[float] | NDArray[np.float64]) -> list[float]:
    """The mean over users and its interval, by a bootstrap that draws users."""
    rng, found = np.random.default_rng(SEED), np.asarray(values, np.float64)
    means = found[rng.integers(len(found), size=(2_000, len(found)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return [round(float(v), 4) for v in (found.mean(), low, high)]


def problems(result: Figures) -> Iterator[str]:
    named, told = result["identification"], result["membership"]
    if "plain" in named and named["plain"]["top1"] < 0.8:
        yield f"plain top-1 is {named['plain']['top1']}, expected .80: the attack is weak"
    if "sum_100" in named and named["sum_100"]["top1"] > 0.1:
        yield f"top-1 of a sum of 100 is {named['sum_100']['top1']}, at most .10 is allowed"
    for arm, bound in result["bounds"].items():
        for seen in (arm, f"{arm}_sum"):
            if seen in told and told[seen]["auc_interval"][0] > bound["auc"]:
                yield f"{seen}: AUC {told[seen]['auc_interval']}, the bound is {bound['auc']}"
    for arm, found in result["inversion"].items():
        above = found["token_f1"] - found["baseline_f1"]
        if arm in ("ten_steps_up", "one_step_up") and above > 0.05 and not said(above):
            yield (
                f"inversion, {arm}: token F1 is {above:.3f} above the most frequent words', and "
                f"{DOCS.name} does not say so"
            )


def said(above: float) -> bool:
    """Whether the table of docs/privacy.md has this figure: +.083."""
    return f"| {above:+.3f} |".replace("0.", ".") in DOCS.read_text(encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
