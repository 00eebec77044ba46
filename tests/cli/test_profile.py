"""`kbench profile`: thin around its verb, which has examples of GPU profiles in its place here."""

import pytest

import kbench.profile as verb
from kbench.core.bottleneck import advise
from kbench.core.errors import MachineError
from kbench.core.events import StageFinished, StageStarted
from kbench.core.model import Cost, Failed, Peaks, Status
from kbench.core.profile import SolutionProfile, profiled
from kbench.core.roofline import limit
from kbench.core.trace import CallTrace, DeviceActivity, DeviceShape, HostActivity, KernelResources
from kbench.profile import Explained
from kbench.report.profile import share_of_limit

HOPPER = DeviceShape(
    major=9, minor=0, sms=132, threads_per_sm=2048, registers_per_sm=65536, shared_bytes_per_sm=228 << 10
)
PEAKS = Peaks(copy_bytes_per_s=4.29e12, fp32_flops_per_s=60e12)
COST = Cost(dram_bytes=15_000_000_000, flops=100_000_000_000)
CUDNN = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, float const*)"


def of_gpu(solution, *launches, call_ns, remark="", more=()) -> SolutionProfile:
    ends = [sum(length for _, length, *_ in launches[:n]) for n in range(len(launches))]
    trace = CallTrace(
        call_ns=call_ns,
        launches=tuple(
            DeviceActivity(
                name=name,
                start_ns=start,
                duration_ns=length,
                blocks=blocks,
                threads=threads,
                registers=registers,
                shared_bytes=shared,
            )
            for start, (name, length, blocks, threads, registers, shared) in zip(ends, launches, strict=True)
        )
        + tuple(more),
        runtime_calls=(
            HostActivity(name="cudaLaunchKernel", count=len(launches), self_ns=9000),
            HostActivity(name="cudaMalloc", count=1, self_ns=90_000),
        ),
        resources=(KernelResources(name="statistics(float const*, float2*)", registers=64, stack_bytes=16),),
        shape=HOPPER,
        remark=remark,
    )
    return profiled(
        solution,
        trace,
        names_kernels=True,
        cost=COST,
        bound=limit(COST, PEAKS),
    )


TWO_KERNEL = of_gpu(
    "two_kernel",
    ("statistics(float const*, float2*)", 1_900_000, 512, 1024, 64, 4096),
    ("normalise(float const*, float*)", 3_400_000, 400_000, 256, 32, 0),
    call_ns=5_420_000,
)
EAGER = of_gpu("eager", (CUDNN, 9_000_000, 65_536, 512, 40, 2048), call_ns=9_050_000, remark="spills are not known")


def told(profile: SolutionProfile | Failed, solution: str) -> Explained:
    advice = advise(profile) if isinstance(profile, SolutionProfile) else None
    return Explained(solution=solution, case="default", device="NVIDIA H200", outcome=profile, advice=advice)


@pytest.fixture
def found(monkeypatch):
    """Let the verb find these; its arguments are collected."""
    calls = []

    def install(*stream):
        def profile(problem, solutions, options, **flags):
            calls.append((problem, solutions, options, flags))
            for event in stream:
                if isinstance(event, BaseException):
                    raise event
                yield event

        monkeypatch.setattr(verb, "profile", profile)
        return calls

    return install


def test_one_solution(kbench, found, golden):
    found(told(TWO_KERNEL, "two_kernel"))
    done = kbench("profile", "group_norm", "two_kernel", "--device", "cpu")
    assert done.code == 0, done.err
    golden("profile.txt", done.out.rstrip("\n"))


@pytest.mark.parametrize(
    ("percent", "bound_by", "words"),
    [
        (66.0, "memory", "66 % of the device's limit, set by memory"),
        (16.0, "compute", "16 % of the device's limit, set by compute"),
        (258.0, "compute", "258 % of the limit of arithmetic: the peaks were measured too low, or work is left out"),
        (140.0, "memory", "140 % of the limit of memory: caches, which are warm here, have a higher one"),
    ],
)
def test_a_share_above_the_limit_says_how_that_can_be(percent, bound_by, words):
    assert share_of_limit(percent, bound_by) == words


def test_two_solutions(kbench, found, golden):
    found(told(EAGER, "eager"), told(TWO_KERNEL, "two_kernel"))
    golden("profile.md", kbench("profile", "group_norm", "eager", "two_kernel", "--format", "md").out.rstrip("\n"))


