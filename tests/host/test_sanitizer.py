"""A solution below a tool that stands in for compute-sanitizer: the real chain of processes, walls and files."""

import json
import stat
import sys
from pathlib import Path

import pytest
import tiny_corpus
from require import require_rung
from verdicts import written

from kbench.build import cache
from kbench.catalog import registry
from kbench.catalog.case_selection import Rehearsal
from kbench.catalog.registry import Entry
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import Judged, RunOptions, StageFinished
from kbench.core.model import Case, Failed, FindingKind, Status
from kbench.core.sanitizer import SourcePlace, parse
from kbench.devices import selection
from kbench.engine.run import run
from kbench.host import sanitizer
from kbench.host.context import RunContext
from kbench.host.judge_process import Evaluated
from kbench.host.sanitizer import Sanitizer, small_case, source_lines
from kbench.sandbox import namespaces
from kbench.sandbox.rungs import Rung
from kbench.storage.settings import Settings, cache_dir

pytestmark = pytest.mark.usefixtures("own_cache")

CPU = selection.cpu()
CUDA = selection.DeviceChoice(kind="cuda", name="GPU", uuid="GPU-1", key="GPU sm_90")
PROBLEM = tiny_corpus.problem(
    given="torch.randn(4, n)", constants='n = 64\nCASES = {"default": {}, "small": {"n": 8}, "ragged": {"n": 7}}'
)
WILD = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at twice(float*)+0x100 in mine.cu:2
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7cc43aa00001 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""
# Talks to a local socket as the real one does, starts the program after its options, and writes a prepared report.
TOOL = """#!{python}
import json, os, socket, subprocess, sys
from pathlib import Path
words = sys.argv[1:]
options = {{}}
while words[0].startswith("--"):
    name = words.pop(0)
    options[name] = True if name == "--kill" else words.pop(0)
listener, caller = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
listener.bind("\\0kbench-test-%d" % os.getpid())
listener.listen()
caller.connect(listener.getsockname())
done = subprocess.run(words, close_fds=False, check=False)
reports = json.loads(Path({reports!r}).read_text())
text = reports.get(options["--tool"])
if text is not None:
    Path(options["--log-file"]).write_text(text)
sys.exit(done.returncode)
"""
TRIES = """import json, os, socket
        from pathlib import Path
        found = {}
        def attempt(name, act):
            try:
                act()
                found[name] = "open"
            except OSError as error:
                found[name] = type(error).__name__
        attempt("scratch", lambda: Path("own").write_text("x"))
        attempt("outside", lambda: Path(OUTSIDE).write_text("x"))
        attempt("results", lambda: Path(RESULTS).read_text())
        attempt("inet", lambda: socket.socket(socket.AF_INET))
        attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\\0nobody"))
        attempt("name of a thread", lambda: Path(f"/proc/self/task/{os.getpid()}/comm").write_text("x"))
        raise ValueError(json.dumps(found))"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Install the stand-in; call it with the report of each tool."""
    path, reports = tmp_path / "compute-sanitizer", tmp_path / "reports.json"
    path.write_text(TOOL.format(python=sys.executable, reports=str(reports)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sanitizer.toolkit, "find", lambda _: path)

    def install(**texts: str) -> Path:
        reports.write_text(json.dumps(texts))
        return path

    return install


def entries(folder: Path, body: str):
    problem, (entry,) = written(folder, PROBLEM, {"mine": tiny_corpus.solution(body)}, "doubles")
    return problem, entry


def looking(problem: Entry, scratch: Path, choice: selection.DeviceChoice = CPU, rung: int = 0, **options) -> Sanitizer:
    context = RunContext(options=RunOptions(**options), device=choice, rung=rung, scratch=scratch)
    return Sanitizer(problem, context)


def findings_of(folder: Path, body: str, rung: Rung = Rung.NONE, **options) -> list:
    problem, entry = entries(folder, body)
    scratch = folder / "scratch"
    scratch.mkdir()
    below = looking(problem, scratch, rung=int(rung), device="cpu", **options)
    found = list(below._look(entry, Case(name="default"), None))
    assert list(scratch.iterdir()) == [], "nothing is left behind"
    return found


@pytest.mark.slow
def test_the_walls_stand_below_the_tool(tmp_path, tool) -> None:
    rung = max(Rung)
    require_rung(rung)
    tool(memcheck=WILD)
    outside = tmp_path / "outside"
    secret = tmp_path / "results" / "run.csv"
    secret.parent.mkdir()
    secret.write_text("")
    body = TRIES.replace("OUTSIDE", repr(str(outside))).replace("RESULTS", repr(str(secret)))
    found = findings_of(tmp_path, body, rung, results_dir=secret.parent)
    (complaint,) = [f.message for f in found if "ValueError" in f.message]
    # Both files lie in the real /tmp; what is written to such a place in a /tmp of its own is seen by nobody.
    assert namespaces.place() in tmp_path.parents
    assert json.loads(complaint[complaint.index("{") :]) == {
        "scratch": "open",
        "outside": "open",
        "results": "FileNotFoundError",
        "inet": "PermissionError",
        "connect": "PermissionError",
        "name of a thread": "open",
    }
    assert not outside.exists()
    assert found[0].code == "memcheck"
    assert found[0].fatal


def test_a_tool_that_does_not_start_is_no_clean_run(tmp_path, tool) -> None:
    tool().write_text(
        "#!/bin/sh\necho '========= Unable to find injection library libsanitizer-collection.so'\nexit 13\n"
    )
    found = findings_of(tmp_path, "return 2 * x")
    assert all(f.kind is FindingKind.NOTE for f in found)
    assert "Unable to find injection library" in found[0].message


@pytest.mark.slow
def test_a_wild_access_decides_before_any_judge_does(tmp_path, tool, monkeypatch) -> None:
    tool(memcheck=WILD)
    monkeypatch.setattr(sanitizer, "require", lambda *_: None)
    problem, entry = entries(tmp_path, "return 2 * x")
    (tmp_path / "mine.cu").write_text("void twice(float* y) {\n  y[n] = 0;  // one too far\n}\n")
    (tmp_path / "mine.py").write_text(
        (tmp_path / "mine.py").read_text() + "open(__file__.replace('.py', '.cu')).read()\n"
    )
    options = RunOptions(device="cpu", verify_only=True, save=False, cases=("small",), sanitize=True)
    events = list(run(problem, [entry], options))
    (judged,) = [event for event in events if isinstance(event, Judged)]
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.status is Status.ILLEGAL_ACCESS
    assert "twice(float*) at mine.cu:2 `y[n] = 0;  // one too far`" in judged.outcome.reason
    assert judged.rows[0].findings == "memcheck"
    stages = [(e.stage, e.ok) for e in events if isinstance(e, StageFinished) and e.solution == entry.name]
    assert stages == [("sanitize", False)]


class FakeBuilder:
    """Publishes what it was asked for, or fails."""

    asked: list[tuple]
    failure: Failed | None = None

    def __init__(self, _problem, context):
        self.environment = context.device.environment

    def build(self, entry, cases, *, device_key):
        cached = cache.entry_for(entry.path, "", device_key, cache_dir())
        self.asked.append((self.environment, cached.folder, cases))
        if self.failure is None:
            cached.publish(cached.stage(), {*cached.rehearsed(), *cases}, "")
        return self.failure


@pytest.fixture
def builds(monkeypatch) -> type[FakeBuilder]:
    monkeypatch.setattr(sanitizer, "Builder", FakeBuilder)
    monkeypatch.setattr(FakeBuilder, "asked", [], raising=False)
    return FakeBuilder


@pytest.mark.parametrize("failure", [None, Failed(status=Status.BUILD_FAILED, reason="no such flag")])
def test_it_is_built_once_more_with_line_information_where_that_works(tmp_path, monkeypatch, builds, failure) -> None:
    monkeypatch.setattr(builds, "failure", failure)
    problem, entry = entries(tmp_path, "return x  # load_inline")
    folder = looking(problem, tmp_path)._artefacts(entry, Case(name="c", overrides={"n": 8}))
    ((environment, lined, cases),) = builds.asked
    assert environment == {**CPU.environment, "NVCC_APPEND_FLAGS": "-lineinfo"}
    assert list(cases.values()) == [Rehearsal(overrides={"n": 8}, layouts=True)]
    plain = cache.entry_for(entry.path, "", CPU.key, cache_dir()).folder
    assert lined != plain
    assert folder == (lined if failure is None else plain)


def test_another_case_is_built_too_since_a_solution_may_compile_something_else_for_it(tmp_path, builds) -> None:
    problem, entry = entries(tmp_path, "return x  # load_inline")
    for n in (8, 9, 8):
        looking(problem, tmp_path)._artefacts(entry, Case(name="c", overrides={"n": n}))
    assert [[case.overrides for case in cases.values()] for _, _, cases in builds.asked] == [[{"n": 8}], [{"n": 9}]]


class FakeJudge:
    """A judge whose verdict is known."""

    def __init__(self, outcome):
        self.outcome = outcome

    def evaluate(self, _request, on_stage):
        on_stage("verify", True, None)
        on_stage("verify", False, 1.0)
        return Evaluated(outcome=self.outcome)


def answer_of(below: Sanitizer, outcome, entry: Entry) -> tuple[list[str], Failed]:
    """Return the stages of an evaluation that ends in an outcome, and what is made of that."""
    request, case, stages = {"assignment": {"process": 0}}, Case(name="c"), []
    found = below.around(FakeJudge(outcome), request, entry, case, 1, lambda stage, *_: stages.append(stage))
    return stages, found.outcome


CRASH = Failed(status=Status.ILLEGAL_ACCESS, reason="CUDA error: an illegal memory access")
WRONG = Failed(status=Status.WRONG_VALUE, reason="off by one")
# the device, --sanitize, how it ended, whether memcheck is asked
AUTOMATIC = [
    (CUDA, None, CRASH, True),
    (CUDA, None, Failed(status=Status.LAUNCH_FAILED, reason="unspecified launch failure"), True),
    (CUDA, None, WRONG, False),
    (CUDA, False, CRASH, False),
    (CPU, None, CRASH, False),
]


@pytest.mark.parametrize(("device", "asked", "outcome", "expected"), AUTOMATIC)
def test_memcheck_is_asked_after_an_illegal_access(tmp_path, monkeypatch, device, asked, outcome, expected) -> None:
    problem, entry = entries(tmp_path, "return x")
    below = looking(problem, tmp_path, device, sanitize=asked)
    calls = []

    def answer(entry, *_):
        calls.append(entry.name)
        return sanitizer.findings(parse(WILD), {})

    monkeypatch.setattr(below, "_run", answer)
    stages, found = answer_of(below, outcome, entry)
    assert calls == (["mine"] if expected else [])
    assert ("sanitize" in stages) == expected
    assert found.status is outcome.status
    assert found.reason.startswith(outcome.reason)
    assert ("mine.cu:2" in found.reason) == expected
    assert [f.code for f in found.findings] == (["memcheck"] if expected else [])
    # A rehearsal in the build step can crash as a call does.
    assert below.explain(outcome, entry, Case(name="c"), 1) == found
    assert len(calls) == expected, "once for each solution and case"


def test_without_the_tool_a_crash_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sanitizer.toolkit, "find", lambda _: None)
    problem, entry = entries(tmp_path, "return x")
    _, outcome = answer_of(looking(problem, tmp_path, CUDA), CRASH, entry)
    assert outcome.reason == CRASH.reason
    (found,) = outcome.findings
    assert "not installed" in found.message
    assert found.kind is FindingKind.NOTE


