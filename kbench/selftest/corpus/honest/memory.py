"""Solutions that keep, reuse or share memory in legal ways."""

import functools
import math
import weakref

import numpy
import torch
from torch import nn

CLASS = "memory"


class allocates_in_every_call(nn.Module):
    """Takes fresh memory for every intermediate result and a large scratch besides."""

    PROBLEM = "short_sines"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        scratch = torch.empty(4 * x.numel(), device=x.device)
        scratch[:16] = 1.0
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class buffers_by_shape_and_version(nn.Module):
    """Expanded parameters in buffers made at a shape's first call and filled anew when
    the parameters' version moves.
    """

    PROBLEM = "scale_bias"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.versions = {}

    def forward(self, x):
        name = f"expanded_{x.shape[0]}"
        versions = (self.weight._version, self.bias._version)
        if self.versions.get(name) != versions:
            both = torch.stack((self.weight, self.bias)).detach()[:, None].expand(2, x.shape[0], -1).contiguous()
            self.register_buffer(name, both, persistent=False)
            self.versions[name] = versions
        weight, bias = self.get_buffer(name)
        return torch.addcmul(bias, x, weight)


class chooses_by_samples(nn.Module):
    """Looks at a few samples of the input, as a memo's key would, to choose one of two equal
    ways; remembers no result.
    """

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        self.taken = {}

    def forward(self, x):
        flat = x.reshape(-1)
        key = tuple(flat[:: max(1, flat.numel() // 64)].tolist())
        by_parts = self.taken.setdefault(key, len(self.taken) % 2 == 0)
        if by_parts:
            return torch.cat([torch.nn.functional.gelu(part) for part in x.chunk(2)])
        return torch.nn.functional.gelu(x)


class compares_before_reusing(nn.Module):
    """Keeps its last input and output and returns a copy of that where every bit of the input is the same.

    Memoisation by full comparison cannot be wrong, and gains nothing where every call has fresh content.
    """

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        if self.last is not None:
            seen, answer = self.last
            if seen.shape == x.shape and torch.equal(seen.view(torch.int32), x.contiguous().view(torch.int32)):
                return answer.clone()
        y = torch.nn.functional.gelu(x)
        self.last = (x.contiguous().clone(), y.clone())
        return y


class falls_back_to_chunks(nn.Module):
    """Catches an out-of-memory error that it provokes itself, and goes on in chunks."""

    PROBLEM = "gelu"

    def forward(self, x):
        try:
            work = torch.empty(1 << 46, device=x.device)
            return work[: x.numel()].view(x.shape).copy_(torch.nn.functional.gelu(x))
        except RuntimeError:
            return torch.cat([torch.nn.functional.gelu(part) for part in x.split(4)])


@functools.lru_cache(maxsize=None)
def kernel_for(shape, dtype):
    half = torch.tensor(0.5, dtype=dtype)
    rows_at_once = max(1, 8192 // max(1, math.prod(shape[1:])))

    def run(x):
        parts = [part * half.to(x.device) * (1 + torch.erf(part / math.sqrt(2))) for part in x.split(rows_at_once)]
        return torch.cat(parts)

    return run


class function_cached_by_shape(nn.Module):
    """A cache keyed by shape, as a cheat's would be: what it keeps is the function to run, never a result."""

    PROBLEM = "gelu"

    def forward(self, x):
        return kernel_for(tuple(x.shape), x.dtype)(x)


class gives_memory_back(nn.Module):
    """Empties the allocator's cache in every call: freeing waits for the device."""

    PROBLEM = "sine_chain"
    DEVICES = ("cuda",)

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        torch.cuda.empty_cache()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class in_place_as_the_reference(nn.Module):
    """Changes its input and returns it, because the reference does exactly that."""

    PROBLEM = "in_place_activation"

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.where(x > 0, x, x * self.slope, out=x)


class in_place_on_scratch(nn.Module):
    """Works in place throughout, but on memory of its own."""

    PROBLEM = "softmax_rows"

    def forward(self, x):
        y = x.clone()
        y.sub_(y.amax(dim=-1, keepdim=True)).exp_()
        y.div_(y.sum(dim=-1, keepdim=True))
        return y


class large_scratch(nn.Module):
    """Takes 600 MB of scratch memory for a moment."""

    PROBLEM = "gelu"

    def forward(self, x):
        scratch = torch.empty(150_000_000, device=x.device)
        scratch[:: 1 << 18] = 1.0
        return torch.nn.functional.gelu(x)


def along(x, dim):
    shape = list(x.shape)
    shape[dim] = 1
    edge = x.new_full(shape, float("-inf"))
    x = torch.cat((edge, x, edge), dim)
    count = (x.shape[dim] - 1) // 2
    y = x.narrow(dim, 0, 2 * count).unflatten(dim, (count, 2)).amax(dim + 1)
    return torch.maximum(
        y, x.narrow(dim, 2, x.shape[dim] - 2).index_select(dim, torch.arange(count, device=x.device) * 2), out=y
    )


class max_pool_separably(nn.Module):
    """Rows first, columns second, by strided maxima in place on its own copy."""

    PROBLEM = "max_pool"

    def forward(self, x):
        return along(along(x, 2), 3)


class memory_of_another_library(nn.Module):
    """Results in memory that torch's allocator has never seen: NumPy's, handed over by DLPack."""

    PROBLEM = "relu"
    DEVICES = ("cpu",)

    def forward(self, x):
        values = numpy.from_dlpack(x.detach().contiguous())
        result = numpy.empty(values.shape, dtype=numpy.float32)
        numpy.maximum(values, 0, out=result)
        return torch.utils.dlpack.from_dlpack(result)


class out_arguments(nn.Module):
    """Writes every step into memory of its own by `out=`; looks like writing where somebody else will read."""

    PROBLEM = "gelu"

    def forward(self, x):
        y = torch.mul(x, math.sqrt(0.5))
        torch.erf(y, out=y)
        torch.add(y, 1.0, out=y)
        torch.mul(y, x, out=y)
        return torch.mul(y, 0.5, out=y)


class product_into_static_buffer(nn.Module):
    """Multiplies into one buffer per shape by `out=`: the previous result is gone, as users of such kernels know."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.results = {}

    @torch.no_grad()
    def forward(self, x):
        key = (x.shape[0], x.device)
        if key not in self.results:
            self.results[key] = torch.empty(x.shape[0], self.fc.out_features, device=x.device)
        return torch.addmm(self.fc.bias, x, self.fc.weight.t(), out=self.results[key])


class shared_memory_of_torch(nn.Module):
    """Moves a table of its own to shared memory, as a model does that several processes will serve."""

    PROBLEM = "relu"
    DEVICES = ("cpu",)

    def __init__(self):
        super().__init__()
        try:
            self.zero = torch.zeros(()).share_memory_()
        except RuntimeError:
            self.zero = torch.zeros(())

    def forward(self, x):
        return torch.where(x > 0, x, torch.where(x.isnan(), x, self.zero))


class static_output_buffer(nn.Module):
    """Returns the same buffer every time, as CUDA-graph wrappers do; its content is valid until the next call."""

    PROBLEM = "gelu"
    LEVEL = "module"
    LACKS = ("output_reuse",)

    def __init__(self):
        super().__init__()
        self.buffers_by_shape = {}

    def forward(self, x):
        key = (tuple(x.shape), x.dtype, x.device)
        if key not in self.buffers_by_shape:
            self.buffers_by_shape[key] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        y = self.buffers_by_shape[key]
        y.copy_(torch.nn.functional.gelu(x))
        return y


class weak_references(nn.Module):
    """Keeps its workspace by weak reference and notes when tensors die: no tensor outlives its call."""

    PROBLEM = "scale_bias"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.workspaces = weakref.WeakValueDictionary()
        self.died = []

    def forward(self, x):
        work = self.workspaces.get(x.shape)
        if work is None:
            work = torch.empty_like(x)
            self.workspaces[x.shape] = work
        weakref.finalize(work, self.died.append, x.shape[0])
        torch.mul(x, self.weight, out=work)
        return work + self.bias


class workspace_by_shape(nn.Module):
    """A workspace that is allocated at a shape's first call and used again at the next."""

    PROBLEM = "sine_chain"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.workspaces = {}

    def forward(self, x):
        work = self.workspaces.get(x.shape)
        if work is None or work.device != x.device:
            work = self.workspaces[x.shape] = torch.empty_like(x)
        y = torch.empty_like(x).copy_(x)
        for _ in range(self.rounds):
            torch.add(y, x, out=work)
            torch.sin(work, out=y)
        return y
