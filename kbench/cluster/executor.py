"""A sweep on the nodes of a Ray cluster: the driver keeps the journal and hands out tasks, supervisors judge."""

import contextlib
import os
import platform
import queue
import signal
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kbench.cluster import membership
from kbench.cluster.membership import Member
from kbench.cluster.parcels import pack
from kbench.cluster.supervisor import News, Over, Supervisor, UnitDone
from kbench.core.errors import MachineError, UsageError
from kbench.core.model import Failed, Finding, Status
from kbench.devices import selection
from kbench.devices.backend import backend
from kbench.engine.crew import Crew, SweepOptions
from kbench.engine.dispatch import Write
from kbench.engine.ladder import next_batch
from kbench.engine.task import DeviceState, Finished, Retried, SweepEvent, Task
from kbench.engine.unit import UnitResult

REACH_S = 10.0
"""Chosen. Timeout in seconds for a TCP connection to the cluster's address."""
ANSWER_S = 120.0
"""Chosen. Seconds for a supervisor to start and answer: Ray starts a process, which imports kbench."""
STOP_S = 20.0
"""Chosen. Seconds for a supervisor to end its judges before Ray ends the supervisor."""
MOST_LOSSES = 3
"""Chosen. Members that may die while one task is judged, which is then refused. After the first it is judged alone."""


@dataclass(slots=True, kw_only=True)
class RemoteDevice:
    """A supervisor, as the driver sees it."""

    actor: Any
    member: Member
    peers: int
    """Other supervisors on its host."""
    flying: dict[str, Task] = field(default_factory=dict)
    problem: str | None = None
    is_gone: bool = False


