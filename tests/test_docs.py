"""What the documents say is true: settings load, commands and flags exist, links lead somewhere, code runs."""

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from kbench.cli.app import COMMANDS, build_app
from kbench.core.errors import ExitCode
from kbench.storage import settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = sorted(path.name for path in (ROOT / "tests").glob("*.py") if "\nif __name__ ==" in path.read_text())
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


def commands(page: str) -> list[tuple[str, str]]:
    """Return the name and the rest of each command line: in code blocks, and between backticks in prose."""
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", TEXT[page], re.S | re.M))
    lines = re.findall(r"^(?:\$ |[\w ]+\| )?kbench ([a-z]+)\b([^`\n#|]*)", fenced, re.M)
    return lines + re.findall(r"`(?:[\w./]*bin/)?kbench ([a-z]+)\b([^`\n#|]*)", TEXT[page])


def load(name: str) -> ModuleType:
    """Import a script of `docs`."""
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says():
    folder = ROOT / "docs" / "reference"
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == load("generate_reference").pages(), "run `make reference`, and read the diff"


def test_everything_in_the_reference_has_a_meaning():
    for page, text in TEXT.items():
        if page.startswith("docs/reference/"):
            lines = [one for one in text.splitlines() if one.startswith(("| ", "- ")) and not one.startswith("| ---")]
            assert len(lines) > 5, page
            assert [line for line in lines if line.endswith(("|  |", ": "))] == [], page


def test_a_document_names_each_program_of_the_tests():
    text = "\n".join(page.read_text() for page in [*PAGES, *(ROOT / "results").rglob("README.md")])
    assert [program for program in PROGRAMS if f"tests/{program}" not in text] == []


def test_every_exit_code_is_documented():
    table = re.findall(r"^\| (\d+) \|", TEXT["docs/reference/exit-codes.md"], re.M)
    assert sorted(int(code) for code in table) == sorted(int(code) for code in ExitCode)


def flags_of(command: Any) -> set[str]:
    subcommands = getattr(command, "commands", {})
    own = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    return own.union({"--help", "-h"}, *(flags_of(one) for one in subcommands.values()))


FLAGS = {name: flags_of(typer.main.get_command(build_app(name)).commands[name]) for name in COMMANDS}


def test_commands_and_flags_in_the_documents_exist():
    for page in TEXT:
        for name, rest in commands(page):
            assert name in COMMANDS, f"{page} mentions `kbench {name}`"
            for flag in re.findall(r"(?<!\S)(--[a-z][a-z0-9-]*|-[a-z])\b", rest):
                assert flag in FLAGS[name], f"{page}: `kbench {name}` has no `{flag}`"


def test_python_and_toml_in_the_documents_can_be_read():
    for page in TEXT:
        for block in blocks(page, "python"):
            ast.parse(textwrap.dedent(block), page)
        for block in blocks(page, "toml"):
            tomllib.loads(block)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    heads = re.findall(r"^#+ (.+)$", without_code, re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_links_lead_somewhere():
    found = [
        (page, *link) for page in TEXT for link in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", TEXT[page])
    ]
    for page, target, anchor in found:
        path = (ROOT / page).parent.joinpath(target).resolve() if target else ROOT / page
        assert path.exists(), f"{page} links to {target}"
        assert page == "README.md" or path.is_relative_to(ROOT / "docs"), f"{page} links out of the site: {target}"
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{page} links to {target}#{anchor}"


def test_every_page_is_in_the_navigation():
    named = re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(named) == sorted(
        str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md" or page.parent != ROOT
    )


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra `docs`")
def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_python_examples_run(own_folder):
    for name in ("kbench", "tests"):  # the page is read in a checkout
        Path(name).symlink_to(ROOT / name)
    exec(compile("\n".join(blocks("docs/python.md", "python")), "docs/python.md", "exec"), {"__name__": "__main__"})


def write_files(*pages: str) -> None:
    for title, code in re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', "".join(TEXT[page] for page in pages), re.S):
        Path(title).parent.mkdir(exist_ok=True)
        Path(title).write_text(code)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in-place", "backward", "providers", "grids"])
def test_what_a_page_runs_on_its_files_passes(own_folder, kbench, name):
    write_files(page := f"docs/how-to/{name}.md", "docs/how-to/providers.md")
    for typed in re.findall(r"^kbench (?:verify|run) (.*?)(?: --quick| --baseline.*)*$", TEXT[page], re.M):
        done = kbench("verify", *shlex.split(typed), "--device", "cpu", "--no-save", "--json")
        assert {one["level"] for one in done.document["results"]} == {"general"}, done.out + done.err


@pytest.mark.slow
def test_the_matrix_of_the_page_about_pytest_passes(own_folder):
    write_files("docs/how-to/pytest.md", "docs/how-to/providers.md")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], check=False, capture_output=True, text=True)
    assert "4 passed" in done.stdout, done.stdout


