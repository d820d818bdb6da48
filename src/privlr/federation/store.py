"""What a site keeps of a run on its own disk: state, progress, results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from privlr.exceptions import FederationError
from privlr.federation.messages import Message
from privlr.federation.state import load_state, save_state, write_whole

__all__ = ["RunStore"]


class RunStore:
    """The directory of one run at one site.

    Parameters
    ----------
    directory : Path
        Made if absent.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock: BinaryIO | None = None
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def lock(self) -> None:
        """Keep other jobs of the run out until `unlock`, or until this process ends.

        Two jobs that go on from one state would each draw the noise of the next round.

        Raises
        ------
        FederationError
            Another job of the run is at work at this site.
        """
        import fcntl  # not on Windows, where sites cannot run but jobs can be written

        self._lock = (self.directory / "lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise FederationError(
                f"another job of the run {self.directory.name!r} is at work at this site"
            ) from None

    def unlock(self) -> None:
        """Let other jobs of the run in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def claim(self, constants: Mapping[str, Any], *, resume: bool) -> None:
        """Tie the directory to the constants of a run.

        Parameters
        ----------
        constants : mapping
            What may not change from one job of a run to the next.
        resume : bool
            Whether the run must be there already; otherwise it must not.

        Raises
        ------
        FederationError
            A run of that name is there, is not there, or had other constants.
        """
        path = self.directory / "job.json"
        text = msgspec.json.encode(constants, order="sorted")
        if not resume:
            if path.exists():
                raise FederationError(
                    f"the run {self.directory.name!r} exists at this site: resume it, or give "
                    "the new job another name"
                )
            write_whole(path, text, durable=True)
        elif not path.exists():
            raise FederationError(f"this site knows no run {self.directory.name!r} to resume")
        elif path.read_bytes() != text:
            raise FederationError("the job to resume has other constants than the run")

    def save(self, state: Mapping[str, Any], *, durable: bool) -> None:
        """Replace the state, whole or not at all.

        Parameters
        ----------
        state : mapping of str to ndarray or int
            What `load` is to return; arrays of shape (n,), float64.
        durable : bool
            Wait for the disk, as is needed before noise that was drawn leaves the site.
        """
        save_state(self.directory, state, durable=durable)

    def load(self) -> dict[str, Any] | None:
        """Return the state that was saved last, None if there is none.

        Returns
        -------
        dict or None
            As it was saved.

        Raises
        ------
        FederationError
            The file is damaged.
        """
        return load_state(self.directory)

    def write_json(self, name: str, content: Any) -> Path:
        """Write a result.

        Parameters
        ----------
        name : str
            Of the file.
        content : object
            As msgspec encodes it.

        Returns
        -------
        Path
            The file.
        """
        path = self.directory / name
        write_whole(path, msgspec.json.encode(content), durable=True)
        return path

    def log(self, event: str, round: int, **facts: Any) -> None:
        """Append a line to the progress, which holds no data.

        Parameters
        ----------
        event : str
            What happened.
        round : int
            Of the run.
        **facts
            Counts, seconds, and reasons of failure.
        """
        self._append("progress", {"event": event, "round": round, **facts})

    def progress(self) -> list[dict[str, Any]]:
        """Return the lines of the progress.

        Returns
        -------
        list of dict
            In their order.
        """
        return self._lines("progress")

    def log_message(self, direction: str, peer: str, message: Message) -> None:
        """Append a line to the list of messages, which holds no data.

        Parameters
        ----------
        direction : {"out", "in"}
            Sent or received.
        peer : str
            The other site.
        message : Message
            Of which the kind, the round and the length are noted.
        """
        facts = {"kind": message.kind.name, "round": message.round, "bytes": message.size}
        self._append("messages", {"direction": direction, "peer": peer, **facts})

    def messages(self) -> list[dict[str, Any]]:
        """Return the lines of the list of messages.

        Returns
        -------
        list of dict
            In their order.
        """
        return self._lines("messages")

    def _append(self, name: str, line: dict[str, Any]) -> None:
        with (self.directory / f"{name}.jsonl").open("ab") as stream:
            stream.write(msgspec.json.encode({"time": round_to_ms(time.time()), **line}) + b"\n")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.directory / f"{name}.jsonl"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line) for line in lines]


def round_to_ms(seconds: float) -> float:
    """Round to milliseconds.

    Parameters
    ----------
    seconds : float
        A duration or a time.

    Returns
    -------
    float
        Rounded.
    """
    return round(seconds, 3)
