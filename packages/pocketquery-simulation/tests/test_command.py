"""``pocketquery simulate`` as a newcomer runs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.writing import write_bundle
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, SignatureError
from pocketquery_simulation.command import simulate
from tests.commands import run_command
from tests.sdk.tiny_bundle import write_tiny_bundle
from tests.server.federation.small_federation import QUICK, Files


def run(
    files: Files,
    output: Path,
    *extra: str,
    users: Sequence[str] | None = None,
    any_offer: bool = True,
) -> int:
    quick = [word for name, value in QUICK.items() for word in (f"--{name}", str(value))]
    made_up = ["--queries", str(files.queries), "--users", "12", "--queries-each", "6"]
    places = ["--bundle", str(files.bundle), "--index", str(files.index), "--output", str(output)]
    chosen = made_up if users is None else users
    offers = ["--any-offer"] * any_offer
    return run_command(simulate, "simulate", *offers, *places, *chosen, *quick, *extra)


def judged(files: Files) -> list[str]:
    return [
        "--clients", str(files.clients),
        "--gate-queries", str(files.gate_queries), "--gate-qrels", str(files.gate_qrels),
    ]  # fmt: skip


def test_queries_alone_are_enough_and_a_report_is_written(
    federation: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(federation, tmp_path / "out") == 0
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0] == "12 simulated devices with 6 queries each; 2 rounds of 4"
    assert lines[1].startswith("round 0: asked 6, replied 4, accepted 4; loss 0.")
    assert "gate: " in lines[2]
    assert str(tmp_path / "out" / "report.html") in out
    assert "release in force" in (tmp_path / "out" / "report.html").read_text()


def test_the_index_teaches_where_rounds_ask_for_it(federation: Files, tmp_path: Path) -> None:
    taught = ["--hybrid-weight", "1", "--json"]
    assert run(federation, tmp_path / "taught", *taught) == 0
    assert run(federation, tmp_path / "plain", "--json") == 0
    rows = [
        json.loads((tmp_path / name / "rounds.json").read_text())["rounds"]
        for name in ("taught", "plain")
    ]
    assert [[row["accepted"] for row in one] for one in rows] == [[4, 4], [4, 4]]
    losses = [[row["figures"]["loss"] for row in one] for one in rows]
    assert all(more > less for more, less in zip(*losses, strict=True))  # one term more
    with pytest.raises(InvalidInputError, match="one of them at most"):
        run(federation, tmp_path / "both", *taught, "--opened-weight", "1")


@pytest.mark.slow
def test_private_rounds_are_simulated_with_enrolled_devices(
    federation: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secure = ["--secure", "on", "--secure-least", "3", "--rest", "1"]
    assert run(federation, tmp_path / "out", *secure) == 0
    first = json.loads((tmp_path / "out" / "rounds.json").read_text())["rounds"]
    assert [(one["accepted"], one["stages"]["ready"]) for one in first] == [(4, 4), (4, 4)]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "stage_deadline" in page
    capsys.readouterr()
    with pytest.raises(InvalidInputError, match=r"another simulation: options\.secure"):
        run(federation, tmp_path / "out", *secure[:-1], "2")
    with pytest.raises(InvalidInputError, match="holds another simulation"):
        run(federation, tmp_path / "out")


def test_users_and_judgements_of_ones_own_and_the_result_as_json(
    federation: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(federation, tmp_path, "--json", users=judged(federation)) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["rounds"], found["updates"], found["metric"]) == (2, 8, "ndcg@10")
    assert 0 < found["before"] <= 1
    assert err.splitlines() == ["12 simulated devices with 6 queries each; 2 rounds of 4"]
    rows = json.loads((tmp_path / "rounds.json").read_text())["rounds"]
    assert rows[1]["version"] == found["version"]
    registry_file = tmp_path / "releases" / "releases.sqlite"
    assert registry_file.is_file()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_and_more_rounds_continue(
    federation: Files, tmp_path: Path
) -> None:
    short, long = (tmp_path / name for name in ("short", "long"))
    run(federation, short, "--faults", "0.3", "--json")
    run(federation, short, "--faults", "0.3", "--rounds", "4", "--json")
    run(federation, long, "--faults", "0.3", "--rounds", "4", "--json")
    assert (short / "rounds.json").read_bytes() == (long / "rounds.json").read_bytes()
    before = (short / "rounds.json").stat().st_mtime_ns
    run(federation, short, "--faults", "0.3", "--rounds", "4", "--json")
    assert (short / "rounds.json").stat().st_mtime_ns == before


def test_another_simulation_is_refused_in_the_folder_of_one(
    federation: Files, tmp_path: Path
) -> None:
    run(federation, tmp_path, "--json")
    with pytest.raises(InvalidInputError, match=r"options\.seed, options\.local\.steps differ"):
        run(federation, tmp_path, "--seed", "9", "--steps", "3", "--json")
    with pytest.raises(InvalidInputError, match=r"files\.clients"):
        run(federation, tmp_path, users=judged(federation))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun_with", "named"),
    [
        (["--hybrid-weight", "1"], r"options\.local\.hybrid"),
        (["--mode", "buffered"], r"options\.settings\.mode"),
    ],
)
def test_what_a_simulation_was_begun_with_cannot_be_left_out(
    federation: Files, tmp_path: Path, begun_with: list[str], named: str
) -> None:
    run(federation, tmp_path, *begun_with, "--rounds", "1", "--json")
    with pytest.raises(InvalidInputError, match=rf"another simulation: {named}"):
        run(federation, tmp_path, "--rounds", "2", "--json")
    run(federation, tmp_path, *begun_with, "--rounds", "2", "--json")


@pytest.mark.parametrize("name", ["rounds.sqlite", "releases", "report.html", "notes.txt"])
def test_a_folder_of_something_else_is_left_alone(
    federation: Files, tmp_path: Path, name: str
) -> None:
    found = tmp_path / name
    if name == "releases":
        found.mkdir()
    else:
        found.write_text("of somebody else")
    (tmp_path / ".simulation.json.0123abcd.tmp").touch()  # as a kill leaves one
    with pytest.raises(InvalidInputError, match=rf"found {name} and no simulation\.json"):
        run(federation, tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {name, ".simulation.json.0123abcd.tmp"}
    assert found.is_dir() or found.read_text() == "of somebody else"
    with pytest.raises(InvalidInputError, match="is no folder"):
        run(federation, tmp_path / ".simulation.json.0123abcd.tmp")


def test_a_folder_is_free_where_no_round_was_begun(federation: Files, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no signing key"):
        run(federation, tmp_path / "out", "--roll-out", "0.5")
    assert not any((tmp_path / "out").iterdir())
    assert run(federation, tmp_path / "out", "--rounds", "1") == 0


@pytest.mark.slow
def test_an_error_frees_the_folder_up_to_the_first_round_and_not_from_then_on(
    federation: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("on purpose")

    def fails(place: str) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(f"pocketquery.server.federation.{place}", failing)
            with pytest.raises(RuntimeError, match="on purpose"):
                run(federation, tmp_path)

    fails("rounds.federated_round.FederatedRound._begin")  # the journal is there, without a round
    assert not any(tmp_path.iterdir())
    fails("orchestration.journal.close_round")
    assert (tmp_path / "rounds.sqlite").is_file()
    with pytest.raises(InvalidInputError, match=r"options\.seed"):
        run(federation, tmp_path, "--seed", "9")
    assert run(federation, tmp_path) == 0


@pytest.mark.slow
def test_offers_that_every_device_declines_are_refused_at_once(
    federation: Files, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=r"steps: found 2.*--any-offer"):
        run(federation, tmp_path, any_offer=False)
    with pytest.raises(InvalidInputError, match=r"train on: found 6, .* at least 32"):
        run(federation, tmp_path, "--steps", "10", "--batch-size", "16", any_offer=False)
    assert not (tmp_path / "simulation.json").exists()
    usual = ["--steps", "5", "--batch-size", "16", "--queries-each", "40", "--json"]
    assert run(federation, tmp_path, *usual, any_offer=False) == 0
    rows = json.loads((tmp_path / "rounds.json").read_text())["rounds"]
    assert [row["accepted"] for row in rows] == [4, 4]
    with pytest.raises(InvalidInputError, match=r"limits.* differ"):
        run(federation, tmp_path, *usual)
    run(federation, tmp_path / "any", *usual)
    with pytest.raises(InvalidInputError, match=r"limits.* differ"):
        run(federation, tmp_path / "any", *usual, any_offer=False)


@pytest.mark.parametrize(
    ("extra", "users", "said"),
    [
        (["--rounds", "0"], None, "rounds is 0, expected a whole number from 1"),
        ([], ["--clients", "clients"], "--gate-queries"),
        (["--gate-qrels", "qrels"], None, "--gate-queries"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    federation: Files, tmp_path: Path, extra: list[str], users: list[str] | None, said: str
) -> None:
    names: dict[str, Any] = {"clients": federation.clients, "qrels": federation.gate_qrels}
    with pytest.raises(InvalidInputError, match=said):
        run(
            federation,
            tmp_path,
            *[str(names.get(word, word)) for word in extra],
            users=users and [str(names.get(word, word)) for word in users],
        )


def test_a_bundle_without_a_training_step_says_how_to_get_one(
    federation: Files, tmp_path: Path
) -> None:
    bundle = write_tiny_bundle(tmp_path / "bundle")
    with pytest.raises(ArtifactNotFoundError, match="pocketquery export --training-step"):
        run(federation, tmp_path / "out", "--bundle", str(bundle))


def test_with_a_key_the_bundle_must_be_signed_by_it(
    federation: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = bytes(range(32))
    key = ["--public-key", public_key_of(private).hex()]
    with pytest.raises(SignatureError, match="found no signature"):
        run(federation, tmp_path / "out", *key)
    opened = Bundle.open(federation.bundle)
    files = {name: opened.read(name) for name in opened.manifest.files}
    write_bundle(tmp_path / "signed", opened.manifest, files, signing_key=private)
    signed = ["--bundle", str(tmp_path / "signed"), *key]
    assert run(federation, tmp_path / "out", *signed) == 0


def test_every_tenth_query_is_held_out_of_the_users(federation: Files) -> None:
    from pocketquery_simulation.files import SimulationFiles

    files = SimulationFiles(
        federation.bundle, federation.index, queries=federation.queries, users=40, queries_each=9
    )
    encoder = sdk.load(federation.bundle)
    with sdk.open_index(federation.index) as index:
        users = files.read_users(index, encoder)
        gate = files.read_gate(index, encoder, users)
    trained = {example.query for store in users.stores.values() for example in store.kept}
    assert len(users.held_out) == 12
    assert len(trained) == 108
    assert not trained & set(users.held_out)
    assert [list(grades.values()) for grades in gate.judged.values()] == [[1]] * 12
    assert [query.text for query in gate.queries] == list(users.held_out)
    assert not gate.judges_clean
    for texts in gate.typings:  # asked mistyped, each time otherwise
        assert texts != list(users.held_out)
    assert len({tuple(texts) for texts in gate.typings}) == 4
