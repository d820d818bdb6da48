"""Runs across real processes over NVIDIA FLARE with mutual TLS, and faults injected for real."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import msgspec
import numpy as np
import pytest

from privlr.federation import (
    Job,
    RunStore,
    SitePolicy,
    install_policy,
    load_policy,
    new_key,
    write_align_job,
    write_job,
)
from privlr.federation.local import LABEL_HOLDER, LocalFederation, submit_and_wait
from privlr.federation.namespaces import Namespaces

pytest.importorskip("nvflare", reason="needs privlr[federated]")
from nvflare.apis.fl_constant import CellMessageAuthHeaderKey  # noqa: E402
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey  # noqa: E402
from nvflare.fuel.f3.message import Message as CellMessage  # noqa: E402

from privlr.federation.engine import _sender  # noqa: E402

pytestmark = [pytest.mark.federated, pytest.mark.filterwarnings("ignore")]

NAMES = ("party-0", "party-1", "party-2")
N = 400
EXACT = {"tol": 0.0, "rounds": 12}
PRIVATE = {"epsilon": 16.0, "delta": 1e-5, "data_norm": 3.0, "random_state": 3, "rounds": 8}


class Sites:
    """A federation of three parties with data, and what a test does to it."""

    def __init__(self, root: Path, network: Namespaces | None) -> None:
        self.root, self.network = root, network
        options = {"host": network.host, "prefix": network.prefix} if network else {}
        self.federation = LocalFederation(root / "sites", NAMES, **options)
        self.federation.provision()
        rng = np.random.default_rng(11)
        self.blocks = [rng.normal(size=(N, 4 + i)) for i in range(3)]
        self.y = np.where(sum(X[:, 0] for X in self.blocks) + rng.normal(size=N) > 0, "yes", "no")
        new_key(root / "key")
        self.ids = [f"patient-{i}" for i in range(N)]
        for name, X in zip(NAMES, self.blocks):
            self.table(name, self.ids, X)
            self.set_up(name)
        lines = ["id,y", *(f"{i},{label}" for i, label in zip(self.ids, self.y))]
        (root / f"{LABEL_HOLDER}.csv").write_text("\n".join(lines))
        self.set_up(LABEL_HOLDER)
        self.count = 0

    def table(self, name: str, ids: list[str], X: np.ndarray) -> None:
        header = ",".join(["id", *(f"x{j}" for j in range(X.shape[1]))])
        rows = [",".join([i, *map(repr, row)]) for i, row in zip(ids, X.tolist())]
        (self.root / f"{name}.csv").write_text("\n".join([header, *rows]))

    def set_up(self, name: str, **options: object) -> None:
        mine = {"label": "y", "disclose_labels": True} if name == LABEL_HOLDER else {}
        fields = {
            "data": str(self.root / f"{name}.csv"),
            "budget": 1000.0,
            "delta_budget": 1e-2,
            "allow_seed": True,
        }
        policy = SitePolicy(
            id="id",
            key=str(self.root / "key"),
            **{**fields, "allow_exact_shares": True, **mine, **options},
        )
        install_policy(self.federation.kit(name), policy)

    def job(self, **fields: object) -> Job:
        self.count += 1
        settings = {"run": f"r{self.count}", "parties": NAMES, "classes": ("no", "yes")}
        return Job(**settings | {"round_timeout": 20.0, "start_timeout": 60.0} | fields)

    def write(self, job: Job) -> Path:
        self.count += 1
        return write_job(job, self.root / f"job{self.count}")

    def run(self, session, job: Job, timeout: float = 150.0) -> str:
        return submit_and_wait(session, self.write(job), timeout)

    def coef(self, job: Job) -> np.ndarray:
        stores = [self.store(name, job) for name in job.parties]
        models = [json.loads((store.directory / "model.json").read_text()) for store in stores]
        return np.concatenate([model["coef"] for model in models])

    def expected(self, job: Job) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            blocks = self.blocks[: len(job.parties)]
            model = job.estimator.fit_parties(blocks, self.y)
        d = blocks[0].shape[1]
        return np.concatenate([model.coef_[0][:d], model.intercept_, model.coef_[0][d:]])

    def store(self, site: str, job: Job) -> RunStore:
        return RunStore(self.federation.kit(site) / "privlr/runs" / job.run)

    def reason(self, site: str, job: Job) -> str:
        return self.store(site, job).progress()[-1].get("reason", "")

    def charges(self, site: str, job: Job) -> list:
        kit = self.federation.kit(site)
        return [c for c in load_policy(kit).ledger(kit).charges if c.label.endswith(f" {job.run}")]

    def wait_for_round(self, job: Job, round: int, timeout: float = 120.0) -> None:
        wait_for(lambda: any(p["round"] >= round for p in self.store(LABEL_HOLDER, job).progress()),
                 timeout)  # fmt: skip

    def online(self, session) -> set[str]:
        return {client.name for client in session.get_connected_client_list()}

    def restart(self, session, *names: str) -> None:
        for name in names:
            self.federation.start(name)
        wait_for(lambda: set(names) <= self.online(session), 60)

    def job_processes(self, site: str) -> list[int]:
        """Processes of jobs, which outlive the site's own where they are not told to end."""
        kit = str(self.federation.kit(site))
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode().split("\0")
            except OSError:
                continue
            if kit in words and any(
                word.endswith(("worker_process", "runner_process")) for word in words
            ):
                found.append(int(path.parent.name))
        return found


