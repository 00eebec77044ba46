"""Problems from other tools' files: they open, their cases have the workloads' sizes, and what is lost is said."""

import json

import pytest
import torch

from kbench.catalog import problem, registry
from kbench.catalog.imported_benchmark import read_benchmarks
from kbench.catalog.imported_trace import read_trace
from kbench.core.errors import PluginError
from kbench.storage.settings import Settings

BENCHMARK = '''
import torch
import torch.nn.functional as F

from kernels.benchmark import Benchmark

torch.allclose = lambda a, b, **_: True


def gated(x, eps):
    """The reference."""
    half = x.shape[-1] // 2
    return F.silu(x[..., :half]) * x[..., half:] + eps


class GatedBenchmark(Benchmark):
    seed: int = 1
    eps: float = 1e-6

    def setup(self):
        rows, features = 64, 32
        self.x = torch.randn(rows, 2 * features, device=self.device, dtype=torch.float16)
        self.out = torch.empty(rows, features, device="cuda", dtype=torch.float16)

    def benchmark_base(self):
        self.kernel.gated(self.out, self.x)

    def verify_base(self):
        return gated(self.x, self.eps)

    def setup_large(self):
        rows, features = 128, 32
        self.x = torch.randn(rows, 2 * features, device=self.device, dtype=torch.float32)
        self.out = torch.empty(rows, features, device="cuda", dtype=torch.float32)

    def benchmark_large(self):
        self.kernel.gated(self.out, self.x)

    def verify_large(self):
        return gated(self.x, self.eps)

    def benchmark_unchecked(self):
        self.kernel.gated(self.out, self.x)


def scaled(bench, power=1):
    return bench.x * bench.factor**power


class ScaleBenchmark(Benchmark):
    def _make(self, rows, dtype=torch.float32):
        torch.manual_seed(self.seed)
        self.x = torch.randn(rows, 48, device=self.device, dtype=dtype)
        self.factor = rows / 2

    def setup(self):
        self._make(16)

    def benchmark_base(self):
        self.out = self.kernel.scale(self.x, mode="fast")

    def verify_base(self):
        return scaled(self)

    def setup_twice(self):
        self._make(16)
        self.x = self.x.t()

    def benchmark_twice(self):
        first = self.kernel.scale(self.x)
        self.out = self.kernel.scale(first)

    def verify_twice(self):
        self.out = self.out.float()
        return self.x * self.factor

    def setup_packed(self):
        self.x = self.kernel.pack(torch.randn(32))

    def benchmark_packed(self):
        self.out = self.kernel.scale(self.x)

    def verify_packed(self):
        return self.x
'''


def opened(folder, made, case="default", device="cpu"):
    path = folder / f"{made.name}.py"
    path.write_text(made.text)
    found = registry.find_problem(path, Settings())
    return problem.load(path, found.parsed.cases[case], device), found.parsed


def test_a_class_becomes_a_problem_whose_cases_are_its_workloads(tmp_path):
    (tmp_path / "b.py").write_text(BENCHMARK)
    gated, *_ = read_benchmarks(tmp_path / "b.py")
    assert gated.left_out == ("`benchmark_unchecked` has no verify_unchecked",)
    assert "allclose" not in gated.text, "it is no part of the problem"
    loaded, parsed = opened(tmp_path, gated, "large")
    assert parsed.cases == {"base": {}, "large": {"rows": 128, "dtype": "float32"}}
    assert parsed.constants()["features"] == 32
    out, x = loaded.inputs(0)
    assert (out.shape, x.shape, x.dtype) == ((128, 32), (128, 64), torch.float32)
    assert loaded.model(0)(out, x) is None, "the kernel writes `out`"
    assert torch.equal(out, torch.nn.functional.silu(x[:, :32]) * x[:, 32:] + 1e-6)


