"""A whole federation on this machine: own processes, own folders, mutual TLS, a temporary CA."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from privlr.exceptions import FederationError

__all__ = ["LocalFederation", "free_port", "submit_and_wait"]

ADMIN = "lead@privlr.local"
LABEL_HOLDER = "label-holder"
_BUILDERS = [
    {
        "path": "nvflare.lighter.impl.workspace.WorkspaceBuilder",
        "args": {"template_file": ["master_template.yml"]},
    },
    {
        "path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
        "args": {"config_folder": "config", "scheme": "tcp"},
    },
    {"path": "nvflare.lighter.impl.cert.CertBuilder"},
    {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
]


def free_port() -> int:
    """Return a TCP port that is free now.

    Returns
    -------
    int
        The port.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LocalFederation:
    """Startup kits, and a process for each of them.

    Parameters
    ----------
    root : Path
        Directory for the kits.
    parties : sequence of str
        Names of the sites with features.
    host : str, default="127.0.0.1"
        Where the label holder listens.
    port : int or None, default=None
        Its port; None for a free one.
    prefix : callable or None, default=None
        Gives, for a site, words to put before its command, such as those that enter a network
        namespace.
    """

    def __init__(
        self,
        root: Path,
        parties: Sequence[str],
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        prefix: Callable[[str], list[str]] | None = None,
    ) -> None:
        self.root, self.parties = root, tuple(parties)
        self.host, self.port = host, port or free_port()
        self.prefix = prefix or (lambda site: [])
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def kits(self) -> Path:
        """Where the kits are."""
        return self.root / "kits" / "privlr" / "prod_00"

    def kit(self, site: str) -> Path:
        """Directory of a site.

        Parameters
        ----------
        site : str
            Its name.

        Returns
        -------
        Path
            The directory.
        """
        return self.kits / site

    def provision(self) -> None:
        """Make a certificate authority and a kit for everyone.

        Raises
        ------
        ModuleNotFoundError
            FLARE is not installed.
        FederationError
            It refused.
        """
        try:
            import nvflare  # noqa: F401
        except ImportError:
            raise ModuleNotFoundError(
                "this needs NVIDIA FLARE: pip install 'privlr[federated]'", name="nvflare"
            ) from None
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        server = {
            "name": LABEL_HOLDER,
            "type": "server",
            "org": "privlr",
            "default_host": self.host,
            "fed_learn_port": self.port,
            "admin_port": self.port,
        }
        clients = [{"name": name, "type": "client", "org": "privlr"} for name in self.parties]
        admin = {"name": ADMIN, "type": "admin", "org": "privlr", "role": "lead"}
        project = {
            "api_version": 3,
            "name": "privlr",
            "description": "a federation on one machine",
            "participants": [server, *clients, admin],
            "builders": _BUILDERS,
        }
        path = self.root / "project.yml"
        path.write_text(json.dumps(project))  # every JSON file is a YAML file
        done = subprocess.run(
            [sys.executable, "-m", "nvflare.cli", "provision"]
            + ["-p", str(path), "-w", str(self.root / "kits")],
            capture_output=True,
            text=True,
            cwd=self.root,
        )
        if done.returncode or not self.kits.exists():
            raise FederationError(f"nvflare provision failed: {done.stdout}{done.stderr}")

    def start(self, site: str) -> None:
        """Start the process of a site, which starts one for each job.

        Parameters
        ----------
        site : str
            Its name.
        """
        kit = self.kit(site)
        tools = Path(sys.executable).parent  # the kit's script looks for python3 on the path
        with (kit / "site.log").open("ab") as log:
            self.processes[site] = subprocess.Popen(
                [*self.prefix(site), "bash", str(kit / "startup" / "sub_start.sh"), "--once"],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=kit,
                start_new_session=True,
                env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
            )

    def stop(self, *sites: str) -> None:
        """Kill the processes of sites, and of the jobs that they run.

        Parameters
        ----------
        *sites : str
            All of them by default.
        """
        for site in sites or tuple(self.processes):
            process = self.processes.pop(site, None)
            if process is not None:
                for group in {process.pid, *_sessions_below(process.pid)}:
                    try:
                        os.killpg(group, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @contextmanager
    def session(self, timeout: float = 60.0) -> Iterator[Any]:
        """Log in as the one who submits jobs.

        Parameters
        ----------
        timeout : float, default=60.0
            Seconds to wait for the label holder.

        Yields
        ------
        nvflare.fuel.flare_api.flare_api.Session
            Closed at the end.
        """
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        deadline = time.monotonic() + timeout
        while True:
            try:
                session = new_secure_session(ADMIN, str(self.kit(ADMIN)), timeout=5.0)
                break
            except Exception as error:
                if time.monotonic() > deadline:
                    raise FederationError(f"the label holder does not answer: {error}") from None
                time.sleep(0.5)
        try:
            yield session
        finally:
            session.close()


def submit_and_wait(session: Any, job: Path, timeout: float) -> str:
    """Submit a job folder and wait for its end.

    Parameters
    ----------
    session : nvflare.fuel.flare_api.flare_api.Session
        Of the one who submits.
    job : Path
        Constants of the run.
    timeout : float
        Seconds.

    Returns
    -------
    str
        FLARE's status, such as "FINISHED:COMPLETED".

    Raises
    ------
    FederationError
        The job did not end in time; it is aborted.
    """
    identifier = session.submit_job(str(job.resolve()))
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        status = str(session.get_job_meta(identifier)["status"])
        if status.startswith("FINISHED"):
            return status
        time.sleep(0.5)
    session.abort_job(identifier)
    raise FederationError(f"the job {identifier} did not end within {timeout:g} s")


def _sessions_below(pid: int) -> set[int]:
    """Process groups of all descendants: a job's process leads a group of its own."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found, frontier = set(), {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found |= frontier
    groups = set()
    for child in found:
        try:
            groups.add(os.getpgid(child))
        except ProcessLookupError:
            pass
    return groups