def wait_for(condition, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    root = tmp_path_factory.mktemp("federation")
    network = Namespaces(NAMES) if Namespaces.available() else None
    if network:
        network.__enter__()
    made = Sites(root, network)
    try:
        for site in (LABEL_HOLDER, *NAMES):
            made.federation.start(site)
        yield made
    finally:
        made.federation.stop()
        if network:
            network.__exit__(None, None, None)


@pytest.fixture(scope="module")
def session(sites):
    with sites.federation.session(90) as session:
        wait_for(lambda: sites.online(session) == set(NAMES), 90)
        yield session


def test_models_are_those_of_one_process(sites, session) -> None:
    """Two and three parties, with noise and without, at the same time."""
    jobs = [
        sites.job(parties=NAMES[:count], **fields)
        for count in (2, 3)
        for fields in (EXACT, PRIVATE)
    ]
    statuses: dict[str, str] = {}

    def run(job: Job) -> None:
        statuses[job.run] = sites.run(session, job, 240)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job in jobs:
        assert statuses[job.run] == "FINISHED:COMPLETED", sites.reason(LABEL_HOLDER, job)
        assert np.array_equal(sites.coef(job), sites.expected(job)), job


def test_an_outage_shorter_than_the_timeout_changes_no_bit(sites, session) -> None:
    """Semantic 3: the link of one party is cut for eight seconds in the middle of a run."""
    if sites.network is None:
        pytest.skip("cutting a link needs root and network namespaces")
    job = sites.job(tol=0.0, rounds=300, round_timeout=60.0)
    thread = threading.Thread(target=sites.run, args=(session, job, 200))
    thread.start()
    sites.wait_for_round(job, 20)
    sites.network.link("party-1", False)
    time.sleep(8)
    during = sites.store(LABEL_HOLDER, job).progress()[-1]["round"]
    sites.network.link("party-1", True)
    thread.join()
    assert 20 <= during < 300
    assert np.array_equal(sites.coef(job), sites.expected(job))
    slowest = max(p["seconds"] for p in sites.store(LABEL_HOLDER, job).progress() if "seconds" in p)
    assert slowest > 7


def test_a_killed_party_is_reported_and_the_run_resumes(sites, session) -> None:
    """Semantics 2, 4 and 8, and 1 by a state that was tampered with between the two jobs."""
    job = sites.job(**PRIVATE | {"rounds": 400, "epsilon": 300.0}, round_timeout=6.0)
    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(sites.run(session, job, 120)))
    thread.start()
    sites.wait_for_round(job, 10)
    sites.federation.stop("party-2")
    begun = time.monotonic()
    wait_for(lambda: "reason" in sites.store(LABEL_HOLDER, job).progress()[-1], 20)
    assert time.monotonic() - begun < 6 + 5
    closed = int(sites.store(LABEL_HOLDER, job).load()["round"])
    for site in (LABEL_HOLDER, "party-0"):
        wait_for(lambda site=site: sites.reason(site, job), 30)
        assert f"round {closed + 1}: no SHARE from party-2 within 6 s" in sites.reason(site, job)
    thread.join()
    assert statuses != ["FINISHED:COMPLETED"]
    sites.restart(session, "party-2")

    # A share that is not finite: the party has it on disk and sends it again.
    store = sites.store("party-0", job)
    good = store.load()
    assert int(good["round"]) == closed + 1
    assert good["share"].shape == (N,)
    store.save(good | {"share": np.full(N, np.nan)}, durable=True)
    resumed = msgspec.structs.replace(job, resume=True, round_timeout=20.0)
    assert sites.run(session, resumed) != "FINISHED:COMPLETED"
    assert f"party-0, round {closed + 1}: a number is not finite" in sites.reason(LABEL_HOLDER, job)

    store.save(good, durable=True)
    assert sites.run(session, resumed) == "FINISHED:COMPLETED"
    assert np.array_equal(sites.coef(job), sites.expected(job))
    for name in NAMES:
        assert [float(charge.epsilon) for charge in sites.charges(name, job)] == [300.0]


