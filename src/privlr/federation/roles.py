"""What a party and the label holder do in a run, whatever carries their messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from scipy.special import expit

from privlr._inputs import encode_labels, random_source
from privlr.exceptions import (
    ConvergenceError,
    FederationError,
    InvalidParameterError,
    PrivacyBudgetError,
)
from privlr.federation.job import Job
from privlr.federation.meeting import Meeting
from privlr.federation.messages import Buffer, Kind, Message, vector_bytes
from privlr.federation.policy import SitePolicy, load_policy
from privlr.federation.store import RunStore, round_to_ms
from privlr.mechanisms import RandomSource, randomize_labels
from privlr.vertical import Coordinator, Party, Settings, id_digest
from privlr.vertical._plan import Plan

__all__ = ["LabelHolder", "run_party"]

#: What the list of messages calls it.
LABEL_HOLDER = "label holder"
#: Seconds that a party waits longer than the label holder, so that its reason arrives.
_MARGIN = 10.0
#: Errors whose text holds no data; of others only the type is told.
_PLAIN = (FederationError, InvalidParameterError, PrivacyBudgetError, ConvergenceError)
#: What the label holder may answer.
_ANSWERS = {
    Kind.HELLO: (Kind.START,),
    Kind.READY: (Kind.DUAL, Kind.FINAL),
    Kind.SHARE: (Kind.DUAL, Kind.FINAL),
    Kind.SCORES: (Kind.DONE,),
    Kind.DONE: (Kind.DONE,),
}

_Count = Annotated[int, msgspec.Meta(ge=1)]
_T = TypeVar("_T")


class _Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's counts, and the keyed digest of its ids."""

    n_samples: _Count
    n_features: _Count
    digest: str
    round: int


class _Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What everyone has to know of everyone's counts."""

    n_samples: _Count
    n_features: tuple[_Count, ...]
    round: int


def _read(message: Message, type: type[_T], sender: str) -> _T:
    try:
        return msgspec.json.decode(message.body, type=type)
    except msgspec.DecodeError:
        raise FederationError(f"the counts from {sender} cannot be read") from None


def plain_reason(error: BaseException) -> str:
    """Say what went wrong without quoting data.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Returns
    -------
    str
        A sentence.
    """
    return str(error) if isinstance(error, _PLAIN) else type(error).__name__


class _Role:
    """What both sides need: policy, constants, and the directory of the run."""

    def __init__(self, job: Job, kit: Path) -> None:
        self.job, self.kit = job, kit
        self.policy: SitePolicy = load_policy(kit)
        self.store = RunStore(kit / "privlr" / "runs" / job.run)
        self.random = (
            RandomSource() if job.random_state is None else random_source(job.random_state)
        )
        self.round = 0

    @property
    def predicts(self) -> bool:
        return self.job.task == "predict"

    def timeout(self, kind: Kind) -> float:
        """Seconds for a step; reading data and factoring take longer than a round."""
        job = self.job
        return job.start_timeout if kind in (Kind.HELLO, Kind.READY) else job.round_timeout

    def plan(self, start: _Start) -> tuple[Settings, Plan]:
        job = self.job
        settings = Settings(
            n_samples=start.n_samples,
            n_parties=len(job.parties),
            n_features=sum(start.n_features),
            ridge=start.n_samples * job.l2_reg_strength,
            rho=job.rho,
            over_relaxation=job.over_relaxation,
        )
        return settings, Plan(job.estimator, settings, list(start.n_features))

    def claim(self) -> None:
        self.policy.admit(self.job)
        self.store.lock()
        # A prediction belongs to the run that fitted its model.
        if not self.predicts:
            self.store.claim(self.job.constants, resume=self.job.resume)


