"""What torch.compile keeps of one case, in a worker that goes on to another."""

import sys


def forget_graphs() -> None:
    """Forget what was compiled for another case: it would make this one's graph dynamic, and slower.

    A process that has only imported the compiler has nothing to forget, and saves the 2.5 s that forgetting imports on
    a GPU.
    """
    utilities = sys.modules.get("torch._dynamo.utils")
    if utilities is not None and utilities.counters["frames"]:
        import torch

        torch.compiler.reset()
