"""Reductions over tensors on an NVIDIA GPU in one pass over memory each, where torch's operators take many.

Each kernel is written in PTX, which every driver translates for its own device, so no compiler is needed.
"""

import ctypes
import functools
import secrets
from collections.abc import Iterable

import torch
from torch import Tensor

from kbench.devices.backend import backend_of
from kbench.devices.cuda_driver import Driver

BYTES = 16
"""Bytes of one load of a thread; tensors begin at a multiple of that, and end at one."""
THREADS = 256
"""Chosen, as is the largest number of blocks: an H100 or H200 holds about as many threads at once."""
_secret = functools.cache(lambda: secrets.randbits(64))
"""Places have other weights in each process, so that no solution can make a change that its other change hides."""


def fits(got: Tensor, other: Tensor) -> bool:
    """Return whether `largest_errors` can compare fp32 values with others in fp32 or fp64, which must be dense."""
    dense = got.is_contiguous() and other.is_contiguous() and got.numel() > 0 and got.numel() % 4 == 0
    kinds = got.dtype == torch.float32 and other.dtype in {torch.float32, torch.float64}
    return dense and kinds and backend_of(got).has_own_memory and not (got.data_ptr() | other.data_ptr()) % BYTES


def largest_errors(got: Tensor, other: Tensor, rtol: float, atol: float) -> Tensor:
    """Return the largest |g - o|, in its own units, in those of max(|o|, atol), and in those of atol + rtol |o|.

    Against fp64 only the last one is computed. The arithmetic is that of `other`. A result is NaN or infinite if an
    element is.
    """
    is_double = other.dtype == torch.float64
    found = torch.zeros(1 if is_double else 3, dtype=other.dtype, device=other.device)
    _launch("errors_of_fp64" if is_double else "errors_of_fp32", got.numel() // 4, got, other, found, rtol, atol)
    return found


def sum_of_words(raw: Tensor) -> int:
    """Return 64 bits that stand for bytes on the device: a sum of mixed words, whose secret weights are their places'.

    A first element off `BYTES` costs a copy, and a last part of less than that is not summed.
    """
    found = torch.zeros(1, dtype=torch.int64, device=raw.device)
    aligned = raw if raw.data_ptr() % BYTES == 0 else raw.clone()
    _launch("sum_of_words", raw.numel() // BYTES, aligned, _secret(), found, 0.0, 0.0)
    return int(found.item())


def _launch(name: str, count: int, one: Tensor, other: Tensor | int, found: Tensor, rtol: float, atol: float) -> None:
    """Launch a kernel over `count` loads of the first tensor, on torch's stream."""
    pointers = (one.data_ptr(), other if isinstance(other, int) else other.data_ptr(), found.data_ptr(), count)
    arguments = [*map(ctypes.c_uint64, pointers), ctypes.c_double(rtol), ctypes.c_double(atol)]
    blocks = max(1, min(4 * THREADS, -(-count // THREADS)))
    stream = torch.cuda.current_stream(one.device).cuda_stream
    driver, kernel = _loaded(name)
    driver.launch(kernel, blocks, THREADS, *arguments, stream=stream)


@functools.cache
def _loaded(name: str) -> tuple[Driver, ctypes.c_void_p]:
    body = {"errors_of_fp32": _errors_of_fp32, "errors_of_fp64": _errors_of_fp64, "sum_of_words": _sum_of_words}[name]
    driver = Driver()
    return driver, driver.kernel(_loop(name, *body()), name.encode())


def _loop(name: str, step: str, end: str) -> bytes:
    """Return a kernel whose threads take one load after another; accumulators begin with zero."""
    kinds = {**dict.fromkeys(("one", "other", "found", "count"), "u64"), "rtol": "f64", "atol": "f64"}
    parameters = ", ".join(f".param .{kind} {each}" for each, kind in kinds.items())
    loaded = "\n".join(f"ld.param.{kind} %{each}, [{each}];" for each, kind in kinds.items())
    return f"""
.version 7.0
.target sm_60
.address_size 64
.visible .entry {name}({parameters})
{{
.reg .b64 %one, %other, %found, %count, %rtol, %atol, %i, %stride, %at, %x<4>, %y<4>, %v, %w, %m;
.reg .b32 %c<4>, %r<4>, %e, %s, %q, %m<3>, %t<3>, %rtol32, %atol32;
.reg .pred %done, %more;
{loaded}
cvt.rn.f32.f64 %rtol32, %rtol;
cvt.rn.f32.f64 %atol32, %atol;
mov.u32 %t0, %ctaid.x;
mov.u32 %t1, %ntid.x;
mov.u32 %t2, %tid.x;
mad.lo.u32 %t0, %t0, %t1, %t2;
cvt.u64.u32 %i, %t0;
mov.u32 %t2, %nctaid.x;
mul.lo.u32 %t1, %t1, %t2;
cvt.u64.u32 %stride, %t1;
mov.u64 %m, 0;
mov.u32 %m0, 0;
mov.u32 %m1, 0;
mov.u32 %m2, 0;
next:
setp.ge.u64 %done, %i, %count;
@%done bra end;
{step}
add.u64 %i, %i, %stride;
bra next;
end:
{end}
ret;
}}
""".encode()


def _errors_of_fp32() -> tuple[str, str]:
    """Take four elements of each; errors are not negative, so their bits have the order of the values, NaN last."""
    each = (
        f"""
sub.rn.f32 %e, %c{k}, %r{k};
and.b32 %e, %e, 0x7fffffff;
and.b32 %s, %r{k}, 0x7fffffff;
max.u32 %m0, %m0, %e;
max.f32 %q, %s, %atol32;
div.rn.f32 %q, %e, %q;
max.u32 %m1, %m1, %q;
mul.rn.f32 %s, %s, %rtol32;
add.rn.f32 %s, %s, %atol32;
div.rn.f32 %q, %e, %s;
max.u32 %m2, %m2, %q;"""
        for k in range(4)
    )
    loads = """
shl.b64 %at, %i, 4;
add.u64 %v, %one, %at;
add.u64 %w, %other, %at;
ld.global.v4.b32 {%c0, %c1, %c2, %c3}, [%v];
ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%w];"""
    return loads + "".join(each), _kept(32, (f"%m{k}" for k in range(3)))


def _errors_of_fp64() -> tuple[str, str]:
    """Take four elements of each; the allowed error is at least the smallest normal number."""
    each = (
        f"""
cvt.f64.f32 %v, %c{k};
sub.rn.f64 %v, %v, %x{k};
and.b64 %v, %v, 0x7fffffffffffffff;
and.b64 %w, %x{k}, 0x7fffffffffffffff;
mul.rn.f64 %w, %w, %rtol;
add.rn.f64 %w, %w, %atol;
max.f64 %w, %w, 0d0010000000000000;
div.rn.f64 %v, %v, %w;
max.u64 %m, %m, %v;"""
        for k in range(4)
    )
    loads = """
shl.b64 %at, %i, 4;
add.u64 %v, %one, %at;
ld.global.v4.b32 {%c0, %c1, %c2, %c3}, [%v];
shl.b64 %at, %i, 5;
add.u64 %w, %other, %at;
ld.global.v2.b64 {%x0, %x1}, [%w];
ld.global.v2.b64 {%x2, %x3}, [%w+16];"""
    return loads + "".join(each), _kept(64, ["%m"])


def _sum_of_words() -> tuple[str, str]:
    """Take two words; the shift brings a word's highest bits down, where two equal changes do not cancel."""
    each = (
        f"""
shl.b64 %w, %i, 1;
add.u64 %w, %w, {k};
add.u64 %w, %w, %other;
mul.lo.u64 %w, %w, 0x9e3779b97f4a7c15;
shr.u64 %v, %w, 32;
xor.b64 %w, %w, %v;
mul.lo.u64 %w, %w, 0xd6e8feb86659fd93;
or.b64 %w, %w, 1;
xor.b64 %v, %x{k}, %w;
mul.lo.u64 %v, %v, %w;
shr.u64 %at, %v, 32;
xor.b64 %v, %v, %at;
mad.lo.u64 %m, %v, %w, %m;"""
        for k in range(2)
    )
    loads = """
shl.b64 %at, %i, 4;
add.u64 %v, %one, %at;
ld.global.v2.b64 {%x0, %x1}, [%v];"""
    return loads + "".join(each), "red.global.add.u64 [%found], %m;"


def _kept(bits: int, names: Iterable[str]) -> str:
    """Return the end of a thread whose accumulators are largest values; most threads need not write."""
    return "".join(
        f"""
ld.volatile.global.u{bits} %{"v" if bits == 64 else "e"}, [%found+{number * bits // 8}];
setp.gt.u{bits} %more, {name}, %{"v" if bits == 64 else "e"};
@%more red.global.max.u{bits} [%found+{number * bits // 8}], {name};"""
        for number, name in enumerate(names)
    )
