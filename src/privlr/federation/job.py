"""The public constants of a run, and the job folder of plain JSON that carries them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from privlr._validation import check_choice, check_integer, check_positive
from privlr.exceptions import InvalidParameterError
from privlr.vertical import VerticalLogisticRegression

__all__ = [
    "CONTROLLER",
    "EXECUTOR",
    "PSI_CLASSES",
    "TASK",
    "Job",
    "new_run_name",
    "read_job",
    "write_align_job",
    "write_job",
]

CONTROLLER = "privlr.federation.engine.LabelHolderController"
EXECUTOR = "privlr.federation.engine.PartyExecutor"
#: What an alignment runs, at the server and at the sites.
PSI_CLASSES = (
    "nvflare.app_common.psi.dh_psi.dh_psi_controller.DhPSIController",
    "nvflare.app_common.psi.psi_executor.PSIExecutor",
    "nvflare.app_opt.psi.dh_psi.dh_psi_task_handler.DhPSITaskHandler",
    "privlr.federation.psi.SiteIds",
)
TASK = "privlr"
_SERVER = "label_holder/config/config_fed_server.json"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
#: What may differ between the job that began a run and one that resumes it.
_PER_JOB = ("resume", "start_timeout", "round_timeout")


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public constants of a run across organisations.

    Attributes
    ----------
    run : str
        Name of the run; a job that resumes it has the same.
    parties : tuple of str
        The sites with features, in the order of their columns; the first one's columns get
        the intercept.
    classes : tuple of (str, str)
        The two labels as they stand in the label holder's file.
    rounds : int
        Most rounds; with noise, all of them are run.
    task : {"fit", "predict"}
        Predict scores new rows with the coefficients of the run.
    release : {"shares"}
        What a party releases; "statistics" need a label holder with features of its own, and
        one process.
    epsilon, delta : float or None
        Cost of the run for a party's features; None for shares without noise.
    data_norm : float
        Bound that each party's rows are clipped to.
    share_bound, l2_reg_strength, rho, over_relaxation, tol : float
        As for :class:`privlr.vertical.VerticalLogisticRegression`.
    fit_intercept : bool
        Likewise.
    neighboring_relation : str
        Likewise.
    label_epsilon : float or None
        Likewise; None shows the labels to every party.
    random_state : int or None
        Seeds the noise, for tests; sites refuse it unless told otherwise.
    resume : bool
        Go on from the last completed round.
    start_timeout, round_timeout : float
        Seconds to wait for all parties, and for one round.
    """

    run: str
    parties: tuple[str, ...]
    classes: tuple[str, str]
    rounds: int
    task: str = "fit"
    release: str = "shares"
    epsilon: float | None = None
    delta: float | None = None
    data_norm: float = 1.0
    share_bound: float = 4.0
    l2_reg_strength: float = 1e-4
    rho: float = 0.05
    over_relaxation: float = 1.6
    tol: float = 1e-5
    fit_intercept: bool = True
    neighboring_relation: str = "replace_one"
    label_epsilon: float | None = None
    random_state: int | None = None
    resume: bool = False
    start_timeout: float = 600.0
    round_timeout: float = 60.0

    def check(self) -> Job:
        """Refuse what no run could use.

        Returns
        -------
        Job
            This one.

        Raises
        ------
        InvalidParameterError
            The error names the field.
        """
        for name in (self.run, *self.parties):
            if not _NAME.fullmatch(name):
                raise InvalidParameterError("run and parties", "letters, digits, _.-", name)
        if not self.parties or len(set(self.parties)) != len(self.parties):
            raise InvalidParameterError("parties", "different sites", self.parties)
        if "server" in self.parties:
            raise InvalidParameterError("parties", "sites other than the label holder", "server")
        if len(set(self.classes)) != 2:
            raise InvalidParameterError("classes", "two different labels", self.classes)
        check_choice("task", self.task, ("fit", "predict"))
        check_choice("release", self.release, ("shares",))
        check_integer("rounds", self.rounds)
        check_positive("start_timeout", self.start_timeout)
        check_positive("round_timeout", self.round_timeout)
        return self

    @property
    def constants(self) -> dict[str, Any]:
        """What every job of the run has alike."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if name not in _PER_JOB}

    @property
    def estimator(self) -> VerticalLogisticRegression:
        """The estimator that would fit the same model in one process."""
        return VerticalLogisticRegression(
            l2_reg_strength=self.l2_reg_strength,
            rho=self.rho,
            max_iter=self.rounds,
            tol=self.tol,
            fit_intercept=self.fit_intercept,
            over_relaxation=self.over_relaxation,
            epsilon=self.epsilon,
            delta=self.delta,
            data_norm=self.data_norm,
            share_bound=self.share_bound,
            neighboring_relation=self.neighboring_relation,
            label_epsilon=self.label_epsilon,
            release=self.release,
            classes=sorted(self.classes),
            random_state=self.random_state,
        )


def read_job(content: Any) -> Job:
    """Check constants that came with a job.

    Parameters
    ----------
    content : dict or Path
        Constants, or the job folder that holds them.

    Returns
    -------
    Job
        The constants.

    Raises
    ------
    InvalidParameterError
        A field is unknown, missing or out of range.
    """
    if isinstance(content, Path):
        try:
            config = msgspec.json.decode((content / _SERVER).read_bytes())
            content = config["workflows"][0]["args"]["job"]
        except (OSError, msgspec.DecodeError, LookupError, TypeError):
            raise InvalidParameterError(
                "job", "a folder that `privlr federated job` wrote", str(content)
            ) from None
    try:
        return msgspec.convert(content, Job, strict=True).check()
    except msgspec.ValidationError as error:
        raise InvalidParameterError("job", "of known fields", str(error)) from None


def write_job(job: Job, out: Path) -> Path:
    """Write the folder that ``nvflare job submit`` takes; it holds JSON and no code.

    Parameters
    ----------
    job : Job
        Constants of the run.
    out : Path
        Must not exist yet.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    FileExistsError
        There is something at `out`.
    """
    arguments = {"job": msgspec.to_builtins(job.check())}
    server = {"workflows": [{"id": TASK, "path": CONTROLLER, "args": arguments}]}
    executor = {"path": EXECUTOR, "args": arguments}
    party = {"executors": [{"tasks": [TASK], "executor": executor}]}
    return _write_folder(f"{job.run}-{job.task}", job.parties, server, party, out)


def write_align_job(sites: Sequence[str], out: Path) -> Path:
    """Write the folder of a private set intersection of the sites' ids.

    Parameters
    ----------
    sites : sequence of str
        FLARE clients, two or more; a server takes no part.
    out : Path
        Must not exist yet.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InvalidParameterError
        Too few sites.
    FileExistsError
        There is something at `out`.
    """
    if len(set(sites)) < 2 or len(set(sites)) != len(sites):
        raise InvalidParameterError("sites", "two or more different ones", list(sites))
    controller, executor, handler, ids = PSI_CLASSES
    server = {"workflows": [{"id": "psi", "path": controller, "args": {}}]}
    executor_config = {"path": executor, "args": {"psi_algo_id": "psi"}}
    party = {
        "executors": [{"tasks": ["PSI"], "executor": executor_config}],
        "components": [
            {"id": "psi", "path": handler, "args": {"local_psi_id": "ids"}},
            {"id": "ids", "path": ids, "args": {}},
        ],
    }
    return _write_folder("align", sites, server, party, out)


def _write_folder(
    name: str, parties: Sequence[str], server: dict[str, Any], party: dict[str, Any], out: Path
) -> Path:
    meta = {
        "name": name,
        "resource_spec": {},
        "min_clients": len(parties),
        "mandatory_clients": list(parties),
        "deploy_map": {"label_holder": ["server"], "party": list(parties)},
    }
    common = {"format_version": 2, "components": []}
    party = {"task_request_interval": 0.5, **party}
    out.mkdir(parents=True)
    for path, content in (
        ("meta.json", meta),
        (_SERVER, common | server),
        ("party/config/config_fed_client.json", common | party),
    ):
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    return out


def new_run_name() -> str:
    """Return a name that no other run has.

    Returns
    -------
    str
        The name.
    """
    return f"run-{secrets.token_hex(4)}"