def run_party(
    job: Job, name: str, kit: Path, send: Callable[[Message, float], Message]
) -> dict[str, Any]:
    """Take part in a run.

    Parameters
    ----------
    job : Job
        Constants of the run.
    name : str
        Of this site, one of the job's parties.
    kit : Path
        Directory of this site.
    send : callable
        Gives a message to the label holder and returns the answer, within the seconds of its
        second argument or with a FederationError.

    Returns
    -------
    dict
        Facts of the run without data.

    Raises
    ------
    FederationError
        The run failed; the label holder has been told, where it could be.
    """
    member = _Member(job, name, kit, send)
    try:
        return member.run()
    except Exception as error:
        reason = plain_reason(error)
        member.store.log("failed", member.round, reason=reason)
        if not member.told:
            try:
                message = Message(Kind.ERROR, member.round, reason.encode())
                member.store.log_message("out", LABEL_HOLDER, message)
                send(message, 5.0)
            except FederationError:
                pass  # it answers an error with an error
        raise FederationError(reason) from error
    finally:
        member.store.unlock()


class _Member(_Role):
    """One party in one job."""

    def __init__(
        self, job: Job, name: str, kit: Path, send: Callable[[Message, float], Message]
    ) -> None:
        super().__init__(job, kit)
        self.name, self.index, self._send = name, job.parties.index(name), send
        self.told = False

    def ask(self, kind: Kind, body: bytes = b"") -> Message:
        message, timeout = Message(kind, self.round, body), self.timeout(kind)
        self.store.log_message("out", LABEL_HOLDER, message)
        try:
            reply = self._send(message, timeout + _MARGIN)
        except FederationError:
            self.told = True
            raise
        self.store.log_message("in", LABEL_HOLDER, reply)
        if reply.kind == Kind.ERROR:
            self.told = True
            raise FederationError(reply.text)
        if reply.kind not in _ANSWERS[kind] or reply.round != self.round:
            raise FederationError(
                f"the {LABEL_HOLDER} answered {kind.name} of round {self.round} with "
                f"{reply.kind.name} of round {reply.round}"
            )
        return reply

    def run(self) -> dict[str, Any]:
        self.claim()
        begun, job = time.monotonic(), self.job
        ids, X, names = self.policy.rows(new=self.predicts)
        if job.fit_intercept and not self.index:
            X, names = np.hstack([X, np.ones((len(X), 1))]), (*names, "intercept")
        state = None if self.predicts or not job.resume else self.store.load()
        saved = int(state["round"]) if state else 0
        (n, d), digest = X.shape, id_digest(ids, self.policy.secret()).hex()
        hello = _Hello(n, d, digest, saved)
        start = _read(self.ask(Kind.HELLO, msgspec.json.encode(hello)), _Start, LABEL_HOLDER)
        widths = start.n_features
        if (start.n_samples, len(widths)) != (n, len(job.parties)) or widths[self.index] != d:
            raise FederationError(f"the {LABEL_HOLDER} counts other rows or columns than are here")
        self.store.log("started", start.round, n_samples=start.n_samples)
        if self.predicts:
            self.predict(X, names)
        else:
            self.fit(X, names, start, state)
        self.ask(Kind.DONE)
        seconds = round_to_ms(time.monotonic() - begun)
        self.store.log("finished", self.round, task=job.task, seconds=seconds)
        return {"rounds": self.round, "seconds": seconds}

    def predict(self, X: Any, names: tuple[str, ...]) -> None:
        path = self.store.directory / "model.json"
        if not path.exists():
            raise FederationError("the site has no model of this run")
        model = msgspec.json.decode(path.read_bytes())
        if tuple(model["features"]) != names:
            raise FederationError("the new rows have other columns than the training rows")
        coef = np.array(model["coef"], dtype=np.float64)
        ledger = self.policy.ledger(self.kit)
        ledger.charge(f"prediction with {self.job.run}", 0, note="scores are not protected")
        self.ask(Kind.SCORES, vector_bytes(X @ coef))

    def fit(self, X: Any, names: tuple[str, ...], start: _Start, state: Any) -> None:
        settings, plan = self.plan(start)
        party = Party(
            X,
            settings,
            name=self.job.run,
            release=plan.releases[self.index],
            data_norm=plan.norms[self.index] if plan.noisy else None,
            ledger=self.policy.ledger(self.kit),
            random=self.random.at("party", self.index),
        )
        if state:
            party.restore(state)
        if not start.round <= party.round <= start.round + 1:
            raise FederationError(f"the site is at round {party.round}: this run cannot go on")
        self.round = start.round
        reply = self.ask(Kind.READY)
        while reply.kind == Kind.DUAL:
            begun = time.monotonic()
            message = reply.vector(settings.n_samples)
            self.round += 1
            if party.round < self.round:
                party.answer(message)
                # The same bytes must leave if this job dies after the noise was drawn.
                self.store.save(party.state(), durable=plan.noisy)
            share = party.share()
            computed = round_to_ms(time.monotonic() - begun)
            reply = self.ask(Kind.SHARE, vector_bytes(share))
            self.store.log(
                "round",
                self.round,
                computed=computed,
                seconds=round_to_ms(time.monotonic() - begun),
            )
        if plan.noisy:
            party.update(reply.vector(settings.n_samples))
        model = {
            "run": self.job.run,
            "features": names,
            "coef": party.coef.tolist(),
            "record": plan.record(self.random),
        }
        self.store.write_json("model.json", model)


