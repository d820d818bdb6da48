"""What a site decides for itself and no job can change: data, budget, code, consent."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from privlr._tables import read_table, read_text
from privlr.exceptions import FederationError
from privlr.federation.job import CONTROLLER, EXECUTOR, PSI_CLASSES, Job
from privlr.privacy import Ledger

__all__ = ["SitePolicy", "install_policy", "load_policy", "new_key"]

_FILE = "privlr.json"


class SitePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Policy of one site.

    Attributes
    ----------
    data : str
        CSV or Parquet file of the training rows.
    id : str
        Its id column.
    key : str
        File with the key that all sites share and no one else has.
    label : str or None, default=None
        The label column, at the label holder.
    drop : tuple of str, default=()
        Columns that are no features.
    budget, delta_budget : float
        Largest total epsilon and delta of all runs at this site.
    new_data : str or None, default=None
        File of new rows that may be scored; None refuses predictions.
    aligned : str or None, default=None
        File with the ids to train on, one a line, in their order; None for all rows.
    allow_align : bool, default=False
        Accept private set intersections of this site's ids.
    allow_exact_shares : bool, default=False
        Accept runs without noise, in which a party's shares are not protected.
    disclose_labels : bool, default=False
        Accept, at the label holder, runs that show every label to every party.
    allow_seed : bool, default=False
        Accept noise that can be repeated, as tests need.
    """

    data: str
    id: str
    key: str
    label: str | None = None
    drop: tuple[str, ...] = ()
    budget: float = 1.0
    delta_budget: float = 1e-5
    new_data: str | None = None
    aligned: str | None = None
    allow_align: bool = False
    allow_exact_shares: bool = False
    disclose_labels: bool = False
    allow_seed: bool = False

    def admit(self, job: Job) -> None:
        """Refuse a job that asks for more than the site has agreed to.

        Parameters
        ----------
        job : Job
            Constants of the run.

        Raises
        ------
        FederationError
            The error says which option of `privlr federated site` would accept it.
        """
        for asked, agreed, what, option in (
            (job.random_state is not None, self.allow_seed, "seeded noise", "--allow-seed"),
            (
                job.task == "fit" and job.epsilon is None and self.label is None,
                self.allow_exact_shares,
                "shares without noise",
                "--allow-exact-shares",
            ),
            (
                job.task == "fit" and job.label_epsilon is None and self.label is not None,
                self.disclose_labels,
                "labels shown to every party",
                "--disclose-labels",
            ),
            (job.task == "predict", self.new_data is not None, "scores of new rows", "--new-data"),
        ):
            if asked and not agreed:
                raise FederationError(f"the site does not accept {what} (its option {option})")

    def ledger(self, kit: Path) -> Ledger:
        """Open the site's own ledger.

        Parameters
        ----------
        kit : Path
            Directory of the site.

        Returns
        -------
        Ledger
            With the limits of the policy.
        """
        path = kit / "privlr" / "ledger.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Ledger(self.budget, path, delta_limit=self.delta_budget)

    def secret(self) -> bytes:
        """Read the key.

        Returns
        -------
        bytes
            The key.

        Raises
        ------
        FederationError
            It is too short to be one.
        """
        key = Path(self.key).read_text().strip()
        if len(key) < 32:
            raise FederationError("the alignment key has fewer than 32 characters")
        return key.encode()

    def rows(self, *, new: bool) -> tuple[list[str], Any, tuple[str, ...]]:
        """Read a party's rows.

        Parameters
        ----------
        new : bool
            The rows to score in place of those to train on.

        Returns
        -------
        ids : list of str
            One id a row.
        X : ndarray of shape (n_samples, n_features)
            Features.
        names : tuple of str
            Of the columns.
        """
        table = read_table(self._path(new), label=self.id, drop=self.drop)
        kept = self._kept(table.labels, new)
        return [table.labels[i] for i in kept], table.X[kept], table.names

    def labels(self, *, new: bool) -> tuple[list[str], list[str]]:
        """Read the label holder's ids and labels.

        Parameters
        ----------
        new : bool
            The ids to score, which have no labels.

        Returns
        -------
        ids, labels : list of str
            One of each a row; no labels for new rows.
        """
        assert self.label is not None
        columns = read_text(self._path(new), [self.id] if new else [self.id, self.label])
        kept = self._kept(columns[0], new)
        return [columns[0][i] for i in kept], [] if new else [columns[1][i] for i in kept]

    def ids(self) -> list[str]:
        """Read the ids of all rows.

        Returns
        -------
        list of str
            One id a row.
        """
        return read_text(Path(self.data), [self.id])[0]

    def _kept(self, ids: list[str], new: bool) -> list[int]:
        """Where the ids to train on stand."""
        if self.aligned is None or new:
            return list(range(len(ids)))
        wanted = Path(self.aligned).read_text(encoding="utf-8").splitlines()
        where = {i: row for row, i in enumerate(ids)}
        missing = sum(i not in where for i in wanted)
        if missing:
            raise FederationError(f"{missing} of {len(wanted)} aligned ids are not in the data")
        return [where[i] for i in wanted]

    def check_data(self) -> dict[str, int]:
        """Read every file that the policy names, as a run would.

        Returns
        -------
        dict of str to int
            Counts.

        Raises
        ------
        ValueError, OSError
            A file or a column is missing, or a cell is no number.
        """
        counts = {}
        for name, new in (("rows", False), ("new_rows", True)):
            if not new or self.new_data is not None:
                ids = (self.labels if self.label else self.rows)(new=new)[0]
                if len(set(ids)) != len(ids):
                    raise ValueError(f"{self._path(new)}: {len(ids) - len(set(ids))} ids repeat")
                counts[name] = len(ids)
        return counts

    def _path(self, new: bool) -> Path:
        return Path(self.new_data if new and self.new_data else self.data)


