"""``privlr federated``: site, job, simulate and status; the rest is NVIDIA FLARE's own command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from privlr._tables import split_names
from privlr.cli.ledger import print_charges
from privlr.cli.report import print_facts, reported
from privlr.federation import (
    Job,
    RunStore,
    SitePolicy,
    install_policy,
    load_policy,
    new_key,
    new_run_name,
    read_job,
    write_align_job,
    write_job,
)

__all__ = ["commands"]

commands = typer.Typer(
    help="Learn from columns that several organisations hold, over NVIDIA FLARE.",
    no_args_is_help=True,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_Kit = Annotated[Path, typer.Option(help="Startup kit of this site, from `nvflare package`.")]
_Budget = Annotated[float, typer.Option(help="Largest total epsilon of all runs at this site.")]
_DeltaBudget = Annotated[float, typer.Option(help="Largest total delta.")]


def _terms(
    *,
    classes: Annotated[
        str, typer.Option(help="The two labels, separated by a comma; a public matter.")
    ],
    rounds: Annotated[int, typer.Option(min=1, help="Most rounds.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Cost of the run; without it shares carry no noise.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Goes with --epsilon.")] = None,
    label_epsilon: Annotated[
        float | None,
        typer.Option(help="Randomise the labels once at this cost; without it parties see them."),
    ] = None,
    data_norm: Annotated[
        float, typer.Option(help="Bound that each party's rows are clipped to.")
    ] = 1.0,
    share_bound: Annotated[float, typer.Option(help="Bound on a party's share of a score.")] = 4.0,
    l2: Annotated[float, typer.Option("--l2", help="Ridge of the mean loss.")] = 1e-4,
    tol: Annotated[float, typer.Option(help="Stop a run without noise at this accuracy.")] = 1e-5,
    round_timeout: Annotated[float, typer.Option(help="Seconds to wait for a round.")] = 60.0,
    start_timeout: Annotated[float, typer.Option(help="Seconds to wait for all sites.")] = 600.0,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, which is NOT private: tests.")
    ] = None,
) -> dict[str, Any]:
    """Fields of a job that do not name its sites; the options of whatever makes a job."""
    return {
        "classes": _two(classes),
        "rounds": rounds,
        "epsilon": epsilon,
        "delta": delta,
        "label_epsilon": label_epsilon,
        "data_norm": data_norm,
        "share_bound": share_bound,
        "l2_reg_strength": l2,
        "tol": tol,
        "round_timeout": round_timeout,
        "start_timeout": start_timeout,
        "random_state": seed,
    }


def _with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `_terms` in place of its argument `terms`."""
    shared = inspect.signature(_terms, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters
    parameters = [p for p in own.values() if p.name != "terms"] + list(shared.values())

    def run(**options: Any) -> None:
        with reported():
            terms = _terms(**{name: options.pop(name) for name in shared})
        command(terms=terms, **options)

    run.__doc__ = command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


@commands.command("key")
def _key(out: Annotated[Path, typer.Argument(help="File to write.")]) -> None:
    """Make the key that the sites' digests of ids are compared under; share it out of band."""
    with reported():
        new_key(out)


@commands.command("site")
def _site(
    data: Annotated[Path, typer.Option(help="CSV or Parquet with this site's rows.")],
    id: Annotated[str, typer.Option(help="The id column.")],
    key: Annotated[Path, typer.Option(help="Key file, the same at all sites.")],
    budget: _Budget,
    delta_budget: _DeltaBudget = 1e-5,
    kit: _Kit = Path("."),
    label: Annotated[
        str | None, typer.Option(help="The label column; makes this the label holder.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")
    ] = None,
    new_data: Annotated[
        Path | None, typer.Option(help="New rows that may be scored; off by default.")
    ] = None,
    aligned: Annotated[
        Path | None, typer.Option(help="Ids to train on, one a line, from `privlr align`.")
    ] = None,
    allow_align: Annotated[
        bool, typer.Option("--allow-align", help="Accept set intersections of the ids.")
    ] = False,
    allow_exact_shares: Annotated[
        bool, typer.Option("--allow-exact-shares", help="Accept runs without noise.")
    ] = False,
    disclose_labels: Annotated[
        bool, typer.Option("--disclose-labels", help="Accept that parties see the labels.")
    ] = False,
    allow_seed: Annotated[
        bool, typer.Option("--allow-seed", help="Accept repeatable noise, for tests.")
    ] = False,
) -> None:
    """Set this site's own rules, which no job can change, and check its data against them."""
    with reported():
        policy = SitePolicy(
            data=str(data.resolve()),
            id=id,
            key=str(key.resolve()),
            label=label,
            drop=tuple(drop or ()),
            budget=budget,
            delta_budget=delta_budget,
            new_data=None if new_data is None else str(new_data.resolve()),
            aligned=None if aligned is None else str(aligned.resolve()),
            allow_align=allow_align,
            allow_exact_shares=allow_exact_shares,
            disclose_labels=disclose_labels,
            allow_seed=allow_seed,
        )
        policy.secret()
        counts = policy.check_data()
        install_policy(kit, policy)
    print_facts(f"Rules of {kit.resolve().name}", msgspec.to_builtins(policy) | counts, False)


@commands.command("job")
@_with_terms
def _job(
    *,
    terms: dict[str, Any],
    party: Annotated[
        list[str], typer.Option(help="A site with features; repeat, in the order of columns.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("job"),
    run: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
) -> None:
    """Write a job folder of plain JSON for `nvflare job submit`."""
    with reported():
        job = Job(run=run or new_run_name(), parties=tuple(party), **terms)
        write_job(job, out)
    print(f"{out}: run {job.run}")


@commands.command("resume")
def _resume(
    job: Annotated[Path, typer.Argument(help="Job folder of the run that stopped.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Write the job that goes on with a run from its last completed round."""
    with reported():
        write_job(msgspec.structs.replace(read_job(job), resume=True), out)


@commands.command("predict")
def _predict(
    job: Annotated[Path, typer.Argument(help="Job folder of the run that fitted the model.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Write the job that scores the sites' new rows."""
    with reported():
        write_job(msgspec.structs.replace(read_job(job), task="predict", resume=False), out)


@commands.command("status")
def _status(kit: _Kit = Path("."), json: _Json = False) -> None:
    """Show this site's runs and its ledger; reads local files only."""
    with reported():
        ledger = load_policy(kit).ledger(kit)
        charges = msgspec.to_builtins(ledger.charges, enc_hook=str)
        runs = []
        for directory in sorted((kit / "privlr" / "runs").glob("*")):
            lines = RunStore(directory).progress()
            if lines:
                runs.append({"run": directory.name, **lines[-1]})
    if json:
        print(msgspec.json.encode({"runs": runs, "charges": charges}).decode())
        return
    console, table = Console(), Table(title="Runs")
    for heading in ("run", "last event", "round", "reason"):
        table.add_column(heading)
    for run in runs:
        event = " ".join(str(run[name]) for name in ("event", "task") if name in run)
        table.add_row(run["run"], event, str(run["round"]), escape(run.get("reason", "")))
    console.print(table)
    print_charges(ledger, "Ledger")


@commands.command("simulate")
@_with_terms
def _simulate(
    *,
    terms: dict[str, Any],
    party: Annotated[
        list[Path], typer.Option(help="Data of a site with features; repeat, in order.")
    ],
    labels: Annotated[Path, typer.Option(help="Data of the label holder.")],
    label: Annotated[str, typer.Option(help="Its label column.")],
    id: Annotated[str, typer.Option(help="The id column of all files.")],
    out: Annotated[Path, typer.Option(help="Folder to leave the sites' files in.")],
    timeout: Annotated[float, typer.Option(help="Seconds for the whole run.")] = 1800.0,
) -> None:
    """Run a whole federation on this machine, with a temporary CA, for a first try."""
    with reported():
        from privlr.federation.local import LABEL_HOLDER, LocalFederation, submit_and_wait

        names = tuple(f"party-{i + 1}" for i in range(len(party)))
        job = Job(run="simulation", parties=names, **terms).check()
        if out.exists():
            raise FileExistsError(f"{out} exists already")
        with LocalFederation(out.resolve(), names) as federation:
            federation.provision()
            new_key(out / "alignment.key")
            for site, data in zip((LABEL_HOLDER, *names), (labels, *party), strict=True):
                policy = SitePolicy(
                    data=str(data.resolve()),
                    id=id,
                    key=str((out / "alignment.key").resolve()),
                    label=label if site == LABEL_HOLDER else None,
                    budget=max(job.epsilon or 0.0, job.label_epsilon or 0.0),
                    delta_budget=job.delta or 0.0,
                    allow_exact_shares=True,
                    disclose_labels=True,
                    allow_seed=True,
                )
                policy.check_data()
                install_policy(federation.kit(site), policy)
            for site in (LABEL_HOLDER, *names):
                federation.start(site)
            write_job(job, out / "job")
            with federation.session() as session:
                status = submit_and_wait(session, out / "job", timeout)
            lines = RunStore(federation.kit(LABEL_HOLDER) / "privlr" / "runs" / job.run).progress()
        if not status.endswith("COMPLETED"):
            raise ValueError(lines[-1].get("reason", status) if lines else status)
    facts = {name: lines[-1][name] for name in ("round", "seconds")}
    print_facts("Simulation", {"status": status, **facts, "sites": federation.kits}, False)


def _align(
    site: Annotated[list[str], typer.Option(help="A site with ids; repeat.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Write the job by which sites find the ids they share without showing the others."""
    with reported():
        write_align_job(site, out)
    print(f"{out}: each site will find the ids in its privlr/aligned.txt (needs openmined-psi)")


def _two(classes: str) -> tuple[str, str]:
    names = split_names(classes)
    if len(names) != 2 or not all(names):
        raise ValueError(f"--classes takes two labels separated by a comma, not {classes!r}")
    return names[0], names[1]
