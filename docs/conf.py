"""How the site is built: ``make docs``."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import latex2mathml.converter
from docutils import nodes

import privlr

HERE = Path(__file__).parent

project = "privlr"
author = "the privlr developers"
copyright = author
release = version = installed("privlr")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build", "generated/*.md"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "fieldlist"]
myst_heading_anchors = 3
default_role = "literal"

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator,ClassifierMixin,BaseException,OSError,float,tuple",
}
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "privlr"
html_static_path = ["_static"]
html_css_files = ["privlr.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "show_toc_level": 2,
    "navbar_center": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"**": ["globaltoc.html"]}
# Formulas become MathML, which browsers show without a script from elsewhere.
html_math_renderer = "mathml"


def public_modules() -> list[str]:
    """Return every public module whose names a user may import, in alphabetical order."""
    names = [module.name for module in pkgutil.iter_modules(privlr.__path__)]
    return ["privlr", *(f"privlr.{name}" for name in sorted(names) if name[0] != "_")]


def public_names(module: str) -> list[str]:
    """Return what a public module exports, but for constants without a docstring."""
    loaded = importlib.import_module(module)
    return [name for name in loaded.__all__ if callable(getattr(loaded, name))]


def write_reference() -> None:
    """Write a page for each public module, which lists every public name."""
    out, table = HERE / "api", ["| module | what is in it |", "| --- | --- |"]
    out.mkdir(exist_ok=True)
    for module in public_modules():
        if module == "privlr.cli":
            continue
        text = inspect.getdoc(importlib.import_module(module)) or ""
        table.append(f"| {{doc}}`{module} <api/{module}>` | {text.splitlines()[0]} |")
        names = "\n".join(f"   {name}" for name in public_names(module))
        page = f"{module}\n{'=' * len(module)}\n\n{text}\n\n.. currentmodule:: {module}\n\n"
        if names:
            page += f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{names}\n"
        else:
            page += "Its functions are listed in :doc:`/calling`.\n"
        path = out / f"{module}.rst"
        if not path.exists() or path.read_text() != page:
            path.write_text(page)
    (HERE / "generated").mkdir(exist_ok=True)
    (HERE / "generated" / "modules.md").write_text("\n".join(table) + "\n")


def write_commands() -> None:
    """Write the help of every command."""
    from typer.main import get_command

    from privlr.cli import app

    lines = []
    commands = get_command(app).commands
    below = [
        f"{name} {part}"
        for name, command in commands.items()
        for part in getattr(command, "commands", ())
    ]
    for name in ["", *commands, *below]:
        arguments = [sys.executable, "-c", "from privlr.cli import app; app(prog_name='privlr')"]
        shown = subprocess.run(
            [*arguments, *name.split(), "--help"],
            check=True,
            capture_output=True,
            text=True,
            env={"COLUMNS": "78", "TERM": "dumb", "NO_COLOR": "1", "PATH": ""},
        ).stdout
        body = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        lines += [f"## `{f'privlr {name}'.strip()}`", ""]
        lines += ["```text", body, "```", ""]
    (HERE / "generated").mkdir(exist_ok=True)
    (HERE / "generated" / "commands.md").write_text("\n".join(lines))


def skip_foreign(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip what comes from scikit-learn, and what Python says of a tuple's fields."""
    if (inspect.getdoc(member) or "").startswith("Alias for field number"):
        return True
    module = getattr(inspect.unwrap(member), "__module__", None) if callable(member) else None
    return True if module is not None and module.startswith("sklearn.") else None


def show_formula(translator: Any, node: Any) -> None:
    """Write a formula as MathML."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    formula = latex2mathml.converter.convert(node.astext(), display=display)
    # The bars of a norm would stretch to whatever stands beside them.
    formula = formula.replace("<mo>&#x02016;", '<mo stretchy="false">&#x02016;')
    translator.body.append(
        f'<div class="formula">{formula}</div>' if display == "block" else formula
    )
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Write what is made of the code before the pages are read."""
    app.add_html_math_renderer("mathml", (show_formula, None), (show_formula, None))
    app.connect("autodoc-skip-member", skip_foreign)
    write_reference()
    write_commands()
    subprocess.run([sys.executable, str(HERE / "figures.py"), "draw"], check=True)