def load_policy(kit: Path) -> SitePolicy:
    """Read the policy of a site.

    Parameters
    ----------
    kit : Path
        Directory of the site.

    Returns
    -------
    SitePolicy
        The policy.

    Raises
    ------
    FederationError
        There is none, or it is damaged.
    """
    path = kit / "local" / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=SitePolicy)
    except FileNotFoundError:
        raise FederationError("the site has no policy yet: run `privlr federated site`") from None
    except msgspec.DecodeError as error:
        raise FederationError(f"{path} cannot be read: {error}") from None


def install_policy(kit: Path, policy: SitePolicy) -> None:
    """Write the policy of a site, and close its engine to everything that privlr does not need.

    Parameters
    ----------
    kit : Path
        Startup kit, with its directories ``startup`` and ``local``.
    policy : SitePolicy
        The site's rules.

    Raises
    ------
    FederationError
        That is no startup kit, or one of another kind of site.
    """
    server = (kit / "startup" / "fed_server.json").exists()
    if not server and not (kit / "startup" / "fed_client.json").exists():
        raise FederationError(f"{kit} is no startup kit of a site: it lacks startup/fed_*.json")
    if server != (policy.label is not None):
        raise FederationError("the label column belongs to the server's kit, and only to it")
    _check_scheme(kit / "startup" / ("fed_server.json" if server else "fed_client.json"))
    local = kit / "local"
    resources = msgspec.json.decode((local / "resources.json.default").read_bytes())
    allowed = [CONTROLLER] if server else [EXECUTOR]
    if policy.allow_align:
        allowed += PSI_CLASSES[:1] if server else PSI_CLASSES[1:]
    resources["class_allow_list"] = allowed
    resources["class_list_enforcement_mode"] = "enforce"
    # A log may quote what a library says about data: it stays at its site.
    resources["allow_log_streaming"] = False
    unwanted = ("site_log_streamer", "log_receiver")
    resources["components"] = [c for c in resources["components"] if c["id"] not in unwanted]
    if server:
        store = kit / "privlr" / "engine"
        store.mkdir(parents=True, exist_ok=True, mode=0o700)
        for component in resources["components"]:
            if component["id"] == "job_manager":
                component["args"]["uri_root"] = str(store.resolve() / "jobs")
        storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
        storage["root_dir"] = str(store.resolve() / "snapshots")
    rights = msgspec.json.decode((local / "authorization.json.default").read_bytes())
    for role, may in rights["permissions"].items():
        # "any" for a whole role would let it send code.
        granted = dict.fromkeys(_RIGHTS, "any") if may == "any" else may
        rights["permissions"][role] = granted | dict.fromkeys(_CODE, "none")
    policy.ledger(kit)  # refuses limits that differ from those of earlier runs
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", rights)
    _write(local / _FILE, policy)


def _check_scheme(path: Path) -> None:
    """Refuse a transport that takes in no message of more than 4 MiB, and hangs over one."""
    servers = msgspec.json.decode(path.read_bytes()).get("servers", [])
    if any(server["service"].get("scheme") == "http" for server in servers):
        raise FederationError(
            "the kit was made for FLARE's scheme 'http', whose messages end at 500,000 rows: "
            "provision with 'scheme: tcp' (or grpc)"
        )


_RIGHTS = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate")
_CODE = ("byoc", "shell_commands", "server-predeployed-flwr")


def new_key(path: Path) -> None:
    """Write a key for the digests of ids, readable by its owner only.

    Parameters
    ----------
    path : Path
        Must not exist yet.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(secrets.token_hex(32) + "\n")


def _write(path: Path, content: Any) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    path.chmod(0o600)
