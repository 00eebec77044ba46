"""Profiles in a worker of their own: real workers and walls; a stand-in for `ncu` writes what the real one would."""

import dataclasses
import json
import stat
import sys
from pathlib import Path

import pytest
import tiny_corpus
from verdicts import written

from kbench.core.bottleneck import Bottleneck
from kbench.core.errors import MachineError, PluginError, UsageError
from kbench.core.events import RunOptions, Waiting
from kbench.core.kernel_names import KernelOrigin
from kbench.core.model import Case, Failed, Status
from kbench.core.profile import SolutionProfile
from kbench.core.trace import LONGEST_NAME, MOST_LAUNCHES, MOST_NAMES, CallTrace, DeviceActivity, HostActivity
from kbench.devices import selection
from kbench.host import profiler
from kbench.host.context import RunContext
from kbench.host.profiler import REFUSED, Profiler, kept, validated, why_none
from kbench.profile import Explained, profile
from kbench.sandbox import rung_probe
from kbench.storage.settings import cache_dir

pytestmark = pytest.mark.usefixtures("own_cache")

CPU = selection.cpu()
PROBLEM = tiny_corpus.problem(
    "2 * torch.tanh(x @ x)",
    given="torch.randn(n, n)",
    constants='n = 256\nCASES = {"default": {}, "small": {"n": 16}}',
)
NATIVE = '''import ctypes, functools
from torch.utils.cpp_extension import load_inline

SOURCE = """
extern "C" int doubled(const float* x, float* y, long n) {
  for (int again = 0; again < 200; ++again)
    for (long i = 0; i < n; ++i) y[i] = 2 * x[i] + y[i] * 1e-30f;
  return 0;
}
"""

@functools.cache
def library():
    path = load_inline("kbench_test_doubled", [SOURCE], no_implicit_headers=True, is_python_module=False)
    found = ctypes.CDLL(path)
    found.doubled.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    return found
'''
DOUBLES = "y = torch.zeros_like(x); LIBRARY.doubled(x.data_ptr(), y.data_ptr(), x.numel()); return y"
OPTIONS = RunOptions(device="cpu", save=False)
TRACE = CallTrace(
    call_ns=5,
    launches=(DeviceActivity(name="k", start_ns=0, duration_ns=5),),
    operators=(HostActivity(name="aten::mm", count=1, self_ns=1),),
)


def entries(folder: Path, body: str, head: str = ""):
    problem, (entry,) = written(folder, PROBLEM, {"mine": tiny_corpus.solution(body, head=head)}, "doubles")
    return problem, entry


