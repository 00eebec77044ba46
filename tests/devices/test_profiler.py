"""Torch's trace format: calls on a processor as torch writes it here, and on a GPU by Kineto's source, written here."""

import json

import pytest
import torch

from kbench.core.trace import DeviceActivity, DeviceShape, HostActivity
from kbench.devices.profiler import CALL, TracedCall, shape_of, shortest_call


def event(cat, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid, "args": args}


def kernel(name, ts, dur, **args):
    """As Kineto writes it; the names of the fields are in its `CuptiActivity.cpp`."""
    fields = {"registers per thread": 40, "shared memory": 1024, "grid": [10, 2, 1], "block": [32, 4, 1]}
    return event("kernel", name, ts, dur, tid=7, **fields, **{"est. achieved occupancy %": 50}, **args)


ON_GPU = [
    {"ph": "M", "name": "process_name", "ts": 0},
    event("user_annotation", CALL, 1000, 50),
    kernel("first(int)", 1100, 9),
    # The second call is the shortest; its kernels end long after its host part.
    event("user_annotation", CALL, 2000, 20),
    event("cpu_op", "aten::mm", 2001, 15),
    event("cuda_runtime", "cudaLaunchKernel", 2002, 4),
    event("cuda_runtime", "cudaLaunchKernel", 2008, 3, tid=99),  # CUPTI may number threads in its own way
    event("cuda_runtime", "cudaDeviceSynchronize", 2021, 200),  # kbench's own, behind the annotation
    kernel("second(int)", 2200, 7.5),
    event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 2190, 4, tid=7, bytes=64),
    event("user_annotation", CALL, 3000, 40),
    kernel("third(int)", 3100, 5),
    event("gpu_user_annotation", CALL, 2190, 20, tid=7),
]


def test_the_shortest_call_and_what_it_launched():
    found = shortest_call(ON_GPU)
    assert found.launches == [
        DeviceActivity(name="Memcpy DtoD (Device -> Device)", start_ns=0, duration_ns=4000),
        DeviceActivity(
            name="second(int)",
            start_ns=10_000,
            duration_ns=7500,
            blocks=20,
            threads=128,
            registers=40,
            shared_bytes=1024,
        ),
    ]
    assert found.runtime_calls == [HostActivity(name="cudaLaunchKernel", count=2, self_ns=7000)]


def test_operators_within_operators_count_once():
    found = shortest_call(
        [
            event("user_annotation", CALL, 0, 100),
            event("cpu_op", "aten::linear", 10, 60),
            event("cpu_op", "aten::addmm", 15, 50),
            event("cpu_op", "aten::addmm", 75, 5),
            event("cpu_op", "aten::mm", 20, 100, tid=2),  # of another thread, beside it
        ]
    )
    assert found.operators == [
        HostActivity(name="aten::linear", count=1, self_ns=10_000),
        HostActivity(name="aten::addmm", count=2, self_ns=55_000),
    ]


def test_a_trace_without_a_call_has_none():
    assert shortest_call([]) == TracedCall()
    assert shortest_call([kernel("k", 1, 1)]) == TracedCall()


def test_the_shape_of_the_device():
    hopper = {
        "id": 0,
        "name": "NVIDIA H200",
        "computeMajor": 9,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerMultiprocessor": 65536,
        "sharedMemPerMultiprocessor": 233472,
        "numSms": 132,
    }
    assert shape_of([hopper]) == DeviceShape(
        major=9, minor=0, sms=132, threads_per_sm=2048, registers_per_sm=65536, shared_bytes_per_sm=233472
    )
    assert shape_of([]) is None
    assert shape_of([{**hopper, "numSms": None}]) is None


def test_torch_writes_what_is_read_here(tmp_path):
    x = torch.randn(64, 64)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            with torch.profiler.record_function(CALL):
                torch.relu(x @ x)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    document = json.loads((tmp_path / "trace.json").read_text())
    found = shortest_call(document["traceEvents"])
    assert {each.name for each in found.operators} >= {"aten::mm", "aten::relu"}
    assert all(each.count == 1 for each in found.operators if each.name in {"aten::mm", "aten::relu"})
    assert found.launches == []
    assert shape_of(document["deviceProperties"]) is None


@pytest.mark.parametrize("field", ["ts", "dur"])
def test_figures_that_are_none_are_an_error(field):
    with pytest.raises((KeyError, TypeError, ValueError)):
        shortest_call([{**event("user_annotation", CALL, 0, 1), field: "soon"}])
