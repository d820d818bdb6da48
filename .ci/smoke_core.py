"""What an installed wheel must do where scikit-learn has no wheels, as on musl."""

import importlib
import importlib.util
import sys
import types

import numpy as np

found = importlib.util.find_spec("privlr")
assert found is not None
package = types.ModuleType("privlr")  # in place of the real one, which imports the estimators
package.__path__ = found.submodule_search_locations
sys.modules["privlr"] = package
mechanisms = importlib.import_module("privlr.mechanisms")
optimize = importlib.import_module("privlr.optimize")
design = importlib.import_module("privlr.design")

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 4)) / 8
y = np.where(X[:, 0] > 0, 1.0, -1.0)
assert optimize.solve(X, y, l2_reg_strength=0.1).certificate < 1e-9
plan = mechanisms.plan(20.0, n_samples=2000, width=4)
rows = design.make_design(X, data_norm=1.0)
first, second = (mechanisms.objective_perturbation(rows, y, plan).coef for _ in range(2))
assert (np.sign(X @ first[0]) == y).mean() > 0.8, "the private model predicts nothing"
assert (first != second).any(), "two releases share their noise"
print(f"1 passed, 0 failed ({optimize.simd_level()})")
