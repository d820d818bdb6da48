"""Vertical learning across organisations, carried by NVIDIA FLARE (``privlr[federated]``).

Only the modules `engine`, `psi` and, when it is used, `local` need FLARE; jobs, policies and the
roles themselves work without it.
"""

from privlr.federation.job import Job, new_run_name, read_job, write_align_job, write_job
from privlr.federation.policy import SitePolicy, install_policy, load_policy, new_key
from privlr.federation.store import RunStore

__all__ = [
    "Job",
    "RunStore",
    "SitePolicy",
    "install_policy",
    "load_policy",
    "new_key",
    "new_run_name",
    "read_job",
    "write_align_job",
    "write_job",
]
