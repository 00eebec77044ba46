"""Which bottleneck is named, by a table of examples: profiles as the documentation of each number says they look.

None of them is a recording: no GPU was at hand. Kernels are launched on a Hopper of 132 SMs.
"""

import dataclasses
import itertools

import pytest

from kbench.core.bottleneck import Bottleneck, advise
from kbench.core.kernel_names import KernelOrigin
from kbench.core.model import Cost, Peaks
from kbench.core.profile import SolutionProfile, profiled
from kbench.core.roofline import limit
from kbench.core.trace import CallTrace, DeviceActivity, DeviceShape, HostActivity, KernelResources

HOPPER = DeviceShape(
    major=9, minor=0, sms=132, threads_per_sm=2048, registers_per_sm=65536, shared_bytes_per_sm=228 << 10
)
PEAKS = Peaks(copy_bytes_per_s=4e12, fp32_flops_per_s=50e12)
US = 1_000
OWN, CUBLAS, ATEN = (
    "scaled(float*)",
    "nvjet_hsh_128x64_64x8_2x1_v_bz_TNT",
    "void at::native::elementwise_kernel<4>(int)",
)
SYNC = HostActivity(name="cudaDeviceSynchronize", count=20, self_ns=300 * US)
LAUNCHES = HostActivity(name="cudaLaunchKernel", count=3, self_ns=10 * US)


def launch(name=OWN, start_us=0, us=100, **shape):
    """A launch of the kernel; those that all start at 0 run one behind the other."""
    shape = {"blocks": 132 * 8 * 40, "threads": 256, "registers": 32, **shape}
    return DeviceActivity(name=name, start_ns=start_us * US, duration_ns=us * US, **shape)


def on_gpu(*launches, call_us=None, mbytes=100, gflops=0, host=(LAUNCHES,), stack=0) -> SolutionProfile:
    """A call that has so many compulsory bytes and FLOPs; by default the device is never idle."""
    if not any(each.start_ns for each in launches):
        ends = itertools.accumulate((each.duration_ns for each in launches), initial=0)
        launches = [dataclasses.replace(each, start_ns=end) for each, end in zip(launches, ends, strict=False)]
    busy_us = sum(each.duration_ns for each in launches) / US
    trace = CallTrace(
        call_ns=round((busy_us if call_us is None else call_us) * US),
        launches=tuple(launches),
        runtime_calls=host,
        resources=(KernelResources(name=OWN, registers=32, stack_bytes=stack),) if stack else (),
        shape=HOPPER,
    )
    cost = Cost(dram_bytes=mbytes * 1_000_000, flops=gflops * 1_000_000_000)
    return profiled(
        "mine",
        trace,
        names_kernels=True,
        cost=cost,
        bound=limit(cost, PEAKS),
    )


def on_cpu(call_us, *operators, built_libraries=0, profiled_us=None) -> SolutionProfile:
    trace = CallTrace(
        call_ns=call_us * US,
        profiled_ns=(call_us if profiled_us is None else profiled_us) * US,
        operators=tuple(HostActivity(name=name, count=1, self_ns=us * US) for name, us in operators),
        built_libraries=built_libraries,
    )
    return profiled(
        "mine",
        trace,
        names_kernels=False,
        cost=Cost(dram_bytes=1, flops=0),
        bound=None,
    )