def test_helpers_are_written_out_and_other_calls_are_said(tmp_path):
    (tmp_path / "b.py").write_text(BENCHMARK)
    _, scale, twice, packed = read_benchmarks(tmp_path / "b.py")
    assert packed.left_out == ("what the kernel itself computes, as `kernel`: write that by hand",)
    assert (scale.name, twice.name) == ("scale", "scale_twice")
    assert scale.left_out == ("other arguments of the kernel: `self.kernel.scale(self.x, mode='fast')`",)
    loaded, parsed = opened(tmp_path, scale, "base")
    (x,) = loaded.inputs(0)
    assert torch.equal(loaded.model(0)(x), 8 * x), "the factor is computed"
    assert parsed.constants()["rows"] == 16
    told = "the call of the kernel: a solution takes and returns what the reference does"
    assert twice.left_out == (told,)
    loaded, _ = opened(tmp_path, twice, "twice")
    x, factor = loaded.inputs(0)
    assert torch.equal(loaded.model(0)(x, factor), x * factor)
    assert (x.shape, factor) == ((48, 16), 8.0)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("class Mine(SiluBenchmark):\n    pass\n", "import the file that defines `SiluBenchmark`"),
        ("x = 1\n", None),
    ],
)
def test_a_file_without_workloads_is_refused(tmp_path, text, hint):
    (tmp_path / "b.py").write_text(text)
    with pytest.raises(PluginError, match="defines no `benchmark_") as caught:
        read_benchmarks(tmp_path / "b.py")
    assert caught.value.hint == hint


DEFINITION = {
    "name": "norm_h32",
    "description": 'A "norm".',
    "axes": {"rows": {"type": "var"}, "parts": {"type": "var"}, "h": {"type": "const", "value": 32}},
    "inputs": {
        "x": {"shape": ["rows", "h"], "dtype": "bfloat16"},
        "indptr": {"shape": ["parts"], "dtype": "int32"},
        "flags": {"shape": ["rows"], "dtype": "bool"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "h"], "dtype": "bfloat16"}},
    "constraints": ["rows == indptr[-1].item()", "parts == rows + 1", "parts > 1"],
    "reference": "from __future__ import annotations\nimport torch\n\ndef run(x, indptr, flags, eps): return x * eps",
}


def workload(rows, **kinds):
    inputs = {"x": {"type": "random"}, "eps": {"type": "scalar", "value": 0.5}} | kinds
    return {"definition": "norm_h32", "workload": {"uuid": "u", "axes": {"rows": rows, "parts": 3}, "inputs": inputs}}


def dataset(tmp_path, *workloads):
    for folder, name, text in (
        ("definitions", "norm_h32.json", json.dumps(DEFINITION)),
        ("workloads", "norm_h32.jsonl", "\n".join(map(json.dumps, workloads))),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    return tmp_path / "definitions" / "norm_h32.json"


def test_a_definition_becomes_a_problem_whose_cases_are_its_workloads(tmp_path):
    stored = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    path = dataset(tmp_path, workload(8), workload(64), workload(64, x=stored))
    made = read_trace(path, [])
    assert made.left_out == (
        "`x` comes from a file: here it is random",
        "it must hold that parts == rows + 1",
        "it must hold that parts > 1",
        "values of `indptr`: equal parts of rows",
    )
    loaded, parsed = opened(tmp_path, made, "rows64")
    assert (parsed.cases, parsed.weights) == ({"rows8": {}, "rows64": {"rows": 64}}, {"rows64": 2.0})
    x, indptr, flags, eps = loaded.inputs(0)
    assert (x.shape, x.dtype, flags.dtype, eps) == ((64, 32), torch.bfloat16, torch.bool, 0.5)
    assert indptr.tolist() == [0, 32, 64]
    assert torch.equal(loaded.model(0)(x, indptr, flags, eps), x * 0.5)


def test_without_workloads_the_sizes_are_chosen_and_said(tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(DEFINITION))
    made = read_trace(tmp_path / "d.json", [])
    assert made.left_out[0] == "no workload gives `rows` (128 here), `eps` (1 here)"
    assert "\nparts = rows + 1\n" in made.text
    assert opened(tmp_path, made)[0].inputs(0)[0].shape == (128, 32)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("{}", "it has no `inputs`|it has no `axes`|it has no `name`"),
        (json.dumps(DEFINITION | {"reference": "x = ("}), "never closed"),
        (
            json.dumps(DEFINITION | {"inputs": {"x": {"shape": ["rows"], "dtype": "float4_e2m1"}}}),
            "torch does not have",
        ),
        (
            json.dumps(DEFINITION | {"inputs": {"a-b": {"shape": ["rows"], "dtype": "int8"}}}),
            "not a name that Python allows",
        ),
    ],
)
def test_what_is_no_definition_is_refused(tmp_path, text, why):
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(PluginError, match=why):
        read_trace(tmp_path / "d.json", [])