SOLUTIONS = {
    "torch_alone": ("return 2 * torch.tanh(x @ x)", ""),
    "in_its_file": (DOUBLES, f"{NATIVE}\nLIBRARY = library()"),
    "in_another_file": (DOUBLES, "from kernels_of_a_test import library\nLIBRARY = library()"),
    "in_its_first_call": (DOUBLES.replace("LIBRARY", "library()"), "from kernels_of_a_test import library"),
    "raises": ("raise ValueError('not today')", ""),
    "exits": ("import os; os._exit(3)", ""),
    "writes": ("open(OUTSIDE, 'w').write('x'); return 2 * x", ""),
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("outside") / "written"


@pytest.fixture(scope="module")
def explained(tmp_path_factory, outside: Path) -> dict[str, Explained]:
    """Profile all solutions, on a device that nobody else uses."""
    folder = tmp_path_factory.mktemp("profiled")
    sources = {
        name: tiny_corpus.solution(body.replace("OUTSIDE", repr(str(outside))), head=head)
        for name, (body, head) in SOLUTIONS.items()
    }
    (folder / "kernels_of_a_test.py").write_text(NATIVE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KBENCH_CACHE", str(folder / "cache"))
        patch.setattr("kbench.profile.Admission.others", lambda _: "")
        events = list(profile(*written(folder, PROBLEM, sources, "doubles"), OPTIONS))
    assert not [event for event in events if isinstance(event, Waiting)]
    return {event.solution: event for event in events if isinstance(event, Explained)}


def profile_of(found: Explained) -> SolutionProfile:
    assert isinstance(found.outcome, SolutionProfile), found.outcome
    return found.outcome


@pytest.mark.slow
def test_torch_alone_is_called_so(explained):
    found = explained["torch_alone"]
    assert found.advice.bottleneck in {Bottleneck.LIBRARY_ONLY, Bottleneck.LAUNCH_BOUND}
    assert {"aten::mm", "aten::tanh", "aten::mul"} <= {kernel.name for kernel in profile_of(found).kernels}
    assert profile_of(found).own_share == 0.0
    assert sum(kernel.share for kernel in profile_of(found).kernels) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["in_its_file", "in_another_file", "in_its_first_call"])
def test_an_extension_is_what_no_operator_accounts_for(explained, name):
    found = profile_of(explained[name])
    assert found.own_share > 0.5
    assert found.kernels[0].origin is KernelOrigin.OWN


@pytest.mark.parametrize(
    ("name", "status", "reason"), [("raises", Status.RAISED, "not today"), ("exits", Status.EXITED, "3")]
)
def test_a_solution_that_does_not_run_has_no_profile(explained, name, status, reason):
    found = explained[name]
    assert isinstance(found.outcome, Failed)
    assert found.outcome.status is status
    assert reason in found.outcome.reason
    assert found.advice is None


def test_a_profile_stays_within_the_sandbox(explained, outside):
    if rung_probe.reached("cpu", cache_dir()) < 3:
        pytest.skip("this machine does not reach a rung that protects files")
    assert "writes" in explained
    assert not outside.exists(), "refused, or written to a /tmp that nobody else sees"


def test_whom_a_profile_waits_for_is_told(tmp_path, monkeypatch):
    holder = "pid 7 (ann): kbench run gelu, for 3 s"
    monkeypatch.setattr("kbench.profile.Admission.others", lambda _: holder)
    problem, entry = entries(tmp_path, "raise ValueError('not today')")
    events = list(profile(problem, [entry], OPTIONS))
    assert [event.holder for event in events if isinstance(event, Waiting)] == [holder]


@pytest.mark.slow
def test_a_problem_that_cannot_run_is_an_error(tmp_path):
    problem, entry = entries(tmp_path, "return x")
    problem.path.write_text(PROBLEM.replace("2 * torch.tanh(x @ x)", "x.nothing()"))
    with pytest.raises(PluginError, match="nothing"):
        list(profile(problem, [entry], OPTIONS))


def test_what_a_profile_is_not_is_refused_with_what_to_type(tmp_path, monkeypatch):
    problem, entry = entries(tmp_path, "return x")
    gpu = selection.DeviceChoice(kind="cuda", name="GPU", uuid="GPU-1", key="GPU sm_90")
    with pytest.raises(UsageError, match="is a CPU"):
        list(profile(problem, [entry], OPTIONS, report=tmp_path / "x.ncu-rep"))
    with pytest.raises(UsageError) as caught:
        list(profile(problem, [entry], dataclasses.replace(OPTIONS, cases=("*",))))
    assert caught.value.hint == "`--case default`"
    monkeypatch.setattr(selection, "choose", lambda _: gpu)
    monkeypatch.setattr("kbench.profile.toolkit.find", lambda _: None)
    with pytest.raises(MachineError, match="ncu"):
        list(profile(problem, [entry], OPTIONS, report=tmp_path / "x.ncu-rep"))
    with pytest.raises(UsageError, match="several solutions"):
        list(profile(problem, [entry] * 2, OPTIONS, report=tmp_path / "x.ncu-rep"))


def test_a_trace_arrives_as_it_was_sent():
    assert validated(json.loads(json.dumps(dataclasses.asdict(TRACE)))) == TRACE


@pytest.mark.parametrize(
    "forged",
    [
        {"call_ns": -1},
        {"call_ns": "5"},
        {"call_ns": True},
        {"call_ns": 1e300},
        {"call_ns": float("nan")},
        {"call_ns": 1 << 70},
        {"more": 1},
        {"remark": "x" * (LONGEST_NAME + 1)},
        {"launches": {"name": "k"}},
        {"launches": [{"name": "k"}]},
        {"launches": [dataclasses.asdict(TRACE.launches[0])] * (MOST_LAUNCHES + 1)},
        {"operators": [dataclasses.asdict(TRACE.operators[0])] * (MOST_NAMES + 1)},
        {"operators": [{"name": ["k"], "count": 1, "self_ns": 1}]},
        {"shape": {"major": 9}},
        *(None, [], "trace", 3),
    ],
    ids=lambda forged: str(forged)[:40],
)
def test_a_forged_trace_is_refused(forged):
    honest = json.loads(json.dumps(dataclasses.asdict(TRACE)))
    found = validated({**honest, **forged} if isinstance(forged, dict) else forged)
    assert isinstance(found, Failed)
    assert found.status is Status.PROTOCOL_ERROR
    assert len(found.reason) < 300


# Takes the program behind its options, as the real one does, and writes a log and a report.
TOOL = """#!{python}
import subprocess, sys
from pathlib import Path
words = sys.argv[1:]
options = {{}}
while words[0].startswith("--"):
    name = words.pop(0)
    options[name] = True if name == "--force-overwrite" else words.pop(0)
done = subprocess.run(words, close_fds=False, check=False)
Path(options["--log-file"]).write_text({log!r})
if not {log!r}:
    Path(options["--export"]).write_bytes(b"report")
sys.exit(done.returncode)
"""
REFUSAL = f"==ERROR== {REFUSED} - The user does not have permission to access NVIDIA GPU Performance Counters\n"


@pytest.mark.slow
@pytest.mark.parametrize("log", ["", REFUSAL])
def test_a_report_is_written_within_the_walls_and_kept(tmp_path, log):
    tool, keep = tmp_path / "ncu", tmp_path / "mine.ncu-rep"
    tool.write_text(TOOL.format(python=sys.executable, log=log))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    problem, entry = entries(tmp_path, "return 2 * x")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rung = rung_probe.reached("cpu", cache_dir())
    profiling = Profiler(problem, RunContext(options=OPTIONS, device=CPU, rung=int(rung), scratch=scratch))
    note = profiling.save_counters(tool, entry, tmp_path / "no artefacts", Case(name="default"), keep)
    assert list(scratch.iterdir()) == [], "nothing is left behind"
    assert keep.exists() is not bool(log)
    assert (REFUSED if log else f"`ncu --import {keep}` prints") in note
    if not log:
        assert keep.read_bytes() == b"report"


@pytest.mark.parametrize(
    ("text", "complaint", "said"),
    [
        (REFUSAL, "", REFUSED),
        ("==ERROR== Unknown section", "", "Unknown section"),
        ("", "killed (SIGKILL)", "killed"),
        ("", "", "no output"),
    ],
)
def test_why_there_is_no_report(text, complaint, said):
    assert said in why_none(text, complaint)


def test_only_a_plain_report_of_a_fair_size_is_kept(tmp_path, monkeypatch):
    secret, report, target = tmp_path / "secret", tmp_path / "report", tmp_path / "kept"
    secret.write_text("secret")
    report.symlink_to(secret)
    assert "no report" in kept(report, target)
    report.unlink()
    assert "no report" in kept(report, target)
    report.write_text("x" * 100)
    assert "cannot be saved" in kept(report, tmp_path / "nowhere" / "kept")
    monkeypatch.setattr(profiler, "MOST_REPORT_BYTES", 10)
    assert "larger" in kept(report, target)
    assert not target.exists()
