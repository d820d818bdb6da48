"""Where the label holder's loop and the parties' requests meet; every wait is bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from privlr.exceptions import FederationError
from privlr.federation.messages import Kind, Message

__all__ = ["Meeting"]

_Step = tuple[Kind, int]


class Meeting:
    """One step at a time: every party posts, the loop gathers all posts and answers them.

    Parameters
    ----------
    names : sequence of str
        The parties, in the order of their columns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._changed = threading.Condition()
        self._open: _Step | None = None
        self._closed: _Step | None = None
        self._posts: dict[str, Message] = {}
        self._past: dict[str, Message] = {}
        self._reply: Message | None = None
        self._error: str | None = None

    def post(self, name: str, message: Message, timeout: float) -> Message:
        """Hand in a party's message and wait for the answer; a repeated post waits again.

        Parameters
        ----------
        name : str
            As the transport gives it.
        message : Message
            What is handed in.
        timeout : float
            Seconds.

        Returns
        -------
        Message
            The label holder's answer.

        Raises
        ------
        FederationError
            The run failed, or the message is out of turn.
        """
        step = message.kind, message.round
        if name not in self.names:
            raise FederationError(f"{name} is no party of this run")
        if message.kind == Kind.ERROR:
            error = f"{name}, round {message.round}: {message.text}"
            self.fail(error)
            raise FederationError(error)
        with self._changed:
            if step == self._closed and self._past.get(name) == message and self._reply:
                return self._reply  # sent again, because the answer was lost
            if self._is_over(step):
                return self._late(message)
            earlier = self._posts.get(name)
            if earlier not in (None, message) or step == self._closed:
                self._set_error(f"{name} sent two different messages for round {message.round}")
            self._posts[name] = message
            self._changed.notify_all()
            # A party may be a step ahead of the loop, which has yet to open that step.
            self._changed.wait_for(
                lambda: self._error or self._closed == step or self._is_over(step), timeout
            )
            if self._error:
                raise FederationError(self._error)
            if self._is_over(step):
                return self._late(message)
            if self._closed == step and self._reply:
                return self._reply
            # Not this party's fault: the loop will name the one that it waits for.
            return Message(Kind.ERROR, message.round, f"no answer within {timeout:g} s".encode())

    def _is_over(self, step: _Step) -> bool:
        """Whether a later step was answered; kinds are numbered in the order of a run."""
        return self._closed is not None and step[::-1] < self._closed[::-1]

    @staticmethod
    def _late(message: Message) -> Message:
        """Answer a copy that was overtaken by another one; nobody waits for it any more."""
        return Message(Kind.ERROR, message.round, b"another copy of the message was answered")

    def gather(self, kind: Kind, round: int, timeout: float) -> list[Message]:
        """Wait for every party's message of one step.

        Parameters
        ----------
        kind : Kind
            What it is.
        round : int
            Of the run.
        timeout : float
            Seconds, from now.

        Returns
        -------
        list of Message
            In the order of the parties.

        Raises
        ------
        FederationError
            A party is late or sent something else; the error names it.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            self._open = kind, round
            while True:
                if self._error:
                    raise FederationError(self._error)
                for name, message in self._posts.items():
                    if (message.kind, message.round) != self._open:
                        self._set_error(
                            f"{name} sent {message.kind.name} of round {message.round} in place "
                            f"of {kind.name} of round {round}"
                        )
                if self._error:
                    continue
                missing = [name for name in self.names if name not in self._posts]
                if not missing:
                    return [self._posts[name] for name in self.names]
                if not self._changed.wait(deadline - time.monotonic()):
                    late = ", ".join(missing)
                    self._set_error(
                        f"round {round}: no {kind.name} from {late} within {timeout:g} s"
                    )

    def answer(self, reply: Message) -> None:
        """Answer the step that was gathered last.

        Parameters
        ----------
        reply : Message
            The same for every party.
        """
        with self._changed:
            self._closed, self._open = self._open, None
            self._past, self._posts = self._posts, {}
            self._reply = reply
            self._changed.notify_all()

    def fail(self, error: str) -> None:
        """Give up; every waiting party is told why.

        Parameters
        ----------
        error : str
            The first one is kept.
        """
        with self._changed:
            self._set_error(error)

    def abort(self) -> None:
        """Give up because the job is to end, and say who was waited for: perhaps it died."""
        with self._changed:
            error = "the job was aborted"
            if self._open is not None:
                kind, round = self._open
                late = ", ".join(name for name in self.names if name not in self._posts)
                error += f" in round {round}, waiting for {kind.name} from {late or 'nobody'}"
            self._set_error(error)

    def _set_error(self, error: str) -> None:
        self._error = self._error or error
        self._changed.notify_all()