class LabelHolder(_Role):
    """The label holder in one job: `receive` serves requests while `run` drives the rounds.

    Parameters
    ----------
    job : Job
        Constants of the run.
    kit : Path
        Directory of the site.
    """

    def __init__(self, job: Job, kit: Path) -> None:
        super().__init__(job, kit)
        self.meeting = Meeting(job.parties)

    def receive(self, name: str, data: Buffer) -> bytes:
        """Answer a party, when its round has closed.

        Parameters
        ----------
        name : str
            Of the party, as the transport gives it.
        data : bytes or memoryview
            Its message.

        Returns
        -------
        bytes
            Of the answer, or of what went wrong.
        """
        job, round = self.job, 0
        try:
            message = Message.decode(data)
            round = message.round
            self.store.log_message("in", name, message)
            timeout = max(job.start_timeout, job.round_timeout) + _MARGIN
            reply = self.meeting.post(name, message, timeout)
        except FederationError as error:
            if name in self.meeting.names:
                self.meeting.fail(f"{name}, round {round}: {error}")
            reply = Message(Kind.ERROR, round, str(error).encode())
        self.store.log_message("out", name, reply)
        return reply.encode()

    def run(self) -> dict[str, Any]:
        """Run all rounds.

        Returns
        -------
        dict
            Facts of the run without data.

        Raises
        ------
        FederationError
            The run failed; the parties are told why.
        """
        begun = time.monotonic()
        try:
            self.claim()
            ids, labels = self.policy.labels(new=self.predicts)
            start = self._align(ids)
            self.store.log("started", start.round, n_samples=start.n_samples)
            if self.predicts:
                self._predict(ids)
            else:
                self._fit(np.array(labels), start)
            self._gather(Kind.DONE)
            self.meeting.answer(Message(Kind.DONE, self.round))
        except Exception as error:
            reason = plain_reason(error)
            self.meeting.fail(reason)
            self.store.log("failed", self.round, reason=reason)
            raise FederationError(reason) from error
        finally:
            self.store.unlock()
        seconds = round_to_ms(time.monotonic() - begun)
        self.store.log("finished", self.round, task=self.job.task, seconds=seconds)
        return {"rounds": self.round, "seconds": seconds}

    def _gather(self, kind: Kind) -> list[Message]:
        """Wait for all parties."""
        return self.meeting.gather(kind, self.round, self.timeout(kind))

    def _align(self, ids: list[str]) -> _Start:
        """Let the run begin only where everyone has the same samples in the same order."""
        own = id_digest(ids, self.policy.secret()).hex()
        state = None if self.predicts or not self.job.resume else self.store.load()
        self._state = state
        round = int(state["round"]) if state else 0
        # A party says hello before it knows the round.
        posts = zip(self.job.parties, self._gather(Kind.HELLO), strict=True)
        hellos = [_read(message, _Hello, name) for name, message in posts]
        if any(hello.digest != own for hello in hellos):
            counts = ", ".join(
                f"{name} has {hello.n_samples} rows"
                f"{'' if hello.digest == own else ' and another digest'}"
                for name, hello in zip(self.job.parties, hellos, strict=True)
            )
            raise FederationError(
                f"the sites do not hold the same ids in the same order: the label holder has "
                f"{len(ids)} rows, {counts}"
            )
        if len(set(ids)) != len(ids):
            raise FederationError(f"{len(ids) - len(set(ids))} ids stand twice")
        if not self.predicts:
            self._check_rounds(hellos, round)
        start = _Start(len(ids), tuple(hello.n_features for hello in hellos), round)
        self.meeting.answer(Message(Kind.START, 0, msgspec.json.encode(start)))
        return start

    def _check_rounds(self, hellos: list[_Hello], round: int) -> None:
        """Refuse to go on where a party's state is not the one that it left the run with."""
        shares = [line for line in self.store.messages() if line["kind"] == Kind.SHARE.name]
        for name, hello in zip(self.job.parties, hellos, strict=True):
            if not round <= hello.round <= round + 1:
                raise FederationError(f"{name} is at round {hello.round} of the run, not {round}")
            sent = max((line["round"] for line in shares if line["peer"] == name), default=0)
            # From an earlier state it would release a round twice for the price of one.
            if self.job.epsilon is not None and hello.round < sent:
                raise FederationError(
                    f"{name} is at round {hello.round} of the run and has sent a share of round "
                    f"{sent}: its state was put back, and the run cannot go on"
                )

    def _predict(self, ids: list[str]) -> None:
        """Add up the parties' scores of new rows."""
        scores = sum(self._vectors(self._gather(Kind.SCORES), len(ids)))
        path = self.store.directory / "predictions.csv"
        with path.open("w", encoding="utf-8") as stream:
            classes = sorted(self.job.classes)
            stream.write(f"{self.policy.id},prediction,probability_{classes[1]}\n")
            for id, score in zip(ids, np.asarray(scores).tolist(), strict=True):
                stream.write(f"{id},{classes[score > 0]},{float(expit(score))!r}\n")
        self.meeting.answer(Message(Kind.DONE, self.round))

    def _fit(self, labels: Any, start: _Start) -> None:
        """Drive the rounds."""
        settings, plan = self.plan(start)
        coordinator = Coordinator(self._targets(labels), settings)
        last = False
        if self._state:
            coordinator.restore(self._state)
            last = bool(self._state["last"])
            message = coordinator.message
        else:
            message = coordinator.reply([])
        self.round = start.round
        self._gather(Kind.READY)
        while True:
            kind = Kind.FINAL if last else Kind.DUAL
            self.meeting.answer(Message(kind, self.round, vector_bytes(message)))
            if last:
                break
            begun = time.monotonic()
            self.round += 1
            shares = self._vectors(self._gather(Kind.SHARE), settings.n_samples)
            message = coordinator.reply(shares)
            last = self.round == plan.rounds or (
                not plan.noisy and coordinator.residuals.converged(settings.n_samples, plan.tol)
            )
            state = coordinator.state() | {"round": self.round, "last": last}
            self.store.save(state, durable=plan.noisy)
            self.store.log("round", self.round, seconds=round_to_ms(time.monotonic() - begun))
        self.store.write_json("record.json", plan.record(self.random))

    def _vectors(self, messages: list[Message], length: int) -> list[Any]:
        """The parties' numbers, or an error that names the party."""
        vectors = []
        for name, message in zip(self.job.parties, messages, strict=True):
            try:
                vectors.append(message.vector(length))
            except FederationError as error:
                raise FederationError(f"{name}, round {self.round}: {error}") from None
        return vectors

    def _targets(self, labels: Any) -> Any:
        """Labels -1 and +1, randomised once for all jobs of the run."""
        job, path = self.job, self.store.directory / "labels.npy"
        encoded = encode_labels(labels, np.array(sorted(job.classes)))
        if self._state and job.label_epsilon is not None:
            return np.load(path, allow_pickle=False)
        ledger = self.policy.ledger(self.kit)
        if job.label_epsilon is None:
            ledger.charge(f"labels of {job.run}", 0, note="no guarantee: labels are disclosed")
            return encoded
        ledger.charge(f"labels of {job.run}", job.label_epsilon)
        randomised = randomize_labels(encoded, job.label_epsilon, self.random.at("labels"))
        np.save(path, randomised)
        return randomised
