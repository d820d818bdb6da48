"""Three organisations on one machine: two hospitals with features, a registry with labels.

Each has its own folder, keys that never leave it, and its own process; they talk mutual TLS
over loopback or, for root on Linux with iproute2, out of network namespaces of their own.

Usage: python examples/three_hospitals/run.py [--out FOLDER] [--private]

The data are a9a (UCI Adult), whose first 66 columns go to the one hospital and the other 57 to
the other. Every command that a site would type is printed.
"""

import argparse
import contextlib
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from privlr.datasets import load_a9a
from privlr.federation.local import ADMIN, LABEL_HOLDER, LocalFederation, free_port
from privlr.federation.namespaces import Namespaces

HOSPITALS = ("hospital-1", "hospital-2")
BIN = Path(sys.executable).parent


class Trial(LocalFederation):
    """Kits where `nvflare package` puts them, each in the folder of its own site."""

    def name(self, site):
        """FLARE's name of a site; the server's is its address."""
        return self.host if site == LABEL_HOLDER else site

    def kit(self, site):
        return self.root / site / "trial" / "prod_00" / self.name(site)


def run(folder, command):
    """Run a command in a site's folder, and show both."""
    print(f"\n[{folder.name}]$ {command}", flush=True)
    words = shlex.split(command)
    done = subprocess.run([BIN / words[0], *words[1:]], cwd=folder, text=True, capture_output=True)
    print(done.stdout[-3000:], end="")
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def write_data(root):
    """Give every organisation its own columns of the same people, and nothing else."""
    data = load_a9a()
    parts = (slice(0, 66), slice(66, 123))
    for split, X, y in (
        ("train", data.X_train, data.y_train),
        ("new", data.X_test[:2000], data.y_test[:2000]),
    ):
        ids = [f"{split}-{i:05d}" for i in range(len(y))]
        for site, part in zip(HOSPITALS, parts, strict=True):
            rows = X[:, part].toarray().astype(int).tolist()
            header = ",".join(["patient", *(f"a{j}" for j in range(part.start, part.stop))])
            lines = [",".join([i, *map(str, row)]) for i, row in zip(ids, rows, strict=True)]
            (root / site / f"{split}.csv").write_text("\n".join([header, *lines]))
        label = [f"{i},{value}" for i, value in zip(ids, y, strict=True)]
        lines = ["patient,income", *label] if split == "train" else ["patient", *ids]
        (root / LABEL_HOLDER / f"{split}.csv").write_text("\n".join(lines))
    return data.y_test[:2000]


def provision(federation):
    """Keys are made at each site; only requests and signed answers travel to the lead."""
    root, port = federation.root, federation.port
    ports = f"fed_learn_port: {port}, admin_port: {port}"
    server = f"{{host: {federation.host}, {ports}}}"
    (root / "lead" / "project.yml").write_text(
        f"name: trial\nscheme: tcp\nconnection_security: mtls\nserver: {server}\n"
    )
    said = run(root / "lead", "nvflare cert init --profile project.yml -o ca")
    fingerprint = said.partition("rootca_fingerprint_sha256: ")[2].split()[0]
    kinds = {LABEL_HOLDER: f"type: server, {ports}"}
    kinds |= dict.fromkeys(HOSPITALS, f"type: client, server: {server}")
    kinds[ADMIN] = f"type: admin, role: lead, server: {server}"
    for site, kind in kinds.items():
        folder, org = root / site, site.partition("@")[0].replace("-", "")
        name = federation.name(site)
        (folder / "site.yml").write_text(
            f"name: trial\nparticipants:\n  - {{name: {name}, org: {org}, {kind}}}\n"
        )
        run(folder, "nvflare cert request -p site.yml --out request")
        shutil.copy(folder / "request" / f"{name}.request.zip", root / "lead")  # by mail, say
        run(root / "lead", f"nvflare cert approve -c ca --profile project.yml {name}.request.zip")
        shutil.copy(root / "lead" / f"{name}.signed.zip", folder)
        run(folder, f"nvflare package {name}.signed.zip --request-dir request "
                    f"--fingerprint {fingerprint} -w .")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out/three_hospitals"))
    parser.add_argument("--private", action="store_true", help="noisy shares, randomised labels")
    options = parser.parse_args()
    root = options.out.resolve()
    for site in ("lead", LABEL_HOLDER, *HOSPITALS, ADMIN):
        (root / site).mkdir(parents=True)
    y_new = write_data(root)
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Namespaces(HOSPITALS)) if Namespaces.available() else None
        print(f"network namespaces: {'yes' if network else 'no: loopback'}")
        where = {"host": network.host, "prefix": network.prefix} if network else {}
        federation = Trial(root, HOSPITALS, port=free_port(), **where)
        provision(federation)

        run(root / LABEL_HOLDER, "privlr federated key alignment.key")
        for site in HOSPITALS:  # out of band: in person, or encrypted to each site
            shutil.copy(root / LABEL_HOLDER / "alignment.key", root / site)
        common = "--data train.csv --new-data new.csv --id patient --key alignment.key"
        consent = ("", "") if options.private else (" --allow-exact-shares", " --disclose-labels")
        for site in HOSPITALS:
            run(root / site, f"privlr federated site --kit trial/prod_00/{site} {common} "
                             f"--budget 8{consent[0]}")  # fmt: skip
        run(root / LABEL_HOLDER, f"privlr federated site --kit trial/prod_00/{federation.host} "
                                 f"{common} --label income --budget 4{consent[1]}")  # fmt: skip
        stack.enter_context(federation)
        for site in (LABEL_HOLDER, *HOSPITALS):
            print(f"\n[{site}]$ trial/prod_00/{federation.name(site)}/startup/start.sh")
            federation.start(site)
        with federation.session(60):
            pass  # the label holder answers

        terms = "--rounds 30 --l2 3e-5"
        if options.private:
            terms = "--rounds 1 --epsilon 8 --delta 1e-6 --label-epsilon 4 --data-norm 3.75"
        parties = " ".join(f"--party {site}" for site in HOSPITALS)
        lead, kit = root / ADMIN, f"trial/prod_00/{ADMIN}"
        run(lead, f"privlr federated job {parties} --classes=-1,1 {terms} --run income --out fit")
        run(lead, "privlr federated predict fit --out predict")
        for job in ("fit", "predict"):
            out = run(lead, f"nvflare --format json job submit -j {job} --startup-kit {kit}")
            identifier = json.loads(out[out.index("{") :])["data"]["job_id"]
            run(lead, f"nvflare job wait {identifier} --startup-kit {kit} --timeout 300")
        for site in (LABEL_HOLDER, *HOSPITALS):
            run(root / site, f"privlr federated status --kit trial/prod_00/{federation.name(site)}")
        table = federation.kit(LABEL_HOLDER) / "privlr/runs/income/predictions.csv"
        p = np.array([float(line.split(",")[2]) for line in table.read_text().splitlines()[1:]])
        quality = f"AUC {roc_auc_score(y_new, p):.4f}, log loss {log_loss(y_new, p):.4f}"
        print(f"\n{len(p)} new rows: {quality}")


if __name__ == "__main__":
    main()
