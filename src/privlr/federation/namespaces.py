"""A network namespace for each site of a federation on one machine (Linux, root, iproute2)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

__all__ = ["Namespaces"]


class Namespaces:
    """One namespace a party, joined by a bridge whose address is the label holder's.

    Parameters
    ----------
    sites : sequence of str
        Names of the parties.
    subnet : str, default="10.213.77"
        The first three numbers of a private network.
    """

    def __init__(self, sites: Sequence[str], subnet: str = "10.213.77") -> None:
        self.sites, self.subnet = tuple(sites), subnet
        self.tag = f"pv{os.getpid() % 100000}"

    @staticmethod
    def available() -> bool:
        """Whether this machine lets us make them.

        Returns
        -------
        bool
            True if one could be made.
        """
        if os.geteuid() or shutil.which("ip") is None:
            return False
        probe = f"pvprobe{os.getpid()}"
        made = subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode == 0
        if made:
            subprocess.run(["ip", "netns", "delete", probe], capture_output=True)
        return made

    @property
    def host(self) -> str:
        """Address of the label holder."""
        return f"{self.subnet}.1"

    def prefix(self, site: str) -> list[str]:
        """Words to put before a command that is to run at a site.

        Parameters
        ----------
        site : str
            Its name.

        Returns
        -------
        list of str
            None for the label holder.
        """
        return ["ip", "netns", "exec", self._name(site)] if site in self.sites else []

    def link(self, site: str, up: bool) -> None:
        """Cut or mend the link of a site.

        Parameters
        ----------
        site : str
            Its name.
        up : bool
            False cuts it.
        """
        _ip("link", "set", self._port(site), "up" if up else "down")

    def __enter__(self) -> Self:
        _ip("link", "add", self.tag, "type", "bridge")
        try:
            _ip("address", "add", f"{self.host}/24", "dev", self.tag)
            _ip("link", "set", self.tag, "up")
            for i, site in enumerate(self.sites):
                name, port = self._name(site), self._port(site)
                _ip("netns", "add", name)
                _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
                _ip("link", "set", port, "master", self.tag, "up")
                _ip("-n", name, "address", "add", f"{self.subnet}.{i + 2}/24", "dev", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up")
                _ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for site in self.sites:
            subprocess.run(["ip", "netns", "delete", self._name(site)], capture_output=True)
            subprocess.run(["ip", "link", "delete", self._port(site)], capture_output=True)
        subprocess.run(["ip", "link", "delete", self.tag], capture_output=True)

    def _name(self, site: str) -> str:
        return f"{self.tag}-{site}"

    def _port(self, site: str) -> str:
        # An interface's name has at most 15 characters.
        return f"{self.tag}p{self.sites.index(site)}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