def test_what_cannot_be_is_refused_with_what_to_type(monkeypatch) -> None:
    wanted = RunOptions(sanitize=True)
    with pytest.raises(UsageError, match="is a CPU"):
        sanitizer.require(wanted, CPU)
    monkeypatch.setattr(sanitizer.toolkit, "find", lambda _: None)
    with pytest.raises(MachineError, match="not installed") as caught:
        sanitizer.require(wanted, CUDA)
    assert "CUDA_HOME" in caught.value.hint
    sanitizer.require(RunOptions(), CPU)
    sanitizer.require(RunOptions(sanitize=False), CPU)


def test_the_tool_is_found_in_cuda_home_then_on_path(tmp_path, monkeypatch) -> None:
    for folder in ("one", "home/bin", "other/tool"):
        place = tmp_path / folder / "tool"
        place.parent.mkdir(parents=True)
        place.touch(mode=0o755)
    for path, home, found in (("one", "home", "home/bin"), ("one", "other", "other/tool"), ("one", ".", "one")):
        monkeypatch.setenv("PATH", str(tmp_path / path))
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / home))
        assert sanitizer.toolkit.find("tool") == tmp_path / found / "tool"


SMALL, LARGE = 1 << 20, 1 << 40
# the problem's CASES, the judged case, bytes of a call, the case that is run below the tool
CHOICES = [
    ('{"default": {}, "small": {"n": 8}}', "default", LARGE, "small"),
    ('{"default": {}, "small": {"n": 8}}', "small", SMALL, "small"),
    ('{"default": {}, "small": {"n": 8}, "ragged": {"n": 7}}', "ragged", SMALL, "ragged"),
    ('{"default": {}, "small": {"n": 8}, "ragged": {"n": 7}}', "ragged", LARGE, "small"),
    ('{"default": {}, "ragged": {"n": 7}}', "default", SMALL, "default"),
    ('{"default": {}, "ragged": {"n": 7}}', "default", LARGE, "ragged"),
    ('{"default": {}}', "default", SMALL, "default"),
    ('{"default": {}}', "default", LARGE, None),
    ('{"default": {}, "small": {"n": 8}}', "default", None, "small"),
    ('{"default": {}}', "default", None, None),
]


