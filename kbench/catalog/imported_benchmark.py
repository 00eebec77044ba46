"""Hugging Face `Benchmark` classes as problem files: `setup` makes the inputs, `verify` is the reference.

Workloads that differ in literals only are cases of one problem, and the literals are its constants. A solution has the
arguments of the benchmark's kernel.
"""

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench.catalog.constant_folding import DTYPE, bound
from kbench.catalog.imported_trace import Imported
from kbench.catalog.problem_module import problem_part
from kbench.catalog.source import parse
from kbench.core.errors import PluginError

LITERAL = re.compile(rf"(?<![\w.\"'])(?:\d+\.?\d*(?:e[+-]?\d+)?|torch\.(?:{DTYPE.pattern}))(?![\w.])")
"""A number or a dtype."""
ASSIGNED = re.compile(r"(\w+(?:, \w+)*) = \(?([^()\[\]]+)\)?")
SPARE = r"(\w+(?:, \w+)*) = \(?\1\)?|torch\.(?:cuda\.)?manual_seed.*"
"""Lines without effect once `self` is gone, and seeds, by which every call would have the same inputs."""
DEVICE = r"device=(?:self\.device|'\w+')"
LEAST_SIZE = 16
"""Chosen. A smaller literal becomes a constant only where workloads differ in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One `benchmark_NAME`: the lines of its setup and of its reference, without `self`, and its calls."""

    name: str
    setup: list[str]
    calls: list[ast.stmt]
    verify: list[str]

    @property
    def structure(self) -> tuple[str, ...]:
        """All of it but literals of the setup: equal for cases of one problem."""
        return (*(LITERAL.sub("#", line) for line in self.setup), *map(ast.unparse, self.calls), *self.verify)


def read_benchmarks(path: Path) -> list[Imported]:
    """Make the problems of a file. Raises PluginError if it has none."""
    tree = parse(path).tree
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    made: list[Imported] = []
    for name, node in classes.items():
        left_out: list[str] = []
        groups: dict[tuple[str, ...], list[Workload]] = {}
        for workload in _workloads(functions | _members(node, classes), left_out):
            groups.setdefault(workload.structure, []).append(workload)
        stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix("Benchmark") or name).lower()
        for number, group in enumerate(groups.values()):
            own = f"{stem}_{group[0].name}" if number else stem
            try:
                made.append(_problem(own, f"{name} of {path.name}", tree, group, left_out))
            except SyntaxError as error:
                message = f"{path}: `{name}` is written in a way that cannot be taken over: {error}"
                raise PluginError(message, "write the problem by hand: `kbench new problem NAME`") from None
    if not made:
        bases = sorted({ast.unparse(base) for node in classes.values() for base in node.bases} - {"Benchmark"})
        hint = f"import the file that defines {' and '.join(f'`{base}`' for base in bases)}" if bases else None
        raise PluginError(f"{path} defines no `benchmark_...` with its `verify_...`", hint)
    return made


