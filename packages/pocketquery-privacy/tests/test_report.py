"""The officer's page: what it says of each configuration, and that it says nothing more."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.noise import counted_on
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    PocketQueryError,
)
from pocketquery.server.federation.orchestration.federation import JOURNAL
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.private.accounting import epsilon_of_zcdp, rho_of
from pocketquery.server.private.budget import Charge, Season, charge, spent
from pocketquery_privacy import EXPERIMENTAL
from pocketquery_privacy.command import ReportOptions, read_federation
from pocketquery_privacy.federation import Federation, read_attacks, total
from pocketquery_privacy.page import privacy_page
from tests.server.federation.small_federation import Files, opened
from tests.server.private.bindings import noisy_binding

ROOT = Path(__file__).parents[3]

ATTACKS: dict[str, Any] = {
    "encoder": "demo <student>",
    "users": 200,
    "identification": {
        "plain": {"top1": 1.0, "mrr": 1.0, "interval": [1.0, 1.0]},
        "sum_100": {"top1": 0.08, "mrr": 0.15, "interval": [0.05, 0.11]},
        "sum_10": {"top1": 0.33, "mrr": 0.42, "interval": [0.28, 0.39]},
        "dp_z2_sum": {"top1": 0.015, "mrr": 0.05, "interval": [0.0, 0.03]},
    },
    "membership": {"dp_z2_sum": {"auc": 0.52, "auc_interval": [0.5, 0.55], "tpr_at_1": 0.012}},
    "queries": {
        "plain": {
            "exact": [0.81, 0.78, 0.84],
            "exact_by_chance": 0.07,
            "auc_same_topic": [0.9, 0.88, 0.92],
        }
    },
    "inversion": {"ten_steps_up": {"token_f1": 0.22, "baseline_f1": 0.2}},
    "bounds": {"dp_z2": {"auc": 0.638}},
}

# Of the specification: phrases that may stand nowhere.
_FORBIDDEN = re.compile(
    r"anonymou|anonymi[sz]ed|cannot be reconstructed|GDPR|zero-knowledge|end-to-end encrypted"
    r"|the server learns nothing|military-grade|secure against a malicious server"
    r"|secure aggregation protects",
    re.IGNORECASE,
)


@pytest.mark.parametrize("privacy", ["plain", "off", "devices"])
def test_nothing_forbidden_is_said(privacy: str) -> None:
    """In any configuration; no amplification by sampling is shown, and it is one file."""
    page = privacy_page(_federation(privacy))
    assert not _FORBIDDEN.search(page)
    assert "Poisson" not in page
    assert EXPERIMENTAL in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org/|purl\.org/)|src=|@import", page)
    assert _Balance.of(page) == []


def test_nothing_forbidden_is_said_in_the_documents() -> None:
    """README and docs."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        found = _FORBIDDEN.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name}: {found and found.group()}"


@pytest.mark.parametrize(
    ("privacy", "marked"),
    [
        ("plain", ["plain", "plain, TLS"]),
        ("off", ["secure sums"]),
        ("devices", ["noise by devices"]),
    ],
)
def test_only_the_columns_of_the_configuration_are_marked(privacy: str, marked: list[str]) -> None:
    """Of the table of who sees what."""
    page = privacy_page(_federation(privacy))
    assert re.findall(r'<th scope="col" class="own">([^<]*)</th>', page) == marked
    assert len(re.findall(r'<td class="own">', page)) == 7 * len(marked)


@pytest.mark.parametrize("privacy", ["off", "devices"])
def test_limits_on_epsilon_are_told_only_where_something_is_charged(privacy: str) -> None:
    """And that devices at their default decline rounds whose noise is not their own."""
    page = privacy_page(_federation(privacy))
    assert ("a charge that would pass it is declined" in page) == (privacy != "off")
    assert ("rounds without noise cost no epsilon" in page) == (privacy == "off")
    assert ("not limited; 8 rounds apart" in page) == (privacy == "off")
    assert ("stops at its limit" in page) == (privacy != "off")
    assert ('privacy="any"' in page) == (privacy != "devices")