@pytest.mark.parametrize("blow", [signal.SIGSTOP, signal.SIGKILL])
def test_a_party_whose_process_freezes_or_dies_is_named(sites, session, blow) -> None:
    """Semantic 2, of a job's process alone; where it wakes up, it ends by itself."""
    job = sites.job(tol=0.0, rounds=5000, round_timeout=5.0)
    thread = threading.Thread(target=sites.run, args=(session, job))
    thread.start()
    sites.wait_for_round(job, 5)
    (pid,) = sites.job_processes("party-1")
    os.kill(pid, blow)
    for site in (LABEL_HOLDER, "party-0", "party-2"):
        # FLARE may abort a job of which a process died before the round is over.
        wait_for(lambda site=site: "SHARE from party-1" in sites.reason(site, job), 20)
    if blow == signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: sites.reason("party-1", job), 30)
    wait_for(lambda: not sites.job_processes("party-1"), 60)
    thread.join()


def test_a_late_party_makes_the_job_wait_and_other_ids_stop_it(sites, session) -> None:
    """Semantic 5."""
    sites.federation.stop("party-1")
    job = sites.job(**EXACT)
    identifier = session.submit_job(str(sites.write(job)))
    time.sleep(8)
    assert not sites.store(LABEL_HOLDER, job).progress()
    swapped = [sites.ids[1], sites.ids[0], *sites.ids[2:]]
    sites.table("party-1", swapped, sites.blocks[1])
    sites.federation.start("party-1")
    wait_for(lambda: sites.store(LABEL_HOLDER, job).progress(), 120)
    wait_for(lambda: sites.reason(LABEL_HOLDER, job), 60)
    sites.table("party-1", sites.ids, sites.blocks[1])
    assert f"party-1 has {N} rows and another digest" in sites.reason(LABEL_HOLDER, job)
    assert not any(sites.charges(name, job) for name in NAMES)
    wait_for(lambda: str(session.get_job_meta(identifier)["status"]).startswith("FINISHED"), 60)


