"""What the documents say is true: settings load, commands and flags exist, links lead somewhere, code runs."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from kbench.cli.app import COMMANDS
from kbench.core.errors import ExitCode
from kbench.core.model import ResultRow
from kbench.storage import settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT[page], re.S)


def test_the_settings_example_is_valid(tmp_path):
    example = next(block for block in blocks("docs/formats.md", "toml") if "tool.kbench" in block)
    path = tmp_path / "pyproject.toml"
    path.write_text(example)
    (tmp_path / "my_kernels").mkdir()
    loaded = settings.load(path)
    assert loaded.gate.override["group_norm/*/small"].slower == 0.05
    defaults = settings.Settings().run
    assert loaded.run == defaults, "the example shows the defaults"


def test_every_exit_code_is_documented():
    table = re.findall(r"^\| (\d+) \|", TEXT["docs/formats.md"], re.M)
    assert sorted(int(code) for code in table) == sorted(int(code) for code in ExitCode)


@pytest.mark.parametrize("page", list(TEXT))
def test_commands_in_the_documents_exist(page):
    for name in re.findall(r"(?:^|[`$] ?|bin/)kbench ([a-z]+)\b", TEXT[page], re.M):
        assert name in COMMANDS, f"{page} mentions `kbench {name}`"


@pytest.mark.parametrize("page", list(TEXT))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", TEXT[page]):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_columns_that_documents_name_exist():
    fields = set(ResultRow.__annotations__)
    assert {"time_ns_median", "speedup", "speedup_low", "speedup_high", "percent_of_limit"} <= fields


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_python_examples_run(page, tmp_path):
    code = "\n".join(block for block in blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        env={**os.environ, "KBENCH_CACHE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def test_the_workflow_runs_step_by_step(tmp_path, capfd):
    spec = importlib.util.spec_from_file_location("try_locally", ROOT / "docs" / "ci" / "try-locally.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "ci" / "github-actions.yml").read_text()
    steps = module.read_steps(text)
    assert [name for name, _ in steps] == ["Install", "Is this machine fit", "Verify and time", "Gate"]
    assert module.read_environment(text) == {"PROBLEM": "group_norm", "SOLUTION": "two_kernel"}
    flags = {flag for _, script in steps for flag in re.findall(r"--[a-z]+", script)}
    sources = "".join(path.read_text() for path in (ROOT / "kbench" / "cli").glob("*.py"))
    assert all(f'"{flag}"' in sources for flag in flags - {"--system"})
    workflow = tmp_path / "small.yml"
    workflow.write_text(
        "env:\n  WORD: hello\n\njobs:\n  one:\n    steps:\n      - uses: actions/checkout@v4\n\n"
        '      - name: Say\n        run: |\n          echo "$WORD there"\n'
        "          echo sum >> $GITHUB_STEP_SUMMARY\n\n"
        "      - name: Fail\n        run: exit 3\n\n      - name: Never\n        run: echo never\n"
    )
    sys.argv = ["try-locally", str(workflow)]
    assert module.main() == 3
    said = capfd.readouterr().out
    assert "hello there" in said
    assert "never" not in said
    assert "sum" in said


def test_docstring_of_evaluate_names_real_options():
    import kbench
    from kbench.core.events import RunOptions

    named = re.findall(r"\(`(\w+)`(?:, `(\w+)`)*", inspect.getdoc(kbench.evaluate))
    assert named
    assert {name for names in named for name in names if name} <= {field.name for field in fields(RunOptions)}