def test_epsilon_is_never_told_alone() -> None:
    """With delta, season, unit, participations and adversary; the ledger's rows decide."""
    promised = " ".join(_list_under("What may be said", privacy_page(_federation("devices"))))
    assert "(ε, δ) = (1.99, 1e-06)" in promised
    assert "season 'spring', of 10 rounds, in which it takes part at most once" in promised
    assert "without relying on random sampling" in promised
    assert "Against a server that deviates ε is 10.19 at the same δ" in promised
    assert "noise-least 2.4, neighbours 84 and largest-group 1000" in promised
    assert "provided device keys are enrolled by someone else" in promised
    without = " ".join(_list_under("What may be said", privacy_page(_federation("off"))))
    assert "sums over at least 20 devices" in without
    assert "(ε, δ)" not in without


def test_the_budget_follows_from_the_ledger() -> None:
    """Dearer rows than declared, two seasons, and a season that is over."""
    found = _federation("devices")
    season = found.season
    assert season is not None
    rows = [_row(found, number, rho=0.2) for number in range(2)]
    dear = dataclasses.replace(found, charges=tuple(rows))
    figures = dear.summary()["seasons"]
    assert [one["rounds"] for one in figures] == [2]
    assert figures[0]["epsilon"]["H"] > 3
    other = dataclasses.replace(rows[0], season="winter", round=9)
    both = dataclasses.replace(found, charges=(*rows, other)).summary()["seasons"]
    assert [one["season"] for one in both] == ["spring", "winter", "spring, winter"]
    assert both[2]["epsilon"]["H"] > both[0]["epsilon"]["H"]
    over = dataclasses.replace(found, charges=tuple(_row(found, n) for n in range(10)))
    assert "The next round is refused: season" in privacy_page(over)
    assert "Left: rounds 2 to 9 of" in privacy_page(dear)


def test_histogram_drops_and_quarantine_are_shown() -> None:
    """From devices' ledgers and from the rounds' records."""
    page = privacy_page(_federation("devices"))
    assert "16,000" in page
    assert "below_threshold" in page
    assert re.search(r"<td>bad_share</td><td>3</td>", page)
    assert "keeps no list of who took part" in privacy_page(
        dataclasses.replace(_federation("devices"), participations=None)
    )


def test_attack_figures_are_shown_beside_the_groups_size() -> None:
    """Names are escaped, arms told in words, the bound beside what it bounds."""
    page = privacy_page(dataclasses.replace(_federation("devices"), attacks=ATTACKS))
    assert "demo &lt;student&gt;" in page
    assert "these rounds: 1,000" in page
    assert "noise, multiplier 2: a sum of 1,000" in page
    assert "0.638" in page
    assert "sum of 100" in page
    assert "0.810 (0.780–0.840)" in page
    assert "ten steps; up alone" in page
    assert "No attack figures" in privacy_page(_federation("devices"))
    few: dict[str, Any] = {"inversion": {"guessed": {}}}  # as much as is read without an error
    page = privacy_page(dataclasses.replace(_federation("plain"), attacks=few))
    assert "(encoder not named)" in page
    assert "<td>guessed</td><td>not measured</td><td>not measured</td>" in page


def test_a_folder_is_read_as_it_was_left(tmp_path: Path) -> None:
    """Journal, settings and ledgers of a simulation; the command writes the page."""
    folder = _folder(tmp_path, "devices")
    found = read_federation(ReportOptions(federation=folder, devices=20_000))
    assert found.secure is not None
    assert [one.round for one in found.charges] == [0, 1]
    assert found.rounds == ()
    output = tmp_path / "officer.html"
    arguments = ["privacy", "report", "--federation", str(folder), "--output", str(output)]
    assert main(arguments) == 0
    assert "season spring, so far" in output.read_text(encoding="utf-8")
    assert main([*arguments, "--devices", "30000"]) == 0  # a page takes the place of one
    assert "of 30,000" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "notes of somebody", "<!doctype html>\n<html>a page</html>"])
def test_what_is_no_such_page_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    arguments = ["privacy", "report", "--federation", str(_folder(tmp_path, "devices"))]
    output = tmp_path / "notes.html"
    output.write_text(text)
    assert main([*arguments, "--output", str(output)]) == 2
    assert "notes.html exists and is not a privacy report" in capsys.readouterr().err
    assert output.read_text() == text
    assert main([*arguments, "--output", str(tmp_path)]) == 2
    assert "exists and is not a privacy report" in capsys.readouterr().err


