"""All parties of a vertical run in one process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from privlr.exceptions import InvalidParameterError
from privlr.optimize import exchange
from privlr.vertical._release import NoisyShares
from privlr.vertical.coordinator import Coordinator
from privlr.vertical.party import Party

__all__ = ["ADMMSharing", "Iteration"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Iteration:
    """What one round did.

    Attributes
    ----------
    round : int
        From 1.
    objective : float
        Mean loss of the shares received plus penalty of the parties' coefficients. The penalty,
        and so the objective, is NaN where shares carry noise: it would tell more than they do.
    primal_residual, dual_residual : float
        Norms of (sum of shares - z) and of rho times the change of z.
    test_log_loss : float or None
        Mean logistic loss on the test rows, where there are any.
    """

    round: int
    objective: float
    primal_residual: float
    dual_residual: float
    test_log_loss: float | None = None


class ADMMSharing:
    """ADMM sharing over parties that hold disjoint columns of the same samples.

    Minimises ``sum_i log(1 + exp(-y_i z_i)) + ridge/2 sum_m ||x_m||^2`` with
    ``z = sum_m D_m x_m``.

    Parameters
    ----------
    parties : sequence of Party
        In the order of the columns.
    coordinator : Coordinator
        With the same settings.

    Notes
    -----
    The rounds are those of ``Party.answer`` and ``Coordinator.reply``. Where no share carries
    noise they run block by block: between its product with the coefficients and its product
    with the next target, a block of rows stays in the processor's cache.
    """

    def __init__(self, parties: Sequence[Party], coordinator: Coordinator) -> None:
        if len(parties) != coordinator.settings.n_parties:
            raise InvalidParameterError(
                "parties", f"{coordinator.settings.n_parties} of them", len(parties)
            )
        self.parties, self.coordinator = tuple(parties), coordinator

    @property
    def _noisy(self) -> bool:
        return any(isinstance(party.release, NoisyShares) for party in self.parties)

    @property
    def coefs(self) -> tuple[Array, ...]:
        """Coefficients of each party."""
        return tuple(party.coef for party in self.parties)

    def run(
        self,
        max_iter: int,
        *,
        tol: float = 0.0,
        test: tuple[Sequence[Any], Array] | None = None,
        callback: Callable[[Iteration], Any] | None = None,
        progress: bool = False,
    ) -> tuple[list[Iteration], str]:
        """Run rounds until the residuals are small.

        Parameters
        ----------
        max_iter : int
            Most rounds; a further call goes on.
        tol : float, default=0.0
            Of :meth:`Residuals.converged`; 0 runs every round.
        test : (sequence of matrices, labels) or None, default=None
            Columns of each party and labels -1 and +1 of test rows, for the history. Not
            where shares carry noise, for the loss would tell more than they do.
        callback : callable or None, default=None
            Called with each `Iteration`; a true result stops.
        progress : bool, default=False
            Show a bar.

        Returns
        -------
        history : list of Iteration
            One entry a round.
        status : {"converged", "max_iter", "stopped", "interrupted"}
            "interrupted" by Ctrl-C, which waits for the end of the round; the coefficients
            are those of the last whole round in every case.

        Raises
        ------
        InvalidParameterError
            Test rows were given, and shares carry noise.
        PrivacyBudgetError
            A party's ledger does not hold the cost of the run; nothing was exchanged.
        ConvergenceError
            A solution is not accurate enough for its noise.
        """
        if test is not None and self._noisy:
            raise InvalidParameterError("test", "None where shares carry noise", "test rows")
        history: list[Iteration] = []
        for party in self.parties:
            party.pay()
        if not self.parties[0].round:
            self._exchange()
        rounds: Iterable[int] = range(max_iter)
        if progress:
            rounds = track(rounds, description="ADMM sharing")
        with _interrupt() as interrupted:
            for _ in rounds:
                for party in self.parties:
                    party.advance()
                self._exchange()
                history.append(self._iteration(test))
                if callback is not None and callback(history[-1]):
                    return history, "stopped"
                n = self.coordinator.settings.n_samples
                if self.coordinator.residuals.converged(n, tol):
                    return history, "converged"
                if interrupted.is_set():
                    return history, "interrupted"
        return history, "max_iter"

    def finish(self) -> None:
        """Solve once more for the last message, which uses every share received."""
        for party in self.parties:
            party.advance()

    def _exchange(self) -> None:
        """Give the shares to the coordinator, and its message to the parties."""
        if not self._noisy:
            rights = [party.right for party in self.parties]
            exchange([party.columns for party in self.parties], rights, self.coordinator.labels)
            return
        message = self.coordinator.reply([party.share() for party in self.parties])
        for party in self.parties:
            party.columns.absorb(message)

    def _iteration(self, test: tuple[Sequence[Any], Array] | None) -> Iteration:
        settings, seen = self.coordinator.settings, self.coordinator.residuals
        penalty = np.nan if self._noisy else sum(party.squared_norm for party in self.parties)
        objective = (seen.loss + settings.ridge / 2 * penalty) / settings.n_samples
        held_out = None
        if test is not None:
            pairs = zip(test[0], self.coefs, strict=True)
            held_out = float(np.logaddexp(0.0, -test[1] * sum(X @ x for X, x in pairs)).mean())
        return Iteration(self.parties[0].round, objective, seen.primal, seen.dual, held_out)


@contextmanager
def _interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event, in the main thread; the second acts as ever."""
    event = threading.Event()
    previous = signal.getsignal(signal.SIGINT)
    # A handler that is not Python's own, or that ignores Ctrl-C, is left in place.
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield event
        return

    def note(number: int, frame: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