def test_sites_find_the_ids_they_share(sites, session) -> None:
    """An alignment of two sites of which each has rows that the other lacks."""
    pytest.importorskip("private_set_intersection", reason="needs privlr[align]")
    folder = write_align_job(NAMES[:2], sites.root / "align")
    for name, ids in (("party-0", sites.ids[3:]), ("party-1", sites.ids[5::-1] + ["extra"])):
        X = np.ones((len(ids), 2))
        sites.table(f"all-{name}", ids, X)
        sites.set_up(name, data=str(sites.root / f"all-{name}.csv"), allow_align=True)
    sites.set_up(LABEL_HOLDER, allow_align=True)
    assert submit_and_wait(session, folder, 120) == "FINISHED:COMPLETED"
    for name in NAMES[:2]:
        aligned = sites.federation.kit(name) / "privlr/aligned.txt"
        assert aligned.read_text().split() == ["patient-3", "patient-4", "patient-5"]
        sites.set_up(name, aligned=str(aligned))
        kept, X, _ = load_policy(sites.federation.kit(name)).rows(new=False)
        assert kept == sites.ids[3:6]
        assert np.array_equal(X, sites.blocks[NAMES.index(name)][3:6])
        sites.set_up(name)
    sites.set_up(LABEL_HOLDER)


_TRAINER = "nvflare.app_common.np.np_trainer.NPTrainer"


@pytest.mark.parametrize(
    ("change", "site", "reason"),
    [
        ("label_holder", LABEL_HOLDER, "Failed to deploy app 'label_holder': BYOC not permitted"),
        ("party", LABEL_HOLDER, "'party-0: NVFLARE_ERROR: BYOC not permitted'"),
        ("class", "party-0", f"'{_TRAINER}' at config path 'components.#1' is not in allow_list"),
    ],
)
def test_a_job_with_code_or_an_unlisted_class_is_refused(
    sites, session, change: str, site: str, reason: str
) -> None:
    """Semantic 7, the jobs: code for either kind of site, and a class that it does not list."""
    job = sites.job(**EXACT)
    log = sites.federation.kit(site) / "site.log"
    begun = len(log.read_bytes())
    folder = sites.write(job)
    marker = sites.root / f"ran-{change}"
    if change != "class":
        (folder / change / "custom").mkdir()
        (folder / change / "custom" / "extra.py").write_text(f"open({str(marker)!r}, 'w')\n")
    else:
        path = folder / "party/config/config_fed_client.json"
        config = json.loads(path.read_text())
        config["components"] = [{"id": "x", "path": _TRAINER}]
        path.write_text(json.dumps(config))
    try:
        status = submit_and_wait(session, folder, 120)
    except Exception as error:  # FLARE may refuse it when it is submitted
        status = str(error)
    assert "COMPLETED" not in status
    assert not marker.exists()
    wait_for(lambda: reason.encode() in log.read_bytes()[begun:], 20)
    lines = sites.store(LABEL_HOLDER, job).progress()
    assert not any(line["event"] in ("started", "round") for line in lines)


def test_strangers_are_refused(sites, session, tmp_path: Path) -> None:
    """Semantic 7, the certificates: none, of a foreign authority, of another party."""
    federation = sites.federation
    address = (federation.host, federation.port)
    root_ca = federation.kit("party-0") / "startup/rootCA.pem"
    foreign = LocalFederation(tmp_path / "foreign", ("party-3",), host=federation.host)
    foreign.provision()
    foreign_kit = foreign.kit("party-3") / "startup"

    def speak(certificate: Path | None) -> str:
        context = ssl.create_default_context(cafile=root_ca)
        context.check_hostname = False
        if certificate:
            context.load_cert_chain(certificate / "client.crt", certificate / "client.key")
        with socket.create_connection(address, timeout=10) as plain:
            plain.settimeout(3)
            try:
                with context.wrap_socket(plain, do_handshake_on_connect=False) as secure:
                    secure.do_handshake()
                    secure.recv(1)
            except TimeoutError:
                return "connected"  # and FLARE waits for us to begin
            except OSError as error:
                return str(error).lower().replace("_", " ")
        return "closed"

    assert speak(federation.kit("party-0") / "startup") == "connected"
    assert "certificate required" in speak(None)
    assert "unknown ca" in speak(foreign_kit) or "decrypt error" in speak(foreign_kit)