def test_the_page_of_a_private_round_that_ran(federation: Files, tmp_path: Path) -> None:
    """With real devices: how many came how far, and no epsilon where no noise was added."""
    given = {"secure": "on", "secure-least": 4, "clients-per-round": 8, "rest": 1, "rounds": 1}
    with opened(federation, tmp_path / "work", **given) as parts:
        parts.run()
        options = parts.options.to_dict()
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"options": options}))
    page = privacy_page(
        read_federation(ReportOptions(federation=tmp_path / "work", settings=settings))
    )
    assert "<td>8</td><td>8</td><td>8</td><td>8</td>" in page
    assert "there is no ε" in page


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's figures."""
    folder = _folder(tmp_path, "devices")
    output = tmp_path / "officer.html"
    arguments = ["privacy", "report", "--federation", str(folder), "--output", str(output)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seasons"][0]["epsilon"]["H"] == pytest.approx(1.98, abs=0.01)
    assert found["experimental"] is True
    assert found["output"] == str(output)


def test_a_flower_apps_settings_are_read(tmp_path: Path) -> None:
    """The example's, and with a private round switched on."""
    path = ROOT / "examples" / "deployment" / "flower_app" / "pyproject.toml"
    (tmp_path / "rounds").mkdir()
    found = read_federation(ReportOptions(federation=tmp_path / "rounds", settings=path))
    assert found.cohort >= 1
    config = {**_given("devices"), "unknown-place": "x"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in config.items()]
    (tmp_path / "app.toml").write_text("\n".join(["[tool.flwr.app.config]", *lines]))
    private = read_federation(
        ReportOptions(federation=tmp_path / "rounds", settings=tmp_path / "app.toml")
    )
    assert private.season is not None
    assert private.season.name == "spring"


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Folder, settings and figures; each with what to do."""
    with pytest.raises(ArtifactNotFoundError, match="is no folder"):
        read_federation(ReportOptions(federation=tmp_path / "none"))
    with pytest.raises(ArtifactNotFoundError, match="--settings"):
        read_federation(ReportOptions(federation=tmp_path))
    with pytest.raises(InvalidInputError, match="devices is -10, expected a whole number from 1"):
        read_federation(ReportOptions(federation=_folder(tmp_path, "devices"), devices=-10))
    bad = tmp_path / "bad.json"
    for text in ("{", "[]", '{"options": 3}', '{"options": {"settings": {}}}'):
        bad.write_text(text)
        with pytest.raises(CorruptArtifactError):
            read_federation(ReportOptions(federation=tmp_path, settings=bad))
    for text in ("[tool", "x = 1"):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(CorruptArtifactError, match=r"tool\.flwr\.app\.config"):
            read_federation(ReportOptions(federation=tmp_path, settings=tmp_path / "bad.toml"))
    with pytest.raises(ArtifactNotFoundError, match=r"privacy_attacks\.py"):
        read_attacks(tmp_path / "none.json")
    figures = ("3", "{}", '{"identification": 3}', '{"membership": {"plain": 3}}')
    for text in (*(f'{{"figures": {one}}}' for one in figures), "{}", "[" * 100_000):
        bad.write_text(text)
        with pytest.raises(CorruptArtifactError):
            read_attacks(bad)
    measured = read_attacks(Path(__file__).parents[3] / "docs/results/privacy_attacks.json")
    assert measured is not None
    assert measured["identification"]["plain"]["top1"] == 1


def test_a_damaged_ledger_of_a_device_is_told(tmp_path: Path) -> None:
    """A histogram without it would say too little."""
    folder = _folder(tmp_path, "devices")
    ledger = folder / "devices" / "7" / "privacy.json"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("{}")
    with pytest.raises(CorruptArtifactError, match="ledger of a simulated device"):
        read_federation(ReportOptions(federation=folder))
    ledger.unlink()
    assert read_federation(ReportOptions(federation=folder)).participations is None
    with pytest.raises(PocketQueryError):
        read_federation(ReportOptions(federation=folder / "simulation.json"))


def test_the_documents_say_the_same() -> None:
    """docs/privacy.md has the page's fixed sentences word for word."""
    text = " ".join((ROOT / "docs" / "privacy.md").read_text(encoding="utf-8").split())
    page = privacy_page(_federation("devices"))
    fixed = [
        sentence
        for heading in ("How a user withdraws", "What is not promised", "What was not reviewed")
        for sentence in _list_under(heading, page)
    ]
    assert len(fixed) == 16
    for sentence in (EXPERIMENTAL, *fixed):
        assert sentence in text, sentence


def test_the_documents_table_of_epsilon_is_computed() -> None:
    """docs/privacy.md: every cell, from its noise multiplier and participations."""
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+)(?: \(default\))? \|((?: [\d.]+ \|){4})$", text, re.M)
    assert [float(multiplier) for multiplier, _ in rows] == [1, 2, 2.4, 4]
    for multiplier, cells in rows:
        for times, cell in zip((1, 2, 5, 10), re.findall(r"[\d.]+", cells), strict=True):
            accounted = epsilon_of_zcdp(rho_of(float(multiplier), times), 1e-6)
            assert float(cell) == pytest.approx(accounted, abs=0.0051)


