"""CPDAE's contrast of word distributions: in blocks, against one tensor (2m, 2m, V).

    python benchmarks/js_contrast.py

128 views (m = 64 texts), a vocabulary of 30,522, float32, one thread: forward and backward of the
contrast from the decoder's logits. Ours is ``js_contrast(pairwise_js(log_distribution(z)))``. The
rival is the definition written down in torch and left to autograd; as one tensor it would keep
about 14 GB, so it runs ``--rows`` anchors at a time (``--rows 128`` is the whole cube). To spare it
the second forward pass that this would cost, it is handed the gradient of the loss towards the
divergences beforehand; the smaller tensors also suit its cache better, so the ratio errs on its
side. Each runs in a process of its own, after a warm-up, and the fastest of its repetitions counts.
Memory is the operating system's peak during the first repetition, less what was resident before.

Must reach: at most 1 GB for ours, at most a tenth of the rival's time, and the same loss and
gradient (relative to its largest entry) to 1e-5. Needs the extra server, and Linux. The last line
is one JSON object; the exit code is 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from pocketquery.server.objectives.shared.js_contrast import (
    js_contrast,
    log_distribution,
    pairwise_js,
)

VIEWS, PIECES = 128, 30_522
MOST_GB = 1.0
LEAST_SPEEDUP = 10.0
MOST_DIFFERENCE = 1e-5


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=16, help="anchors of the rival at a time")
    parser.add_argument("--contestant", choices=["blockwise", "naive"], help="for itself")
    parser.add_argument("--result", help="for itself")
    options = parser.parse_args()
    if options.contestant:
        contest(options.contestant, options.rows, Path(options.result))
        return 0
    ours, loss, gradient = launch("blockwise", options.rows)
    theirs, their_loss, their_gradient = launch("naive", options.rows)
    scale = float(their_gradient.abs().max())
    difference = max(
        abs(float(loss - their_loss)), float((gradient - their_gradient).abs().max()) / scale
    )
    figures = {
        "blockwise_s": ours["seconds"],
        "blockwise_gb": ours["gb"],
        "naive_s": theirs["seconds"],
        "naive_gb": theirs["gb"],
        "naive_rows": options.rows,
        "speedup": theirs["seconds"] / ours["seconds"],
        "difference": difference,
    }
    reached = (
        figures["blockwise_gb"] <= MOST_GB
        and figures["speedup"] >= LEAST_SPEEDUP
        and difference <= MOST_DIFFERENCE
    )
    print(f"blockwise          {ours['seconds']:7.2f} s  {ours['gb']:6.2f} GB more than before")
    print(f"naive, {options.rows:3} anchors {theirs['seconds']:7.2f} s  {theirs['gb']:6.2f} GB")
    print(
        f"{figures['speedup']:.1f} x faster; loss and gradient differ by {difference:.1e} at most"
    )
    print(f"expected <= {MOST_GB} GB, >= {LEAST_SPEEDUP} x, <= {MOST_DIFFERENCE}")
    print(json.dumps({**figures, "reached": reached}))
    return 0 if reached else 1


def launch(contestant: str, rows: int) -> tuple[dict[str, float], torch.Tensor, torch.Tensor]:
    """Figures, loss and gradient of one contestant."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "result.pt"
        command = [sys.executable, __file__, "--rows", str(rows)]
        command += ["--contestant", contestant, "--result", str(place)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        found = torch.load(place, weights_only=True)
    return found["figures"], found["loss"], found["gradient"]


def contest(contestant: str, rows: int, place: Path) -> None:
    """Warm up on a small case, measure memory once and the time of the fastest repetition."""
    torch.set_num_threads(1)
    logits = torch.randn(VIEWS, PIECES, generator=torch.Generator().manual_seed(0)) * 1.5 - 6
    run(contestant, logits[:8, :1000], 8, outer_of(logits[:8, :1000]))
    outer = outer_of(logits)
    seconds, gb = [], 0.0
    for repetition in range(3 if contestant == "blockwise" else 1):
        before = reset_peak()
        start = time.perf_counter()
        loss, gradient = run(contestant, logits, rows, outer)
        seconds.append(time.perf_counter() - start)
        gb = gb if repetition else (status_kb("VmHWM") - before) / 1e6
    figures = {"seconds": min(seconds), "gb": gb}
    torch.save({"figures": figures, "loss": loss, "gradient": gradient}, place)


def outer_of(logits: torch.Tensor) -> torch.Tensor:
    """The gradient of the loss towards the divergences (n, n)."""
    divergences = pairwise_js(log_distribution(logits)).requires_grad_()
    return torch.autograd.grad(js_contrast(divergences), divergences)[0]


def run(
    contestant: str, logits: torch.Tensor, rows: int, outer: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and gradient towards the logits."""
    logits = logits.detach().requires_grad_()
    if contestant == "naive":
        return naive(logits, rows, outer)
    loss = js_contrast(pairwise_js(log_distribution(logits)))
    return loss.detach(), torch.autograd.grad(loss, logits)[0]


def naive(
    logits: torch.Tensor, rows: int, outer: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition over a (rows, n, V) tensor at a time, forward and backward by autograd."""
    log_p = log_distribution(logits)
    leaf = log_p.detach().requires_grad_()
    divergences = torch.empty(len(logits), len(logits))
    for first in range(0, len(logits), rows):
        own, other = leaf[first : first + rows, None], leaf[None]
        middle = torch.logaddexp(own, other) - math.log(2)  # (rows, n, V)
        terms = own.exp() * (own - middle) + other.exp() * (other - middle)
        found = terms.sum(dim=2) / 2  # (rows, n)
        found.backward(outer[first : first + rows])  # type: ignore[no-untyped-call]
        divergences[first : first + rows] = found.detach()
    log_p.backward(leaf.grad)  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    return js_contrast(divergences), logits.grad


def reset_peak() -> int:
    """Forget the peak of resident memory; what is resident now, in kB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return status_kb("VmRSS")


def status_kb(name: str) -> int:
    """A figure of this process in kB, as Linux has it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = dict(line.split(":", 1) for line in lines)
    return int(found[name].split()[0])


if __name__ == "__main__":
    sys.exit(main())
