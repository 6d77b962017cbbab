"""The claims' starts and studies at the smallest size: killed and resumed, gated, chosen."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CLAIMS = Path(__file__).parents[2] / "claims"
ARMS = """
[starts.tiny]
preset = "nano"
vocabulary = 300
max_length = 16
legs = [{ steps = 120, batch_size = 4, learning_rate = 1e-3 }]
gate = ["loss"]

[gate]
most_of_entropy = 0.75

[tiny]
start = "tiny"
max_length = 16
seeds = [1, 2]
more_seeds = [3]
choose_every = 30
train = { steps = 115, batch_size = 4 }
rates = { of = [1e-4, 1e-3], steps = 3, arm = "mlm" }

[tiny.arms.start]
seeds = [1]

[tiny.arms.mlm]
objectives.mlm = {}
times_batch = 2

[tiny.arms.cl]
objectives.auto_mlm = { weight = 0.0 }

[tiny.arms.cl_twice]
objectives.auto_mlm = { weight = 0.0 }
times_steps = 2

[profiles.few.tiny]
only = ["start", "mlm"]
train = { steps = 4 }
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A folder of runs, and the studies as where they are run from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(CLAIMS), *sys.path])
        import starts
        import study

        (tmp_path / "arms.toml").write_text(ARMS, encoding="utf-8")
        for module in (starts, study):
            patch.setattr(module, "WORK", tmp_path)
            patch.setattr(module, "_PUBLISHED", tmp_path / "published")
        patch.setattr(starts, "ARMS", tmp_path / "arms.toml")
        yield tmp_path


def sessions() -> Any:
    """Turns about drawn things, enough words for a vocabulary of 300."""
    from pocketquery.server.corpus.groups import Group, GroupList

    rng = random.Random(0)
    things = ("invoice", "delivery", "password", "account", "refund", "subscription", "router")
    asked = ("how do i change the {}", "my {} is wrong", "where can i find the {}", "help with {}")
    groups = []
    for number in range(60):
        thing = rng.choice(things)
        turns = (
            rng.choice(asked).format(thing),
            f"hello, open the page of your {thing} first",
            f"the {rng.choice(things)} is not there",
            f"then write to us about the {thing}",
        )
        groups.append(Group(str(number), turns, ("user", "agent") * 2, "en"))
    return GroupList(groups, "sessions")


def trained_start() -> Any:
    from starts import Start

    start = Start("tiny")
    start.make_vocabulary(sessions())
    assert start.train(1, sessions())
    return start


def passed(start: Any, share: float = 0.5) -> None:
    figures = {"loss": {"masked": 2.0, "unigram_entropy": 4.0, "share": share}}
    path = start.leg_folder(1).with_suffix(".gate.json")
    path.write_text(json.dumps(figures), encoding="utf-8")


@pytest.mark.slow
def test_a_start_stops_when_its_minutes_are_over_and_goes_on_to_the_same_weights(
    work: Path,
) -> None:
    from starts import Start, fingerprint

    whole = fingerprint(trained_start().trained(1))
    (work / "starts").rename(work / "kept")
    start = Start("tiny")
    start.make_vocabulary(sessions())
    assert not start.train(1, sessions(), minutes=0)
    assert (start.finished(), start.steps_done(1)) == (0, 50)
    assert not start.train(1, sessions(), minutes=0)
    assert start.train(1, sessions(), minutes=0)
    assert start.finished() == 1
    assert fingerprint(start.trained(1)) == whole


def test_no_start_without_its_gate(work: Path) -> None:
    from gate import checked_leg
    from starts import Start
    from study import Corpus, Study

    start = Start("tiny")
    with pytest.raises(SystemExit, match=r"0 of the 120 steps.*train --start tiny --legs 1"):
        checked_leg(start)
    start.leg_folder(1).mkdir(parents=True)
    (start.leg_folder(1) / "mlm_head.safetensors").touch()
    with pytest.raises(SystemExit, match=r"not been held.*\(loss\).*gate --start tiny"):
        checked_leg(start)
    passed(start, share=0.8)
    with pytest.raises(SystemExit, match=r"0.800 of the unigram entropy.*declare a longer leg"):
        Study("tiny", Corpus("made_up", sessions(), {}, lambda trained: {})).begin()
    passed(start)
    assert checked_leg(start) == 1


def test_the_loss_of_knowing_frequencies_alone(work: Path) -> None:
    """Uniform over four words: ln 4; the specials around a text do not count."""
    from gate import unigram_entropy

    from tests.tiny_models import wordpiece_tokenizer

    tokenizer = wordpiece_tokenizer()
    assert unigram_entropy(tokenizer, ["a b c d", "d c b a"], 16) == pytest.approx(np.log(4))
    assert unigram_entropy(tokenizer, ["a a a a"], 16) == pytest.approx(0)


