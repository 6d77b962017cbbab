"""The Ray engine: the local engine's bytes, whatever is killed in between."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_start import ray_environment
from small_corpus import bytes_of, write_shards

from pocketquery.sdk.indexing.document_encoder import EncoderSource
from pocketquery_corpus.encoding import encode_corpus

pytest.importorskip("pyarrow", reason="needs pyarrow (extra shards)")
pytest.importorskip("ray", reason="needs Ray (extra ray)")
psutil = pytest.importorskip("psutil", reason="needs psutil (extra ray)")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine starts Ray in minutes
ROOT = Path(__file__).parents[4]
PROGRAM = Path(__file__).parent / "ray_runs.py"


def run(mode: str, corpus: Path, output: Path) -> str:
    command = [sys.executable, str(PROGRAM), mode, str(corpus), str(output)]
    environment = ray_environment(output.parent / "environment")
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def local(corpus: Path, output: Path) -> dict[str, bytes]:
    encode_corpus([corpus], EncoderSource().open, output, batch_size=16)
    return bytes_of(output)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_killed_worker_costs_its_shard_and_no_byte(kind: str, tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (40, 40, 40), kind)
    assert run("killed", corpus, tmp_path / "out") == "120 3 0 True"
    assert bytes_of(tmp_path / "out") == local(corpus, tmp_path / "local")


def test_a_killed_driver_goes_on_where_it_was_and_leaves_no_process(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (20, 20, 20))  # waits in the second
    marker = tmp_path / "out.spoilt"
    command = [sys.executable, str(PROGRAM), "waits", str(corpus), str(tmp_path / "out")]
    environment = ray_environment(tmp_path / "environment")
    with subprocess.Popen(command, cwd=ROOT, env=environment) as driver:
        while not marker.exists():
            assert driver.poll() is None, "it ended before it was killed"
            time.sleep(0.1)
        began = psutil.Process(driver.pid).children(recursive=True)
        addresses = {
            connection.laddr.ip.removeprefix("::ffff:")
            for one in began
            for connection in one.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        driver.send_signal(signal.SIGKILL)
    assert addresses == {"127.0.0.1"}, "Ray listens on other interfaces"
    _, alive = psutil.wait_procs(began, timeout=120)
    assert not alive, f"{alive} outlived the driver"
    parts = [one.name for one in (tmp_path / ".out.parts").glob("part-*")]
    assert len(parts) == 1
    assert run("plain", corpus, tmp_path / "out") == "60 3 1 True"
    assert bytes_of(tmp_path / "out") == local(corpus, tmp_path / "local")


def test_a_bad_shard_is_named_as_the_local_engine_names_it(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (5, 5))
    with (corpus / "1.jsonl").open("a") as file:
        file.write("{not json\n")
    found = run("plain", corpus, tmp_path / "out")
    assert found.startswith("CorpusError")
    assert "1.jsonl, line 6: not JSON" in found
    assert not (tmp_path / "out").exists()


def test_mining_and_indexing_on_ray_give_the_bytes_of_one_process(tmp_path: Path) -> None:
    corpus = write_shards(tmp_path / "corpus", (30, 30))
    for engine, command in (
        ("local", [sys.executable, "-m", "pocketquery.sdk"]),
        ("ray", [sys.executable, "-m", "pocketquery.sdk"]),
    ):
        rest = [str(corpus), "--engine", engine, "--output"]
        for words in (
            ["mine", "pairs", "--documents", *rest, str(tmp_path / f"pairs-{engine}")],
            ["index", "--symmetric", "--corpus", *rest, str(tmp_path / f"index-{engine}")],
        ):
            ended = subprocess.run(
                [*command, *words],
                cwd=ROOT,
                env=ray_environment(tmp_path / "environment"),
                capture_output=True,
                text=True,
                timeout=800,
            )
            assert ended.returncode == 0, ended.stderr
    for made in ("pairs", "index"):
        assert bytes_of(tmp_path / f"{made}-ray") == bytes_of(tmp_path / f"{made}-local")
