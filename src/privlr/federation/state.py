"""The state of a run on disk: vectors in one of two files, and a head that says which."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from privlr.exceptions import FederationError

__all__ = ["load_state", "save_state", "write_whole"]

_HEAD = "state.json"


class _Head(msgspec.Struct, frozen=True):
    """What is in a state, and the number of its file."""

    slot: int
    check: int
    lengths: dict[str, int]
    numbers: dict[str, int]

    @classmethod
    def read(cls, directory: Path) -> _Head | None:
        try:
            return msgspec.json.decode((directory / _HEAD).read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            why = type(error).__name__
            raise FederationError(f"the saved state cannot be read: {why}") from None

    def vectors_in(self, directory: Path) -> Path:
        return directory / f"state{self.slot}.bin"


def save_state(directory: Path, state: Mapping[str, Any], *, durable: bool) -> None:
    """Replace the state, whole or not at all.

    The vectors go over those of the state before the last one, for to write into an old file
    takes a third of the time that a new one takes. The last state counts until the new head
    is in its place.

    Parameters
    ----------
    directory : Path
        Of the run.
    state : mapping of str to ndarray or int
        What `load_state` is to return; arrays of shape (n,), float64.
    durable : bool
        Wait for the disk.
    """
    vectors = {name: v for name, v in state.items() if isinstance(v, np.ndarray)}
    last = _Head.read(directory)
    head = _Head(
        slot=0 if last is None else 1 - last.slot,
        check=_checksum(vectors.values()),
        lengths={name: len(vector) for name, vector in vectors.items()},
        numbers={name: int(state[name]) for name in state if name not in vectors},
    )
    path = head.vectors_in(directory)
    with path.open("r+b" if path.exists() else "w+b") as stream:
        for vector in vectors.values():
            vector.tofile(stream)
        stream.truncate()
        _flush(stream, durable)
    write_whole(directory / _HEAD, msgspec.json.encode(head), durable=durable)


def load_state(directory: Path) -> dict[str, Any] | None:
    """Return the state that was saved last, None if there is none.

    Parameters
    ----------
    directory : Path
        Of the run.

    Returns
    -------
    dict or None
        As it was saved.

    Raises
    ------
    FederationError
        A file is damaged.
    """
    head = _Head.read(directory)
    if head is None:
        return None
    try:
        with head.vectors_in(directory).open("rb") as stream:
            vectors = {n: np.fromfile(stream, np.float64, size) for n, size in head.lengths.items()}
    except OSError as error:
        why = type(error).__name__
        raise FederationError(f"the saved state cannot be read: {why}") from None
    # A state that is not the last one would let noise be drawn a second time.
    lengths = {name: len(vector) for name, vector in vectors.items()}
    if lengths != head.lengths or _checksum(vectors.values()) != head.check:
        raise FederationError("the saved state is damaged")
    return head.numbers | vectors


def write_whole(path: Path, content: bytes, *, durable: bool) -> None:
    """Write a file, whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    content : bytes
        All of it.
    durable : bool
        Wait for the disk.
    """
    scratch = path.with_suffix(".new")
    with scratch.open("wb") as stream:
        stream.write(content)
        _flush(stream, durable)
    os.replace(scratch, path)
    if durable:
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _checksum(vectors: Iterable[Any]) -> int:
    """Sum of all 64-bit words: it shows blocks that the disk lost, and costs little."""
    return sum(int(np.add.reduce(vector.view(np.uint64))) for vector in vectors) % 2**64


def _flush(stream: Any, durable: bool) -> None:
    if durable:
        stream.flush()
        os.fsync(stream.fileno())