TINY = [launch(start_us=4 * n, us=2, blocks=16) for n in range(100)]
EXAMPLES = {
    "nothing ran": (on_gpu(call_us=5), "nothing_seen"),
    # The extension's load raised, and `except` took torch.
    "torch, and never promised more": (on_gpu(launch(ATEN), launch(CUBLAS)), "library_only"),
    "copies count as the library's": (
        on_gpu(launch("Memcpy DtoD (Device -> Device)", us=50), launch(CUBLAS)),
        "library_only",
    ),
    "own code for a hundredth": (on_gpu(launch(us=1), launch(CUBLAS, us=199)), "library_only"),
    "own code for a tenth": (on_gpu(launch(us=20), launch(CUBLAS, us=180)), "unexplained"),
    "tiny kernels": (on_gpu(*TINY, call_us=400), "launch_bound"),
    "tiny kernels in a graph": (on_gpu(*TINY, call_us=210, mbytes=1), "low_occupancy"),
    "waits after each piece": (on_gpu(*TINY, call_us=400, host=(LAUNCHES, SYNC)), "launch_bound"),
    "waits once, and the device works on": (on_gpu(launch(us=1000), host=(SYNC,), mbytes=3600), "memory_bound"),
    "stack": (on_gpu(launch(), stack=984), "wasted_accesses"),
    "a little stack for a call": (on_gpu(launch(), stack=8), "unexplained"),
    "less stack than registers": (on_gpu(launch(registers=128), stack=224), "unexplained"),
    "all bytes at the peak": (on_gpu(launch(us=100), mbytes=360), "memory_bound"),
    "caches beat the peak": (on_gpu(launch(us=100), mbytes=800), "unexplained"),
    "arithmetic at the peak": (on_gpu(launch(us=1000), gflops=45), "compute_bound"),
    "tensor cores beat fp32": (on_gpu(launch(us=1000), gflops=100), "unexplained"),
    "a tenth more blocks than fit": (
        on_gpu(launch(blocks=145, threads=1024, shared_bytes=120 << 10)),
        "low_occupancy",
    ),
    "forty waves and a tenth": (on_gpu(launch(blocks=132 * 8 * 40 + 100)), "unexplained"),
    "two full waves": (on_gpu(launch(blocks=132 * 8 * 2)), "unexplained"),
    "too much shared memory": (on_gpu(launch(threads=32, shared_bytes=100 << 10)), "low_occupancy"),
    "too many registers": (on_gpu(launch(threads=128, registers=255, blocks=10**6)), "low_occupancy"),
    "low occupancy near the limit is a choice": (
        on_gpu(launch(threads=128, registers=255, blocks=10**6), mbytes=280),
        "unexplained",
    ),
    "few blocks": (on_gpu(launch(blocks=20)), "low_occupancy"),
    # `group_norm compile` on an H100: 67 % of the limit.
    "torch.compile reads the input twice": (
        on_gpu(launch("triton_red_fused_0", us=2480), launch("triton_poi_fused_1", us=4970), mbytes=19_966),
        "unexplained",
    ),
    "twice the time and one kernel": (on_gpu(launch(us=100), mbytes=200), "unexplained"),
    "two kernels and four times the time": (on_gpu(launch(us=50), launch("other", us=50)), "unexplained"),
    "one kernel does it all but for a little": (
        on_gpu(launch(us=95), launch("other", us=5), mbytes=200),
        "unexplained",
    ),
    "nothing stands out": (on_gpu(launch()), "unexplained"),
    # On a processor.
    "operators alone": (on_cpu(100, ("aten::mm", 95)), "library_only"),
    "Python alone": (on_cpu(100, ("aten::add", 10), ("aten::mul", 10)), "launch_bound"),
    "own extension": (on_cpu(100, ("aten::empty", 2), built_libraries=1), "unexplained"),
    "torch.compile": (on_cpu(100, ("Torch-Compiled Region: 0/0", 95)), "unexplained"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_bottleneck_of(name):
    profile, bottleneck = EXAMPLES[name]
    assert advise(profile).bottleneck == bottleneck, advise(profile).sentence


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_sentence_or_two_without_a_nan(name):
    sentence = advise(EXAMPLES[name][0]).sentence
    assert 40 < len(sentence) < 340
    assert "nan" not in sentence.lower().split()
    assert "None" not in sentence
    assert sentence.endswith((".", "?"))


def test_every_bottleneck_has_an_example():
    assert {named for _, named in EXAMPLES.values()} == set(Bottleneck)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("torch, and never promised more", "100 % of the time is spent in libraries"),
        ("tiny kernels", "its kernels (100, 2 µs on average) are over before the host submits the next"),
        ("waits after each piece", "The host waits for the device 20 times within the call"),
        ("Python alone", "Python takes 80 % of the call, between 2 calls of operators"),
        ("stack", "keeps 984 bytes of each thread in local memory"),
        ("all bytes at the peak", "The call moves its compulsory bytes at 90 % of the measured peak"),
        ("arithmetic at the peak", "The call computes at 90 % of the measured peak"),
        ("a tenth more blocks than fit", "the last wave leaves most SMs idle"),
        ("few blocks", "limited by its grid"),
    ],
)
def test_the_sentence_names_what_was_seen(name, words):
    assert words in advise(EXAMPLES[name][0]).sentence


def test_what_is_above_the_limit_of_arithmetic_says_so():
    told = advise(on_gpu(launch(us=1000), gflops=100)).sentence
    assert "is at 200 % of the limit of arithmetic by the peaks measured; no rule explains it" in told
    assert "limit of arithmetic" not in advise(on_gpu(launch(us=100), mbytes=800)).sentence  # by caches


def test_shares_and_idle_time():
    profile = on_gpu(launch(us=30), launch(CUBLAS, start_us=50, us=70), call_us=200)
    assert profile.own_share == pytest.approx(0.3)
    assert profile.idle_share == pytest.approx(0.5)
    assert [kernel.share for kernel in profile.kernels] == pytest.approx([0.7, 0.3])
    assert profile.host.kernels == 2


def test_kernels_side_by_side_are_busy_once():
    profile = on_gpu(launch(us=100), launch("other()", start_us=50, us=100), call_us=150)
    assert profile.busy_ns == 150 * US
    assert profile.idle_share == 0.0


@pytest.mark.parametrize(
    ("call_us", "profiled_us", "python"),
    [(100, 100, 0.2), (100, 200, 0.2), (200, 100, 0.2), (50, 100, 0.0), (100, 80, 0.0)],
)
def test_the_share_of_python_is_the_less_of_two_estimates(call_us, profiled_us, python):
    profile = on_cpu(call_us, ("aten::mm", 80), profiled_us=profiled_us)
    assert profile.share_of(KernelOrigin.PYTHON) == pytest.approx(python)
    assert sum(kernel.time_ns for kernel in profile.kernels) == pytest.approx(profile.call_ns)


def test_what_inductor_builds_is_not_the_solutions_own():
    profile = on_cpu(100, ("## Call CompiledFxGraph f ##", 70), built_libraries=1)
    assert profile.own_share == 0.0
    assert profile.share_of(KernelOrigin.PYTHON) == pytest.approx(0.3)
    assert advise(profile).bottleneck is Bottleneck.LAUNCH_BOUND
