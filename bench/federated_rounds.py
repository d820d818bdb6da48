"""Rounds a second and memory of a run across processes, next to the same run in one process.

Usage: python bench/federated_rounds.py [--samples 30000] [--parties 3] [--rounds 200]

It fails where the memory of a site's process grows by more than 20 kB and a hundredth of a
vector a round: nothing that travels may be kept.
"""

import argparse
import os
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet

from privlr.federation import Job, RunStore, SitePolicy, install_policy, new_key, write_job
from privlr.federation.local import LABEL_HOLDER, LocalFederation, submit_and_wait


def make_data(n, parties, d, root):
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(n, d)) for _ in range(parties)]
    y = np.where(sum(X[:, 0] for X in blocks) + rng.logistic(size=n) > 0, "1", "0")
    ids = np.arange(n).astype(str)
    for i, X in enumerate(blocks):
        columns = {f"x{j}": X[:, j] for j in range(d)}
        parquet.write_table(pa.table({"id": ids, **columns}), root / f"part{i}.parquet")
    parquet.write_table(pa.table({"id": ids, "y": y}), root / "labels.parquet")
    return blocks, y


def sample_memory(federation, store, stop, samples):
    """Rounds so far and resident MB of each site's job process, four times a second."""
    while not stop.wait(0.25):
        done = sum(line["event"] == "round" for line in store.progress())
        for site, process in list(federation.processes.items()):
            try:
                for child in psutil.Process(process.pid).children(recursive=True):
                    if done:
                        rss = child.memory_info().rss / 2**20
                        samples.setdefault(site, []).append((done, rss))
            except psutil.Error:
                pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    names = tuple(f"party-{i}" for i in range(options.parties))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        blocks, y = make_data(options.samples, options.parties, options.features, root)
        job = Job(
            run="bench", parties=names, classes=("0", "1"), rounds=options.rounds, tol=0.0,
            start_timeout=300.0, round_timeout=60.0,
        )  # fmt: skip
        with LocalFederation(root / "sites", names) as federation:
            federation.provision()
            new_key(root / "key")
            for i, name in enumerate(names):
                policy = SitePolicy(
                    data=str(root / f"part{i}.parquet"), id="id", key=str(root / "key"),
                    allow_exact_shares=True,
                )  # fmt: skip
                install_policy(federation.kit(name), policy)
            policy = SitePolicy(
                data=str(root / "labels.parquet"), id="id", label="y", key=str(root / "key"),
                disclose_labels=True,
            )  # fmt: skip
            install_policy(federation.kit(LABEL_HOLDER), policy)
            for site in (LABEL_HOLDER, *names):
                federation.start(site)
            store = RunStore(federation.kit(LABEL_HOLDER) / "privlr" / "runs" / "bench")
            stop, memory = threading.Event(), {}
            arguments = federation, store, stop, memory
            threading.Thread(target=sample_memory, args=arguments).start()
            try:
                write_job(job, root / "job")
                with federation.session() as session:
                    status = submit_and_wait(session, root / "job", 1800)
            finally:
                stop.set()
            lines = store.progress()
        if status != "FINISHED:COMPLETED":
            raise SystemExit(f"{status}: {lines[-1:]}")
        rounds = [line for line in lines if line["event"] == "round"]
        spent = np.diff([line["time"] for line in rounds])
        print(f"N={options.samples} M={options.parties} d={options.features} status={status}")
        print(
            f"remote: {1 / np.median(spent):.2f} rounds/s (median), "
            f"{1 / spent.mean():.2f} (mean), load {os.getloadavg()[0]:.1f}"
        )
        growing = False
        for site, values in memory.items():
            # Processes warm up in the first quarter, and end after the last round.
            kept = [v for v in values if options.rounds / 4 <= v[0] < options.rounds]
            done, rss = np.transpose(kept)
            slope = 1024 * np.polyfit(done, rss, 1)[0]
            growing |= slope > 20 + 8 * options.samples / 100 / 1024
            print(f"  {site}: {rss[0]:.0f} to {rss[-1]:.0f} MB, {slope:.1f} kB a round")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = min(options.rounds, max(20, 10**7 // options.samples))
        times = []
        for count in (1, 1, 1 + more):  # the first warms up
            begun = time.perf_counter()
            job.estimator.set_params(max_iter=count).fit_parties(blocks, y)
            times.append(time.perf_counter() - begun)
    print(f"in process: {more / (times[2] - times[1]):.1f} rounds/s")
    if growing:
        raise SystemExit("the memory of a process grows")


if __name__ == "__main__":
    main()
