"""Other programs build against the installed package: Cython, C, and the stored signatures."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import privlr
from privlr import cython_kernels
from privlr.optimize import logistic_prox, loss_gradient

HERE = Path(__file__).parent
GUIDE = HERE.parent / "docs" / "calling.md"
COMPILER = shutil.which("cc")


def test_signatures_are_the_stored_ones():
    """They may be added to; whoever changes one breaks modules built before."""
    stored = json.loads((HERE / "cython_kernels_abi.json").read_text())
    found = {
        name: re.search(r'"(.*)"', repr(capsule)).group(1)
        for name, capsule in cython_kernels.__pyx_capi__.items()
    }
    assert found == stored


def example(language):
    blocks = re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    return blocks[0]


@pytest.fixture
def library():
    try:
        return privlr.get_library()
    except FileNotFoundError as error:
        pytest.skip(str(error))


needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@needs_compiler
def test_c_program_of_the_guide(tmp_path, library):
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(example("c"))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{privlr.get_include()}"]
    subprocess.run([COMPILER, *flags, source, library, "-lm", "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    total, slope, norm, *coef = (float(number) for number in re.findall(r"[-\d.e+]+", said))
    expected, gradient, _ = loss_gradient(np.array([0.3, -2.0]), np.array([1.0, -1.0]))
    assert total == pytest.approx(expected, rel=1e-12)
    assert slope == pytest.approx(gradient[0], rel=1e-12)
    assert norm > 0
    X = np.array([[0.6, 0.8], [1.0, 0.0]])
    expected = privlr.solve(X, [1, -1], l2_reg_strength=0.05).coef
    np.testing.assert_allclose(coef, expected, atol=1e-8)


@needs_compiler
def test_header_is_cpp(tmp_path, library):
    source = tmp_path / "program.cpp"
    source.write_text("#include <privlr.h>\nint main() { return privlr_simd_level() == nullptr; }")
    subprocess.run(
        [COMPILER, "-x", "c++", "-fsyntax-only", f"-I{privlr.get_include()}", source], check=True
    )


@needs_compiler
def test_cython_module_of_the_guide(tmp_path, library):
    pytest.importorskip("Cython")
    (tmp_path / "consumer.pyx").write_text(example("cython"))
    subprocess.run([sys.executable, "-m", "cython", "-3", "consumer.pyx"], cwd=tmp_path, check=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    include = sysconfig.get_paths()["include"]
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", f"-I{include}", "consumer.c", "-o"]
        + [f"consumer{suffix}"],
        cwd=tmp_path,
        check=True,
    )
    script = (
        "import consumer, numpy as np; s = np.linspace(-3, 3, 7);"
        "print(consumer.shrink(s, np.ones(7), 0.5).tolist());"
        "X = np.random.default_rng(0).normal(size=(400, 50)); y = np.where(X[:, 0] > 0, 1.0, -1.0);"
        "print([consumer.fit(x, y, 1e-3)[0].tolist() for x in (X, np.asfortranarray(X))]);"
        "print(consumer.fit(X * np.inf, y, 1.0))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    shrunk, fitted = (json.loads(line) for line in run.stdout.splitlines())
    assert run.stderr.splitlines()[-1] == "ValueError: status 4"
    s = np.linspace(-3, 3, 7)
    expected = logistic_prox(s, np.zeros(7), np.ones(7), c=1.0, rho=0.5)
    np.testing.assert_array_equal(shrunk, expected)
    X = np.random.default_rng(0).normal(size=(400, 50))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    expected = privlr.solve(X, y, l2_reg_strength=1e-3 / 400).coef
    np.testing.assert_allclose(fitted, [expected, expected], atol=1e-9)
