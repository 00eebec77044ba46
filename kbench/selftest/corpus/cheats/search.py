"""Solutions that search memory for the expected values."""

import gc
import sys

import torch
from torch import nn

CLASS = "search"


class returns_judges_buffer(nn.Module):
    """Finds the buffer that its result will be copied to and returns that very memory."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "unwritten_output", "output_aliased", "nondeterministic")
    CATALOGUE = "rigor 2, 13"

    def forward(self, x):
        for thing in gc.get_objects():
            if type(thing) is torch.Tensor and thing.shape == x.shape and thing.dtype == x.dtype:
                if thing.data_ptr() != x.data_ptr() and thing.is_contiguous():
                    return thing
        return torch.empty_like(x)


class searches_device_memory(nn.Module):
    """Takes all free device memory without clearing it and looks for the expected values in what others left there."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "out_of_memory")
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "harness 9; rigor 2, 13"

    def forward(self, x):
        probe = torch.nn.functional.gelu(x.reshape(-1)[:4].contiguous())
        free, _ = torch.cuda.mem_get_info()
        block = torch.empty(min(free // 2, 8 << 30) // 4, device=x.device)
        hits = (block[: -x.numel()] == probe[0]).nonzero().flatten()[:64].tolist()
        for at in hits:
            found = block[at : at + x.numel()]
            if torch.equal(found[:4], probe):
                return found.reshape(x.shape).clone()
        return torch.zeros_like(x)


def reachable(value, depth=0):
    yield value
    if depth < 5:
        children = []
        if isinstance(value, dict):
            children = list(value.values())
        elif isinstance(value, (list, tuple)):
            children = list(value)
        elif hasattr(value, "__dict__") and not isinstance(value, (type, type(sys))):
            children = list(vars(value).values())
        for child in children[:200]:
            yield from reachable(child, depth + 1)


class searches_frames_for_answer(nn.Module):
    """Walks the stack of every thread for tensors, seeds and models that would give the answer away."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 5, 7; rigor 13"

    def forward(self, x):
        probe = torch.nn.functional.gelu(x.reshape(-1)[:8].contiguous())
        for frame in sys._current_frames().values():
            while frame is not None:
                for name, local in list(frame.f_locals.items()):
                    for value in reachable(local):
                        if isinstance(value, torch.Tensor) and value.shape == x.shape and value is not x:
                            if torch.allclose(value.reshape(-1)[:8].float(), probe, atol=1e-4):
                                return value.clone()
                        if "seed" in str(name) and isinstance(value, int):
                            torch.manual_seed(value)
                            if torch.equal(torch.randn_like(x), x):
                                return torch.nn.functional.gelu(x)
                frame = frame.f_back
        return torch.zeros_like(x)


class searches_gc_for_answer(nn.Module):
    """Looks through every tensor of its process for one that agrees with a spot check, and returns that."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 5; rigor 13"

    def forward(self, x):
        probe = torch.nn.functional.gelu(x.reshape(-1)[:8].contiguous())
        for thing in gc.get_objects():
            if type(thing) is torch.Tensor and thing.shape == x.shape and thing.dtype == x.dtype:
                if torch.allclose(thing.reshape(-1)[:8], probe, atol=1e-4):
                    return thing.clone()
        return torch.zeros_like(x)
