"""The judge's handle on one worker: start, load, bind, call, kill; whatever goes wrong comes back as a Refusal."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.core.model import Finding, Status
from kbench.isolation import leftovers, sandbox
from kbench.isolation.arena import Arena
from kbench.isolation.matching import StateEntry, check_description, synchronise
from kbench.isolation.memory import Block, lay_out
from kbench.isolation.process import Child, ChildError, Launch
from kbench.isolation.reference import Expected, Reference
from kbench.isolation.wire import WireError, encode_constants, encode_tree, list_of, printable
from kbench.isolation.wire import field as wire_field
from kbench.measure import build

SETUP_TIMEOUT_S = 120.0
BIND_TIMEOUT_S = 60.0
PROFILE_TIMEOUT_S = 60.0
CALL_FLOOR_S = 10.0
CALL_FACTOR = 50.0
MEMORY_SHARE = 0.8
MEMORY_FLOOR_BYTES = 6 << 30
MEMORY_PER_CASE = 12
KEPT_VARIABLES = (
    "PATH",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "LC_ALL",
    "CC",
    "CXX",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionSpec:
    """What the judge is told of a solution."""

    name: str
    path: str
    builtin: str
    """Empty for a solution of its own."""
    problem: str
    artefacts: str
    """The build cache's entry, of which every worker gets a private copy."""
    just_in_time: bool
    hidden: list[str]
    """What it must not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How workers of this judge are run."""

    device: str
    rung: int
    scratch: str
    mode: str = "cold"
    allow_tf32: bool = False
    threads: int = 1
    import_timeout_s: float = 60.0
    call_timeout_s: float | None = None
    case_bytes: int = 0
    """Inputs, outputs and parameters of one call."""
    deadline_s: float | None = None
    """Monotonic time at which everything about the present solution must be over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A worker's claim about one call, beside what the judge's own clock saw."""

    event_ns: int
    submit_ns: int
    wall_ns: int
    slots: tuple[int, ...]


class RefusalError(Exception):
    """A solution that failed: status, reason, log, and the finding if it is one."""

    def __init__(self, status: Status, reason: str, log: str = "", finding: Finding | None = None):
        super().__init__(reason)
        self.status = status
        self.reason = printable(reason)
        self.log = log
        self.finding = finding