@pytest.mark.slow
def test_a_study_that_was_stopped_goes_on_to_the_same_scores(work: Path) -> None:
    from study import Corpus, Study

    start = trained_start()
    passed(start)
    looks: list[int] = []
    stop_at = 0

    def develop(encoder: Any) -> float:
        """A figure of the weights, best somewhere on the way."""
        looks.append(1)
        if len(looks) == stop_at:
            raise KeyboardInterrupt
        return float(-abs(encoder.encode(["how can i help you"])[0, :4].sum()))

    def made() -> Study:
        corpus = Corpus(
            "made_up",
            sessions(),
            {},
            lambda trained: {"first": trained.encoder.encode(["hello"])[0].astype(np.float64)},
            develop,
        )
        study = Study("tiny", corpus)
        study.begin()
        return study

    study = made()
    whole = study.run("cl", 1)["first"]
    told = study.path("cl", 1).with_suffix(".jsonl").read_text("utf-8")
    assert told.count("development") == 4  # after 29, 59 and 89 steps, and at the end
    for stop_at in (1, 3, 4):
        study.path("cl", 1).unlink(missing_ok=True)
        looks.clear()
        with pytest.raises(KeyboardInterrupt):
            study.run("cl", 1)
        looks.clear()
        was, stop_at = stop_at, 0
        assert made().run("cl", 1)["first"].tolist() == whole.tolist(), was


@pytest.mark.slow
def test_rates_are_chosen_once_and_arms_take_equal_steps(work: Path) -> None:
    from study import Corpus, Study, profiles

    passed(trained_start())
    asked: list[float] = []

    def develop(encoder: Any) -> float:
        asked.append(float(encoder.encode(["hello"])[0, 0]))
        return float(len(asked))

    corpus = Corpus("made_up", sessions(), {}, lambda trained: {"m": np.ones(3)}, develop)
    study = Study("tiny", corpus)
    with pytest.raises(SystemExit, match="rate of tiny on made_up has not been chosen yet"):
        study.begin(trains=False)
    assert asked == []
    study.begin()
    assert len(asked) == 2
    plans = {arm: study.prepared(arm, 1)[2] for arm in study.arms()}
    assert [plans[arm].steps for arm in ("mlm", "cl", "cl_twice")] == [115, 115, 230]
    assert [plans[arm].batch_size for arm in ("mlm", "cl", "cl_twice")] == [8, 4, 4]
    assert {plan.learning_rate for plan in plans.values()} == {1e-3}  # the last, so the best
    again = Study("tiny", corpus)
    again.begin()
    assert len(asked) == 2
    assert profiles("tiny") == ["whole", "few"]
    few = Study("tiny", corpus, "few")
    few.begin()
    assert (few.arms(), few.settings["train"]["steps"]) == (["start", "mlm"], 4)
    assert few.path("mlm", 1) != study.path("mlm", 1)
    assert list(few.runs()) == [(1, "start"), (1, "mlm"), (2, "mlm")]
    results = few.results(more=["mlm"])
    assert {arm: found["m"].shape for arm, found in results.items()} == {
        "start": (1, 3),
        "mlm": (3, 3),
    }


@pytest.mark.slow
def test_what_is_published_stands_in_for_the_runs_and_for_nothing_else(work: Path) -> None:
    from gate import checked_leg
    from starts import Start, fingerprint
    from study import Corpus, Study

    start = trained_start()
    passed(start)

    def made(expected: bool) -> Study:
        def evaluate(trained: Any) -> dict[str, Any]:
            assert expected, "a published run was run again"
            return {"first": trained.encoder.encode(["hello"])[0].astype(np.float64)}

        def develop(encoder: Any) -> float:
            assert expected, "a published rate was chosen again"
            return 0.0

        study = Study("tiny", Corpus("made_up", sessions(), {}, evaluate, develop), "few")
        study.begin()
        return study

    study = made(True)
    scores = {(arm, seed): study.run(arm, seed) for seed, arm in list(study.runs())[:2]}
    was, drawn = fingerprint(start.trained(1)), fingerprint(start.drawn())
    vocabulary = start.tokenizer().get_vocab()
    start.publish(1)
    study.publish()
    for name in ("starts", "tiny"):
        (work / name).rename(work / f"gone-{name}")
    start = Start("tiny")
    assert (start.finished(), checked_leg(start), fingerprint(start.trained(1))) == (1, 1, was)
    assert start.tokenizer().get_vocab() == vocabulary
    assert fingerprint(start.drawn()) == drawn
    again = made(False)
    for (arm, seed), kept in scores.items():
        assert again.run(arm, seed)["first"].tolist() == kept["first"].tolist()
    assert again.results(finished=True).keys() == {"start"}  # "mlm" from one of its seeds alone
    with pytest.raises(AssertionError, match="again"):  # the third was not published
        again.run("mlm", 2)
    kept_file = again.publish().read_bytes()
    assert kept_file == study.publish().read_bytes()


