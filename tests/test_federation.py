"""Runs across organisations without the engine: codecs, policies, alignment, failures, resuming."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from privlr.cli import app
from privlr.exceptions import FederationError, InvalidParameterError
from privlr.federation import (
    Job,
    RunStore,
    SitePolicy,
    install_policy,
    load_policy,
    new_key,
    read_job,
    write_job,
)
from privlr.federation.job import CONTROLLER, EXECUTOR
from privlr.federation.meeting import Meeting
from privlr.federation.messages import Kind, Message, vector_bytes
from privlr.federation.roles import LabelHolder, run_party

HOLDER = "label-holder"
PRIVATE = {"epsilon": 16.0, "delta": 1e-5, "random_state": 3, "data_norm": 3.0}
EXACT = {"tol": 0.0}

# --- codecs -------------------------------------------------------------------------------------


@given(
    st.sampled_from(Kind),
    st.integers(0, 2**32 - 1),
    st.lists(st.floats(-1e120, 1e120), max_size=50),
)
def test_a_message_reads_back_bit_for_bit(kind: Kind, round: int, values: list[float]) -> None:
    vector = np.array(values)
    message = Message.decode(Message(kind, round, vector_bytes(vector)).encode())
    assert (message.kind, message.round) == (kind, round)
    assert message.vector(len(values)).tobytes() == vector.tobytes()


def test_the_wire_format_is_the_documented_one() -> None:
    data = Message(Kind.SHARE, 258, vector_bytes(np.array([1.0]))).encode()
    assert data == bytes.fromhex("50564c52 0100 0500 02010000 0800000000000000 000000000000f03f")


@given(st.binary(max_size=60))
def test_bytes_from_a_stranger_are_refused(data: bytes) -> None:
    with pytest.raises(FederationError):
        Message.decode(data)


def test_damaged_messages_are_refused() -> None:
    good = Message(Kind.SHARE, 1, vector_bytes(np.ones(3))).encode()
    for bad, why in (
        (good[:-1], "damaged"),
        (good + b"\0", "damaged"),
        (b"X" + good[1:], "no privlr message"),
        (good[:4] + b"\2\0" + good[6:], "version 2"),
        (good[:6] + b"\77\0" + good[8:], "damaged"),
    ):
        with pytest.raises(FederationError, match=why):
            Message.decode(bad)
    with pytest.raises(FederationError, match="instead of 4 numbers"):
        Message.decode(good).vector(4)
    for wrong in (np.nan, np.inf, -np.inf, 1.1e120, -1e300):
        for values in ([1.0, wrong], [wrong, 1.0]):
            with pytest.raises(FederationError, match="not finite, or above 1e\\+120"):
                Message(Kind.SHARE, 1, vector_bytes(np.array(values))).vector(2)


def test_the_text_of_an_error_is_short_and_steers_no_terminal() -> None:
    text = Message(Kind.ERROR, 1, b"\x1b[2J\n\xff " + "\u202eä".encode() + b"x" * 10**6).text
    assert len(text) == 500 and text.isprintable()
    assert text.startswith("\ufffd[2J\ufffd\ufffd \ufffdäx")


# --- jobs and policies --------------------------------------------------------------------------


def make_job(count: int, **fields: object) -> Job:
    names = tuple(f"party-{i}" for i in range(count))
    settings = {"run": "r", "parties": names, "classes": ("no", "yes"), "rounds": 5}
    return Job(**settings | {"start_timeout": 20.0, "round_timeout": 20.0} | fields)


def test_a_job_is_plain_json_and_reads_back(tmp_path: Path) -> None:
    job = make_job(2, **PRIVATE)
    folder = write_job(job, tmp_path / "job")
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert files == [
        "label_holder/config/config_fed_server.json",
        "meta.json",
        "party/config/config_fed_client.json",
    ]
    assert read_job(folder) == job
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["min_clients"] == 2 and meta["mandatory_clients"] == ["party-0", "party-1"]
    assert str(tmp_path) not in "".join((folder / name).read_text() for name in files)


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "../x"},
        {"parties": ()},
        {"parties": ["a", "a"]},
        {"parties": ["server"]},
        {"classes": ["a", "a"]},
        {"task": "shell"},
        {"release": "statistics"},
        {"rounds": 0},
        {"round_timeout": 0.0},
        {"data": "/etc/passwd"},
        {"rounds": "5"},
    ],
)
def test_a_job_with_other_fields_is_refused(wrong: dict[str, object]) -> None:
    content = msgspec.to_builtins(make_job(2)) | wrong
    with pytest.raises(InvalidParameterError):
        read_job(content)


def make_kit(kit: Path, *, server: bool) -> Path:
    """The files of a startup kit that a policy touches, as FLARE provisions them."""
    (kit / "startup").mkdir(parents=True)
    (kit / "local").mkdir()
    (kit / "startup" / ("fed_server.json" if server else "fed_client.json")).write_text("{}")
    names = ("job_manager", "log_receiver") if server else ("resource_manager", "site_log_streamer")
    resources = {
        "format_version": 2,
        "class_allow_list": ["nvflare.app_common."],
        "allow_log_streaming": True,
        "components": [{"id": name, "path": "x.y", "args": {}} for name in names],
        "snapshot_persistor": {"args": {"storage": {"args": {"root_dir": "/tmp/x"}}}},
    }
    rights = {"project_admin": "any", "lead": {"submit_job": "any", "byoc": "any"}}
    (kit / "local/resources.json.default").write_text(json.dumps(resources))
    (kit / "local/authorization.json.default").write_text(
        json.dumps({"format_version": "1.0", "permissions": rights})
    )
    return kit


def test_a_policy_closes_the_engine(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 32)
    for server, class_path in ((True, CONTROLLER), (False, EXECUTOR)):
        kit = make_kit(tmp_path / f"{server}", server=server)
        policy = SitePolicy(
            data="d.csv", id="id", key=str(tmp_path / "key"), label="y" if server else None
        )
        install_policy(kit, policy)
        assert load_policy(kit) == policy
        resources = json.loads((kit / "local/resources.json").read_text())
        assert resources["class_allow_list"] == [class_path]
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert resources["allow_log_streaming"] is False
        assert not {c["id"] for c in resources["components"]} & {
            "site_log_streamer",
            "log_receiver",
        }
        rights = json.loads((kit / "local/authorization.json").read_text())["permissions"]
        assert all(role["byoc"] == "none" for role in rights.values())
        with pytest.raises(FederationError, match="label column"):
            install_policy(kit, msgspec.structs.replace(policy, label=None if server else "y"))
        with pytest.raises(InvalidParameterError, match="limit"):
            install_policy(kit, msgspec.structs.replace(policy, budget=1e9))
    with pytest.raises(FederationError, match="no startup kit"):
        install_policy(tmp_path / "nothing", policy)
    servers = {"servers": [{"service": {"scheme": "http"}}]}
    (kit / "startup/fed_client.json").write_text(json.dumps(servers))
    with pytest.raises(FederationError, match="scheme: tcp"):
        install_policy(kit, policy)


# --- whole runs, with threads in place of the engine --------------------------------------------


class Federation:
    """Sites on disk, and the roles of a job run in threads."""

    def __init__(self, root: Path, parties: int, n: int = 60) -> None:
        rng = np.random.default_rng(5)
        self.root, self.key = root, root / "key"
        self.blocks = [rng.normal(size=(n, 3 + i)) for i in range(parties)]
        self.y = np.where(sum(X[:, 0] for X in self.blocks) > 0, "yes", "no")
        self.ids = [f"p{i}" for i in rng.permutation(n)]
        self.names = [f"party-{i}" for i in range(parties)]
        new_key(self.key)
        for name, X in zip(self.names, self.blocks):
            self.table(name, self.ids, X)
            self.set_up(name)
        self.labels(self.ids, self.y)
        self.set_up(HOLDER)

    def table(self, name: str, ids: list[str], X: np.ndarray) -> None:
        rows = [",".join([i, *map(repr, row)]) for i, row in zip(ids, X.tolist())]
        header = ",".join(["id", *(f"x{j}" for j in range(X.shape[1]))])
        (self.root / f"{name}.csv").write_text("\n".join([header, *rows]))

    def labels(self, ids: list[str], y: np.ndarray) -> None:
        lines = ["id,y", *(f"{i},{label}" for i, label in zip(ids, y))]
        (self.root / f"{HOLDER}.csv").write_text("\n".join(lines))

    def set_up(self, name: str, **options: object) -> None:
        if not (self.root / name).exists():
            make_kit(self.root / name, server=name == HOLDER)
        fields = {"budget": 100.0, "delta_budget": 1e-3, "allow_seed": True, "key": str(self.key)}
        if name == HOLDER:
            fields |= {"label": "y", "disclose_labels": True}
        else:
            fields |= {"allow_exact_shares": True}
        policy = SitePolicy(data=str(self.root / f"{name}.csv"), id="id", **(fields | options))
        install_policy(self.root / name, policy)

    def run(self, job: Job, tap=None) -> dict[str, Exception | dict]:
        """Run a job; `tap(name, message, deliver)` stands between a party and the label holder."""
        holder, results = LabelHolder(job, self.root / HOLDER), {}

        def attempt(name, work) -> None:
            try:
                results[name] = work()
            except Exception as error:
                results[name] = error

        def party(name):
            def deliver(message):
                return Message.decode(holder.receive(name, message.encode()))

            def send(message, timeout):
                return tap(name, message, deliver) if tap else deliver(message)

            return run_party(job, name, self.root / name, send)

        threads = [
            threading.Thread(target=attempt, args=(name, lambda name=name: party(name)))
            for name in job.parties
        ]
        threads.append(threading.Thread(target=attempt, args=(HOLDER, holder.run)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        return results

    def coef(self, run: str = "r") -> np.ndarray:
        models = [
            json.loads((self.root / name / "privlr/runs" / run / "model.json").read_text())
            for name in self.names
        ]
        return np.concatenate([model["coef"] for model in models])

    def expected(self, job: Job) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = job.estimator.fit_parties(self.blocks, self.y)
        d = self.blocks[0].shape[1]
        coef = model.coef_[0]
        return np.concatenate([coef[:d], model.intercept_, coef[d:]])

    def charges(self, name: str):
        policy = load_policy(self.root / name)
        return policy.ledger(self.root / name).charges

    def store(self, name: str, run: str = "r") -> RunStore:
        return RunStore(self.root / name / "privlr/runs" / run)


pytestmark = pytest.mark.filterwarnings("ignore:random_state is set")


def succeeded(results) -> None:
    for name, result in results.items():
        assert isinstance(result, dict), f"{name}: {result!r}"


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("fields", [EXACT, PRIVATE], ids=["exact", "private"])
def test_the_model_is_that_of_one_process(tmp_path: Path, parties: int, fields: dict) -> None:
    federation, job = Federation(tmp_path, parties), make_job(parties, **fields)
    succeeded(federation.run(job))
    assert np.array_equal(federation.coef(), federation.expected(job))
    for name in federation.names:
        (charge,) = federation.charges(name)
        assert float(charge.epsilon) == (job.epsilon or 0)
        assert ("seeded" in charge.note) == (job.epsilon is not None)
        assert ("no guarantee" in charge.note) == (job.epsilon is None)
    (charge,) = federation.charges(HOLDER)
    assert "labels are disclosed" in charge.note


def test_a_run_without_noise_stops_when_it_has_converged(tmp_path: Path) -> None:
    federation, job = Federation(tmp_path, 2), make_job(2, rounds=500, tol=1e-3)
    results = federation.run(job)
    succeeded(results)
    assert 5 < results[HOLDER]["rounds"] < 500
    assert np.array_equal(federation.coef(), federation.expected(job))


@pytest.mark.parametrize("change", ["order", "other", "fewer"])
def test_other_ids_stop_the_run_before_anything_is_charged(tmp_path: Path, change: str) -> None:
    federation, job = Federation(tmp_path, 2), make_job(2, **PRIVATE)
    ids, X = list(federation.ids), federation.blocks[1]
    if change == "order":
        ids[0], ids[1] = ids[1], ids[0]
    elif change == "other":
        ids[7] = "stranger"
    else:
        ids, X = ids[:-2], X[:-2]
    federation.table("party-1", ids, X)
    results = federation.run(job)
    count = len(ids)
    for result in results.values():
        assert f"party-1 has {count} rows and another digest" in str(result)
        assert "party-0 has 60 rows," in str(result)
    assert not federation.charges("party-0") and not federation.charges("party-1")


def test_another_key_gives_another_digest(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 2)
    new_key(tmp_path / "other")
    federation.set_up("party-0", key=str(tmp_path / "other"))
    assert "another digest" in str(federation.run(make_job(2))[HOLDER])


@pytest.mark.parametrize(
    ("site", "options", "fields", "why"),
    [
        ("party-1", {"allow_exact_shares": False}, EXACT, "--allow-exact-shares"),
        ("party-1", {"allow_seed": False}, PRIVATE, "--allow-seed"),
        (HOLDER, {"disclose_labels": False}, EXACT, "--disclose-labels"),
        ("party-0", {}, EXACT | {"task": "predict"}, "--new-data"),
    ],
)
def test_a_site_refuses_what_it_has_not_agreed_to(
    tmp_path: Path, site: str, options: dict, fields: dict, why: str
) -> None:
    federation = Federation(tmp_path, 2)
    federation.set_up(site, **options)
    results = federation.run(make_job(2, start_timeout=3.0, **fields))
    assert why in str(results[site]) and why in str(results[HOLDER])
    assert not any(federation.charges(name) for name in federation.names)


def test_a_site_refuses_a_run_above_its_ceiling_before_a_share_leaves(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 2)
    kit = tmp_path / "poor"
    make_kit(kit, server=False)
    federation.names[1] = "poor"
    federation.table("poor", federation.ids, federation.blocks[1])
    federation.set_up("poor", budget=15.0)
    sent = []

    def tap(name, message, deliver):
        sent.append((name, message.kind))
        return deliver(message)

    results = federation.run(make_job(2, **PRIVATE, parties=("party-0", "poor")), tap)
    assert "above the limit 15" in str(results[HOLDER])
    assert ("poor", Kind.SHARE) not in sent and not federation.charges("poor")


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("corrupt", "why"),
    [
        (lambda body: body[:-8], "472 bytes came instead of 60 numbers"),
        (lambda body: body * 1000, "480000 bytes came instead of 60 numbers"),
        (lambda body: b"\xff" * len(body), "a number is not finite"),
        (lambda body: vector_bytes(np.full(60, -1e300)), "a number is not finite, or above"),
    ],
)
def test_a_corrupt_share_stops_the_run(tmp_path: Path, corrupt, why: str) -> None:
    def tap(name, message, deliver):
        if name == "party-1" and message.kind == Kind.SHARE and message.round == 3:
            message = Message(message.kind, message.round, corrupt(message.body))
        return deliver(message)

    federation = Federation(tmp_path, 2)
    results = federation.run(make_job(2), tap)
    for result in results.values():
        assert f"party-1, round 3: {why}" in str(result)
    assert federation.store(HOLDER).progress()[-1]["reason"].startswith("party-1, round 3")


def test_a_share_of_another_round_stops_the_run(tmp_path: Path) -> None:
    def tap(name, message, deliver):
        if name == "party-1" and message.kind == Kind.SHARE and message.round == 3:
            message = Message(message.kind, 2, message.body)
        return deliver(message)

    results = Federation(tmp_path, 2).run(make_job(2), tap)
    for result in results.values():
        assert "party-1" in str(result) and "round 2" in str(result)


def test_a_late_party_is_named_within_the_timeout(tmp_path: Path) -> None:
    def tap(name, message, deliver):
        if name == "party-1" and message.kind == Kind.SHARE and message.round == 3:
            raise FederationError("lost")
        return deliver(message)

    begun = time.monotonic()
    results = Federation(tmp_path, 2).run(make_job(2, round_timeout=1.0), tap)
    assert "round 3: no SHARE from party-1 within 1 s" in str(results[HOLDER])
    assert "round 3: no SHARE from party-1 within 1 s" in str(results["party-0"])
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("kind", "round"),
    [(Kind.HELLO, 0), (Kind.READY, 0), (Kind.SHARE, 1), (Kind.DONE, 5), (Kind.SCORES, 0)],
)
def test_a_party_that_goes_silent_is_named_in_every_phase(
    tmp_path: Path, kind: Kind, round: int
) -> None:
    def tap(name, message, deliver):
        if name == "party-1" and message.kind == kind:
            raise FederationError("lost")
        return deliver(message)

    federation = Federation(tmp_path, 2)
    job = make_job(2, **PRIVATE, start_timeout=2.0, round_timeout=2.0)
    if kind == Kind.SCORES:
        succeeded(federation.run(job))
        for name in (*federation.names, HOLDER):
            federation.set_up(name, new_data=str(tmp_path / f"{name}.csv"))
        job = msgspec.structs.replace(job, task="predict")
    results = federation.run(job, tap)
    for name in (HOLDER, "party-0"):
        why = f"round {round}: no {kind.name} from party-1 within 2 s"
        assert why in str(results[name]) and why in federation.store(name).progress()[-1]["reason"]
    if kind in (Kind.READY, Kind.SHARE, Kind.DONE):
        succeeded(federation.run(msgspec.structs.replace(job, resume=True)))
        assert np.array_equal(federation.coef(), federation.expected(job))


@pytest.mark.parametrize(
    ("asked", "wrong", "why"),
    [
        (Kind.HELLO, Message(Kind.START, 0, b'{"n_samples":-1}'), "label holder cannot be read"),
        (
            Kind.HELLO,
            Message(Kind.START, 0, b'{"n_samples":61,"n_features":[4,4],"round":0}'),
            "counts other rows or columns",
        ),
        (
            Kind.HELLO,
            Message(Kind.START, 0, b'{"n_samples":60,"n_features":[4],"round":0}'),
            "counts other rows or columns",
        ),
        (
            Kind.HELLO,
            Message(Kind.START, 0, b'{"n_samples":60,"n_features":[4,4],"round":3}'),
            "is at round 0",
        ),
        (Kind.READY, Message(Kind.START, 0, b"{}"), "READY of round 0 with START of round 0"),
        (Kind.SHARE, Message(Kind.DUAL, 0, bytes(480)), "SHARE of round 1 with DUAL of round 0"),
        (Kind.SHARE, Message(Kind.DUAL, 1, bytes(488)), "488 bytes came instead of 60 numbers"),
        (Kind.SHARE, Message(Kind.DUAL, 1, b"\xff" * 480), "a number is not finite"),
        (Kind.SHARE, Message(Kind.DONE, 1), "SHARE of round 1 with DONE of round 1"),
    ],
)
def test_an_answer_that_the_label_holder_cannot_give_stops_a_party(
    tmp_path: Path, asked: Kind, wrong: Message, why: str
) -> None:
    """Of a label holder whose software was changed; no share is sent after its answer."""
    sent = []

    def tap(name, message, deliver):
        answer = deliver(message)
        if name == "party-1":
            sent.append(message.kind)
            return wrong if message.kind == asked else answer
        return answer

    federation = Federation(tmp_path, 2)
    results = federation.run(make_job(2, **PRIVATE, round_timeout=3.0), tap)
    assert why in str(results["party-1"]) and why in str(results[HOLDER])
    assert sent[-1] == Kind.ERROR and sent[-2] == asked


def test_more_rounds_than_were_paid_for_are_refused(tmp_path: Path) -> None:
    """Of a label holder that never ends."""
    Federation(tmp_path, 1)
    shares = []

    def send(message, timeout):
        if message.kind == Kind.HELLO:
            return Message(Kind.START, 0, b'{"n_samples":60,"n_features":[4],"round":0}')
        if message.kind == Kind.SHARE:
            shares.append(message.round)
        return Message(Kind.DUAL, message.round, bytes(480))

    with pytest.raises(FederationError, match="5 releases were paid for, not more"):
        run_party(make_job(1, **PRIVATE), "party-0", tmp_path / "party-0", send)
    assert shares == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("body", [b"{", b"[" * 10**5, b'{"n_samples":60,"n_features":-4}'])
def test_counts_that_cannot_be_read_name_the_party(tmp_path: Path, body: bytes) -> None:
    def tap(name, message, deliver):
        if (name, message.kind) == ("party-1", Kind.HELLO):
            message = Message(Kind.HELLO, 0, body)
        return deliver(message)

    results = Federation(tmp_path, 2).run(make_job(2, start_timeout=3.0), tap)
    for result in results.values():
        assert "the counts from party-1 cannot be read" in str(result)


def test_a_repeated_message_gets_the_same_answer_and_another_one_stops_the_run() -> None:
    meeting = Meeting(["a"])
    share = Message(Kind.SHARE, 1, b"12345678")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(meeting.post("a", share, 5)))
    thread.start()
    assert meeting.gather(Kind.SHARE, 1, 5) == [share]
    meeting.answer(Message(Kind.DUAL, 1, b"x"))
    thread.join()
    assert meeting.post("a", share, 5) == answers[0] == Message(Kind.DUAL, 1, b"x")
    with pytest.raises(FederationError, match="two different messages"):
        meeting.post("a", Message(Kind.SHARE, 1, b"87654321"), 5)
    with pytest.raises(FederationError, match="no party of this run"):
        meeting.post("b", share, 5)


def test_an_abort_says_who_was_waited_for() -> None:
    meeting, errors = Meeting(["a", "b"]), []

    def gather() -> None:
        with pytest.raises(FederationError) as caught:
            meeting.gather(Kind.SHARE, 7, 5)
        errors.append(str(caught.value))

    def post() -> None:
        with pytest.raises(FederationError):
            meeting.post("a", Message(Kind.SHARE, 7), 5)

    threads = [threading.Thread(target=work) for work in (gather, post)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    meeting.abort()
    for thread in threads:
        thread.join()
    assert errors == ["the job was aborted in round 7, waiting for SHARE from b"]


def test_a_copy_that_was_overtaken_does_no_harm() -> None:
    """Where a link was down, copies of a message wait side by side, and one may come last."""
    meeting, answers = Meeting(["a"]), []

    def post(message: Message) -> threading.Thread:
        thread = threading.Thread(target=lambda: answers.append(meeting.post("a", message, 5)))
        thread.start()
        return thread

    shares = [Message(Kind.SHARE, i, bytes(8)) for i in range(3)]
    duals = [Message(Kind.DUAL, i, b"x") for i in range(3)]
    copies = [post(shares[0]), post(shares[0])]
    for i in range(2):
        assert meeting.gather(Kind.SHARE, i, 5) == [shares[i]]
        meeting.answer(duals[i])
        for thread in copies:
            thread.join()
        copies = [post(shares[i + 1])]
    assert answers == [duals[0], duals[0], duals[1]]
    assert meeting.post("a", shares[0], 5).kind == Kind.ERROR
    assert meeting.gather(Kind.SHARE, 2, 5) == [shares[2]]
    meeting.answer(duals[2])
    copies[0].join()
    assert answers[-1] == duals[2]


def die_after(round: int, party: str, kinds: tuple[Kind, ...] = (Kind.SHARE,)):
    """A tap that records shares, and kills the run when a party sends that of a round."""
    sent: dict[tuple[str, int], bytes] = {}

    def tap(name, message, deliver):
        if message.kind in kinds:
            sent[name, message.round] = message.body
            if (name, message.round) == (party, round):
                raise FederationError("killed")
        return deliver(message)

    return tap, sent


@pytest.mark.parametrize("fields", [EXACT, PRIVATE], ids=["exact", "private"])
@pytest.mark.parametrize("round", [1, 3, 5])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(
    tmp_path: Path, fields: dict, round: int
) -> None:
    federation, job = Federation(tmp_path, 2), make_job(2, **fields, round_timeout=1.0)
    tap, _ = die_after(round, "party-1")
    assert "no SHARE from party-1" in str(federation.run(job, tap)[HOLDER])
    resumed = msgspec.structs.replace(job, resume=True, round_timeout=20.0)
    succeeded(federation.run(resumed))
    assert np.array_equal(federation.coef(), federation.expected(job))
    assert [len(federation.charges(name)) for name in federation.names] == [1, 1]


def test_noise_is_drawn_once_and_a_retry_sends_the_same_bytes(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 2)
    job = make_job(2, round_timeout=1.0, **PRIVATE | {"random_state": None})
    first, sent_first = die_after(3, "party-1")
    federation.run(job, first)
    again, sent_again = die_after(99, "party-1")
    resumed = msgspec.structs.replace(job, resume=True, round_timeout=20.0)
    succeeded(federation.run(resumed, again))
    # Both parties had released their share of round 3, which never closed.
    for name in federation.names:
        assert sent_first[name, 3] == sent_again[name, 3]
        assert (name, 2) not in sent_again
        (charge,) = federation.charges(name)
        assert charge.epsilon == 16 and not charge.note


def test_ledger_and_state_are_on_disk_before_a_share_leaves(tmp_path: Path) -> None:
    federation, seen = Federation(tmp_path, 2), []

    def tap(name, message, deliver):
        if message.kind == Kind.SHARE:
            saved = federation.store(name).load()
            seen.append(len(federation.charges(name)))
            assert int(saved["round"]) == message.round
            assert saved["share"].tobytes() == message.body
        return deliver(message)

    succeeded(federation.run(make_job(2, **PRIVATE), tap))
    assert seen == [1] * 10


def test_without_the_saved_state_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    """The planted bug: a party that forgets its noise would draw it a second time."""
    federation = Federation(tmp_path, 2)
    job = make_job(2, round_timeout=1.0, **PRIVATE)
    tap, _ = die_after(3, "party-1")
    federation.run(job, tap)
    (federation.store("party-0").directory / "state.json").unlink()
    resumed = msgspec.structs.replace(job, resume=True)
    assert "party-0 is at round 0 of the run, not 2" in str(federation.run(resumed)[HOLDER])
    again = federation.run(msgspec.structs.replace(job, resume=False, start_timeout=2.0))
    assert "the run 'r' exists at this site" in str(again["party-0"])
    other = msgspec.structs.replace(resumed, epsilon=1.0, start_timeout=2.0)
    assert "other constants" in str(federation.run(other)["party-0"])


@pytest.mark.parametrize("restored", ["runs/r", "."])
@pytest.mark.parametrize("round", [1, 3])
def test_a_state_that_was_put_back_releases_no_round_twice(
    tmp_path: Path, restored: str, round: int
) -> None:
    """A backup of the run's folder, or of the ledger as well, from before the last share."""
    federation = Federation(tmp_path, 2)
    job = make_job(2, round_timeout=1.0, **PRIVATE | {"random_state": None})
    folder, copy = tmp_path / "party-0/privlr" / restored, tmp_path / "copy"
    tap, first = die_after(round, "party-1")

    def copying(name, message, deliver):
        before = Kind.SHARE if round > 1 else Kind.HELLO
        if (name, message.kind, message.round) == ("party-0", before, round - 1):
            shutil.copytree(folder, copy)
        return tap(name, message, deliver)

    federation.run(job, copying)
    assert ("party-0", round) in first
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    record, second = die_after(99, "party-1")
    results = federation.run(msgspec.structs.replace(job, resume=True), record)
    why = f"party-0 is at round {round - 1} of the run and has sent a share of round {round}"
    assert all(why in str(result) for result in results.values())
    assert not second


