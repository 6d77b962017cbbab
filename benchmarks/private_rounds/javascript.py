"""The same device's private round in Node: processor time of the JavaScript SDK."""

from __future__ import annotations

import base64
import json
import shutil
import statistics
import subprocess
from hashlib import sha256
from pathlib import Path

from private_rounds.costs import NOW, bodies_of, rules_of
from private_rounds.group import AUTHORITY, Group, a_change

from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.sdk.bundle.signature import public_key_of

__all__ = ["is_built", "javascript_round"]

PACKAGE = Path(__file__).parents[2] / "sdk" / "js"
SCRIPT = Path(__file__).parents[1] / "javascript_side" / "secure_round.mjs"
_SECONDS = 300.0


def is_built() -> bool:
    """Whether there is Node, and the package is built."""
    return shutil.which("node") is not None and (PACKAGE / "dist" / "secure" / "secure.js").exists()


def javascript_round(group: Group, offer: Offer, folder: Path, repeat: int) -> dict[str, float]:
    """Milliseconds of processor time, all threads, without the training: of the first round in a
    new process, which compiles as it goes, and the median of those that follow.
    """
    bodies = bodies_of(group)
    rules = rules_of(group)
    given = {
        "authority": public_key_of(AUTHORITY).hex(),
        "key": _base64(group.keys[0].private),
        "certificate": _base64(group.sum.certificates[0].to_bytes()),
        "secret": _base64(sha256(b"secret 0").digest()),
        "change": _base64(a_change(group.binding.encoding.size).tobytes()),
        "release": _base64(offer.release),
        "now": NOW,
        "rules": {"neighbours": rules.neighbours, "privacy": rules.privacy},
        "bodies": {int(stage): _base64(body) for stage, body in bodies.items()},
        "offer": {
            "round": offer.round,
            "clipNorm": offer.clip_norm,
            "settingsSha256": group.binding.settings_sha256,
            "config": {"clientInit": "global"},
            "announcement": _base64(bodies[Stage.OFFER]),
            "digest": "",
        },
    }
    path = folder / f"javascript-{group.binding.size}.json"
    path.write_text(json.dumps(given))
    command = ["node", str(SCRIPT), str(PACKAGE), str(path), str(repeat + 1)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    first, *others = json.loads(ended.stdout)["milliseconds"]
    return {"first_ms": first, "device_ms": statistics.median(others)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
