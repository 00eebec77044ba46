"""Texts of the files that `kbench new` writes. Each is complete except for one function."""

import ast
from string import Template

from kbench.plugins import source
from kbench.plugins.registry import Entry

_PROBLEM = '''"""$name: say in one line what is computed and what bounds it."""

import torch
from torch import nn


class Model(nn.Module):
    """The reference: plain PyTorch, as clear as it can be."""

    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch_size, features) -> fill in the shape."""
        raise NotImplementedError("fill in the reference")


batch_size = 4096
features = 1024

# A case overrides constants of this file; so does `--set NAME=VALUE`.
CASES = {
    "default": {},
    "small": {"batch_size": 8, "features": 64},
    "ragged": {"batch_size": 3, "features": 37},
}


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features]
'''

_SOLUTION = '''"""$problem in $language: say in one line how it works and why that is fast."""

$imports

DEVICES = ($devices,)

$head
class ModelNew(nn.Module):
    """Takes the constructor arguments of the problem's `Model` and has its parameters by the same names."""

$constructor
$forward
'''

_TORCH_FORWARD = '''    def forward(self, $arguments):
        """Fill in."""
        raise NotImplementedError("fill in the solution")
'''

_NATIVE_FORWARD = '''    def forward(self, $arguments):
        """Compute into a new tensor; change its shape if the result's differs from that of `$first`."""
        $first = $first.contiguous()
        y = torch.empty_like($first)
        code = LIBRARY.compute($call)
        if code != 0:
            raise RuntimeError(f"compute failed with code {code}")
        return y
'''

_CUDA_HEAD = '''SOURCE = r"""
#include <cstdint>

namespace {

// Fill in. Until then no element of y is written, and verification fails.
__global__ void kernel(const float* x, float* y, int64_t count) {}

}  // namespace

extern "C" int compute(const float* x, float* y, int64_t count, cudaStream_t stream) {
  const int threads = 256;
  kernel<<<(count + threads - 1) / threads, threads, 0, stream>>>(x, y, count);
  return cudaGetLastError();
}
"""

# Built once, then taken from the cache. Plain C functions need no torch header, which alone costs 20 s.
LIBRARY = ctypes.CDLL(
    load_inline(
        name="$library",
        cpp_sources=[],
        cuda_sources=[SOURCE],
        extra_cuda_cflags=["-O3"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.compute.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]

'''

_CPP_HEAD = '''SOURCE = r"""
#include <cstdint>

// Fill in. Until then no element of y is written, and verification fails.
extern "C" int compute(const float* x, float* y, int64_t count) {
  return 0;
}
"""

# Built once, then taken from the cache. Plain C functions need no torch header, which alone costs 20 s.
LIBRARY = ctypes.CDLL(
    load_inline(
        name="$library",
        cpp_sources=[SOURCE],
        extra_cflags=["-O3", "-march=native", "-fopenmp"],
        extra_ldflags=["-fopenmp"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
LIBRARY.compute.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]

'''

_TRITON_HEAD = '''
@triton.jit
def kernel(x, y, count, BLOCK: tl.constexpr):
    """Fill in. Until then no element of y is written, and verification fails."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + place, mask=place < count)

'''

_TRITON_FORWARD = '''    def forward(self, $arguments):
        """Compute into a new tensor; change its shape if the result's differs from that of `$first`."""
        $first = $first.contiguous()
        y = torch.empty_like($first)
        kernel[(triton.cdiv($first.numel(), 1024),)]($first, y, $first.numel(), BLOCK=1024)
        return y
'''

_CUDA_TORCH_HEAD = '''SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/types.h>

namespace {

// Fill in. Until then no element of y is written, and verification fails.
__global__ void kernel(const float* x, float* y, int64_t count) {}

}  // namespace

torch::Tensor compute(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int threads = 256;
  const auto blocks = (x.numel() + threads - 1) / threads;
  kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""

# Built once, then taken from the cache. Torch's headers alone take 20 s; `--language cuda` does without them.
MODULE = load_inline(
    name="$library",
    cpp_sources=["torch::Tensor compute(torch::Tensor x);"],
    cuda_sources=[SOURCE],
    functions=["compute"],
    extra_cuda_cflags=["-O3"],
)

'''

_CUDA_TORCH_FORWARD = '''    def forward(self, $arguments):
        """Compute into a new tensor; the source above sets its shape."""
        return MODULE.compute($first.contiguous())
'''

_CUTE_IMPORTS = """import cuda.bindings.driver as cuda
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack
"""

_CUTE_HEAD = '''
@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    """Fill in. Until then no element of y is written, and verification fails."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    width, _, _ = cute.arch.block_dim()
    place = block * width + thread


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    """Launch the kernel with one thread for each element."""
    blocks = (cute.size(x) + 255) // 256
    kernel(x, y).launch(grid=[blocks, 1, 1], block=[256, 1, 1], stream=stream)

'''

_CUTE_FORWARD = '''    def forward(self, $arguments):
        """Compute into a new tensor; change its shape if the result's differs from that of `$first`."""
        $first = $first.contiguous()
        y = torch.empty_like($first)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        launch(from_dlpack($first.detach().view(-1)), from_dlpack(y.view(-1)), stream)
        return y
'''

_TILELANG_HEAD = '''
@tilelang.jit(out_idx=[-1])
def build(count: int, block: int = 1024):
    """Compile the kernel for a number of elements; it returns y."""

    @T.prim_func
    def kernel(x: T.Tensor((count,), "float32"), y: T.Tensor((count,), "float32")):
        with T.Kernel(T.ceildiv(count, block), threads=256) as program:
            for lane in T.Parallel(block):
                # Fill in. Until then y is zero, and verification says so.
                y[program * block + lane] = T.float32(0)

    return kernel

'''