def _members(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> dict[str, ast.stmt]:
    """Return what a class binds, also in classes of the file that it inherits from."""
    bases = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
    own = {name: one for one in node.body for name in bound(one)}
    return {name: one for base in reversed(bases) for name, one in _members(base, classes).items()} | own


def _workloads(members: dict[str, ast.stmt], left_out: list[str]) -> Iterator[Workload]:
    assigned = {name: one for name, one in members.items() if isinstance(one, ast.Assign | ast.AnnAssign)}
    values = [f"{name} = {ast.unparse(one.value)}" for name, one in assigned.items() if one.value and name != "seed"]
    for method in (name for name in members if name.startswith("benchmark_")):
        name = method.removeprefix("benchmark_")
        setup, verify = members.get(f"setup_{name}", members.get("setup")), members.get(f"verify_{name}")
        if setup is None or verify is None:
            left_out.append(f"`{method}` has no {'setup' if setup is None else f'verify_{name}'}")
        else:
            first, calls, last = (_inlined(one, members) for one in (setup, members[method], verify))
            yield Workload(name=name, setup=[*values, *_lines(first)], calls=calls, verify=_lines(last))


def _inlined(method: ast.stmt, members: dict[str, ast.stmt]) -> list[ast.stmt]:
    """Return a method's statements without its docstring, calls of methods, and of functions of `self`, written out."""
    found: list[ast.stmt] = []
    for statement in getattr(method, "body", []):
        value = getattr(statement, "value", None) if isinstance(statement, ast.Expr | ast.Return) else None
        called = re.match(r"self\.(\w+)\(|(\w+)\(self[,)]", ast.unparse(value)) if isinstance(value, ast.Call) else None
        helper = members.get(called[1] or called[2]) if called else None
        if called and isinstance(helper, ast.FunctionDef) and isinstance(value, ast.Call) and helper is not method:
            own, *names = [one.arg for one in helper.args.args] or ["self"]
            given = dict(zip(reversed(names), reversed(helper.args.defaults), strict=False))
            given |= dict(zip(names, value.args[called[1] is None :], strict=False))
            given |= {one.arg or "": one.value for one in value.keywords}
            found += [ast.parse(f"{each} = {ast.unparse(one)}").body[0] for each, one in given.items()]
            body = ast.parse(re.sub(rf"\b{own}\b", "self", ast.unparse(helper))).body[0]
            found += _inlined(body, members)
        elif not isinstance(value, ast.Constant):
            found.append(statement)
    return found


def _lines(statements: Sequence[ast.stmt]) -> list[str]:
    """Write statements without `self`, without devices, and without what they assign to `self.out` to compare it."""
    text = "\n".join(map(ast.unparse, statements))
    is_setup = not any(isinstance(one, ast.Return) for one in statements)
    text = re.sub(rf", {DEVICE}|{DEVICE}, ", "", text if is_setup else re.sub(r"(?m)^self\.out = .*\n", "", text))
    text = re.sub(r"\bself\.(\w+)", r"\1", text.replace("self.device", "torch.get_default_device()"))
    return [line for line in text.splitlines() if not re.fullmatch(SPARE, line)]


def _problem(name: str, origin: str, tree: ast.Module, group: Sequence[Workload], left_out: list[str]) -> Imported:
    lines, constants = _with_constants(group)
    setup, verify = ast.parse("\n".join(lines)).body, ast.parse("\n".join(group[0].verify)).body
    statements = [node for one in setup for node in ast.walk(one) if isinstance(node, ast.stmt)]
    made = list(dict.fromkeys(each for node in statements for each in bound(node)))
    read = [each for each in _reads(verify) if each in made]
    arguments, scalars, fills, lost = _signature(group[0], setup, read, made)
    if fills and isinstance(verify[-1], ast.Return):
        verify[-1:] = ast.parse(f"out.copy_({ast.unparse(verify[-1].value or ast.Constant(None))})").body
    inputs = _sliced(setup, arguments)
    if "kernel" in _reads([*inputs, *scalars, *verify]):
        lost = [*lost, "what the kernel itself computes, as `kernel`: write that by hand"]
    assigned = [f"{each} = {values[0]}" for each, values in constants.items()]
    cases = "".join(f'    "{one.name}": {_case(number, constants)},\n' for number, one in enumerate(group))
    taken = ", ".join(arguments)
    functions = [
        f"class Model(torch.nn.Module):\n    def forward(self, {taken}):\n{_indented([*scalars, *verify], 8).rstrip()}",
        f"def get_inputs():\n{_indented(inputs, 4)}    return [{taken}]\n",
    ]
    body = ["\n".join([*assigned, "", f"CASES = {{\n{cases}}}"]), *functions]
    dropped = re.compile(r"(from|import) kernels\b|class \w+\(.*Benchmark\)|[\"']|torch\.\S+ =")
    kept = [one for one in tree.body if not dropped.match(ast.unparse(one))]
    whole = problem_part(ast.Module([*kept, *ast.parse("\n".join(body)).body], []))
    before = [one for one in whole if one in kept]
    imports = [ast.unparse(one) for one in before if isinstance(one, ast.Import | ast.ImportFrom)]
    others = [text for one in before if (text := ast.unparse(one)) not in imports]
    lines = [f'"""{name}: made by `kbench import` from {origin}."""', "", *dict.fromkeys([*imports, "import torch"])]
    notes = (*left_out, *lost)
    return Imported(name=name, text="\n\n\n".join(["\n".join(lines), *others, *body]), cases=len(group), left_out=notes)


def _signature(
    workload: Workload, setup: Sequence[ast.stmt], read: Sequence[str], made: Sequence[str]
) -> tuple[list[str], list[ast.stmt], bool, list[str]]:
    """Return a solution's arguments, how the reference's other values are computed, whether `out` is filled, and notes.

    The arguments are those of the benchmark's one call of the kernel, or else what the reference reads.
    """
    nodes = (node for one in workload.calls for node in ast.walk(one) if isinstance(node, ast.Call))
    calls = [node for node in nodes if "self.kernel." in ast.unparse(node.func)]
    passed = [ast.unparse(one) for call in calls for one in (*call.args, *(each.value for each in call.keywords))]
    arguments = [one.removeprefix("self.") for one in passed if re.fullmatch(r"self\.\w+", one)]
    scalars = _sliced(setup, [each for each in read if each not in arguments])
    typed = ast.unparse(workload.calls[0]) if len(workload.calls) == 1 and calls else ""
    fills = typed == ast.unparse(calls[0]) and "out" in arguments if typed else False
    is_plain = bool(typed) and (fills or typed == f"self.out = {ast.unparse(calls[0])}")
    if is_plain and "torch." not in "".join(map(ast.unparse, scalars)):
        more = [f"other arguments of the kernel: `{ast.unparse(calls[0])}`"] if len(arguments) < len(passed) else []
        return arguments, scalars, fills, more
    lost = "the call of the kernel: a solution takes and returns what the reference does"
    return [each for each in made if each in read], [], False, [lost]


def _with_constants(group: Sequence[Workload]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the setup of the first workload with names in place of literals, and their values in each workload."""
    constants: dict[str, list[str]] = {}
    lines = []
    for each in zip(*(one.setup for one in group), strict=True):
        columns = [list(column) for column in zip(*map(LITERAL.findall, each), strict=True)]
        match = ASSIGNED.fullmatch(each[0])
        names, values = (one.split(", ") for one in match.groups()) if match else ([], [])
        is_plain = values and len(names) == len(values) and all(map(LITERAL.fullmatch, values))
        if is_plain and not constants.keys() & {*names}:
            constants |= dict(zip(names, columns, strict=True))
        else:
            named = iter([_name(column, constants) for column in columns])
            lines.append(LITERAL.sub(lambda _, named=named: next(named), each[0]))  # type: ignore[misc]
    return lines, constants


def _name(column: list[str], constants: dict[str, list[str]]) -> str:
    """Return what stands for a literal: itself if it is no size and alike everywhere, else a constant of its values."""
    is_size = column[0].isdecimal() and int(column[0]) >= LEAST_SIZE
    if len(set(column)) == 1 and not is_size:
        return column[0]
    kind = "dtype" if column[0].startswith("torch") else "size"
    numbered = (kind if number == 1 else f"{kind}_{number}" for number in itertools.count(1))
    name = next((name for name, own in constants.items() if own == column), None) or next(
        n for n in numbered if n not in constants
    )
    constants[name] = column
    return name


def _case(number: int, constants: dict[str, list[str]]) -> str:
    changed = {name: own[number] for name, own in constants.items() if own[number] != own[0]}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in changed.items()) + "}"


def _indented(statements: Sequence[ast.stmt], blanks: int) -> str:
    return "".join(f"{' ' * blanks}{line}\n" for one in statements for line in ast.unparse(one).splitlines())


def _reads(statements: Sequence[ast.stmt]) -> list[str]:
    """Return the names that statements read."""
    nodes = (node for one in statements for node in ast.walk(one) if isinstance(node, ast.Name))
    return list(dict.fromkeys(node.id for node in nodes if isinstance(node.ctx, ast.Load)))


def _sliced(setup: Sequence[ast.stmt], names: Sequence[str]) -> list[ast.stmt]:
    """Return the statements that make or change these names, and what they are made of."""
    needed, kept = set(names), list[ast.stmt]()
    for statement in reversed(setup):
        stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        if (stored or {*_reads([statement])}) & needed:
            kept.append(statement)
            needed |= {*_reads([statement])}
    return kept[::-1]
