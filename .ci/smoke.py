"""What an installed wheel must do, without the source tree and without test packages."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import privlr
from privlr.model_file import load_model, save_model
from privlr.stacking import FeatureStackingClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 4)) / 4
y = np.where(X[:, 0] > 0, "yes", "no")
with tempfile.TemporaryDirectory() as name:
    path = Path(name, "model.json")
    model = privlr.PrivateLogisticRegression(20.0, classes=["no", "yes"]).fit(X, y)
    assert model.score(X, y) > 0.8, "the private model predicts nothing"
    save_model(model, path)
    assert (load_model(path).coef_ == model.coef_).all()
    FeatureStackingClassifier(20.0, n_groups=2, classes=["no", "yes"]).fit(X, y).predict(X)
    assert privlr.solve(X, np.where(y == "yes", 1, -1), l2_reg_strength=0.1).certificate < 1e-9
    command = [sys.executable, "-c", "from privlr.cli import app; app()"]
    for arguments in (["audit", str(path)], ["doctor", "--seconds", "1"]):
        subprocess.run([*command, *arguments], check=True)
assert Path(privlr.__file__).parent.joinpath("py.typed").is_file()
print("1 passed, 0 failed")
