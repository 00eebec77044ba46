"""Text that memcheck prints, in the ways of several versions, and the findings that follow from it."""

import pytest

from kbench.core.model import FindingKind, Status
from kbench.core.sanitizer import SourcePlace, findings, parse, place

OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
Mallocing memory
========= Invalid __global__ write of size 4 bytes
=========     at out_of_bounds_function()+0xb0 in memcheck_demo.cu:39
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x87654320 is out of bounds
=========     and is 137,179,965,340,896 bytes before the nearest allocation at 0x7cc43a800000 of size 1,024 bytes
=========         Device Frame: out_of_bounds_kernel()+0x30 in memcheck_demo.cu:44
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run_out_of_bounds() [0xadb6] in memcheck_demo
=========         Host Frame: main [0xae66] in memcheck_demo
=========
========= ERROR SUMMARY: 1 error
"""
CUDA_12_WITH_LINES = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at 0x3c8 in /home/me/build/cuda.cu:42:relu(const float *, float *, long)
=========     by thread (31,0,0) in block (3,0,0)
=========     Address 0x7f7a4e000000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f7a4de00000 of size 2,097,152 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x32e990]
=========                in /lib/x86_64-linux-gnu/libcuda.so.1
=========
========= Invalid __global__ read of size 4 bytes
=========     at 0x3c8 in /home/me/build/cuda.cu:42:relu(const float *, float *, long)
=========     by thread (30,0,0) in block (3,0,0)
=========     Address 0x7f7a4e000004 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""
CUDA_12_WITHOUT_LINES = """\
========= COMPUTE-SANITIZER
========= Invalid __shared__ write of size 1 bytes
=========     at 0x60 in Iota(unsigned char*)
=========     by thread (63,0,0) in block (0,0,0)
=========     Address 0x4f is misaligned
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NOT_ATTACHED = """\
========= COMPUTE-SANITIZER
========= Error: No attachable process found. compute-sanitizer timed-out.
========= Default timeout can be adjusted with --launch-timeout. Awaiting target completion.
"""
DIED = """\
========= COMPUTE-SANITIZER
========= Error: process didn't terminate successfully
=========     The application may have hit an error when dereferencing Unified Memory from the host.
========= Error: Target application terminated before first instrumented API call
"""
NEW_KIND = """\
========= COMPUTE-SANITIZER
========= Tensor Memory column 32 being accessed by instruction tcgen05.ld is not allocated.
=========     at guardrail_trap+0x1250 in TcmmaGuardrails.cu:99
========= ERROR SUMMARY: 3 errors
"""

IMPRECISE = """\
========= COMPUTE-SANITIZER
========= Warp illegal address
=========     at mine(float*)+0x20 in cuda.cu:9
=========
========= ERROR SUMMARY: 1 error
"""
BLIND = """\
========= COMPUTE-SANITIZER
========= Internal Sanitizer Error: The Sanitizer encountered an error while launching mine and didn't track the launch.
========= ERROR SUMMARY: 0 errors
"""

PLACES = [
    ("unaligned_kernel()+0x50", SourcePlace(kernel="unaligned_kernel()")),
    (
        "unaligned_kernel():0x160 in memcheck_demo.cu:6",
        SourcePlace(kernel="unaligned_kernel()", file="memcheck_demo.cu", line=6),
    ),
    (
        "void a::b<(int)4>(float *)+0x10 in /x y/k.cuh:12",
        SourcePlace(kernel="void a::b<(int)4>(float *)", file="/x y/k.cuh", line=12),
    ),
    ("0x60 in Iota(unsigned char*)", SourcePlace(kernel="Iota(unsigned char*)")),
    ("0x60 in void a::b<int>(c::d)", SourcePlace(kernel="void a::b<int>(c::d)")),
    ("0x3c8 in U/k.cu:42:f(int*, int*)", SourcePlace(kernel="f(int*, int*)", file="U/k.cu", line=42)),
    ("0x79d8", None),
    ("kernel launch time", None),
    ("__shared__ 0x3 in block (0, 0, 0) :", None),
]


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_a_place_of_every_version(text, expected) -> None:
    assert place(text) == expected