STEADY_HOST = {
    # OpenMP threads that spin while they wait lose their turn on a shared processor: PyTorch's LayerNorm, 40 us on its
    # own, took 15 ms beside other programs (2 threads on 2 busy cores).
    "OMP_WAIT_POLICY": "PASSIVE",
    # Freed memory stays mapped, so that sixteen results in a row cost no more page faults each than one does.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}
"""Environment of judges and workers, so that a CPU's times depend less on what else the machine does."""


def python_path() -> str:
    """Return the PYTHONPATH of children: they find kbench whether it is installed or run from a checkout."""
    return os.pathsep.join(filter(None, [str(build.PACKAGE.parent), os.environ.get("PYTHONPATH")]))


def worker_environment(scratch: Path) -> dict[str, str]:
    """Return the whole environment of a worker: nothing of the caller's but what compilers and CUDA need."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        **STEADY_HOST,
        # torch looks for ninja on PATH, where an environment's own is only once that is activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]),
        "PYTHONPATH": python_path(),
        **build.compiler_environment(scratch / "cache"),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Whole cached graphs hold the absolute paths of the process that made them; kernels and choices do not.
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "USER": "kbench",
    }


def start_worker(config: WorkerConfig, number: int) -> tuple[Child, Path]:
    """Start a worker process; it is not yet sandboxed from within, and has not heard of any solution."""
    scratch = Path(config.scratch) / f"worker-{os.getpid()}-{number}"
    scratch.mkdir(parents=True)
    child = Child(
        Launch(
            module="kbench.isolation.worker",
            environment=worker_environment(scratch),
            folder=scratch,
            rung=sandbox.Rung(config.rung),
            memory_limit_bytes=memory_limit_bytes(),
        )
    )
    return child, scratch


def memory_limit_bytes(case_bytes: int = 0) -> int:
    """Return what a worker may use of the host's memory: enough for any honest use, and a share of what there is.

    On a CPU the inputs and outputs themselves (`case_bytes`) lie there, several times over.
    """
    generous = MEMORY_FLOOR_BYTES + MEMORY_PER_CASE * case_bytes
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return min(generous, int(int(line.split()[1]) * 1024 * MEMORY_SHARE))
    return generous


class Candidate:
    """A solution in its worker, as the judge sees it."""

    def __init__(self, spec: SolutionSpec, config: WorkerConfig, child: Child, scratch: Path):
        self.spec = spec
        self._config = config
        self._child = child
        self._scratch = scratch
        self._arena: Arena | None = None
        self._names: list[str | None] = []
        self._theirs: dict[str, str] = {}
        self._call_timeout_s = config.call_timeout_s or CALL_FLOOR_S
        self._called = False
        self._aliased: frozenset[str] = frozenset()
        self.weights = "none"
        self.findings: list[Finding] = []

    @property
    def log(self) -> str:
        """The tail of what the worker printed."""
        return self._child.log

    def prepare(self) -> None:
        """Copy the artefacts in, then have the worker lock itself in and open the device."""
        build.CacheEntry(folder=Path(self.spec.artefacts)).copy_to(self._scratch / "cache")
        self._ask(
            {
                "op": "setup",
                "device": self._config.device,
                "mode": self._config.mode,
                "rung": self._config.rung,
                "writable": [str(self._scratch)],
                "hidden": self.spec.hidden,
                "allow_exec": self.spec.just_in_time,
                "threads": self._config.threads,
            },
            SETUP_TIMEOUT_S,
            Status.HARNESS_ERROR,
        )

    def load(self, reference: Reference) -> None:
        """Import the solution, construct its model, and find out how parameters can be synchronised."""
        self._called = False
        self._aliased = reference.aliased
        request, block = load_request(self.spec, reference, self._config)
        try:
            answer = self._ask(
                request,
                self._config.import_timeout_s,
                Status.IMPORT_TIMEOUT,
                [block.fd] if request["blocks"] and block.fd is not None else [],
            )
        finally:
            block.close()
        try:
            theirs = [
                StateEntry(name=str(name), dtype=str(dtype), shape=tuple(shape), is_parameter=bool(is_parameter))
                for name, dtype, shape, is_parameter in wire_field(answer, "state", list)
            ]
        except (TypeError, ValueError, WireError) as error:
            raise RefusalError(Status.PROTOCOL_ERROR, f"the process answered nonsense: {error}", self.log) from error
        self.weights, self._names = synchronise(reference.state(), theirs)
        pairs = zip([name for name, _ in reference.state()], self._names, strict=False)
        self._theirs = {ours: name for ours, name in pairs if name is not None}
        if self.weights == "seed":
            self._fall_back_on_seed(reference)

    def _fall_back_on_seed(self, reference: Reference) -> None:
        """Give the reference the parameters that it was constructed with: the solution's seed was the same.

        A parameter that every seed gives the same value (gamma = 1) could be ignored unnoticed, so nothing is
        verified where there is one.
        """
        reference.restore()
        for name, tensor in reference.model.named_parameters():
            if tensor.is_floating_point() and bool((tensor == tensor.flatten()[0]).all()):
                raise RefusalError(
                    Status.NOT_VERIFIED,
                    f"the solution's parameters do not match the reference's by name, or by order and shape, so "
                    f"`{name}` cannot be given other values than its initial one",
                    self.log,
                )

    def vary_weights(self, reference: Reference, seed: int) -> None:
        """Give the reference and the worker new parameters, unless these match by seed only."""
        if self.weights != "seed":
            reference.randomise(seed)
            self.push_weights(reference)

    def bind(self, reference: Reference, arena: Arena) -> None:
        """Give the worker the arena and the reference's parameters."""
        message, fds = arena.describe(self._config.mode)
        if self.weights not in {"name", "order"}:
            message["weights"] = []
        self._ask(message, BIND_TIMEOUT_S, Status.HARNESS_ERROR, fds)
        self._arena = arena
        self.push_weights(reference)

    def push_weights(self, reference: Reference) -> None:
        """Make the worker's parameters equal the reference's."""
        if self.weights not in {"name", "order"}:
            return
        assert self._arena is not None, "bound before weights are pushed"
        for (_, tensor), view in zip(reference.state(), self._arena.weight_views(), strict=True):
            view.copy_(tensor.detach())
        self._sync()
        self._ask({"op": "weights", "names": self._names}, BIND_TIMEOUT_S, Status.CALL_TIMEOUT)

    def weights_changed(self, reference: Reference) -> str | None:
        """Return the name of a parameter that the worker's calls changed, or None."""
        if self.weights not in {"name", "order"}:
            return None
        assert self._arena is not None, "bound before weights are read"
        self._ask({"op": "read_weights", "names": self._names}, BIND_TIMEOUT_S, Status.CALL_TIMEOUT)
        import torch

        parameters = {name for name, _ in reference.model.named_parameters()}
        for (name, tensor), view in zip(reference.state(), self._arena.weight_views(), strict=True):
            if name in parameters and not torch.equal(tensor.detach(), view):
                return name
        return None

    def call(self, slots: tuple[int, ...], expected: list[Expected], *, flush: bool, attest: bool) -> Reply:
        """Have the worker call the model on filled slots. The outputs lie in the arena afterwards, unchecked."""
        self._sync()
        timeout_s = self._call_timeout_s * max(1, len(slots))
        if self.spec.just_in_time and not self._called:
            # The first call traces and loads what was compiled before: that is importing rather than calling.
            timeout_s += self._config.import_timeout_s
        self._called = True
        message = {"op": "call", "slots": list(slots), "flush": flush, "attest": attest}
        started = time.perf_counter_ns()
        answer = self._ask(message, timeout_s, Status.CALL_TIMEOUT)
        wall_ns = time.perf_counter_ns() - started
        try:
            reply = Reply(
                event_ns=wire_field(answer, "event_ns", int, minimum=0),
                submit_ns=wire_field(answer, "submit_ns", int, minimum=0),
                wall_ns=wall_ns,
                slots=slots,
            )
            described = list_of(answer, "outputs", len(slots))
            pairs = zip(described, expected, strict=True)
            faults = [check_description(d, e, self._config.device, self._aliased) for d, e in pairs]
        except WireError as error:
            raise RefusalError(Status.PROTOCOL_ERROR, f"the process answered nonsense: {error}", self.log) from error
        for fault in faults:
            if fault is not None:
                raise RefusalError(*fault, self.log)
        return reply

    def backward(self, slot: int, names: list[str], first_gradient: int) -> list[bool]:
        """Have the worker run forward and backward; say which gradients it delivered."""
        self._sync()
        message = {
            "op": "backward",
            "slot": slot,
            "names": [self._theirs.get(name, name) for name in names],
            "first_gradient": first_gradient,
        }
        answer = self._ask(message, 4 * self._call_timeout_s, Status.CALL_TIMEOUT)
        return [bool(given) for given in wire_field(answer, "given", list)]

    def profile(self, slot: int, *, flush: bool) -> Any:
        """Have the worker call the model once under the profiler; return its answer as it came."""
        self._sync()
        message = {"op": "profile", "slot": slot, "flush": flush}
        return self._ask(message, PROFILE_TIMEOUT_S + self._call_timeout_s, Status.CALL_TIMEOUT)

    def set_reference_time(self, seconds: float) -> None:
        """Derive the time limit of a call from the reference's time."""
        if self._config.call_timeout_s is None:
            self._call_timeout_s = max(CALL_FLOOR_S, CALL_FACTOR * seconds)

    def stopped(self) -> Any:
        """Keep the worker's whole tree stopped for the length of a `with` block."""
        return self._child.stopped()

    def kill(self) -> None:
        """Kill the worker and all that it started; its scratch folder goes with it."""
        self._child.kill()
        leftovers.remove(self._scratch)

    def _ask(self, message: dict[str, Any], timeout_s: float, on_timeout: Status, fds: list[int] | None = None) -> Any:
        timeout_s, limit = self._within_total(timeout_s)
        try:
            return self._child.request(message, timeout_s=timeout_s, fds=fds or [])
        except ChildError as error:
            if error.status is Status.CALL_TIMEOUT:
                status = Status.TOTAL_TIMEOUT if limit else on_timeout
                raise RefusalError(status, error.reason, error.log) from error
            raise RefusalError(error.status, error.reason, error.log) from error

    def _within_total(self, timeout_s: float) -> tuple[float, bool]:
        if self._config.deadline_s is None:
            return timeout_s, False
        left = max(0.0, self._config.deadline_s - time.monotonic())
        return (left, True) if left < timeout_s else (timeout_s, False)

    def _sync(self) -> None:
        if self._config.device == "cuda":
            import torch

            torch.cuda.synchronize()


def load_request(spec: SolutionSpec, reference: Reference, config: WorkerConfig) -> tuple[dict[str, Any], Block]:
    """Return the `load` request and the block that holds the constructor's tensor arguments."""
    arguments, keywords = reference.problem.init_inputs()
    leaves: list[Any] = []

    def number(value: Any) -> int | None:
        if not hasattr(value, "untyped_storage"):
            return None
        leaves.append(value)
        return len(leaves) - 1

    trees = encode_tree(arguments, number), encode_tree(keywords, number)
    specs, nbytes = lay_out(leaves)
    block = Block.allocate(nbytes, config.device)
    for leaf, place in zip(leaves, specs, strict=True):
        block.view(place).copy_(leaf)
    request = {
        "op": "load",
        "path": spec.path,
        "builtin": spec.builtin,
        "problem": spec.problem,
        "overrides": encode_constants(reference.overrides),
        "allow_tf32": config.allow_tf32,
        "eval_mode": reference.eval_mode,
        "seed": reference.init_seed,
        "blocks": [block.descriptor] if leaves else [],
        "tensors": [place.to_json() for place in specs],
        "arguments": trees[0],
        "keywords": trees[1],
    }
    return request, block
