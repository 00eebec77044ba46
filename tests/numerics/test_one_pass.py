"""Reductions in one pass against torch's operators, on a GPU; everywhere, that the kernels can be translated."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from require import WITH_CUDA

from kbench.numerics import elements, one_pass

TOLERANCE = elements.tolerance_for(torch.float32)
KERNELS = [one_pass._errors_of_fp32, one_pass._errors_of_fp64, one_pass._sum_of_words]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs CUDA's assembler")
@pytest.mark.parametrize("body", KERNELS)
def test_kernels_are_translated_for_old_and_new_devices(tmp_path: Path, body) -> None:
    source = tmp_path / "kernel.ptx"
    source.write_bytes(one_pass._loop("kernel", *body()))
    for device in ("sm_75", "sm_90"):
        subprocess.run(["ptxas", f"-arch={device}", "-o", tmp_path / device, source], check=True)


def test_no_tensor_of_a_cpu_fits() -> None:
    assert not one_pass.fits(torch.zeros(8), torch.zeros(8))


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=WITH_CUDA)])
@pytest.mark.parametrize("count", [4, 1 << 10, (1 << 22) + 4])
def test_errors_are_those_of_torch(monkeypatch: pytest.MonkeyPatch, device: str, count: int) -> None:
    want = torch.randn(count, device=device)
    got = want * (1 + 1e-6 * torch.randn_like(want))
    oracle = want.double() * (1 + 1e-7)
    assert one_pass.fits(got, want)
    assert not one_pass.fits(got[1:], want[1:])

    def found() -> list[object]:
        worst = elements.worst_errors([got, want], oracle, TOLERANCE, [1e-5, 3e-7], quick=True)
        return [elements.compare(got, want, TOLERANCE), worst.tolist()]

    mine = found()
    monkeypatch.setattr(one_pass, "fits", lambda *_: False)
    assert mine == found()


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=WITH_CUDA)])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1.0])
@pytest.mark.parametrize("place", [0, 5, 1023])
def test_one_bad_element_is_seen_anywhere(device: str, value: float, place: int) -> None:
    want = torch.zeros(1024, device=device)
    got = want.clone()
    got[place] = value
    assert not one_pass.largest_errors(got, want, 1e-5, 1e-5)[2] <= 1
    assert not one_pass.largest_errors(want, got, 1e-5, 1e-5)[2] <= 1
    assert not one_pass.largest_errors(got, want.double(), 1e-5, 1e-5)[0] <= 1
    assert elements.compare(got, want, TOLERANCE).wrong == 1
