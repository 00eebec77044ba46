"""What a worker is told of the solution that it is to import and construct."""

from dataclasses import dataclass
from typing import Any

from kbench.children.worker_start import WorkerConfig
from kbench.judge.arena import encoded
from kbench.judge.reference.reference import Reference
from kbench.wire.channel import encode_constants
from kbench.wire.shared_memory import Block, lay_out, view


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionSpec:
    """What the judge is told of a solution."""

    name: str
    path: str
    problem: str
    builtin: str = ""
    """Empty for a solution of its own."""
    entry: str = ""
    """What of its file is judged."""
    artefacts: str = ""
    """The build cache's entry, of which every worker gets a private copy; empty for the reference."""
    compiler: str = ""
    """What it was seen to compile with in its calls, for which it may start programs; empty for those that do not."""
    rehearsed: bool = False
    """Whether it was built with all rights: what it tries beyond what it did then is refused."""
    is_reference: bool = False
    """Whether it is the reference beside a solution, whose failure is nobody's but kbench's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceBuild:
    """What was built of a problem whose reference compiles; nothing for most."""

    artefacts: str = ""
    compiler: str = ""


def load_request(spec: SolutionSpec, reference: Reference, config: WorkerConfig) -> tuple[dict[str, Any], Block]:
    """Return the `load` request and the block that holds the constructor's tensor arguments."""
    arguments, keywords = reference.problem.init_inputs()
    tree, leaves = encoded([arguments, keywords])
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
        "arguments": tree["l"][0],
        "keywords": tree["l"][1],
        "example": [example, lay_out(blanks)[0]],
    }
    return request, block
