"""The exceptions pocketquery raises on purpose.

    PocketQueryError
    ├── InvalidInputError (ValueError)        a text, vector or argument that cannot be used
    ├── CorpusError (ValueError)              a line of a corpus, query or judgement file
    ├── UnknownModelError (ValueError)        a model name or folder that cannot be loaded
    ├── MissingExtraError (ImportError)       an optional dependency is not installed
    ├── SpaceMismatchError (ValueError)       two artefacts live in different vector spaces
    └── ArtifactError                         a bundle, index or checkpoint on disk
        ├── ArtifactNotFoundError (FileNotFoundError)
        ├── CorruptArtifactError              truncated, tampered or not of this format
        ├── UnsupportedVersionError           written by a newer version
        ├── WriteError (OSError)              a full disk, a read-only place, no such folder
        ├── SignatureError                    absent or not made by the expected key
        └── RollbackError                     older than what is in force, and not on purpose

Every message says what was found, what was expected and what to do next.
"""

from __future__ import annotations

import errno

__all__ = [
    "PocketQueryError",
    "InvalidInputError",
    "CorpusError",
    "UnknownModelError",
    "MissingExtraError",
    "SpaceMismatchError",
    "ArtifactError",
    "ArtifactNotFoundError",
    "CorruptArtifactError",
    "UnsupportedVersionError",
    "WriteError",
    "SignatureError",
    "RollbackError",
    "PocketQueryWarning",
]


class PocketQueryWarning(UserWarning):
    """Something that can be used, and may not be what the caller meant."""


_CHECK_DISK = "look at the disk, or name another place"
_DISK_FULL = "the disk is full", "make room and try again; what was there is as it was"
_NOT_ALLOWED = "this user may not write there", "change its permissions, or name another place"
_NO_FOLDER = "a file stands where a folder is needed", "name another place"
_WHY_NOT_WRITTEN = {
    errno.EROFS: (
        "it is on a read-only medium",
        "copy it to one that may be written, or name another place",
    ),
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: ("this user's share of the disk is full", _DISK_FULL[1]),
    errno.EFBIG: ("the file would be larger than the disk allows", "name a place on another disk"),
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ENOTDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.EISDIR: ("a folder stands where the file would be", "name another place"),
    errno.ENOENT: ("there is no such folder", "make the folder, or name another place"),
    errno.ENAMETOOLONG: ("its name is too long", "name another place"),
}


class PocketQueryError(Exception):
    """Base of every error pocketquery raises on purpose."""


class InvalidInputError(PocketQueryError, ValueError):
    """An argument (text, vector, filter, option) that cannot be used."""

    @classmethod
    def in_package(cls, subject: str, folder: str = "research") -> InvalidInputError:
        """The error for ``subject`` (say 'the command "augment" is'), which the package in
        ``folder`` of the checkout has."""
        return cls(
            f"{subject} in {folder}/, which is not installed; run pip install ./{folder} in a "
            "checkout of pocketquery"
        )


class CorpusError(PocketQueryError, ValueError):
    """A line of a corpus, query or judgement file that cannot be read; names file and line."""


class UnknownModelError(PocketQueryError, ValueError):
    """A model name or folder that cannot be loaded."""


class MissingExtraError(PocketQueryError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""

    @classmethod
    def of(cls, package: str, extra: str) -> MissingExtraError:
        """The error for ``package``, which ``extra`` brings, or a folder ("./packages/...")."""
        return cls(
            f'the package "{package}" is needed here and is not installed; '
            f"install it with: {cls.remedy(extra)}"
        )

    @staticmethod
    def remedy(extra: str) -> str:
        """The shell's command that installs ``extra``, or the folder that is named so."""
        return f'pip install "{extra if extra.startswith("./") else f"pocketquery[{extra}]"}"'


class SpaceMismatchError(PocketQueryError, ValueError):
    """Two artefacts live in different vector spaces, so their vectors cannot be compared."""

    @classmethod
    def between(cls, left: str, left_id: str, right: str, right_id: str) -> SpaceMismatchError:
        """The error for ``left`` (say "the index docs/") and ``right`` with their space ids."""
        return cls(
            f"{left} lives in space {left_id}, but {right} in space {right_id}; vectors of "
            "different spaces cannot be compared. Name the encoder that the index was made with "
            "(--bundle NAME), or build the index again with this one."
        )


class ArtifactError(PocketQueryError):
    """A bundle, index or checkpoint on disk that cannot be used."""


class ArtifactNotFoundError(ArtifactError, FileNotFoundError):
    """The artefact, or one of its files, is not there."""


class CorruptArtifactError(ArtifactError):
    """The artefact is truncated, was changed after it was written, or is of another format."""


class UnsupportedVersionError(ArtifactError):
    """The artefact was written in a format version this release cannot read."""


class WriteError(ArtifactError, OSError):
    """A file or folder cannot be written: the disk is full, the place is read-only or not there.

    ``errno`` is the system's.
    """

    @classmethod
    def of(cls, place: object, error: OSError) -> WriteError:
        """The error that ``place`` cannot be written, since the system gave ``error``."""
        found, remedy = _WHY_NOT_WRITTEN.get(
            error.errno or 0, (error.strerror or str(error), _CHECK_DISK)
        )
        wrapped = cls(f"{place} cannot be written: {found}; {remedy}")
        wrapped.errno = error.errno
        return wrapped

    @staticmethod
    def is_meant_by(error: BaseException) -> bool:
        """Whether the system's ``error`` comes of writing, and never of reading."""
        return getattr(error, "errno", None) in (
            errno.EROFS,
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EFBIG,
        )


class SignatureError(ArtifactError):
    """The signature is absent, malformed or not made by the expected key."""


class RollbackError(ArtifactError):
    """A release, or a statement of what is in force, is older than what is in force here, and no
    signed statement says that going back is meant."""
