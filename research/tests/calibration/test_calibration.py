"""The calibration as a whole: its stages, its pivot, its files, and the encoder that carries it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.arrays import Doubles
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    UnknownModelError,
    UnsupportedVersionError,
)
from pocketquery.server.evaluation.geometry import language_probe, unit_rows
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.calibration import (
    STAGES,
    CalibratedEncoder,
    Calibration,
    CalibrationConfig,
    calibrate,
    calibration_stages,
    fit,
)
from pocketquery_research.calibration.calibrated_encoder import without
from pocketquery_research.calibration.calibration_files import (
    calibration_sha256,
    read_calibration,
    write_calibration,
)
from research.tests.calibration.test_rotation import turned
from tests.tiny_models import bert_teacher, sentences

SMALL = CalibrationConfig(least_sentences=50)


def worlds(seed: int = 0) -> dict[str, tuple[Doubles, Doubles]]:
    """For English and French 1,500 sentences to fit on, and 400 pairs: offset, scaled, rotated."""
    rng = np.random.default_rng(seed)
    scale, offset = np.exp(0.8 * rng.normal(size=24)), 3 * rng.normal(size=24)
    rotation = turned(24, 0.45, rng)
    meaning = rng.normal(size=(1900, 24))
    moved = (meaning + 0.2 * rng.normal(size=meaning.shape)) @ rotation * scale + offset
    shuffled = rng.permutation(1500)
    return {"en": (meaning[:1500], meaning[1500:]), "fr": (moved[:1500][shuffled], moved[1500:])}


def fitted(config: CalibrationConfig = SMALL) -> Calibration:
    return fit({language: pair[0] for language, pair in worlds().items()}, config)


def test_every_stage_adds() -> None:
    world = worlds()
    stages = calibration_stages(fitted(), world["en"][1], world["fr"][1], "en", "fr")
    accuracy = {stage: found.accuracy for stage, found in stages.items()}
    assert list(accuracy) == list(STAGES)
    assert accuracy["raw"] + 0.2 < accuracy["shift"] < accuracy["scale"] < accuracy["rotate"]
    assert accuracy["rotate"] > 0.98


def test_languages_no_longer_show() -> None:
    world, calibration = worlds(), fitted()
    raw = language_probe({language: pair[1] for language, pair in world.items()})
    after = {language: calibration.apply(pair[1], language) for language, pair in world.items()}
    assert raw > 0.95
    assert language_probe(after) < 0.65


def test_without_rotation_the_last_stage_is_the_scale() -> None:
    calibration = fitted(CalibrationConfig(rotation="none", least_sentences=50))
    vectors = worlds()["fr"][1]
    np.testing.assert_array_equal(
        calibration.apply(vectors, "fr"), calibration.apply(vectors, "fr", "scale")
    )


def test_the_pivot_is_english_or_the_largest_and_is_not_rotated() -> None:
    rng = np.random.default_rng(0)
    sizes = {"fr": 60, "en": 70, "de": 90}
    vectors = {language: rng.normal(size=(size, 4)) for language, size in sizes.items()}
    assert fit(vectors, SMALL).pivot == "en"
    del vectors["en"]
    calibration = fit(vectors, SMALL)
    assert calibration.pivot == "de"
    assert calibration.languages["de"].rotation is None
    assert calibration.languages["fr"].rotation is not None
    named = fit(vectors, CalibrationConfig(least_sentences=50, pivot="fr"))
    assert named.pivot == "fr"
    assert named.languages["fr"].rotation is None


def test_raw_is_the_vector_itself_of_unit_length() -> None:
    vectors = worlds()["fr"][1][:5]
    raw = fitted().apply(vectors, "fr", "raw")
    np.testing.assert_allclose(raw, unit_rows(vectors), rtol=1e-6)
    assert raw.dtype == np.float32


def test_a_written_calibration_reads_as_it_was(tmp_path: Path) -> None:
    calibration = fitted()
    write_calibration(tmp_path, calibration)
    again = read_calibration(tmp_path)
    vectors = worlds()["fr"][1]
    for language in ("en", "fr"):
        np.testing.assert_array_equal(
            again.apply(vectors, language), calibration.apply(vectors, language)
        )
        assert again.languages[language].pairs == calibration.languages[language].pairs
    assert calibration_sha256(again) == calibration_sha256(calibration)


def test_a_calibration_that_was_changed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match=r"calibration\.json"):
        read_calibration(tmp_path)
    write_calibration(tmp_path, fitted())
    tensors, described = tmp_path / "calibration.safetensors", tmp_path / "calibration.json"
    whole = tensors.read_bytes()
    tensors.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptArtifactError, match="is not what"):
        read_calibration(tmp_path)
    tensors.write_bytes(whole)
    read_calibration(tmp_path)
    text = described.read_text()
    described.write_text(text[:40])
    with pytest.raises(CorruptArtifactError, match="not a calibration"):
        read_calibration(tmp_path)
    described.write_text(json.dumps({**json.loads(text), "format_version": 2}))
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        read_calibration(tmp_path)


@pytest.mark.parametrize(
    ("vectors", "config", "message"),
    [
        ({}, SMALL, "no language"),
        ({"en": np.ones((9, 3))}, SMALL, '"en" has 9 sentences'),
        ({"en": np.ones((60, 3)), "fr": np.ones((60, 4))}, SMALL, r"widths \[3, 4\]"),
        ({"en": np.ones((60, 3))}, CalibrationConfig(pivot="fr", least_sentences=5), '"fr" is not'),
    ],
)
def test_what_cannot_be_calibrated_is_said(
    vectors: dict[str, Doubles], config: CalibrationConfig, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        fit(vectors, config)


def test_other_languages_widths_and_settings_are_refused() -> None:
    calibration = fitted()
    with pytest.raises(InvalidInputError, match="known are en, fr"):
        calibration.apply(np.ones((2, 24)), "de")
    with pytest.raises(InvalidInputError, match=r"expected \(n, 24\)"):
        calibration.apply(np.ones((2, 23)), "fr")
    with pytest.raises(InvalidInputError, match="width 24"):
        CalibratedEncoder(bert_teacher(layers=1), calibration)


def small_corpus() -> dict[str, list[str]]:
    """Two languages of synthetic sentences; the second has every word reversed."""
    english = sentences(120)
    return {"en": english, "fr": [" ".join(w[::-1] for w in text.split()) for text in english]}


def test_the_model_is_saved_with_its_calibration_and_applies_it(tmp_path: Path) -> None:
    made = calibrate(bert_teacher(layers=1), small_corpus(), SMALL)
    made.save(tmp_path / "model")
    again = CalibratedEncoder.load(tmp_path / "model")
    texts = small_corpus()["fr"][:7]
    vectors = again.encode(texts, lang="fr")
    np.testing.assert_array_equal(vectors, made.encode(texts, lang="fr"))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert again.languages == ("en", "fr")
    assert again.space_id == made.space_id
    assert again.space_id != again.encoder.space_id
    unrotated = CalibrationConfig(rotation="none", least_sentences=50)
    other = calibrate(made.encoder, small_corpus(), unrotated)
    assert other.space_id != made.space_id
    by_hand = made.calibration.apply(made.encoder.encode(texts), "fr")
    np.testing.assert_array_equal(vectors, by_hand)
    assert not np.allclose(vectors, made.encode(texts, lang="fr", stage="raw"), atol=0.01)
    made.save(tmp_path / "model")  # over itself
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]
    # The raw vectors belong to another space: only CalibratedEncoder loads the folder.
    with pytest.raises(UnknownModelError, match="has no config"):
        SentenceEncoder.load(tmp_path / "model")


def test_each_text_may_have_its_own_language() -> None:
    made = calibrate(bert_teacher(layers=1), small_corpus(), SMALL)
    texts = small_corpus()["en"][:4]
    mixed = made.encode(texts, lang=["en", "fr", "en", "fr"])
    np.testing.assert_allclose(mixed[::2], made.encode(texts, lang="en")[::2], atol=1e-6)
    np.testing.assert_allclose(mixed[1::2], made.encode(texts, lang="fr")[1::2], atol=1e-6)
    with pytest.raises(InvalidInputError, match="4 texts and 2 languages"):
        made.encode(texts, lang=["en", "fr"])
    with pytest.raises(InvalidInputError, match='"de" is not calibrated'):
        made.encode(texts, lang="de")


def test_a_folder_that_is_no_model_is_left_alone(tmp_path: Path) -> None:
    made = calibrate(bert_teacher(layers=1), small_corpus(), SMALL)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="no calibrated encoder"):
        made.save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


class Listening(SentenceEncoder):
    """An encoder that remembers what it was asked to encode."""

    heard: tuple[str, ...] = ()

    def encode(self, texts, **options):  # type: ignore[no-untyped-def]
        self.heard = (*self.heard, *texts)
        return super().encode(texts, **options)


def test_sentences_of_the_evaluation_are_never_touched() -> None:
    corpus = small_corpus()
    held_out = [text.upper() for text in corpus["en"][:30]]
    plain = bert_teacher(layers=1)
    encoder = Listening(plain.backbone, plain.tokenizer, max_length=48)
    found = calibrate(encoder, corpus, SMALL, held_out=held_out)
    assert not {text.casefold() for text in encoder.heard} & {t.casefold() for t in held_out}
    assert len(encoder.heard) == 90 + 120
    alone = calibrate(plain, {**corpus, "en": corpus["en"][30:]}, SMALL)
    assert calibration_sha256(found.calibration) == calibration_sha256(alone.calibration)
    everything = calibrate(plain, corpus, SMALL)
    assert calibration_sha256(everything.calibration) != calibration_sha256(alone.calibration)


def test_repeated_and_empty_sentences_count_once_and_never() -> None:
    assert without(["A  b", "a b", "", "  ", "c", "D"], ["d"]) == ["A  b", "c"]
