"""Where noise comes from: the operating system, or a seed that voids the guarantee."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

__all__ = ["RandomSource"]


@dataclass(frozen=True)
class RandomSource:
    """Where the noise of one release comes from.

    Attributes
    ----------
    seed : int or None, default=None
        None for the operating system's generator, which every draw asks anew. A seed
        repeats its noise, and a release that uses one is not private.
    part : tuple of int or str, default=(0,)
        Which release of a fit this is; distinct parts have independent noise.
    """

    seed: int | None = None
    part: tuple[int | str, ...] = (0,)

    @property
    def name(self) -> str:
        """What the record says: "system" or "seeded"."""
        return "system" if self.seed is None else "seeded"

    def at(self, *part: int | str) -> RandomSource:
        """Return the source of another part of the same fit.

        Parameters
        ----------
        *part : int or str
            Name of the part.

        Returns
        -------
        RandomSource
            With the same seed, and noise independent of any other part's.
        """
        return replace(self, part=part)

    def key(self, purpose: str) -> bytes | None:
        """Return the key of the stream of bits that serves a purpose.

        Parameters
        ----------
        purpose : str
            What the bits are for; distinct purposes have independent streams.

        Returns
        -------
        bytes or None
            A key of 32 bytes; None stands for the system's generator.
        """
        if self.seed is None:
            return None
        text = repr(("privlr", self.seed, self.part, purpose))
        return hashlib.sha256(text.encode()).digest()