@contextlib.contextmanager
def connected(address: str | None, kind: str) -> Iterator[list[RemoteDevice]]:
    """Join a Ray cluster and start a supervisor for every GPU of its nodes, or for every node's processor.

    Raises UsageError without Ray, or where devices or software differ; MachineError for no cluster or no such device.
    """
    ray = _ray()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address is not None:
            _reach(address)  # Ray itself would retry for minutes
        ray.init(address=address or "auto", log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        where = address or "this machine"
        hint = "start one: `ray start --head`, and `ray start --address HOST:6379` on every other host"
        raise MachineError(f"no Ray cluster answers at {where}: {str(error).splitlines()[0]}", hint) from None
    finally:
        signal.signal(signal.SIGTERM, handler)  # Ray takes it, and would end the command without its summary
    posts: list[RemoteDevice] = []
    # Ray prints the nodes' output to the standard output, which the command needs for its document.
    with Path(os.devnull).open("w") as null, contextlib.redirect_stdout(null):
        try:
            posts += _posts(ray, kind)
            require_same([post.member for post in posts])
            yield posts
        finally:
            for post in posts:
                ray.kill(post.actor)
            ray.shutdown()


def require_same(members: Sequence[Member]) -> None:
    """Require equal versions on all members and the driver, and one device model. Raises UsageError with a fix."""
    versions = membership.here(members[0].versions[membership.DRIVER])  # a driver may be on a host without a GPU
    driver = replace(members[0], host=f"{platform.node()} (this host)", versions=versions)
    found = [*membership.differences([driver, members[0]]), *membership.differences(members)]
    if found:
        raise UsageError("; ".join(found), membership.REMEDY)


def _reach(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT, and ValueError for any other form of address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("an address is HOST:PORT")
    with socket.create_connection((host, int(port)), timeout=REACH_S):
        pass


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("`--executor ray` needs Ray", "`pip install 'kbench[ray]'`") from None
    return ray


def _posts(ray: Any, kind: str) -> list[RemoteDevice]:
    """Start the supervisors, all at once. Raises MachineError."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    if kind == selection.AUTO:
        kind = "cuda" if any(node["Resources"].get("GPU") for node in nodes) else "cpu"
    is_gpu = backend(kind).has_own_memory
    resource = "GPU" if is_gpu else "CPU"
    started = []
    for node in nodes:
        count = int(node["Resources"].get(resource, 0))
        count = count if is_gpu else min(1, count)
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        needs = {"num_gpus": 1, "num_cpus": 0} if is_gpu else {"num_cpus": 1}
        # Calls that wait (events) and calls that act (add, stop) run beside one another.
        actor = ray.remote(Supervisor).options(max_concurrency=4, scheduling_strategy=here, **needs)
        started += [(actor.remote(kind), count - 1) for _ in range(count)]
    if not started:
        raise MachineError(f"no node of the Ray cluster has a {resource}", "`ray status` lists what the nodes have")
    try:
        members = ray.get([actor.join.remote() for actor, _ in started], timeout=ANSWER_S)
    except ray.exceptions.RayError as error:
        raise MachineError(f"a supervisor did not start: {_first_line(error)}", "see Ray's logs") from None
    pairs = zip(started, members, strict=True)
    return [RemoteDevice(actor=actor, member=member, peers=peers) for (actor, peers), member in pairs]


class Cluster(Crew):
    """The crew of a sweep on several hosts; the thread that reads `events` makes all decisions."""

    def __init__(self, options: SweepOptions, scratch: Path, write: Write, posts: Sequence[RemoteDevice]):
        super().__init__(options, scratch, write)
        self._posts, self._ray = posts, _ray()
        self._inbox: queue.SimpleQueue[tuple[RemoteDevice, News | Exception]] = queue.SimpleQueue()
        self._waiting: list[Task] = []
        self._lost_with: dict[str, list[str]] = {}
        """Hosts that died while they judged a task, by its key."""

    def start(self) -> None:
        """Start judges on all nodes. Raises MachineError if one does not start."""
        asked = [post.actor.start.remote(self._options, post.peers) for post in self._posts]
        for post, reference in zip(self._posts, asked, strict=True):
            if reason := self._ray.get(reference, timeout=ANSWER_S):
                raise MachineError(f"{post.member.host}: {reason}", "fix it, or remove that host from the cluster")
        for post in self._posts:
            threading.Thread(target=self._listen, args=(post,), daemon=True).start()

    def add(self, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]] | None = None) -> None:
        """Add tasks, with the results of units that are not judged again."""
        self._dispatcher.add(tasks, known)
        self._waiting += tasks

    def events(self) -> Iterator[SweepEvent]:
        """Yield events until all tasks have verdicts, or no supervisor is left."""
        self._assign()
        while self._dispatcher.left and not all(post.is_gone for post in self._posts):
            post, news = self._inbox.get()
            yield from self._take(post, news)
            self._assign()
        self.reason = "no device is left" if self._dispatcher.left else ""

    def stop(self) -> None:
        """End all judges of all supervisors that still answer."""
        left = [post.actor.stop.remote() for post in self._posts if not post.is_gone]
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get(left, timeout=STOP_S)

    def _listen(self, post: RemoteDevice) -> None:
        try:
            for reference in post.actor.events.remote():
                self._inbox.put((post, self._ray.get(reference)))
        except Exception as error:  # noqa: BLE001 - Ray wraps any error of the supervisor, its node or the network
            self._inbox.put((post, error))

    def _assign(self) -> None:
        alive = [post for post in self._posts if not post.is_gone]
        for post in alive:
            known, lanes = (self._waiting, self._lost_with, [*post.flying], post.problem), self._options.lanes
            if batch := assign(*known, lanes, lanes * len(alive)):
                self._send(post, batch)

    def _send(self, post: RemoteDevice, batch: Sequence[Task]) -> None:
        taken = {task.key for task in batch}
        self._waiting = [task for task in self._waiting if task.key not in taken]
        post.flying |= {task.key: task for task in batch}
        post.problem = str(batch[-1].problem.path)
        paths = {entry.path for task in batch for entry in (task.problem, task.solution)}
        known = {task.key: self._dispatcher.results(task) for task in batch}
        post.actor.add.remote(batch, {path: pack(path) for path in paths}, known)

    def _take(self, post: RemoteDevice, news: News | Exception) -> Iterator[SweepEvent]:
        name = post.member.name
        match news:
            case UnitDone(key=key, result=result) if key in post.flying:
                if hosts := self._lost_with.get(key):
                    result = replace(result, attempts=result.attempts + len(hosts))
                    message = f"judged anew here: {', '.join(hosts)} ended while it was judged there"
                    findings = (*result.outcome.findings, Finding.note("host_lost", message))
                    result = replace(result, outcome=replace(result.outcome, findings=findings))
                yield from self._record(post.flying[key], result, post)
            case Retried(task=task) if task.key in post.flying:
                yield replace(news, task=post.flying[task.key])
            case DeviceState():
                yield replace(news, device=name)
            case Over(reason=reason):
                self._waiting = [*self._take_back(post), *self._waiting]
                yield DeviceState(device=name, state="gone", reason=reason)
            case Exception():
                yield from self._lose(post, _first_line(news))

    def _take_back(self, post: RemoteDevice) -> list[Task]:
        """End a member; return the tasks that it leaves."""
        post.is_gone = True
        flying, post.flying = post.flying, {}
        return [*flying.values()]

    def _lose(self, post: RemoteDevice, reason: str) -> Iterator[SweepEvent]:
        lost = self._take_back(post)
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(post.actor)  # an unreachable one must not continue
        yield DeviceState(device=post.member.name, state="lost", reason=reason)
        for task in lost:
            hosts = self._lost_with.setdefault(task.key, [])
            hosts.append(post.member.host)
            if len(hosts) >= MOST_LOSSES:
                died = f"kbench died on each host that judged it: {', '.join(hosts)}"
                result = UnitResult(outcome=Failed(status=Status.CRASHED, reason=died), attempts=len(hosts))
                yield from self._record(task, result, post)
            else:
                self._waiting.append(task)
                yield Retried(task=task, attempt=len(hosts), reason=reason)

    def _record(self, task: Task, result: UnitResult, post: RemoteDevice) -> Iterator[Finished]:
        verdict = self._dispatcher.record(task, result)
        if verdict.is_done:
            post.flying.pop(task.key, None)
            yield Finished(verdict=verdict)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def assign(
    ready: Sequence[Task], lost: Collection[str], flying: Sequence[str], problem: str | None, lanes: int, all_lanes: int
) -> list[Task]:
    """Return the tasks that a member gets next, which has `flying` keys and last had a task of `problem`.

    It is kept one batch ahead of its lanes. A task that was `lost` with a member comes last, alone on an idle member.
    """
    if any(key in lost for key in flying) or len(flying) > lanes:
        return []
    fresh = [task for task in ready if task.key not in lost]
    if fresh:
        return next_batch(fresh, problem or "", all_lanes)
    return [*ready[:1]] if not flying else []
