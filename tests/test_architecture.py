"""The house rules that no reader should have to check: who imports whom, sizes, and who may catch everything."""

import ast
import contextlib
import functools
import graphlib
import io
import re
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kbench"
MOST_LINES = 400
MOST_FUNCTION_LINES = 70
CORPUS = PACKAGE / "selftest" / "corpus"
CONTENT = {"kernels", "problems", "solutions"}
NO_NAMES = {"utils", "util", "helpers", "common", "misc", "eval"}
MAY_CATCH_EVERYTHING = {
    "kbench/judge/main.py": "child main",
    "kbench/worker/main.py": "child main",
    "kbench/process/nursery.py": "child main",
    "kbench/judge/reference/reference.py": "runs a problem's own code on inputs that it may refuse",
    "kbench/judge/why.py": "explains a refusal that stands without it",
    "kbench/judge/reference/oracle.py": "runs a problem's own code in a precision it was not written for",
    "kbench/cli/app.py": "the last line of the command line",
    "kbench/catalog/shapes.py": "asks a problem's own code about sizes it was not written for",
    "kbench/catalog/problem.py": "runs a problem's own code, which may raise anything",
    "kbench/catalog/problem_module.py": "imports a problem's file, which may raise anything",
    "kbench/catalog/device_first.py": "tries a problem's or a solution's code on the CPU, whatever it raises",
    "kbench/api/judge.py": "carries what a thread raised to the one that asked",
    "kbench/serve/service.py": "tells a defect to the client that asked, and goes on",
    "kbench/cluster/executor.py": "carries what a thread raised to the one that asked",
    "kbench/cluster/supervisor.py": "carries what a thread raised to the driver",
    "kbench/engine/builds.py": "carries what a thread raised to the one that asked",
    "kbench/engine/crew.py": "carries what a thread raised to the one that asked",
}
MAY_PRINT = {
    "kbench/cli/output.py": "the streams of a command",
    "kbench/cli/app.py": "the last line of the command line",
    "kbench/cli/entry.py": "the last line where there is no command line",
    "kbench/devices/peaks.py": "child main",
    "kbench/host/health.py": "child main",
    "kbench/sandbox/rung_probe.py": "child main",
    "kbench/sandbox/process_tree.py": "ends the process that it leads",
    "kbench/process/nursery.py": "child main",
}
LIGHT = (
    *(f"kbench/{room}/" for room in ("cli", "report", "gate", "catalog", "storage", "core")),
    "kbench/selftest/fixtures.py",
)
EXITS = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"}


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Every module but those of the corpus of cheats, which is a museum of bad manners."""
    found = [path.relative_to(ROOT) for path in sorted(PACKAGE.rglob("*.py")) if not path.is_relative_to(CORPUS)]
    return {str(path): ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in found}


def test_imports_point_down(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None)
    assert code == 0, said.getvalue()


def test_every_verb_and_ring_is_in_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    named = {name.strip().removeprefix("kbench.") for layer in layers for name in layer.split("|")}
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert there - {"__init__", "__main__"} - CONTENT == named


def imports() -> dict[str, set[str]]:
    """What each module imports of kbench, also inside functions and for types only."""
    names = {module.removesuffix(".py").removesuffix("/__init__").replace("/", "."): module for module in modules()}
    found: dict[str, set[str]] = {}
    for name, module in names.items():
        nodes = list(ast.walk(modules()[module]))
        whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                whole |= {part if part in names else node.module for part in parts}
        found[name] = whole & names.keys() - {name}
    return found


def test_no_imports_go_in_a_circle():
    try:
        graphlib.TopologicalSorter(imports()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def asks_which_device(node: ast.AST) -> bool:
    """Whether a node compares with `cuda` or `cpu`, or asks a tensor whether it is on a GPU."""
    if isinstance(node, ast.Attribute):
        return node.attr in {"is_cuda", "is_cpu"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
        compared = node.args
    elif isinstance(node, ast.Compare):
        compared = [node.left, *node.comparators]
    else:
        return False
    words = [inner.value for each in compared for inner in ast.walk(each) if isinstance(inner, ast.Constant)]
    return bool({"cuda", "cuda:", "cpu"} & {word for word in words if isinstance(word, str)})


def test_only_devices_ask_which_device_it_is():
    others = {
        f"{module}:{node.lineno}": ast.unparse(node)
        for module, tree in modules().items()
        if Path(module).parts[1] not in {*CONTENT, "devices"}
        for node in ast.walk(tree)
        if asks_which_device(node)
    }
    assert others == {}


def test_one_module_opens_nvml_and_one_libcuda():
    openers = {"pynvml": "kbench/devices/nvml.py", "libcuda.so.1": "kbench/devices/cuda_driver.py"}
    for word, place in openers.items():
        assert [module for module in modules() if word in (ROOT / module).read_text(encoding="utf-8")] == [place]


def test_no_two_records_have_one_name():
    places: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in ast.walk(tree) if Path(module).parts[1] not in CONTENT else ():
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if node in tree.body and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names = [node.targets[0].id]  # a type by another name: constants are in capitals, functions begin small
            for name in names:
                if name[0].isupper() and not name.isupper():
                    places.setdefault(name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_a_module_is_one_noun():
    assert [module for module in modules() if Path(module).stem in NO_NAMES] == []
    lengths = {module: len((ROOT / module).read_text(encoding="utf-8").splitlines()) for module in modules()}
    assert {module: lines for module, lines in lengths.items() if lines > MOST_LINES} == {}


def test_a_function_fits_a_screen():
    long = {
        f"{module}:{node.name}": lines
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MOST_FUNCTION_LINES
    }
    assert long == {}


def catches_everything(node: ast.AST) -> bool:
    """Whether a handler catches Exception or more; one that raises again what it caught does not count."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    reraises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
    names = {getattr(kind, "id", "Exception" if kind is None else "") for kind in caught}
    return bool({"Exception", "BaseException"} & names) and not reraises


def test_only_the_last_lines_catch_everything():
    found = {m for m, tree in modules().items() if any(catches_everything(node) for node in ast.walk(tree))}
    assert found <= set(MAY_CATCH_EVERYTHING)


def test_nothing_below_the_command_line_prints_or_exits():
    found = {
        module
        for module, tree in modules().items()
        if not module.startswith("kbench/cli/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in EXITS
    }
    assert found <= set(MAY_PRINT)


def test_heavy_imports_are_not_at_the_top_of_light_modules():
    heavy = []
    for module, tree in modules().items():
        for node in tree.body if module.startswith(LIGHT) else []:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heavy += [(module, n) for n in names if n.partition(".")[0] in {"torch", "pandas", "click"}]
    assert heavy == []


def test_records_are_frozen_keyword_only_and_slotted():
    loose = [
        f"{module}:{node.lineno}"
        for module, tree in modules().items()
        if module.startswith(LIGHT)
        for node in ast.walk(tree)
        for decorator in getattr(node, "decorator_list", [])
        if re.match(r"dataclass\b", text := ast.unparse(decorator))
        and not all(f"{word}=True" in text for word in ("frozen", "kw_only", "slots"))
    ]
    assert loose == []
