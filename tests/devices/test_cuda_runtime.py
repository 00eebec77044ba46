"""The error of a launch that nobody checked is read from every copy of CUDA's runtime, and forgotten."""

import ctypes

import pytest

from kbench.devices import cuda_runtime
from kbench.devices.backend import backend

NO_IMAGE = "no kernel image is available for execution on the device"


class Text:
    restype: object = None

    def __call__(self, code: int) -> bytes:
        assert self.restype is ctypes.c_char_p, "else the address is cut to an int"
        return {209: NO_IMAGE.encode(), 1: b"invalid argument"}[code]


class Runtime:
    """A copy of CUDA's runtime, with its last error."""

    def __init__(self, code: int = 0):
        self.code = code
        self.cudaGetErrorString = Text()

    def cudaGetLastError(self) -> int:
        code, self.code = self.code, 0
        return code


@pytest.mark.parametrize(
    ("codes", "said"), [((), ""), ((0,), ""), ((1,), "invalid argument"), ((0, 209), NO_IMAGE), ((209, 0), NO_IMAGE)]
)
def test_an_error_is_taken_once(codes, said):
    runtimes = [*map(Runtime, codes)]
    assert cuda_runtime.take_error(runtimes) == said
    assert cuda_runtime.take_error(runtimes) == ""


def test_runtimes_are_found_by_what_the_process_has_mapped(tmp_path, monkeypatch):
    names = ("/a/libcudart.so.12", "/a/libcudart.so.12", "/b/c d/libcudart-9.so", "/c/libcuda.so.1")
    maps = tmp_path / "maps"
    maps.write_text("".join(f"7f00-7f01 r-xp 00000000 08:01 7 {name}\n" for name in names))
    opened: list[str] = []

    def open_library(path: str, mode: int) -> Runtime:
        assert mode, "a library that is not loaded has no error"
        opened.append(path)
        return Runtime()

    monkeypatch.setattr(cuda_runtime, "MAPS", maps)
    monkeypatch.setattr(cuda_runtime.ctypes, "CDLL", open_library)
    cuda_runtime.loaded()
    assert opened == ["/a/libcudart.so.12", "/b/c d/libcudart-9.so"]


def test_a_cpu_launches_nothing():
    assert backend("cpu").unchecked_error() == ""
