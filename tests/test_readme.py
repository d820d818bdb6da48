"""Every block of code in the README runs, in order, as a reader would run it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_every_block_says_what_it_is() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh", "text"}


@pytest.mark.filterwarnings("default")
def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for language, code in BLOCKS:
        if language == "python":
            exec(compile(code, "README.md", "exec"), scope)
        for line in code.splitlines() if language == "sh" else []:
            if shlex.split(line)[0] == "privlr":
                subprocess.run(shlex.split(line), check=True, env={**os.environ, "PATH": binaries})
            else:
                assert shlex.split(line)[0] in ("make", "pip", "git", "cd"), line
