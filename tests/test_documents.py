"""Every block of code in the README and in the guides runs, in order, as a reader would run it.

A block of Python that shows prompts (>>>) is a doctest: its output is compared.
"""

import doctest
import importlib
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from privlr.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
COMMANDS = {"privlr", "make", "pip", "python", "git", "cd"}


def blocks(path: Path) -> list[tuple[str, str]]:
    """Language and content of the fenced blocks of a document; directives are left out."""
    found = re.findall(r"^```([^\n`]*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    return [(language.strip(), code) for language, code in found if language[:1] != "{"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_says_what_it_is(path: Path) -> None:
    languages = {language for language, _ in blocks(path)}
    assert languages <= {"python", "sh", "text", "c", "cython", "json", "toml", "meson"}


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if blocks(path)], ids=lambda path: path.name
)
@pytest.mark.filterwarnings("default")
def test_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "load_mnist_0_8" in path.read_text() and not os.environ.get("PRIVLR_DATA"):
        pytest.skip("the environment variable PRIVLR_DATA names no directory of real data sets")
    scope: dict[str, object] = {"__name__": "__main__"}
    for language, code in blocks(path):
        if language == "python" and ">>> " in code:
            run_doctest(path, code, scope)
        elif language == "python":
            exec(compile(code, path.name, "exec"), scope)
        for line in code.replace("\\\n", " ").splitlines() if language == "sh" else []:
            words = shlex.split(line, comments=True)
            if words[:1] == ["privlr"]:
                result = CliRunner().invoke(app, words[1:])
                assert result.exit_code == 0, (line, result.output, result.exception)
            else:
                assert not words or words[0] in COMMANDS, line


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("privlr")
    shown = subprocess.run([command, "--help"], check=True, capture_output=True, text=True)
    assert "doctor" in shown.stdout


def run_doctest(path: Path, code: str, scope: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(code, scope, path.name, str(path), 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)
    scope.update(test.globs)


def site() -> ModuleType:
    pytest.importorskip("latex2mathml")
    spec = importlib.util.spec_from_file_location("site_configuration", ROOT / "docs" / "conf.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_documented() -> None:
    conf = site()
    modules = conf.public_modules()
    assert {"privlr", "privlr.privacy", "privlr.stacking", "privlr.audit"} <= set(modules)
    for module in modules:
        loaded = importlib.import_module(module)
        assert inspect.getdoc(loaded), module
        listed = set(conf.public_names(module))
        for name in loaded.__all__:
            documented = name in listed and inspect.getdoc(getattr(loaded, name))
            constant = name.isupper() or name in ("__version__", "app")
            assert documented or constant, f"{module}.{name}"


def test_the_guides_link_only_to_what_is_there() -> None:
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if not re.match(r"[a-z]+:", target) and "://" not in target:
                assert (path.parent / target).exists() or target.startswith("api/"), (path, target)


def test_the_proofs_name_tests_that_exist() -> None:
    text = (ROOT / "docs" / "proofs.md").read_text()
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", text)
    assert len(named) >= 15
    for file, test in named:
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE), (file, test)


def test_every_make_target_is_described() -> None:
    declared = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert declared is not None
    described = re.findall(
        r"^\| `([\w-]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert sorted(described) == sorted(declared[1].split())


@pytest.mark.parametrize("name", ["smoke.py", "smoke_core.py"])
def test_what_wheels_are_tried_with_runs(name):
    subprocess.run([sys.executable, ROOT / ".ci" / name], check=True, capture_output=True)
