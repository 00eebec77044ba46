"""Every way for a solution to fail has its own status, and none of them takes the harness along."""

import shutil
from pathlib import Path

import pytest
import tiny_corpus
from verdicts import verdicts, written

from kbench.catalog import registry
from kbench.core.errors import PluginError
from kbench.core.events import Judged
from kbench.core.model import Failed, Passed, Status
from kbench.storage.results import read_run
from kbench.storage.settings import Settings

pytestmark = pytest.mark.slow(seconds=20)

PROBLEM = tiny_corpus.problem("nn.functional.gelu(x)", given="torch.randn(32, n)", constants="n = 500")
RIGHT = "return nn.functional.gelu(x)"
BUILDS = """from torch.utils.cpp_extension import load_inline
plain = {"no_implicit_headers": True, "is_python_module": False}
"""


def calls(body: str, head: str = "") -> str:
    return tiny_corpus.solution(body, head=head)


def builds(source: str, kind: str = "cpp") -> str:
    other = "" if kind == "cpp" else "cpp_sources=[], "
    return calls(RIGHT, f"{BUILDS}load_inline('failing_{kind}', {other}{kind}_sources=[{source!r}], **plain)")


MANY_ERRORS = (
    'extern "C" int own_gelu(const float* x, float* y, long n) { y[0] = undeclared_name(x[0]);'
    f"{''.join(f' another_{i}();' for i in range(400))} return 0; }}"
)
NEVER_COMPILED = """
template <int N, int K> struct Slow {
  static constexpr long value = Slow<N - 1, 2 * K>::value + Slow<N - 1, 2 * K + 1>::value;
};
template <int K> struct Slow<0, K> { static constexpr long value = K; };
extern "C" long answer() { return Slow<24, 0>::value; }
"""
EATS = """while True:
            held.append(mmap.mmap(block, 1 << 28, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))
            time.sleep(0.02)"""