def test_seasons_add_up() -> None:
    """As rho."""
    a = Season("a", noise_multiplier=2.0)
    b = Season("b", noise_multiplier=4.0)
    found = spent([a.charge(0), b.charge(10)])
    both = total([found["a"], found["b"]])
    assert both.rho["H"] == pytest.approx(1 / 8 + 1 / 32)
    assert both.epsilon("R", 1e-6) > found["a"].epsilon("R", 1e-6)


def test_a_fleet_smaller_than_its_ledgers_is_refused(tmp_path: Path) -> None:
    """--devices counts all of them."""
    folder = _folder(tmp_path, "devices")
    found = read_federation(ReportOptions(federation=folder))
    assert found.secure is not None
    for number in range(3):
        path = folder / "devices" / f"{number}" / "privacy.json"
        path.parent.mkdir(parents=True)
        Ledger(path).charge(noisy_binding(found.secure.federation_id, 1))
    assert read_federation(ReportOptions(federation=folder, devices=10)).participations == {
        0: 7,
        1: 3,
    }
    with pytest.raises(InvalidInputError, match="ledgers of 3 devices"):
        read_federation(ReportOptions(federation=folder, devices=2))


def _given(privacy: str) -> dict[str, Any]:
    given: dict[str, Any] = {"clients-per-round": 1000, "rounds": 10}
    if privacy != "plain":
        given |= {"secure": "on", "federation": "clinics", "enrolment": "00" * 32}
        given |= {"privacy": privacy, "clip-norm": 1.0}
    if privacy == "devices":
        given |= {"season": "spring"}
    return given


def _federation(privacy: str) -> Federation:
    """Four rounds, one of them skipped."""
    options = FederationOptions.of(_given(privacy))
    rounds = tuple(
        RoundReport(
            round=number,
            base_version=str(number),
            asked=1250,
            accepted=1000,
            declined=100,
            quarantined={"bad_share": 1} if number else {},
            skipped="below_threshold" if number == 2 else None,
            version=str(number + 1),
        )
        for number in range(4)
    )
    found = Federation(
        options=json.loads(json.dumps(options.to_dict())),
        secure=options.secure,
        cohort=1000,
        rounds=rounds,
        devices=20_000,
    )
    if found.season is None:
        return found
    charges = tuple(_row(found, number) for number in range(4))
    return dataclasses.replace(found, charges=charges, participations={0: 16_000, 1: 4_000})


def _row(found: Federation, number: int, rho: float | None = None) -> Charge:
    assert found.season is not None
    assert found.least_honest is not None
    honest = {"counted_on": counted_on(found.group), "least_honest": found.least_honest}
    return found.season.charge(number, rho=rho, **honest)


def _list_under(heading: str, page: str) -> list[str]:
    """The sentences of the list under a heading."""
    part = page.partition(f"<h2>{heading}</h2>")[2].partition("<h2>")[0]
    return [html.unescape(one) for one in re.findall(r"<li>(.*?)</li>", part)]


def _folder(tmp_path: Path, privacy: str) -> Path:
    """A simulation's folder after two charged rounds."""
    folder = tmp_path / "simulation"
    folder.mkdir()
    options = FederationOptions.of(_given(privacy)).to_dict()
    del options["rounds"]
    (folder / "simulation.json").write_text(json.dumps({"files": {}, "options": options}))
    Journal.open(folder / JOURNAL).disconnect()
    found = _federation(privacy)
    with sqlite3.connect(folder / JOURNAL) as connection:
        for number in range(2):
            charge(connection, _row(found, number))
    connection.close()
    return folder


class _Balance(HTMLParser):
    """Tags that are open at the end, or were closed out of order."""

    _VOID = ("meta", "path", "use", "br", "image")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    @classmethod
    def of(cls, page: str) -> list[str]:
        parser = cls()
        parser.feed(page)
        return parser.wrong + parser.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        if tag in self._VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)