@pytest.mark.parametrize(("cases", "judged", "nbytes", "expected"), CHOICES)
def test_the_case_that_is_run_below_the_tool_is_small(tmp_path, cases, judged, nbytes, expected) -> None:
    before, _, after = PROBLEM.partition("CASES = ")
    (tmp_path / "p.py").write_text(f"{before}CASES = {cases}\n" + after.partition("\n")[2])
    problem = registry.find_problem(tmp_path / "p.py", Settings())
    found = small_case(problem, RunOptions(), Case(name=judged), nbytes)
    assert (found.name if found else None) == expected


def test_a_source_line_is_quoted_from_the_one_file_of_that_name(tmp_path) -> None:
    log = parse(WILD)
    (tmp_path / "a").mkdir()
    here, there = tmp_path / "mine.cu", tmp_path / "a" / "mine.cu"
    here.write_text("one\n  two\n")
    assert source_lines(log, [here]) == {SourcePlace(kernel="twice(float*)", file="mine.cu", line=2): "two"}
    there.write_text("one\nother\n")
    assert source_lines(log, [here, there]) == {}
    here.write_text("one\n")
    assert source_lines(log, [here]) == {}
    linked = tmp_path / "a" / "link" / "mine.cu"
    linked.parent.mkdir()
    linked.symlink_to(there)
    assert source_lines(log, [linked]) == {}
