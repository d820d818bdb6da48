"""What travels between a party and the label holder: a short header and raw numbers."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from privlr.exceptions import FederationError

__all__ = ["VERSION", "Buffer", "Kind", "Message", "vector_bytes"]

#: Sums of larger numbers, or of their squares, might overflow at the label holder.
LARGEST = 1e120
#: Characters of an error that are read: it comes from another organisation.
_LONGEST_TEXT = 500
#: What FLARE hands over.
Buffer = bytes | bytearray | memoryview

#: Of the layout below. Masked shares would be a new version.
VERSION = 1
_HEADER = struct.Struct("<4sHHIQ")
_MAGIC = b"PVLR"


class Kind(IntEnum):
    """What a message holds; the comments say who sends it."""

    HELLO = 1  # party: JSON of its counts, digest of its ids, and last round
    START = 2  # label holder: JSON of the public constants of the run
    READY = 3  # party: nothing
    DUAL = 4  # label holder: one number a sample, to be answered with a share
    SHARE = 5  # party: one number a sample
    FINAL = 6  # label holder: the last DUAL, which is not answered with a share
    SCORES = 7  # party: one number a new sample
    DONE = 8  # either: nothing
    ERROR = 9  # either: text


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes
    ----------
    kind : Kind
        What it is.
    round : int, default=0
        Of the run.
    body : bytes, default=b""
        Numbers are little-endian float64.
    """

    kind: Kind
    round: int = 0
    body: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of header and body."""
        return _HEADER.size + len(self.body)

    @property
    def text(self) -> str:
        """The body as a line of text, without what could steer a terminal."""
        text = self.body[: 4 * _LONGEST_TEXT].decode(errors="replace")[:_LONGEST_TEXT]
        return "".join(c if c.isprintable() else "\ufffd" for c in text)

    def encode(self) -> bytes:
        """Return header and body.

        Returns
        -------
        bytes
            What travels.
        """
        return _HEADER.pack(_MAGIC, VERSION, self.kind, self.round, len(self.body)) + self.body

    @classmethod
    def decode(cls, data: Buffer) -> Message:
        """Read what `encode` wrote.

        Parameters
        ----------
        data : bytes or memoryview
            As received.

        Returns
        -------
        Message
            The message.

        Raises
        ------
        FederationError
            Not such a message, of another version, or cut short.
        """
        if not isinstance(data, Buffer) or len(data) < _HEADER.size:
            raise FederationError("a message is no privlr message")
        magic, version, kind, round, length = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise FederationError("a message is no privlr message")
        if version != VERSION:
            raise FederationError(
                f"a message has version {version} and this privlr reads {VERSION}: install the "
                "same privlr at every site"
            )
        if kind not in set(Kind) or length != len(data) - _HEADER.size:
            raise FederationError("a message is damaged")
        return cls(Kind(kind), round, bytes(data[_HEADER.size :]))

    def vector(self, length: int) -> NDArray[np.float64]:
        """Read the body as numbers.

        Parameters
        ----------
        length : int
            How many there must be.

        Returns
        -------
        ndarray of shape (length,)
            The numbers.

        Raises
        ------
        FederationError
            Another number of them, or one that is not finite or above 1e120.
        """
        if len(self.body) != 8 * length:
            raise FederationError(f"{len(self.body)} bytes came instead of {length} numbers")
        values = np.frombuffer(self.body, dtype="<f8").astype(np.float64)
        if not np.abs([values.min(initial=0.0), values.max(initial=0.0)]).max() <= LARGEST:
            raise FederationError(f"a number is not finite, or above {LARGEST:g}")
        return values


def vector_bytes(values: NDArray[np.float64]) -> bytes:
    """Return numbers as the body of a message.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite numbers.

    Returns
    -------
    bytes
        What travels.
    """
    return values.astype("<f8").tobytes()
