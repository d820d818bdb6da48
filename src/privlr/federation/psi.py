"""Finding the ids that all sites have, by private set intersection (``openmined-psi``)."""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.fl_context import FLContext
from nvflare.app_common.psi.psi_spec import PSI

from privlr.exceptions import FederationError
from privlr.federation.policy import load_policy

__all__ = ["SiteIds"]


class SiteIds(PSI):
    """Gives FLARE a site's ids, and keeps the ids in common at the site."""

    def __init__(self) -> None:
        super().__init__("")
        self._kit = Path()

    def initialize(self, fl_ctx: FLContext) -> None:
        """Find the site's folder.

        Parameters
        ----------
        fl_ctx : FLContext
            FLARE's context.
        """
        self._kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())

    def load_items(self) -> list[str]:
        """Read the ids.

        Returns
        -------
        list of str
            One id a row.
        """
        ids = load_policy(self._kit).ids()
        if len(set(ids)) != len(ids):
            # FLARE would quote them.
            raise FederationError(f"{len(ids) - len(set(ids))} ids stand twice")
        return ids

    def save(self, intersection: list[str]) -> None:
        """Write the ids in common, in an order that is the same at all sites.

        Parameters
        ----------
        intersection : list of str
            Ids that all sites have.
        """
        path = self._kit / "privlr" / "aligned.txt"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text("".join(f"{i}\n" for i in sorted(intersection)), encoding="utf-8")
