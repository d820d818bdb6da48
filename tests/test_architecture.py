"""Rules of the house that no linter knows: who may import what, file sizes, stated claims."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.glob("privlr/**/*.py")
}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
CLAIMS = (
    "**Guarantee.**",
    "**Neighbouring relation.**",
    "**Assumptions.**",
    "**Source.**",
    "**Not covered.**",
)


def part(module: str) -> str:
    """The piece of the package that a module belongs to."""
    return (module.split(".") + [""])[1]


def imports(module: str) -> Iterator[str]:
    """Everything a module imports, as full dotted names."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(prefix: str) -> set[str]:
    return {
        part(module)
        for module in TREES
        for name in imports(module)
        if f"{name}.".startswith(f"{prefix}.")
    }


@pytest.mark.parametrize(
    ("imported", "allowed"),
    [
        ("privlr._solvers", {"_solvers", "design", "optimize", "mechanisms"}),
        ("privlr._solvers.noise", {"_solvers", "mechanisms"}),
        (
            "sklearn",
            {
                "_experiments",
                "_inputs",
                "_pipeline",
                "linear_model",
                "stacking",
                "vertical",
                "preprocessing",
                "model_selection",
                "federation",
                "cli",
                "datasets",
            },
        ),
        ("matplotlib", {"plots", "_experiments"}),
        ("nvflare", {"federation"}),
    ],
)
def test_only_some_parts_import(imported: str, allowed: set[str]) -> None:
    assert importers(imported) <= allowed


@pytest.mark.parametrize("module", TREES)
def test_no_private_name_of_another_package(module: str) -> None:
    foreign = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Import)
        for alias in node.names
        if not alias.name.startswith("privlr")
    }
    for name in imports(module):
        if name.split(".")[0] not in ("privlr", "__future__"):
            assert not any(piece.startswith("_") for piece in name.split(".")), name
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            assert not (node.value.id in foreign and private), f"{node.value.id}.{node.attr}"


def test_no_source_file_is_long() -> None:
    endings = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h"}
    long = {
        str(path.relative_to(SOURCE)): lines
        for path in SOURCE.rglob("*")
        if path.suffix in endings and (lines := path.read_text().count("\n")) > 600
    }
    assert not long


def test_c_core_knows_no_python_and_prints_nothing() -> None:
    for path in [*SOURCE.glob("_solvers/*.[ch]")]:
        text = path.read_text()
        assert "Python.h" not in text, path.name
        assert "printf" not in text, path.name


def mechanisms() -> Iterator[tuple[str, str]]:
    """Each public name of L3 and L4 that takes an epsilon, with its docstring."""
    for module, tree in TREES.items():
        if part(module) not in ("mechanisms", "linear_model", "stacking", "vertical"):
            continue
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            functions = [node] if isinstance(node, ast.FunctionDef) else node.body
            for function in functions:
                if isinstance(function, ast.FunctionDef) and (
                    function is node or function.name == "__init__"
                ):
                    arguments = function.args.args + function.args.kwonlyargs
                    if any(argument.arg == "epsilon" for argument in arguments):
                        yield f"{module}.{node.name}", ast.get_docstring(node) or ""


def test_every_mechanism_states_its_claim() -> None:
    found = dict(mechanisms())
    assert found
    for name, docstring in found.items():
        notes = docstring.partition("Notes\n-----")[2]
        for claim in CLAIMS:
            assert claim in notes, f"{name} lacks {claim}"