def judge(text: str, *, sources=None) -> list:
    return list(findings(parse(text), sources or {}))


FATAL, NOTE = ("memcheck", "integrity", Status.ILLEGAL_ACCESS), ("memcheck", "note", None)
VERDICTS = [
    (OUT_OF_BOUNDS, [FATAL]),
    (CUDA_12_WITH_LINES, [FATAL]),
    (CUDA_12_WITHOUT_LINES, [FATAL]),
    (NEW_KIND, [FATAL]),
    (IMPRECISE, [FATAL]),
    (BLIND, [NOTE]),
    (CLEAN, []),
    (NOT_ATTACHED, [NOTE]),
    (DIED, [NOTE]),
    ("", [NOTE]),
]


@pytest.mark.parametrize(("text", "expected"), VERDICTS)
def test_what_follows(text, expected) -> None:
    found = judge(text)
    assert [(f.code, f.kind.value, f.status) for f in found] == expected
    assert all(f.fatal == (f.status is not None) for f in found)


MESSAGES = [
    (
        OUT_OF_BOUNDS,
        ["Invalid __global__ write of size 4 bytes", "out_of_bounds_kernel()", "demo.cu:39"],
    ),
    (OUT_OF_BOUNDS, ["thread (0,0,0) in block (0,0,0)", "is out of bounds", "before the nearest"]),
    (CUDA_12_WITH_LINES, ["relu(const float *, float *, long)", "cuda.cu:42", "2 such reports"]),
    (CUDA_12_WITHOUT_LINES, ["Iota(unsigned char*)", "misaligned"]),
    (NEW_KIND, ["counted 3 errors", "Tensor Memory column 32"]),
    (IMPRECISE, ["Warp illegal address in mine(float*) at cuda.cu:9"]),
    (BLIND, ["didn't track the launch"]),
    (NOT_ATTACHED, ["could not finish", "No attachable process"]),
    ("========= COMPUTE-SANITIZER\n", ["breaks off"]),
]


@pytest.mark.parametrize(("text", "words"), MESSAGES)
def test_the_message_names_kernel_and_line(text, words) -> None:
    message = judge(text)[0].message
    for word in ("memcheck", *words):
        assert word in message


def test_the_source_line_is_quoted_where_it_is_known() -> None:
    spot = SourcePlace(kernel="out_of_bounds_kernel()", file="memcheck_demo.cu", line=39)
    (found,) = judge(OUT_OF_BOUNDS, sources={spot: "*(int *)0x87654320 = 42;"})
    assert "memcheck_demo.cu:39 `*(int *)0x87654320 = 42;`" in found.message


def test_lines_of_the_program_are_not_the_tools() -> None:
    forged = CLEAN.replace(
        "========= ERROR", "noise\n== Invalid __global__ write of size 4\nERROR SUMMARY: 9 errors\n========= ERROR"
    )
    assert judge(forged) == []


def test_many_places_are_counted_not_listed() -> None:
    blocks = CUDA_12_WITHOUT_LINES.split("=========\n", maxsplit=1)[0].split("SANITIZER\n")[1]
    text = "========= COMPUTE-SANITIZER\n" + "".join(blocks.replace("Iota", f"k{n}") for n in range(9))
    found = judge(text + "========= ERROR SUMMARY: 9 errors\n")
    assert [f.kind for f in found] == [FindingKind.INTEGRITY] * 4 + [FindingKind.NOTE]
    assert "5 more reports" in found[-1].message


@pytest.mark.parametrize("text", [OUT_OF_BOUNDS, CUDA_12_WITH_LINES])
def test_a_report_that_breaks_off_anywhere_is_never_taken_for_a_clean_one(text) -> None:
    for end in range(len(text)):
        assert judge(text[:end]) or "SUMMARY" in text[:end]
    for end in range(len(text) - 20):
        assert judge(text[:end])
