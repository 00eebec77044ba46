"""Solutions that use unusual features of Python."""

import functools
import linecache

import torch
from torch import nn

CLASS = "python"


class call_overridden(nn.Module):
    """Overrides `__call__` and never uses `forward`, so that hooks and tracers see nothing; the result is computed
    anew.
    """

    PROBLEM = "softmax_rows"

    def __call__(self, x):
        return torch.exp(torch.log_softmax(x, dim=-1))

    def forward(self, x):
        raise NotImplementedError("call the model")


class computes_in_hooks(nn.Module):
    """`forward` returns its input untouched and hooks do the work: unusual, and all of it happens within the call."""

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(lambda module, arguments: (arguments[0] * 0.5**0.5,))
        self.register_forward_hook(lambda module, arguments, y: arguments[0] * 0.5**0.5 * (1 + torch.erf(y)))

    def forward(self, x):
        return x


def affine(layer, transpose, x):
    if transpose:
        return (layer.weight @ x.t()).t() + layer.bias
    return torch.addmm(layer.bias, x, layer.weight.t())


class forward_assigned_to_instance(nn.Module):
    """Assigns `forward` on the instance, as a cheat does that escapes a check of the class: here
    to choose a variant.
    """

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.forward = functools.partial(affine, self.fc, outputs > inputs)


class functional_call_of_own_module(nn.Module):
    """torch.func.functional_call with a cached dictionary of parameters."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    @functools.cached_property
    def table(self):
        return {"weight": self.fc.weight, "bias": self.fc.bias}

    def forward(self, x):
        return torch.func.functional_call(self.fc, self.table, (x,))


def rows(x):
    yield from x.unbind(0)


def shifted(stream):
    for row in stream:
        yield row - row.max()


def normalised(stream):
    for row in stream:
        powers = row.exp()
        yield powers / powers.sum()


class generator_of_chunks(nn.Module):
    """Streams its rows through a chain of generators; lazy inside, and drained before it returns."""

    PROBLEM = "softmax_rows"

    def forward(self, x):
        return torch.stack(list(normalised(shifted(rows(x)))))


class no_module_at_all:
    """A class that is no nn.Module and is merely callable: it has no parameters to hide."""

    PROBLEM = "gelu"

    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 0.5**0.5

    def __call__(self, x):
        return torch.special.ndtr(x / self.scale * self.scale) * x


class Found(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


def total(x):
    if x.shape[-1] > 1:
        middle = x.shape[-1] // 2
        return total(x[..., :middle]) + total(x[..., middle:])
    raise Found(x[..., 0])


def sum_of(x):
    try:
        return total(x)
    except Found as found:
        if x.shape[-1] == 1:
            return found.value
        middle = x.shape[-1] // 2
        return sum_of(x[..., :middle]) + sum_of(x[..., middle:]) if x.shape[-1] > 64 else x.sum(dim=-1)


class raises_and_recovers(nn.Module):
    """Control flow by exceptions: deep recursion that ends in an exception, caught where the answer is put together."""

    PROBLEM = "row_statistics"

    def forward(self, x):
        mean = sum_of(x) / x.shape[-1]
        deviations = (x - mean[:, None]).square()
        return {"mean": mean, "variance": sum_of(deviations) / x.shape[-1]}


class vmapped_rows(nn.Module):
    """torch.func.vmap over rows."""

    PROBLEM = "softmax_rows"

    def forward(self, x):
        return torch.func.vmap(lambda r: torch.softmax(r, 0))(x)


TEMPLATE = "def slices(x, w):\n    return {terms}\n"


def generate(count, step):
    terms = " + ".join(f"x[:, {k}:{k + step}] @ w[:, {k}:{k + step}].t()" for k in range(0, count, step))
    text = TEMPLATE.format(terms=terms)
    linecache.cache["<slices>"] = (len(text), None, text.splitlines(True), "<slices>")
    names = {}
    exec(compile(text, "<slices>", "exec"), names)
    return names["slices"]


class writes_its_own_code(nn.Module):
    """Generates its function as text and runs it through `exec`, as templates of kernels do."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.slices = generate(inputs, 64)

    def forward(self, x):
        return self.slices(x, self.fc.weight) + self.fc.bias
