"""The worker child: the only process that imports a solution. It holds no seed, no expected value and no verdict.

It serves requests from its channel one after the other (see `Worker`). Whatever the solution raises is reported;
whatever else it does (exit, crash, hang, forge) the judge finds out by itself.
"""

import contextlib
import faulthandler
import importlib
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbench.catalog.containers import over_leaves
from kbench.catalog.script import set_caller_folder
from kbench.devices.backend import backend
from kbench.devices.interface import Timer
from kbench.devices.poison import poison_pool
from kbench.devices.profiler import profile
from kbench.process.autograd import Gradients, detached, gradients_of
from kbench.process.channel import Channel, Message, PeerGoneError, decode_tree
from kbench.process.layouts import layouts_of, misaligned
from kbench.process.shared_memory import Block, TensorSpec, view
from kbench.sandbox import rungs
from kbench.worker import call_trace, solution
from kbench.worker.delivery import bytes_of, deliver, places_of
from kbench.worker.observed_solution import ObservedSolution
from kbench.worker.queued_calls import CallQueue, queue_calls
from kbench.worker.stages import Stage, describe
from kbench.worker.tampering import Originals

if TYPE_CHECKING:
    from torch import Tensor


class Worker:
    """State of the child between requests: the module, the model, the mapped memory."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._device = "cpu"
        self._module: ModuleType | None = None
        self._model: Any = None
        self._state: list[tuple[str, Tensor]] = []
        self._block: Block | None = None
        self._lent: Block | None = None
        self._tensors: list[list[Tensor]] = []
        self._inputs: dict[int, list[Any]] = {}
        self._outputs: list[list[Tensor]] = []
        self._weights: list[Tensor] = []
        self._timer: Timer | None = None
        self._solution: Message = {}
        self._originals: Originals | None = None
        self._queue: CallQueue | None = None
        self._results: list[Any] = []
        self._overrides: Any = None
        """Overrides of the case that the model was last constructed for."""
        self._observed = ObservedSolution()
        self._fresh = False  # whether each call gets tensor objects of its own
        self._gradients: Gradients | None = None
        """Gradients that a call returns beside its outputs; None if it runs forward only."""

    def serve(self) -> None:
        """Answer requests until the judge hangs up."""
        while True:
            try:
                fds: list[int] = []
                message = self._channel.receive(fds=fds)
            except PeerGoneError:
                return
            answer: Message
            try:
                answer = getattr(self, f"do_{message['op']}")({**message, "fds": fds}) or {}
            except Exception as error:  # noqa: BLE001 - a child main: what a solution raises is an answer
                self._observed.denied(error)
                answer = {"error": describe(error)}
            # The check takes 0.3 to 0.6 ms: while the judge's clock runs, it is left to the next request.
            looks = None if message.get("kept") else self._originals
            if looks is not None and (replaced := looks.replaced()):
                answer["replaced"] = list(replaced)
            if (observed := self._observed.news()) is not None:
                answer["observed"] = observed
            self._channel.send({"n": message["n"], **answer})

    def do_setup(self, message: Message) -> Message:
        """Lock this process in, then import torch, before any solution is known."""
        os.nice(message.get("niceness", 0))
        rungs.restrict_as_ordered(message)
        set_caller_folder(Path(message["caller"]))
        faulthandler.enable(all_threads=False)  # the log of a crash names the line
        import torch

        self._device = message["device"]
        self._observed.set_up([Path(path) for path in message["writable"]], may_start=message["allow_exec"])
        torch.set_num_threads(message["threads"])
        backend(self._device).settle()
        for name in message.get("imports", ()):
            # One that is missing or broken is the solution's to complain of.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        return {"pid": os.getpid()}

    def do_open(self, message: Message) -> None:
        """Open the device, which delays programs on it by some milliseconds; map the gate page if one was sent."""
        if message["fds"]:
            self._queue = CallQueue(message["fds"][0])
        self._timer = backend(self._device).timer(message["mode"])
        self._originals = Originals()

    def do_cases(self, message: Message) -> Message:
        """Run a problem's file, and answer with its `CASES`."""
        self._observed.begin(message)
        return {"cases": solution.cases_of(Path(message["path"]), self._device)}

    def do_load(self, message: Message) -> Message:
        """Import the solution (once) and construct its model; answer with its parameters and buffers."""
        self._observed.begin(message)
        blocks = Block.attach_all(message["blocks"], message["fds"])
        tensors = [view(TensorSpec.from_json(spec), blocks[0].bytes).clone() for spec in message["tensors"]]
        for block in blocks:
            block.close()
        with self._observed.problem_code(message):
            arguments, keywords = solution.arguments_of(message, tensors, self._device)
        self._construct(message, arguments, keywords, seed=message["seed"])
        with Stage("init"):
            self._state = solution.settled(self._model, message["example"], message["seed"], self._device)
        return {"state": solution.descriptions(self._state)}

    def do_build(self, message: Message) -> Message:
        """Import the solution and construct its model once, compiling what they ask for unless it is all `built`."""
        self._solution = message
        self._observed.begin(message, None if message["built"] else self._announce)
        with self._observed.problem_code(message):
            arguments, keywords = solution.problem_of(message, self._device).init_inputs()
        self._construct(message, arguments, keywords, seed=0)
        return self._observed.compiled()

    def _announce(self, what: str) -> None:
        """Report that an `extension` or a `program` is about to start a compiler, and what was read so far."""
        observed = self._observed.news()
        more = {} if observed is None else {"observed": observed}
        self._channel.send({"progress": what, "n": self._solution["n"], **more})

    def do_rehearse(self, message: Message) -> Message:
        """Call the model once on the problem's own inputs, so that just-in-time compilers do their work now.

        With `layouts` they are called again on other layouts of these, which a solution need not accept.
        """
        import torch

        self._solution.update(message)  # a compiler that starts in this call is announced by its number
        with self._observed.problem_code(self._solution):
            problem = solution.problem_of(message, self._device)
            arguments, keywords = problem.init_inputs()
        self._construct(self._solution, arguments, keywords, seed=0)
        with self._observed.problem_code(self._solution):
            inputs, gradients = problem.inputs(seed=0), gradients_of(problem)
        self._state = solution.state_of(self._model)
        own = {name: name for name, t in self._state if t.requires_grad}
        self._gradients = None if gradients is None else replace(gradients, parameters=own)
        with torch.no_grad():
            with Stage("forward"):
                self._called(inputs)
                backend(self._device).synchronize()
            if message.get("layouts"):
                self._channel.send({"progress": "layouts", "n": message["n"], **self._observed.compiled()})
                for _, changed, misalign in layouts_of(inputs):
                    with contextlib.suppress(Exception):
                        self._called([misaligned(a) if misalign and torch.is_tensor(a) else a for a in changed])
                backend(self._device).synchronize()
        return self._observed.compiled()

    def _construct(self, message: Message, arguments: list[Any], keywords: Message, *, seed: int) -> None:
        import torch

        from kbench.catalog.problem import pin_precision

        pin_precision(message["allow_tf32"])
        if message["overrides"] != self._overrides:
            solution.forget_graphs()
        self._overrides = message["overrides"]
        constructor = self._constructor(message)
        with Stage("init"):
            place = message.get("construct_on", self._device)
            model = solution.construct(constructor, arguments, keywords, place=place, seed=seed)
            self._model = model.to(self._device) if isinstance(model, torch.nn.Module) else model
            if message.get("eval_mode") and isinstance(model, torch.nn.Module):
                self._model.eval()
            self._model = solution.builtin(message["builtin"], self._model)

    def _constructor(self, message: Message) -> Any:
        if message["builtin"]:
            return solution.problem_of(message, self._device).module.Model
        with Stage("import"):
            if self._module is None:
                self._module = solution.import_solution(Path(message["path"]), message["entry"])
            return solution.constructor_of(self._module, message["entry"])

    def do_report(self, _message: Message) -> None:
        """Do nothing: the answer to any request that is not timed says what the solution replaced."""

    def do_bind(self, message: Message) -> None:
        """Map the judge's memory: input and output slots, and the parameters' values."""
        self.do_unbind(message)
        self._block = block = Block.attach_all(message["blocks"], message["fds"])[0]

        def tensors(specs: list[Any]) -> "list[Tensor]":
            return [view(TensorSpec.from_json(spec), block.bytes) for spec in specs]

        for number, slot in enumerate(message["slots"]):
            self._tensors.append(tensors(slot["inputs"]))
            self._outputs.append(tensors(slot["outputs"]))
            self.do_arguments({"slot": number, "arguments": message["arguments"]})
        self._weights = tensors(message["weights"])
        self._fresh = message["fresh"]
        self._gradients = None if message["gradients"] is None else Gradients(**message["gradients"])

    def do_unbind(self, _message: Message) -> None:
        """Close the judge's memory and free the results, so that the next call finds memory as a first call does."""
        self._inputs, self._tensors, self._outputs, self._weights, self._results = {}, [], [], [], []
        for block in (self._lent, self._block):
            if block is not None:
                block.close()
        self._lent = self._block = None
        backend(self._device).release_cached()
        if self._timer is not None:
            self._timer.forget()

    def do_lend(self, message: Message) -> None:
        """Map the memory for the outputs of the next call, where that is not the arena's."""
        self._lent = block = Block.attach_all(message["blocks"], message["fds"])[0]
        self._outputs = [[view(TensorSpec.from_json(spec), block.bytes) for spec in message["outputs"]]]

    def do_take_back(self, _message: Message) -> None:
        """Close that memory again."""
        self._outputs = [[]]
        if self._lent is not None:
            self._lent.close()
        self._lent = None

    def do_arguments(self, message: Message) -> None:
        """Replace the arguments of a slot that are not tensors."""
        import torch

        slot = message["slot"]
        self._inputs[slot] = decode_tree(message["arguments"], self._tensors[slot], torch)
        if self._timer is not None:
            self._timer.forget()

    def do_weights(self, message: Message) -> None:
        """Load the judge's parameter values that are new into the model, or copy them `in_place`, as an optimiser does.

        `names` has each one's target.
        """
        values = self._named(message)
        with torch_no_grad():
            if not message["in_place"]:
                self._state = solution.loaded(self._model, self._state, values)
            solution.copy_into(self._state, values)
        backend(self._device).synchronize()

    def do_read_weights(self, message: Message) -> None:
        """Copy the model's parameters back, so that the judge can see whether a call changed them."""
        held = dict(self._state)
        for name, theirs in self._named(message).items():
            theirs.copy_(held[name].detach())
        backend(self._device).synchronize()  # the judge reads it the moment that it has the answer

    def _named(self, message: Message) -> "dict[str, Tensor]":
        return {name: value for name, value in zip(message["names"], self._weights, strict=True) if name}

    def do_call(self, message: Message) -> Message:
        """Call the model on the given slots, one after the other, and copy the results into the judge's buffers.

        Each result is copied and freed before the next call, or with `late` after the last one. With `kept`
        it is kept instead, and the answer has its places. Times are medians of the calls alone, and their sum. `poison`
        fills free memory with NaN before each call.
        """
        assert self._timer is not None, "set up before called"
        slots: list[int] = message["slots"]
        keep, late, self._results = message["kept"], message["kept"] or message["late"], []
        self._timer.start()  # without slots as well: what a call adds to an empty request is the call's alone
        described, results, event_ns, submit_ns = list[Any](), list[Any](), [], []
        unchecked, peak_bytes = "", 0
        with torch_no_grad():
            for slot in slots:
                poison_pool(self._outputs[slot] if message["poison"] else ())
                with Stage("forward"), backend(self._device).memory_peak() as peak:
                    measured = self._timer.measure(self._forward, slot)
                    peak_bytes = max(peak_bytes, peak() - bytes_of(measured.output))
                unchecked = backend(self._device).unchecked_error() or unchecked
                results.append(measured.output)
                event_ns.append(measured.t_event_ns)
                submit_ns.append(measured.t_submit_ns)
                del measured
                if not late:
                    described.append(self._deliver(slot, results.pop()))
            described += [self._deliver(*each, copy=not keep) for each in zip(slots, results, strict=late)]
            backend(self._device).synchronize()
            if keep:
                self._results = results
        return {
            "event_ns": round(median(event_ns or [0])),
            "submit_ns": round(median(submit_ns or [0])),
            "sum_ns": sum(event_ns),
            "outputs": described,
            "unchecked": unchecked,
            "peak_bytes": peak_bytes,
            "process": os.getpid(),
            "places": [*map(places_of, self._results)],
        }

    def do_round(self, message: Message) -> Message:
        """Call the model on the given slots in a row, behind the judge's gate or not, and report the places of results.

        Nothing but the calls happens in between, unless the judge wants each result copied into its buffers
        (`deliver`). Two messages go back: `queued` once all is submitted (without a gate: `done`), then the times.
        """
        assert self._queue is not None and self._timer is not None, "opened before"  # noqa: PT018
        slots: list[int] = message["slots"]
        queue, described, places = self._queue, list[Any](), list[Any]()
        self._results, keep = [], message["keep"]
        queue.forget()

        def take(slot: int, result: Any) -> None:
            described.append(deliver(result, self._outputs[slot], self._inputs[slot]))

        with torch_no_grad(), Stage("forward"):
            call = self._timer.prepared(self._forward, slots, replay=message["replay"])
            behind = queue.gated(message["number"]) if message["gated"] else contextlib.nullcontext()
            with behind, queue.timed(len(slots)):
                self._results = queue_calls(call, slots, take if message["deliver"] else None, keep=keep)
            backend(self._device).unchecked_error()
            if not message["gated"]:
                queue.read(len(slots))
                self._channel.send({"progress": "done", "n": message["n"]})
        with Stage("output"):
            for slot, result in [*zip(slots, self._results, strict=False)][-message["report_last"] :]:
                described.append(deliver(result, (), self._inputs[slot]))
                places.append(queue.places(result))
        report = {"outputs": described, "places": places, "handles": queue.handles}
        if message["gated"]:
            self._channel.send({"progress": "queued", "n": message["n"], **report})
            queue.read(len(slots))
            report = {}  # sent once
        return {**report, "event_ns": round(queue.event_ns), "submit_ns": queue.submit_ns}

    def _deliver(self, slot: int, result: Any, *, copy: bool = True) -> list[list[Any]]:
        with Stage("output"):
            return deliver(result, self._outputs[slot] if copy else (), self._inputs[slot])

    def _forward(self, slot: int) -> Any:
        inputs = over_leaves(self._inputs[slot], detached) if self._fresh else self._inputs[slot]
        return self._called(inputs)

    def _called(self, inputs: list[Any]) -> Any:
        if self._gradients is None:
            return self._model(*inputs)
        return self._gradients.call(self._model, dict(self._state), inputs)

    def do_profile(self, message: Message) -> Message:
        """Call the model once under the profiler and deliver the result; answer with what ran on the device."""
        import torch

        slot = message["slot"]
        with torch.no_grad(), Stage("forward"):
            output, activities = profile(lambda: self._forward(slot), torch.cuda.synchronize)
        described = self._deliver(slot, output)
        torch.cuda.synchronize()
        return {"activities": activities, "outputs": [described]}

    def do_trace(self, message: Message) -> Message:
        """Call the constructed model on the problem's own inputs, under a profiler or a tool around this process."""
        with self._observed.problem_code(self._solution):
            inputs = solution.problem_of(message, self._device).inputs(seed=0)
        with torch_no_grad():
            return call_trace.answer(self._model, inputs, self._device, counters=message["counters"])


def torch_no_grad() -> Any:
    """Return torch's context without gradients; torch is imported in a worker only."""
    import torch

    return torch.no_grad()


def serve(link: int) -> None:
    """Serve the judge at the other end of the socket with this descriptor."""
    Worker(Channel(socket.socket(fileno=link))).serve()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