_TILELANG_FORWARD = '''    def forward(self, $arguments):
        """Compute a tensor; change its shape if the result's differs from that of `$first`."""
        return build($first.numel())($first.contiguous().view(-1)).view_as($first)
'''

_HELION_HEAD = '''
# Without autotuning, which takes minutes. Fix a `config=` once you have found one.
@helion.kernel(autotune_effort="none")
def kernel(x: torch.Tensor) -> torch.Tensor:
    """Fill in. Until then y is zero, and verification says so."""
    y = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        y[tile] = x[tile] * 0.0
    return y

'''

_HELION_FORWARD = '''    def forward(self, $arguments):
        """Compute a tensor; the kernel sets its shape."""
        return kernel($first.contiguous())
'''

_STREAMS = {"cuda": ", torch.cuda.current_stream().cuda_stream"}
"""The last argument of a kernel's call, by language."""
_LANGUAGES: dict[str, tuple[str, str, str, str]] = {
    "torch": ('"cuda", "cpu"', "", "", _TORCH_FORWARD),
    "cuda": (
        '"cuda"',
        "import ctypes\n\nfrom torch.utils.cpp_extension import load_inline",
        _CUDA_HEAD,
        _NATIVE_FORWARD,
    ),
    "cuda-torch": (
        '"cuda"',
        "from torch.utils.cpp_extension import load_inline",
        _CUDA_TORCH_HEAD,
        _CUDA_TORCH_FORWARD,
    ),
    "cute": (
        '"cuda"',
        _CUTE_IMPORTS,
        _CUTE_HEAD,
        _CUTE_FORWARD,
    ),
    "tilelang": ('"cuda"', "import tilelang\nimport tilelang.language as T", _TILELANG_HEAD, _TILELANG_FORWARD),
    "helion": ('"cuda"', "import helion\nimport helion.language as hl", _HELION_HEAD, _HELION_FORWARD),
    "cpp": (
        '"cpu"',
        "import ctypes\n\nfrom torch.utils.cpp_extension import load_inline",
        _CPP_HEAD,
        _NATIVE_FORWARD,
    ),
    "triton": ('"cuda"', "import triton\nimport triton.language as tl", _TRITON_HEAD, _TRITON_FORWARD),
}
"""Devices, imports, the code before the class, and `forward`, by language."""


def problem(name: str) -> str:
    """Write a problem file without its reference."""
    return Template(_PROBLEM).substitute(name=name)


def solution(owner: Entry, language: str) -> str:
    """Write a solution file for the problem `owner`, with its constructor and without a kernel."""
    devices, imports, head, forward = _LANGUAGES[language]
    model = _model(source.parse(owner.path).tree)
    arguments = _arguments(model)
    first = arguments[0] if arguments else "x"
    call = f"{first}.data_ptr(), y.data_ptr(), {first}.numel()" + _STREAMS.get(language, "")
    names = {
        "problem": owner.name,
        "language": language,
        "devices": devices,
        "library": f"new_{owner.name}_{language.replace('-', '_')}",
        "arguments": ", ".join(arguments or ["x"]),
        "first": first,
        "call": call,
    }
    text = Template(_SOLUTION).substitute(
        names,
        imports=_imports(owner, imports),
        head=Template(head).substitute(names),
        constructor=_constructor(model),
        forward=Template(forward).substitute(names).rstrip(),
    )
    return text.replace("\n\n\n\n", "\n\n\n")


def _model(tree: ast.Module) -> ast.ClassDef | None:
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)


def _method(model: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
    body = model.body if model is not None else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _arguments(model: ast.ClassDef | None) -> list[str]:
    forward = _method(model, "forward")
    return [argument.arg for argument in forward.args.args[1:]] if forward is not None else []


def _constructor(model: ast.ClassDef | None) -> str:
    """Take over the reference's constructor, so that arguments and parameter names agree."""
    function = _method(model, "__init__")
    if function is None:
        return ""
    return "\n".join("    " + line for line in ast.unparse(function).splitlines()) + "\n"


def _imports(owner: Entry, own: str) -> str:
    """Join the problem's imports, which the constructor may need, with those of the language."""
    tree = source.parse(owner.path).tree
    taken = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    needed = ["import torch", "from torch import nn", *[line for line in own.splitlines() if line]]
    lines = dict.fromkeys((*needed, *taken))
    return "\n".join(sorted(lines, key=lambda line: (line.startswith("from"), line)))


AGENTS = """# For agents that write GPU kernels here

kbench says whether a kernel is right and how fast it is. Use it; do not write a benchmark of your own.

- A problem is a PyTorch file with `Model`, `get_inputs` and `get_init_inputs`. Never change it to make a solution pass.
- A solution is a file with a class `ModelNew` that takes the same constructor arguments.

| to | type |
|---|---|
| see problems and solutions | `kbench list` |
| start a solution | `kbench new solution PROBLEM NAME --language cuda` |
| check that it is right | `kbench verify PROBLEM FILE --json` |
| time it against the reference | `kbench run PROBLEM FILE --json` |
| compare two runs | `kbench compare OLD NEW --json` |
| learn what a code means | `kbench explain CODE` |
| check this machine | `kbench doctor` |

Exit code 0 is a pass, 1 a failure of the solution, 2 a usage error, 3 a problem of the machine. With `--json`, stdout
is one document. `harness_error` and `not_verified` say nothing about the solution: run it again.

Verify before you time. A kernel must be right for inputs it has never seen, with parameters that change. It runs in a
sandbox without network, and outputs of timed calls are checked: caching results or patching timers fails.
`kbench mcp` offers the same commands as tools.
"""
