"""The request by which a worker imports and constructs a solution."""

from dataclasses import dataclass
from typing import Any

from kbench.core.errors import PluginError
from kbench.judge.arena import encoded
from kbench.judge.reference.reference import Reference
from kbench.process.channel import encode_constants
from kbench.process.shared_memory import Block, lay_out, view
from kbench.process.worker_start import WorkerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionSpec:
    """A solution as the parent describes it to the judge."""

    name: str
    path: str
    problem: str
    builtin: str = ""
    """Name of a built-in solution (`eager`, ...); empty for a file."""
    entry: str = ""
    """Class or function of its file that is judged."""
    artefacts: str = ""
    """The build cache's entry, of which every worker gets a private copy; empty for the reference."""
    compiler: str = ""
    """Compiler that its calls were seen to start, so that it may start programs; empty without one."""
    rehearsed: bool = False
    """True if it was built with all rights: programs that it did not start then are refused now."""
    is_reference: bool = False
    """True for the reference beside a solution: its failure is kbench's, not the solution's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceBuild:
    """Build of a problem whose reference compiles; empty for most problems."""

    artefacts: str = ""
    compiler: str = ""


def load_request(spec: SolutionSpec, reference: Reference, config: WorkerConfig) -> tuple[dict[str, Any], Block]:
    """Return the `load` request and the block that holds the constructor's tensor arguments."""
    arguments, keywords = reference.problem.init_inputs(reference.init_seed, reference.constructs_on)
    try:
        tree, leaves = encoded([arguments, keywords])
    except PluginError:  # the worker makes arguments that are no JSON itself, from the same file and seed
        tree, leaves = None, []
    specs, nbytes = lay_out(leaves)
    example, blanks = encoded(reference.blank)
    block = Block.allocate(nbytes, config.device)
    for leaf, place in zip(leaves, specs, strict=True):
        view(place, block.bytes).copy_(leaf)
    request = {
        "op": "load",
        "path": spec.path,
        "builtin": spec.builtin,
        "entry": spec.entry,
        "problem": spec.problem,
        "overrides": encode_constants(reference.overrides),
        "allow_tf32": config.options.allow_tf32,
        "eval_mode": reference.eval_mode,
        "construct_on": reference.constructs_on,
        "seed": reference.init_seed,
        "blocks": [block.descriptor] if leaves else [],
        "tensors": specs,
        "arguments": tree,
        "example": [example, lay_out(blanks)[0]],
    }
    return request, block