def test_quiet_is_the_sentence(kbench, found):
    found(told(TWO_KERNEL, "two_kernel"))
    lines = kbench("profile", "group_norm", "two_kernel", "-q").out.splitlines()
    assert [line.split(":")[0] for line in lines[:1]] == ["two_kernel"]
    assert len(lines) == 2


def test_json_is_bounded_and_has_no_nan(kbench, found):
    many = [DeviceActivity(name=f"k{n}()", start_ns=n, duration_ns=1) for n in range(3000)]
    found(told(of_gpu("two_kernel", call_ns=10**6, more=many), "two_kernel"))
    done = kbench("profile", "group_norm", "two_kernel", "--json")
    document = done.document
    (result,) = document["results"]
    assert (document["status"], document["exit_code"], result["status"]) == ("ok", 0, "ok")
    assert len(done.out) < 60_000
    assert (len(result["kernels"]), result["kernels_left_out"]) == (40, 2960)
    assert 0 <= result["own_share"] <= 1.0000001
    assert result["sentence"]


def test_csv_has_a_line_a_kernel(kbench, found):
    found(told(TWO_KERNEL, "two_kernel"))
    rows = kbench("profile", "group_norm", "two_kernel", "--format", "csv").rows
    assert [(row["kernel"], row["origin"], row["stack_bytes"]) for row in rows] == [
        ("normalise(float const*, float*)", "own", ""),
        ("statistics(float const*, float2*)", "own", "16"),
    ]


def test_one_that_fails_counts_more_than_one_that_was_skipped(kbench, found):
    failed = [Failed(status=status, reason="no way") for status in (Status.SKIPPED, Status.RAISED)]
    found(told(failed[0], "two_kernel"), told(failed[1], "eager"))
    assert kbench("profile", "group_norm", "two_kernel", "eager").code == 1


@pytest.mark.parametrize(
    ("status", "code"), [(Status.RAISED, 1), (Status.HARNESS_ERROR, 70), (Status.SKIPPED, 0), (Status.NOT_VERIFIED, 4)]
)
def test_a_solution_without_a_profile(kbench, found, status, code):
    found(told(TWO_KERNEL, "two_kernel"), told(Failed(status=status, reason="no\x1b[2J way"), "eager"))
    done = kbench("profile", "group_norm", "two_kernel", "eager")
    assert done.code == code
    assert f"eager: {status.value.upper()}  no\\x1b[2J way" in done.out
    document = kbench("profile", "group_norm", "two_kernel", "eager", "--json").document
    assert (document["status"], document["exit_code"]) == ("failed" if code else "ok", code)
    assert document["results"][1]["status"] == status.value


def test_an_error_has_its_hint_and_stages_are_told(kbench, found):
    started = StageStarted(stage="build", solution="two_kernel", case="default")
    finished = StageFinished(
        stage="build", solution="two_kernel", case="default", process=None, ok=True, elapsed_s=3.0, detail=""
    )
    found(started, finished, MachineError("`--ncu` needs ncu, which is not installed", "leave it out"))
    done = kbench("profile", "group_norm", "two_kernel")
    assert done.code == 3
    assert "build" in done.err
    assert done.err.endswith("hint: leave it out\n")


def test_names_of_strangers_are_harmless(kbench, found):
    evil = of_gpu("two_kernel", ("\x1b[2J<img>\n(float*)", 10, 1, 32, 8, 0), call_ns=10, remark="\x1b[31mred")
    found(told(evil, "two_kernel"))
    for form in ("text", "md", "csv"):
        assert "\x1b" not in kbench("profile", "group_norm", "two_kernel", "--format", form).out
    assert "\\<img" in kbench("profile", "group_norm", "two_kernel", "--format", "md").out
    assert " <img" not in kbench("profile", "group_norm", "two_kernel", "--format", "md").out


def test_flags_become_options(kbench, found):
    calls = found(told(TWO_KERNEL, "two_kernel"))
    kbench(
        *("profile", "group_norm", "eager", "--case", "small", "--set", "dim1=37", "--device", "cpu", "--allow-tf32"),
        *("--ncu", "x.ncu-rep"),
    )
    ((problem, solutions, options, flags),) = calls
    assert (problem.name, [entry.name for entry in solutions]) == ("group_norm", ["eager"])
    assert (options.cases, dict(options.overrides), options.device) == (("small",), {"dim1": 37}, "cpu")
    assert (options.allow_tf32, options.save, options.trusted) == (True, False, False)
    assert str(flags["report"]) == "x.ncu-rep"