def test_the_workflow_runs_step_by_step(tmp_path, capfd):
    module = load("ci/try-locally")
    text = (ROOT / "docs" / "ci" / "github-actions.yml").read_text()
    steps = module.read_steps(text)
    assert [name for name, _ in steps] == ["Install", "Is this machine ready", "Verify and time", "Gate"]
    assert module.read_environment(text) == {
        "PROBLEM": "group_norm",
        "SOLUTION": "two_kernel",
        "INSTALL": ".[html]",
    }
    flags = {flag for _, script in steps for flag in re.findall(r"--[a-z]+", script)}
    sources = "".join(path.read_text() for path in (ROOT / "kbench" / "cli").glob("*.py"))
    assert all(re.search(rf'"{flag}[ "]', sources) for flag in flags - {"--system"})
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


CI = ROOT / "docs" / "ci"


def test_the_action_calls_kbench_as_it_is():
    script = (CI / "report" / "action.yml").read_text()
    (rest,) = re.findall(r'"\$KBENCH" report(.*) \|\|', script)
    assert set(re.findall(r"(?<!\S)--?[a-z]+", rest)) <= FLAGS["report"]
    assert "./.github/actions/kbench-report" in (CI / "github-actions.yml").read_text()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(
    ("comments", "call"),
    [
        ("[]", "create 7"),
        ("[{id: 3, user: {type: 'User'}, body: '<!-- kbench --> forged'}]", "create 7"),
        ("[{id: 3, user: {type: 'Bot'}, body: '<!-- kbench --> before'}]", "update 3"),
    ],
)
def test_the_action_writes_one_comment(tmp_path, comments, call):
    (tmp_path / "summary.md").write_text("GATE PASSED")
    script = f"""
        const tell = (word, number) => async (sent) => console.log(word, sent[number], sent.body)
        const issues = {{createComment: tell('create', 'issue_number'), updateComment: tell('update', 'comment_id')}}
        const github = {{paginate: async () => ({comments}), rest: {{issues}}}}
        const repo = {{owner: 'o', repo: 'r'}}
        const context = {{repo, serverUrl: 'https://github.com', runId: 9, issue: {{number: 7}}}}
        require('{CI}/report/comment.cjs')({{github, context, file: '{tmp_path}/summary.md'}})
    """
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{call} <!-- kbench -->\nGATE PASSED\n")
    assert "(https://github.com/o/r/actions/runs/9)" in done.stdout


def test_docstring_of_evaluate_names_real_options():
    import kbench
    from kbench.core.events import RunOptions

    named = re.findall(r"\(`(\w+)`(?:, `(\w+)`)*", inspect.getdoc(kbench.evaluate))
    assert named
    assert {name for names in named for name in names if name} <= {field.name for field in fields(RunOptions)}


PAGE = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^- `([\w.]+)` = ([^(\n]+?)(?: \(.*\))?$", PAGE, re.M))
MODULES = sorted({name.rpartition(".")[0] for name in ROWS})
NOT_OF_THE_RULE = {
    *("numerics.elements.CHUNK_ELEMENTS", "numerics.elements.CPU_CHUNK_ELEMENTS"),
    "numerics.elements.SHOWN_MISMATCHES",  # memory, messages
}
SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def value_of(name):
    module, _, constant = name.rpartition(".")
    return getattr(importlib.import_module(f"kbench.{module}"), constant)


@pytest.mark.parametrize("name", [name for name in ROWS if not name.endswith(".TOLERANCES")])
def test_a_constant_on_the_page_is_the_one_in_the_code(name):
    told = [float(number) for number in ROWS[name].split(", ")]
    value = value_of(name)
    assert told == [float(number) for number in (value if isinstance(value, tuple) else [value])]


def test_the_tolerances_on_the_page_are_those_in_the_code():
    told = {}
    for part in ROWS["numerics.elements.TOLERANCES"].split("; "):
        kinds, _, number = part.partition(": ")
        told |= {SHORT.get(kind, kind): float(number) for kind in kinds.split(", ")}
    assert told == {dtype: tolerance.rtol for dtype, tolerance in value_of("numerics.elements.TOLERANCES").items()}


@pytest.mark.parametrize("module", MODULES)
def test_the_page_leaves_out_no_constant(module):
    """Numbers in capitals at the top of a module of the rule are on the page, or named here as no part of it."""
    tree = ast.parse((ROOT / "kbench" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    names = [name.id for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name)]
    numbers = {f"{module}.{name}" for name in names if isinstance(value_of(f"{module}.{name}"), int | float)}
    assert numbers - NOT_OF_THE_RULE <= set(ROWS)