"""The same 256 MiB again and again, since 6 GiB of its own take 10 s to touch."""
HELD = "import mmap, os, time\nheld, block = [], os.memfd_create('block')\nos.truncate(block, 1 << 28)"
PRINTS = "for _ in left: sys.stdout.write('x' * (1 << 20))\n        " + RIGHT
SOLUTIONS = {
    # name: (source, its statuses)
    "correct": (calls(RIGHT), {Status.PASSED}),
    "wrong_value": (calls(f"{RIGHT} + 1e-3"), {Status.WRONG_VALUE}),
    "wrong_shape": (calls(f"{RIGHT}.flatten()"), {Status.WRONG_OUTPUT}),
    "wrong_dtype": (calls(f"{RIGHT}.half()"), {Status.WRONG_OUTPUT}),
    "wrong_device": (calls(f"{RIGHT}.to('meta')"), {Status.WRONG_OUTPUT}),
    "two_outputs": (calls(f"{RIGHT}, x"), {Status.WRONG_OUTPUT}),
    "no_output": (calls("return None"), {Status.WRONG_OUTPUT}),
    "mutates": (calls("y = nn.functional.gelu(x); x.zero_(); return y"), {Status.INPUT_MUTATED}),
    "raises": (calls("raise ValueError('a multiple of 7 \\ud800, \\x00 and\\nmore')"), {Status.RAISED}),
    "raises_at_import": (calls(RIGHT, "raise RuntimeError('no such device library')"), {Status.IMPORT_FAILED}),
    "missing_module": (calls(RIGHT, "import a_module_that_does_not_exist"), {Status.IMPORT_FAILED}),
    "raises_in_constructor": (
        tiny_corpus.solution(RIGHT, layers="raise RuntimeError('cannot allocate the workspace')"),
        {Status.INIT_FAILED},
    ),
    "other_arguments": (
        tiny_corpus.solution(RIGHT, layers="self.groups = groups", takes="features, groups"),
        {Status.INIT_FAILED},
    ),
    "other_forward_arguments": (calls(RIGHT).replace("(self, x)", "(self, x, scale)"), {Status.RAISED}),
    "prints_200_mb": (calls(PRINTS, "import sys\nleft = iter(range(200))"), {Status.PASSED}),
    "exits": (calls("os._exit(0)", "import os"), {Status.EXITED}),
    "exits_at_import": (calls(RIGHT, "import sys\nsys.exit(3)"), {Status.EXITED, Status.IMPORT_FAILED}),
    "segfaults": (calls("return ctypes.string_at(0)", "import ctypes"), {Status.CRASHED}),
    "does_not_compile": (builds(MANY_ERRORS), {Status.BUILD_FAILED}),
    "cuda_does_not_compile": (
        builds("__global__ void kernel(const float* x, float* y) { y[0] = undeclared_in_cuda(x[0]); }", "cuda"),
        {Status.BUILD_FAILED},
    ),
}
LIMITS = {"import_timeout_s": 3.0, "call_timeout_s": 1.0, "build_timeout_s": 1.0}
UNENDING = {
    # name: (source, its status)
    "hangs_in_import": (calls(RIGHT, "import time\ntime.sleep(3600)"), Status.IMPORT_TIMEOUT),
    "hangs_in_forward": (calls("time.sleep(3600)", "import time"), Status.CALL_TIMEOUT),
    "build_never_ends": (builds(NEVER_COMPILED), Status.BUILD_TIMEOUT),
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """All solutions that need no time limit of their own, one judge for all of them."""
    folder = tmp_path_factory.mktemp("quick")
    sources = {name: source for name, (source, _) in SOLUTIONS.items()}
    found = verdicts(*written(folder, PROBLEM, sources), results_dir=folder, save=True, name="all")
    assert read_run(folder / "all.csv").rows == tuple(row for one in found.values() for row in one.rows)
    return found


@pytest.mark.parametrize("name", SOLUTIONS)
def test_status(quick: dict[str, Judged], name: str) -> None:
    outcome, (row,), statuses = quick[name].outcome, quick[name].rows, SOLUTIONS[name][1]
    assert (row.status in statuses, row.required_level, row.time_ns_median, row.speedup) == (True, "module", None, None)
    if isinstance(outcome, Passed):
        assert statuses == {Status.PASSED}
        assert (row.level, row.lacks) == ("general", "")
        return
    assert outcome.status in statuses, f"{outcome.status}: {outcome.reason}\n{outcome.log}"
    assert outcome.reason, "a failure says why"
    assert len(outcome.log) < 100_000


@pytest.mark.parametrize(
    ("limits", "solutions"),
    [(LIMITS, UNENDING), ({"call_timeout_s": 60.0}, {"eats_memory": (calls(EATS, HELD), Status.OUT_OF_MEMORY)})],
    ids=["time", "memory"],
)
def test_expiry(tmp_path: Path, limits: dict[str, float], solutions: dict[str, tuple[str, Status]]) -> None:
    found = written(tmp_path, PROBLEM, {name: source for name, (source, _) in solutions.items()})
    outcomes = {name: one.outcome for name, one in verdicts(*found, results_dir=tmp_path, **limits).items()}
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        name: status for name, (_, status) in solutions.items()
    }, outcomes


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("raises", "ValueError: a multiple of 7 ?"),
        ("wrong_value", "output["),
        ("raises_at_import", "no such device library"),
        ("missing_module", "a_module_that_does_not_exist"),
        ("raises_in_constructor", "cannot allocate the workspace"),
        ("other_arguments", "groups"),
        ("other_forward_arguments", "scale"),
        ("wrong_shape", "expected (32, 500)"),
        ("wrong_dtype", "float16"),
        ("does_not_compile", "undeclared_name"),
        ("cuda_does_not_compile", "undeclared_in_cuda" if shutil.which("nvcc") else "no CUDA compiler: nvcc is not"),
    ],
)
def test_reason_names_the_cause(quick: dict[str, Judged], name: str, shown: str) -> None:
    outcome = quick[name].outcome
    assert isinstance(outcome, Failed)
    assert shown in outcome.reason


def test_mismatch_says_where(quick: dict[str, Judged]) -> None:
    outcome = quick["wrong_value"].outcome
    assert isinstance(outcome, Failed)
    assert outcome.correctness.wrong_elements == outcome.correctness.elements > 0 or outcome.correctness.mismatches
    first = outcome.correctness.mismatches[0]
    assert first.got - first.want == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize(
    ("text", "said"),
    [("def forward(x):\n    return x\n", "ModelNew"), ("import torch\n\n\nclass ModelNew(nn.Module)\n", "line 4")],
)
def test_a_file_that_cannot_be_a_solution_is_refused_before_it_runs(tmp_path: Path, text: str, said: str) -> None:
    problem, _ = written(tmp_path, PROBLEM, {})
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(PluginError, match=said):
        registry.find_solution(problem, tmp_path / "broken.py", Settings())
