"""A flashinfer-trace definition with its workloads, as a problem file: axes are constants, workloads are cases."""

import ast
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from kbench.core.errors import PluginError

FORMAT = "name a JSON object with `name`, `axes`, `inputs` and `reference`, and its workloads as `.jsonl`"
ANY_SIZE = 128
"""Chosen. Size of an axis that no workload gives."""
PROBLEM = Template('''"""$summary"""

$reference

$constants

CASES = {
$cases}


class Model(torch.nn.Module):
    def forward(self, $arguments):
        return $call


def get_inputs():
    return [
$inputs    ]
''')


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A problem file made from another tool's file, and what that says and the problem does not."""

    name: str
    text: str
    cases: int
    left_out: tuple[str, ...]


def read_trace(path: Path, more: Sequence[Path]) -> Imported:
    """Read a definition; its workloads are in the `more` files, or where a dataset has them. Raises PluginError."""
    try:
        definition = json.loads(path.read_text(encoding="utf-8"))
        known = Path(*["workloads" if part == "definitions" else part for part in path.parts]).with_suffix(".jsonl")
        files = more or [file for file in (known, path.with_suffix(".jsonl")) if file.is_file()]
        lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines() if line]
        own = [one.get("workload", one) for one in lines if one.get("definition", "") in {"", definition["name"]}]
        return _problem(definition, own)
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"{path} cannot be read: {error}", "check the path") from None
    except (ValueError, LookupError, AttributeError, TypeError, SyntaxError) as error:
        why = f"it has no `{error.args[0]}`" if isinstance(error, KeyError) else str(error)
        raise PluginError(f"{path} is no flashinfer-trace definition with workloads: {why}", FORMAT) from None


def _problem(definition: Mapping[str, Any], workloads: Sequence[Mapping[str, Any]]) -> Imported:
    axes, specs, constraints = definition["axes"], definition["inputs"], definition.get("constraints") or []
    for name in (*axes, *specs):
        if not name.isidentifier():
            raise ValueError(f"`{name}` is not a name that Python allows")
    named = [*axes, *(size for spec in specs.values() for size in spec["shape"] or ())]
    sizes = [name for name in dict.fromkeys(named) if axes.get(name, {}).get("type") != "const"]
    scalars = [name for name, spec in specs.items() if spec["shape"] is None]
    points = []
    for one in workloads:
        values = {name: one["inputs"][name]["value"] for name in scalars if "value" in one["inputs"].get(name, {})}
        points.append({name: int(size) for name, size in one["axes"].items() if name in sizes} | values)
    counts = Counter(tuple(point.items()) for point in points)
    first = dict(next(iter(counts), ()))
    equations = (re.fullmatch(r"(\w+) == (\w+ [+*] \w+)", one) for one in constraints)
    sums = {found[1]: found[2] for found in equations if found and found[1] in {*sizes} - {*first}}
    absent = {name: ANY_SIZE if name in sizes else 1 for name in (*sizes, *scalars) if name not in first | sums}
    constants = {name: axis["value"] for name, axis in axes.items() if axis["type"] == "const"} | first | absent
    files = {name for one in workloads for name, given in one["inputs"].items() if given["type"] == "safetensors"}
    left_out = ["no workload gives " + ", ".join(f"`{n}` ({v} here)" for n, v in absent.items())] if absent else []
    left_out += [f"`{name}` comes from a file: here it is random" for name in specs if name in files]
    left_out += [f"it must hold that {one}" for one in constraints if one.split()[0] not in sums and "[-1]" not in one]
    made = [_made(name, spec, constraints, left_out) for name, spec in specs.items()]
    cases = _cases(first, counts) if counts else {"default": {}}
    reference = definition["reference"].strip()
    functions = {node.name: node for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)}
    name = "run" if "run" in functions else [*functions][-1]
    taken = [one.arg for one in functions[name].args.args]
    taken = taken if {*taken} <= {*specs} else [*specs]
    summary = f"{definition['name']}: {definition.get('description') or 'a flashinfer-trace definition'}"
    assigned = [f"{name} = {value}" for name, value in [*((n, repr(v)) for n, v in constants.items()), *sums.items()]]
    text = PROBLEM.substitute(
        summary=summary.replace("\\", "").replace('"', "'"),
        constants="\n".join(assigned),
        cases="".join(f'    "{name}": {own!r},\n' for name, own in cases.items()),
        reference=reference if "import torch\n" in reference else f"{reference}\n\n\nimport torch",
        call=f"{name}({', '.join(taken)})",
        arguments=", ".join(specs),
        inputs="".join(f"        {one},\n" for one in made),
    )
    stem = re.sub(r"\W", "_", definition["name"])
    return Imported(name=stem, text=text, cases=len(cases), left_out=tuple(left_out))


def _cases(first: Mapping[str, Any], counts: Mapping[tuple[Any, ...], int]) -> dict[str, dict[str, Any]]:
    """Return the cases by name; workloads of the same values are one case with a weight."""
    points = {point: dict(point) for point in counts}
    varying = [name for name in first if len({point.get(name) for point in points.values()}) > 1]
    cases = {}
    for key, point in points.items():
        changed = {name: value for name, value in point.items() if value != first[name]}
        weight = {"weight": counts[key]} if counts[key] > 1 and "weight" not in first else {}
        cases["_".join(f"{name}{point[name]}" for name in varying) or "default"] = changed | weight
    return cases


def _made(name: str, spec: Mapping[str, Any], constraints: Sequence[str], left_out: list[str]) -> str:
    """Return the expression that makes an input."""
    kind, shape = spec["dtype"], ", ".join(spec["shape"] or ()) or "()"
    if spec["shape"] is None:
        return name
    if kind == "unknown":  # FlashInfer writes it of arguments that were not given
        left_out.append(f"the dtype of `{name}`: here it is int32")
        kind = "int32"
    if not re.fullmatch(r"b?float(8_\w+|16|32|64)|u?int\d+|bool", kind):
        raise ValueError(f"`{name}` has the dtype `{kind}`, which torch does not have")
    if kind.startswith("float8"):
        return f"torch.randn({shape}).to(torch.{kind})"
    if "float" in kind:
        return f"torch.randn({shape}, dtype=torch.{kind})"
    if kind == "bool":
        return f"torch.rand({shape}) < 0.5"
    total = next((found[1] for one in constraints if (found := re.match(rf"(\w+) *== *{name}\[-1\]", one))), None)
    left_out.append(f"values of `{name}`: {f'equal parts of {total}' if total else 'here they are 0 and 1'}")
    if total is not None:
        return f"torch.linspace(0, {total}, {shape}).to(torch.{kind})"
    return f"torch.randint(0, 2, ({shape},), dtype=torch.{kind})" if spec["shape"] else "torch.tensor(0)"