def test_a_state_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    store, rng = RunStore(tmp_path), np.random.default_rng(0)
    states = [{"round": i, "last": i == 2, "z": rng.normal(size=50 + i)} for i in range(4)]
    assert store.load() is None
    for durable in (False, True):
        for state in states:
            store.save(state, durable=durable)
            loaded = store.load()
            assert loaded.pop("z").tobytes() == state["z"].tobytes()
            assert loaded == {"round": state["round"], "last": state["last"]}
    # The process ends when the new vectors are written in part: the earlier state counts.
    monkeypatch.setattr(os, "replace", lambda *paths: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.save(states[0], durable=True)
    assert store.load()["z"].tobytes() == states[3]["z"].tobytes()
    monkeypatch.undo()
    # What the disk lost after the state was written is found: no noise is drawn again for it.
    store.save(states[1], durable=True)
    for path in tmp_path.glob("state*.bin"):
        content = path.read_bytes()
        for damaged in (content[:-8], bytes(8) + content[8:], b""):
            path.write_bytes(damaged)
            if path.stem.endswith(str(json.loads((tmp_path / "state.json").read_text())["slot"])):
                with pytest.raises(FederationError, match="the saved state is damaged"):
                    store.load()
            else:
                assert store.load()["z"].tobytes() == states[1]["z"].tobytes()
        path.write_bytes(content)
    (tmp_path / "state.json").write_bytes(b"{")
    with pytest.raises(FederationError, match="cannot be read"):
        store.load()


def test_two_jobs_of_a_run_cannot_both_go_on_from_its_state(tmp_path: Path) -> None:
    """Each would draw the noise of the next round."""
    federation = Federation(tmp_path, 2)
    job = make_job(2, round_timeout=1.0, **PRIVATE | {"random_state": None})
    tap, _ = die_after(3, "party-1")
    federation.run(job, tap)
    resumed = msgspec.structs.replace(job, resume=True, start_timeout=3.0)
    working = federation.store("party-0")
    working.lock()
    results = federation.run(resumed)
    assert "another job of the run 'r' is at work at this site" in str(results["party-0"])
    assert int(working.load()["round"]) == 3
    working.unlock()
    succeeded(federation.run(resumed))


def test_every_message_is_listed_at_both_ends(tmp_path: Path) -> None:
    federation, job = Federation(tmp_path, 2), make_job(2, **PRIVATE)
    succeeded(federation.run(job))
    steps = [("HELLO", "START", 0), ("READY", "DUAL", 0)]
    steps += [("SHARE", "DUAL" if i < 5 else "FINAL", i) for i in range(1, 6)]
    steps += [("DONE", "DONE", 5)]
    at_holder = federation.store(HOLDER).messages()
    for name in federation.names:
        lines = [dict(line) for line in federation.store(name).messages()]
        assert [(line["direction"], line["kind"], line["round"]) for line in lines] == [
            line for out, answer, i in steps for line in (("out", out, i), ("in", answer, i))
        ]
        for line in lines:
            assert set(line) == {"time", "direction", "peer", "kind", "round", "bytes"}
            if line["kind"] in ("SHARE", "DUAL", "FINAL"):
                assert line["bytes"] == 20 + 8 * 60
            elif line["kind"] in ("READY", "DONE"):
                assert line["bytes"] == 20
        facts = ("kind", "round", "bytes")
        for own, other in (("out", "in"), ("in", "out")):
            sent = [[line[f] for f in facts] for line in lines if line["direction"] == own]
            assert sent == [
                [line[f] for f in facts]
                for line in at_holder
                if (line["peer"], line["direction"]) == (name, other)
            ]
    assert len(at_holder) == 2 * 2 * len(steps)


def test_labels_are_randomised_once_for_all_jobs_of_a_run(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 2)
    federation.set_up(HOLDER, disclose_labels=False)
    fields = PRIVATE | {"label_epsilon": 1.0, "random_state": None, "round_timeout": 1.0}
    job = make_job(2, **fields)
    tap, _ = die_after(3, "party-1")
    federation.run(job, tap)
    path = federation.store(HOLDER).directory / "labels.npy"
    labels = np.load(path)
    succeeded(federation.run(msgspec.structs.replace(job, resume=True, round_timeout=20.0)))
    assert np.array_equal(np.load(path), labels)
    assert [float(charge.epsilon) for charge in federation.charges(HOLDER)] == [1.0]


def test_errors_that_quote_data_stay_at_their_site(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 2)
    text = (tmp_path / "party-1.csv").read_text().replace("\np", "\nsecret_", 1)
    (tmp_path / "party-1.csv").write_text(text.replace(text.split(",")[6], "sensitive", 1))
    results = federation.run(make_job(2, start_timeout=3.0))
    assert "party-1, round 0: ValueError" in str(results[HOLDER])
    for name in (HOLDER, *federation.names):
        log = federation.store(name).directory / "progress.jsonl"
        assert "sensitive" not in log.read_text() and "secret_" not in log.read_text()


def test_new_rows_are_scored_with_consent(tmp_path: Path) -> None:
    federation, job = Federation(tmp_path, 2), make_job(2, tol=0.0)
    succeeded(federation.run(job))
    rng, ids = np.random.default_rng(9), [f"n{i}" for i in range(7)]
    rows = [rng.normal(size=(7, X.shape[1])) for X in federation.blocks]
    for name, X in zip(federation.names, rows):
        federation.table(f"new-{name}", ids, X)
        federation.set_up(name, new_data=str(tmp_path / f"new-{name}.csv"))
    (tmp_path / "new.csv").write_text("\n".join(["id", *ids]))
    federation.set_up(HOLDER, new_data=str(tmp_path / "new.csv"))
    succeeded(federation.run(msgspec.structs.replace(job, task="predict")))
    lines = (federation.store(HOLDER).directory / "predictions.csv").read_text().splitlines()
    assert lines[0] == "id,prediction,probability_yes"
    model = job.estimator.fit_parties(federation.blocks, federation.y)
    assert [line.split(",")[1] for line in lines[1:]] == model.predict(rows).tolist()
    probabilities = [float(line.split(",")[2]) for line in lines[1:]]
    assert np.allclose(probabilities, model.predict_proba(rows)[:, 1], rtol=1e-12)
    assert "scores are not protected" in federation.charges("party-0")[-1].note


# --- commands -----------------------------------------------------------------------------------


def test_the_commands_write_what_a_run_needs(tmp_path: Path) -> None:
    federation, runner = Federation(tmp_path, 1), CliRunner()
    kit = make_kit(tmp_path / "new-site", server=False)
    key, data = str(tmp_path / "k"), str(tmp_path / "party-0.csv")
    assert runner.invoke(app, ["federated", "key", key]).exit_code == 0
    site = ["federated", "site", "--kit", str(kit), "--data", data, "--key", key, "--budget", "2"]
    done = runner.invoke(app, [*site, "--id", "id"])
    assert done.exit_code == 0, done.output
    assert load_policy(kit).budget == 2.0 and not load_policy(kit).allow_seed
    assert runner.invoke(app, [*site, "--id", "nobody"]).exit_code == 2
    out = tmp_path / "job"
    words = ["--party", "party-0", "--classes", "no,yes", "--rounds", "4", "--epsilon", "2"]
    done = runner.invoke(app, ["federated", "job", *words, "--delta", "1e-6", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert read_job(out).epsilon == 2.0 and read_job(out).rounds == 4
    for command, field in (("resume", {"resume": True}), ("predict", {"task": "predict"})):
        target = tmp_path / command
        done = runner.invoke(app, ["federated", command, str(out), "--out", str(target)])
        assert done.exit_code == 0, done.output
        assert read_job(target) == msgspec.structs.replace(read_job(out), **field)
    succeeded(federation.run(make_job(1)))
    status = ["federated", "status", "--kit", str(tmp_path / "party-0"), "--json"]
    facts = json.loads(runner.invoke(app, status).output)
    assert facts["runs"][0]["event"] == "finished" and facts["runs"][0]["round"] == 5
    assert facts["charges"][0]["epsilon"] == "0"
    reason = "party-1: a[/red]b"  # of another organisation's making
    federation.store("party-0").log("failed", 3, reason=reason)
    done = runner.invoke(app, status[:-1], env={"COLUMNS": "200"})
    assert done.exit_code == 0 and reason in done.output
    assert runner.invoke(app, ["federated", "status", "--kit", str(tmp_path)]).exit_code == 1


def test_without_the_extra_the_package_works_and_says_what_to_install(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["nvflare"] = None
import privlr, privlr.federation
from pathlib import Path
from privlr.federation.local import LocalFederation
try:
    LocalFederation(Path(sys.argv[1]), ["a"]).provision()
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x")], capture_output=True, text=True
    )
    assert "pip install 'privlr[federated]'" in done.stdout, done.stderr