def test_a_run_is_named_alike_wherever_its_cache_lies(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import query_bert
    from study import Study

    study: Any = query_bert.QueryBertStudy.__new__(query_bert.QueryBertStudy)
    built: list[str] = []
    monkeypatch.setattr(
        Study,
        "_part",
        lambda self, name, options, encoder: built.append(options["light"]),
    )
    options = {"slots": "$VIEWS"}
    for place in ("/a/views.sqlite", "/b/views.sqlite"):
        study._views = {"light": place, "heavy": place}
        study._part("query_bert", options, None)
    assert built == ["/a/views.sqlite", "/b/views.sqlite"]
    assert options == {"slots": "$VIEWS"}  # what a run's name is made of


def test_a_heavy_view_is_a_marked_duplicate_of_the_question_a_light_one_is_of(work: Path) -> None:
    from texts.views import ForumDuplicate, add_duplicates

    from pocketquery_research.augmentation.cached import Cached
    from pocketquery_research.augmentation.rules.question_templates import Template
    from pocketquery_research.augmentation.variant_cache import VariantCache

    path = work / "views.sqlite"
    with VariantCache(path) as cache:
        light = cache.introduce(Template())
        cache.add(light, [("how to cook rice", 0, "how do i cook rice")])
        add_duplicates(cache, [Template()], {"how to cook rice": ["best way to boil rice"]})
    cached = Cached(str(path), ForumDuplicate.name)
    assert cached.strength == "heavy"
    for text in ("how to cook rice", "how do i cook rice"):
        assert cached.augment(text, random.Random(0)).text == "best way to boil rice"
    assert not cached.augment("how to cook pasta", random.Random(0)).changed


def test_a_manual_is_dealt_and_its_held_out_pages_are_paired(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from texts import two_languages

    folders = {"en": "en-US", "de": "de"}
    for number in range(12):
        for language, folder in folders.items():
            text = work / "manual" / folder / "text"
            text.mkdir(parents=True, exist_ok=True)
            lines = [f"{language} page {number} says line {line}" for line in range(4)]
            body = "".join(f"<p>{line}</p>" for line in lines)
            html = f'<div id="DisplayArea"><h1>{language} {number}</h1>{body}</div>'
            (text / f"{number}.html").write_text(html, encoding="utf-8")
    monkeypatch.setenv("POCKETQUERY_MANUAL", str(work / "nowhere"))
    with pytest.raises(SystemExit, match="libreoffice-help-de"):
        two_languages.two_languages()
    monkeypatch.setenv("POCKETQUERY_MANUAL", str(work / "manual"))
    monkeypatch.setattr(two_languages, "_HELD_OUT", 2)
    made = two_languages.two_languages()
    groups = [made.documents[row] for row in range(len(made.documents))]
    pages = [group.id.partition("/")[2] for group in groups]
    assert len(set(pages)) == len(pages) == 10
    assert {group.lang for group in groups} == {"en", "de"}
    learnt = {text for group in groups for text in group.texts}
    assert len(made.pairs) == 8
    for english, german in made.pairs:
        assert english.replace("en ", "de ", 1) == german
        assert not {english, german} & learnt
    for texts in made.unseen.values():
        assert texts
        assert not set(texts) & learnt


def test_what_is_decided_or_run_is_no_longer_waiting(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import backlog
    from stored import Decision

    entries = [
        {"claims": ["O1"], "study": "a", "arms": ["x"], "minutes": 30},
        {"claims": ["O2", "O3"], "study": "a", "arms": ["y"], "minutes": 10},
        {"claims": ["O3"], "study": "b", "arms": ["z"], "minutes": 60},
    ]
    lacking = {"x": 2, "y": 3, "z": 1}
    verdicts = {"O1": "does not hold", "O2": "not run", "O3": "undecided"}
    monkeypatch.setattr(backlog, "declared_entries", lambda table: entries)
    monkeypatch.setattr(backlog, "_missing", lambda entry: lacking[entry["arms"][0]])
    monkeypatch.setattr(
        backlog,
        "decisions",
        lambda asked: [Decision(o, "", "", verdicts[o], [], {}) for o in asked],
    )
    left = list(backlog.waiting())
    assert [(one.place, one.runs, one.hours) for one in left] == [(1, 3, 0.5), (2, 1, 1.0)]
    lacking["y"] = 0
    assert [one.entry["claims"] for one in backlog.waiting(["O3"])] == [["O3"]]
    assert list(backlog.waiting(["O2"])) == []


def test_arms_whose_own_start_has_not_passed_hold_up_no_other(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import starts
    from alignment import STUDY

    monkeypatch.setattr(starts, "ARMS", CLAIMS / "arms.toml")
    study = STUDY.stored("two_cores")
    study.begin_stored()
    path = study.path("w2v_linear", 1)
    path.parent.mkdir(parents=True)
    np.savez(path, margin=np.ones(3))
    (work / "published").mkdir()
    assert (study.missing("w2v_linear"), study.missing("nano")) == ([2, 3], [1, 2, 3])
    with np.load(study.publish()) as published:
        assert published.files == [f"{path.stem}/margin"]
    assert study.results(finished=True) == {}
