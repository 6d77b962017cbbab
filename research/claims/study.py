"""One study: a paper's arms on one corpus, every run kept when it is done.

The arms, budgets and seeds stand in ``arms.toml``, written down before the runs. All arms of a
study share the start (one encoder that has passed its gate, with its vocabulary and its head), the
learning rate, the steps and the texts of a step. A run (corpus, arm, seed) is kept in
``runs/claims``: killed and started again, a study goes on with the run where it was. A changed arm
or start is another run; of changed texts or code the files know nothing, and have to be deleted.
The scores of published runs lie in ``research/reference/claims``, one file a corpus, and are
taken from there where ``runs`` has none: whoever doubts a verdict decides it again from them, and
whoever doubts a run deletes the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from choice import Choice
from gate import checked_leg
from numpy.typing import NDArray
from starts import WORK, Start, declared, fingerprint, pausing

from pocketquery.sdk.files import write_atomic
from pocketquery.server.corpus.groups import Source
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MLM_HEAD, load_mlm_heads, save_mlm_head
from pocketquery.server.objectives import Objective, build_objective
from pocketquery.server.pretraining import HeldOut, Part, PretrainingConfig, pretrain

__all__ = ["Corpus", "Scores", "Study", "Trained", "profiles", "settings_of"]

_PUBLISHED = Path(__file__).resolve().parents[1] / "reference" / "claims"
_DIAGNOSED = 500  # steps between looks at the geometry
_SAVED_EVERY = 100  # steps between checkpoints
_LOOKED_AT = 128  # texts
_NOT_OF_A_RUN = ("arms", "seeds", "more_seeds", "only", "start", "rates")


Scores = dict[str, NDArray[np.float64]]
"""Metric -> score of every item (query, pair, or a single figure), float64 (items,)."""


def profiles(study: str) -> list[str]:
    """``"whole"``, and the profiles that have the study."""
    return ["whole", *(name for name, held in declared("profiles").items() if study in held)]


def settings_of(study: str, profile: str = "whole") -> Mapping[str, Any]:
    """The table of a study in ``arms.toml``, with what a profile says of it and of its arms."""
    whole = declared(study)
    if profile == "whole":
        return whole
    other: Mapping[str, Any] = declared("profiles")[profile][study]
    train = {**whole["train"], **other.get("train", {})}
    of_arms = other.get("arms", {})
    arms = {arm: {**table, **of_arms.get(arm, {})} for arm, table in whole["arms"].items()}
    return {**whole, **other, "train": train, "arms": arms}


@dataclass(frozen=True)
class Trained:
    """What an arm made, as its evaluation gets it.

    Attributes:
        arm: its name.
        seed: its seed.
        encoder: a :class:`SentenceEncoder`, or another thing with its ``encode``.
        objectives: what it was trained with, heads included.
    """

    arm: str
    seed: int
    encoder: Any
    objectives: Sequence[Objective[Any]] = ()


@dataclass(frozen=True)
class Corpus:
    """What a study trains and tests on.

    Attributes:
        name: names it in tables and files.
        texts: what objectives draw from that have no source of their own.
        sources: what an objective draws from, by the objective's name.
        evaluate: the scores of what an arm made, on the test.
        develop: one figure, the more the better, on texts that are neither trained on nor tested;
            it chooses the learning rate and each run's checkpoint. None: the last one is taken.
        seconds: of one core that an evaluation takes, where it is too long to be tried; it is given
            what the arm would begin with.
    """

    name: str
    texts: Source
    sources: Mapping[str, Source]
    evaluate: Callable[[Trained], Scores]
    develop: Callable[[SentenceEncoder], float] | None = None
    seconds: Callable[[Trained], float] | None = None

    def source(self, objective: str) -> Source:
        return self.sources.get(objective, self.texts)


@dataclass
class Study:
    """A paper's arms and budgets on one corpus, in a profile."""

    name: str
    corpus: Corpus
    profile: str = "whole"
    settings: Mapping[str, Any] = field(init=False)
    start_said: str = field(init=False, default="")
    ends: float | None = field(init=False, default=None)
    """By time.monotonic(), when trainings raise Paused at a checkpoint; None: never."""
    _leg: int = field(init=False, default=-1)
    _rate: float = field(init=False, default=0.0)
    _named: str = field(init=False, default="")
    _trains: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self.settings = settings_of(self.name, self.profile)
        self.shared_start = Start(self.settings["start"])

    def begin(self, *, trains: bool = True) -> None:
        """Take the start that passed its gate, and the learning rate.

        Args:
            trains: whether what was not chosen yet is chosen now, by training.

        Raises:
            SystemExit: no start has passed; nothing is to be trained, and no rate is chosen.
        """
        self._trains = trains
        self._leg = checked_leg(self.shared_start)
        self.start_said = f"{self.shared_start.name}, leg {self._leg}, {self._start_key()}"
        self._rate = self._chosen_rate()

    def begin_stored(self) -> None:
        """For reading what has been published, without the corpus's texts.

        Raises:
            SystemExit: as :meth:`begin`.
        """
        Study.begin(self, trains=False)

    def begin_anywhere(self) -> None:
        """For measuring speed alone: from any start and at any rate."""
        self._leg = self.shared_start.finished()
        self._rate = 1e-4

    def runs(
        self, arms: Iterable[str] | None = None, seeds: Iterable[int] | None = None
    ) -> Iterator[tuple[int, str]]:
        """Seed and arm of every run, one seed of all arms after the other."""
        names = list(arms or self.arms())
        asked = None if seeds is None else set(seeds)
        every = sorted({seed for arm in names for seed in self.seeds(arm, more=bool(asked))})
        for seed in every:
            for arm in names:
                wanted = asked is None or seed in asked
                if wanted and seed in self.seeds(arm, more=bool(asked)):
                    yield seed, arm

    def arms(self) -> list[str]:
        """Names of the profile's arms."""
        return list(self.settings.get("only", self.settings["arms"]))

    def results(self, more: Collection[str] = (), *, finished: bool = False) -> dict[str, Scores]:
        """Arm -> metric -> float64 (seeds, items); runs what has not been run.

        Args:
            more: arms that are run from the study's further seeds as well.
            finished: run nothing. Of an arm whose further seeds have not all been run, take the
                study's first seeds; leave it out where these have not been run either.
        """
        if not finished:
            for seed, arm in self.runs():
                self.run(arm, seed)
        found: dict[str, Scores] = {}
        for arm in self.arms():
            seeds = self._run_seeds(arm) if finished else self.seeds(arm, arm in more)
            if not seeds:
                continue
            runs = [self.run(arm, seed) for seed in seeds]
            found[arm] = {metric: np.stack([run[metric] for run in runs]) for metric in runs[0]}
        return found

    def missing(self, arm: str) -> list[int]:
        """The arm's seeds that have not been run."""
        return [seed for seed in self.seeds(arm) if not self._scores(self.path(arm, seed))]

    def _run_seeds(self, arm: str) -> list[int]:
        """All of the arm's seeds, else the study's first ones, where they have been run."""
        missing = self.missing(arm)
        own = self.seeds(arm)
        for seeds in (own, [seed for seed in own if seed in self.settings["seeds"]]):
            if not set(seeds) & set(missing):
                return seeds
        return []

    def seeds(self, arm: str, more: bool = False) -> list[int]:
        """The arm's own seeds, of arms that differ by nothing else, or the study's."""
        own: list[int] | None = self.settings["arms"][arm].get("seeds")
        return own or [*self.settings["seeds"], *(self.settings.get("more_seeds", []) * more)]

    def run(self, arm: str, seed: int) -> Scores:
        """One arm from one seed, from its file where it was run before."""
        path = self.path(arm, seed)
        scores = self._scores(path)
        if not scores:
            run = path.with_suffix("")
            trained = self.train(arm, seed, run)
            if (run / "log.jsonl").is_file():
                write_atomic(path.with_suffix(".jsonl"), (run / "log.jsonl").read_bytes())
            scores = self.corpus.evaluate(trained)
            path.parent.mkdir(parents=True, exist_ok=True)  # an arm that is not trained made none
            packed = io.BytesIO()
            np.savez_compressed(packed, allow_pickle=False, **scores)
            write_atomic(path, packed.getvalue())
            shutil.rmtree(run, ignore_errors=True)
            shown = " ".join(f"{metric} {values.mean():.4f}" for metric, values in scores.items())
            print(f"{self.name} {self.corpus.name} {arm} seed {seed}: {shown}", flush=True)
        return scores

    def publish(self) -> Path:
        """Copy what was chosen and the scores of every finished run to a file in the repository."""
        entries = {
            f"{path.stem}/{metric}": values
            for arm in self.arms()
            if set(self.seeds(arm)) - set(self.missing(arm))
            for path in (self.path(arm, seed) for seed in self.seeds(arm, more=True))
            for metric, values in self._scores(path).items()
        }
        entries |= {name: np.array(value) for name, value in self._chosen().items()}
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **entries)
        write_atomic(self._published_path(), packed.getvalue())
        return self._published_path()

    def _chosen(self) -> dict[str, float]:
        """What was chosen before the runs, by the name of its file and its own."""
        if "learning_rate" in self.settings["train"] or "rates" not in self.settings:
            return {}
        return {f"{self._rate_path().stem}/rate": self._chosen_rate()}

    def _scores(self, path: Path) -> Scores:
        """Of the run that is kept at ``path`` or published; none where it has not been run."""
        if path.is_file():
            with np.load(path) as saved:
                return {metric: saved[metric] for metric in saved.files}
        return self._published(path)

    def _published(self, path: Path) -> Scores:
        """What is published of the file ``path`` of a run or a rate, by name."""
        whole = self._published_path()
        if not whole.is_file():
            return {}
        with np.load(whole) as saved:
            own = [name for name in saved.files if name.startswith(f"{path.stem}/")]
            return {name.partition("/")[2]: saved[name] for name in own}

    def _published_path(self) -> Path:
        return _PUBLISHED / f"{self.name}-{self.corpus.name}-{self.profile}.npz"

    def path(self, arm: str, seed: int) -> Path:
        """Where a run's scores are kept; its log lies beside them, as ``.jsonl``."""
        return self._folder() / f"{arm}-{seed}-{self._key(arm)}.npz"

    def _folder(self) -> Path:
        return WORK / self.name / self.corpus.name

    def _key(self, arm: str) -> str:
        """Of start, rate and the arm's settings but its seeds: a changed arm is another run."""
        shared = {name: v for name, v in self.settings.items() if name not in _NOT_OF_A_RUN}
        own = {name: value for name, value in self.settings["arms"][arm].items() if name != "seeds"}
        whole = [shared, own, self.corpus.name, self._start_key(), self._rate]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:8]

    def _start_key(self) -> str:
        if not self._named:
            self._named = fingerprint(self.shared_start.trained(self._leg))
        return self._named

    def train(self, arm: str, seed: int, run: Path | None = None) -> Trained:
        """What an arm makes from a seed; its log, checkpoint and choice lie in ``run``."""
        encoder, parts, config = self.prepared(arm, seed)
        if not parts:
            return Trained(arm, seed, encoder.eval())
        objectives = [part.objective for part in parts]
        choice = None
        every = self.settings.get("choose_every")
        if self.settings["arms"][arm].get("checkpoint") == "last":
            every = None
        if self.corpus.develop is not None and every:
            choice = Choice(encoder, objectives, self.corpus.develop, every, run)
        shipped = pretrain(
            encoder,
            parts,
            config,
            run=run,
            held_out=self._held_out(),
            on_step=pausing(self.ends, _SAVED_EVERY, config.steps, choice),
        )
        if choice is not None:
            shipped = choice.best(config.steps)
        return Trained(arm, seed, shipped.eval(), objectives)

    def prepared(
        self, arm: str, seed: int
    ) -> tuple[SentenceEncoder, list[Part], PretrainingConfig]:
        """What an arm's run begins with: encoder, parts (none: it is not trained) and settings."""
        settings = self.settings["arms"][arm]
        chosen = {**self.settings["train"], **settings.get("train", {})}
        chosen["steps"] *= settings.get("times_steps", 1)
        chosen["batch_size"] *= settings.get("times_batch", 1)
        chosen.setdefault("learning_rate", self._rate)
        config = PretrainingConfig(
            **chosen, seed=seed, diagnose_every=_DIAGNOSED, checkpoint_every=_SAVED_EVERY
        )
        drawn = settings.get("start") == "random"
        encoder = self.shared_start.drawn() if drawn else self._begun()
        encoder.max_length = self.settings["max_length"]
        encoder.pooling = settings.get("pooling", self.settings.get("pooling", "mean"))
        torch.manual_seed(seed)  # the heads are drawn
        parts = [
            self._part(name, options, encoder)
            for name, options in settings.get("objectives", {}).items()
        ]
        return encoder, parts, config

    def _held_out(self) -> HeldOut:
        """Texts, trained on, whose geometry is looked at on the way; they decide nothing."""
        texts = self.corpus.texts
        rows = range(0, len(texts), max(1, len(texts) // _LOOKED_AT))
        return HeldOut([" ".join(texts[row].texts[:3]) for row in rows][:_LOOKED_AT])

    def _part(self, name: str, options: Mapping[str, Any], encoder: SentenceEncoder) -> Part:
        options = {"max_length": self.settings["max_length"], **options}
        share = options.pop("share", 1.0)
        source = self.corpus.source(options.pop("source", name))
        objective = build_objective(name, encoder, options)
        load_mlm_heads(self._begun_folder(), [objective])  # the same for all arms
        return Part(objective, source, share)

    def _begun(self) -> SentenceEncoder:
        """What all arms begin with: the start, after the study's own warm-up where it has one."""
        if "warm" not in self.settings or not self._leg:
            return self.shared_start.trained(self._leg)
        folder = self._begun_folder()
        if not (folder / MLM_HEAD).is_file():  # written last
            warm = self.settings["warm"]
            encoder = self.shared_start.trained(self._leg)
            encoder.max_length = self.settings["max_length"]
            encoder.pooling = self.settings.get("pooling", "mean")
            torch.manual_seed(0)
            parts = []
            for name, options in warm["objectives"].items():
                named = {"max_length": self.settings["max_length"], **options}
                objective = build_objective(name, encoder, named)
                load_mlm_heads(self.shared_start.leg_folder(self._leg), [objective])
                parts.append(Part(objective, self.corpus.texts))
            config = PretrainingConfig(**warm["train"], checkpoint_every=_SAVED_EVERY)
            encoder = pretrain(encoder, parts, config, run=folder.with_suffix(".run"))
            encoder.save(folder)
            save_mlm_head(folder, [part.objective for part in parts])
        return SentenceEncoder.load(folder)

    def _begun_folder(self) -> Path:
        if "warm" not in self.settings or not self._leg:
            return self.shared_start.leg_folder(self._leg)
        names = ("warm", "pooling", "max_length")
        chosen = [self.settings.get(name) for name in names]
        whole = json.dumps([chosen, self._start_key()], sort_keys=True)
        return self._folder() / f"warm-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"

    def _chosen_rate(self) -> float:
        """The study's learning rate, or the best of several: of the MLM arm, by the development
        score of short runs, once for all arms.
        """
        if "learning_rate" in self.settings["train"]:
            return float(self.settings["train"]["learning_rate"])
        rates = self.settings["rates"]
        kept = self._rate_path()
        if not kept.is_file():
            if published := self._published(kept):
                return float(published["rate"])
            self._check_trains(f"the learning rate of {self.name} on {self.corpus.name}")
            scores = {rate: self._score_of_rate(rate, kept) for rate in rates["of"]}
            best = max(scores, key=lambda rate: scores[rate])
            write_atomic(kept, json.dumps({"rate": best, "development": scores}))
            print(f"{self.name} {self.corpus.name}: rate {best} of {scores}", flush=True)
        return float(json.loads(kept.read_text("utf-8"))["rate"])

    def _check_trains(self, what: str) -> None:
        if not self._trains:
            raise SystemExit(f"{what} has not been chosen yet; expected runs: leave --finished out")

    def _rate_path(self) -> Path:
        """Where the chosen rate is kept."""
        parts = [self.settings["rates"], self.settings["train"], self._start_key()]
        whole = json.dumps(parts, sort_keys=True)
        return self._folder() / f"rate-{hashlib.sha256(whole.encode()).hexdigest()[:8]}.json"

    def _score_of_rate(self, rate: float, kept: Path) -> float:
        if self.corpus.develop is None:
            raise ValueError(f"{self.name} sweeps rates and has no development score")
        self._rate = rate
        encoder, parts, config = self.prepared(self.settings["rates"]["arm"], seed=0)
        steps = self.settings["rates"]["steps"]
        config = PretrainingConfig(**{**vars(config), "steps": steps})
        run = kept.with_name(f"{kept.stem}-{rate}.run")
        shipped = pretrain(encoder, parts, config, run=run)
        return float(self.corpus.develop(shipped.eval()))