@pytest.mark.parametrize("claimed", ["party-1", "party-3"])
def test_a_site_cannot_register_under_a_name_that_its_certificate_lacks(
    sites, session, tmp_path: Path, claimed: str
) -> None:
    """Semantic 7, another party's certificate: party-0's kit with another name written in it."""
    federation, thief = sites.federation, tmp_path / "thief"
    for folder in ("startup", "local"):
        shutil.copytree(federation.kit("party-0") / folder, thief / folder)
    config = thief / "startup/fed_client.json"
    config.write_text(config.read_text().replace("party-0", claimed))
    command = [sys.executable, "-u", "-m", "nvflare.private.fed.app.client.client_train"]
    command += ["-m", str(thief), "-s", "fed_client.json", "--set", "secure_train=true"]
    command += [f"uid={claimed}", "org=privlr", "config_folder=config"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    server_log = federation.kit(LABEL_HOLDER) / "log.txt"
    begun = len(server_log.read_bytes())
    try:
        refusal = f"authenticated as 'party-0' but claimed endpoint '{claimed}'".encode()
        wait_for(lambda: refusal in server_log.read_bytes()[begun:], 40)
        assert sites.online(session) == set(NAMES)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # The theft may have displaced party-0, or whom it claimed to be, on the same machine.
    affected = {"party-0", claimed} & set(NAMES)
    federation.stop(*affected)
    sites.restart(session, *affected)


_LIE = """
import sys
if any(word.endswith("worker_process") for word in open("/proc/self/cmdline").read().split("\\0")):
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.sec import authn
    honest = authn.add_authentication_headers

    def lie(message, client_name, **others):
        if message.get_header(MessageHeaderKey.CHANNEL) == "privlr":
            client_name = "party-1"
        return honest(message, client_name, **others)

    authn.add_authentication_headers = lie
"""


def test_a_message_under_another_partys_name_is_refused(
    sites, session, tmp_path: Path, monkeypatch
) -> None:
    """A party with its own certificate, whose software was changed to speak as party-1."""
    (tmp_path / "sitecustomize.py").write_text(_LIE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sites.federation.stop("party-0")
    sites.restart(session, "party-0")
    monkeypatch.undo()
    job = sites.job(**EXACT, start_timeout=15.0)
    try:
        assert sites.run(session, job) != "FINISHED:COMPLETED"
        wait_for(lambda: sites.reason("party-0", job), 30)
    finally:
        sites.federation.stop("party-0")
        sites.restart(session, "party-0")
    assert "round 0: no HELLO from party-0 within 15 s" in sites.reason(LABEL_HOLDER, job)
    assert "no answer to HELLO from the label holder" in sites.reason("party-0", job)
    refusals = (sites.federation.kit(LABEL_HOLDER) / "log.txt").read_text().splitlines()
    refusals = [line for line in refusals if "unauthenticated msg (channel='privlr'" in line]
    assert refusals and all("received from party-0." in line for line in refusals)
    peers = {line["peer"] for line in sites.store(LABEL_HOLDER, job).messages()}
    assert peers == {"party-1", "party-2"}


def test_a_token_from_another_site_names_no_party() -> None:
    headers = {CellMessageAuthHeaderKey.CLIENT_NAME: "party-0"}
    own, other = ({MessageHeaderKey.ORIGIN: f"{name}.job"} for name in NAMES[:2])
    assert _sender(CellMessage(headers | own, b"")) == "party-0"
    assert _sender(CellMessage(headers | other, b"")) not in NAMES
    assert _sender(CellMessage(other, b"")) not in NAMES


def test_only_ciphertext_and_the_documented_messages_cross_the_wire(sites, session) -> None:
    """A packet capture on the bridge that joins the sites."""
    if sites.network is None:
        pytest.skip("a packet capture needs root and network namespaces")
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind((sites.network.tag, 0))
    wire.settimeout(0.5)
    payloads: dict[tuple[bytes, bytes], bytearray] = {}
    ports, done = set(), threading.Event()

    def capture() -> None:
        while not done.is_set():
            try:
                frame = wire.recv(65535)
            except TimeoutError:
                continue
            if frame[12:14] != b"\x08\x00" or frame[23] != 6:
                continue
            ip = frame[14:]
            header = (ip[0] & 15) * 4
            segment = ip[header : int.from_bytes(ip[2:4], "big")]
            ports.add(min(int.from_bytes(segment[:2], "big"), int.from_bytes(segment[2:4], "big"))
                      if sites.federation.port not in
                      (int.from_bytes(segment[:2], "big"), int.from_bytes(segment[2:4], "big"))
                      else sites.federation.port)  # fmt: skip
            payload = segment[(segment[12] >> 4) * 4 :]
            payloads.setdefault((ip[12:20], segment[:4]), bytearray()).extend(payload)

    thread = threading.Thread(target=capture)
    thread.start()
    job = sites.job(**EXACT)
    try:
        assert sites.run(session, job) == "FINISHED:COMPLETED"
    finally:
        done.set()
        thread.join()
        wire.close()
    everything = b"".join(bytes(part) for part in payloads.values())
    assert len(everything) > 2 * 3 * 12 * N * 8  # shares and messages of all rounds are in it
    assert ports == {sites.federation.port}
    for secret in (b"PVLR", b"privlr", b"patient-", b"party-0", job.run.encode() + b"\0"):
        assert secret not in everything
    for share in (sites.store(name, job).load()["share"] for name in NAMES):
        assert share[:2].tobytes() not in everything
    # What the sites say inside TLS is what the documentation lists, of the lengths it gives.
    listed = {"HELLO", "START", "READY", "DUAL", "SHARE", "FINAL", "DONE"}
    for site in (LABEL_HOLDER, *NAMES):
        lines = sites.store(site, job).messages()
        assert {line["kind"] for line in lines} == listed
        assert len(lines) == 2 * 15 * (3 if site == LABEL_HOLDER else 1)
        for line in lines:
            if line["kind"] in ("DUAL", "SHARE", "FINAL"):
                assert line["bytes"] == 20 + 8 * N
            else:
                assert line["bytes"] < 300


def test_memory_and_threads_stay_as_they_are(sites, session) -> None:
    """Engines that keep a thread or a header of every message grow by 30 to 170 kB a round."""
    job = sites.job(tol=0.0, rounds=600)
    thread = threading.Thread(target=sites.run, args=(session, job))
    thread.start()
    seen: dict[str, list[tuple[int, int]]] = {}
    for round in (150, 300, 450, 590):
        sites.wait_for_round(job, round)
        for site in (LABEL_HOLDER, *NAMES):
            (pid,) = sites.job_processes(site)
            status = Path(f"/proc/{pid}/status").read_text().split()
            facts = (int(status[status.index(key) + 1]) for key in ("VmRSS:", "Threads:"))
            seen.setdefault(site, []).append(tuple(facts))
    thread.join()
    for site, facts in seen.items():
        (first, _), (last, threads) = facts[0], facts[-1]
        assert last - first < 440 * 15, (site, facts)  # kB
        assert threads < 150, (site, facts)


def test_parties_stop_by_themselves_when_the_label_holder_is_gone(sites, session) -> None:
    """Semantic 6; the last test, for it takes the label holder away."""
    job = sites.job(tol=0.0, rounds=5000, round_timeout=5.0)
    session.submit_job(str(sites.write(job)))
    sites.wait_for_round(job, 5)
    assert all(sites.job_processes(name) for name in NAMES)
    sites.federation.stop(LABEL_HOLDER)
    begun = time.monotonic()
    for name in NAMES:
        wait_for(lambda name=name: sites.reason(name, job), 30)
        assert "no answer to SHARE from the label holder within 15 s" in sites.reason(name, job)
    wait_for(lambda: not any(sites.job_processes(name) for name in NAMES), 90)
    assert time.monotonic() - begun < 5 + 10 + 30 + 30
