"""A supervisor without Ray: what its judges must not read stays hidden from them."""

from sweeping import OPTIONS, task

from kbench.cluster import parcels, supervisor
from kbench.devices import selection
from kbench.engine.crew import SweepOptions
from kbench.sandbox.hidden_paths import hidden


class FakeCrew:
    """Keeps what it is given."""

    reason = ""

    def __init__(self, options, scratch, write):
        self.scratch = scratch
        self.tasks = []

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def events(self):
        return iter(())

    def add(self, tasks, known) -> None:
        self.tasks += tasks


def test_the_folder_of_a_run_is_hidden_from_solutions_that_came_in_parcels(tmp_path, own_cache, monkeypatch):
    crews: list[FakeCrew] = []
    monkeypatch.setattr(supervisor, "Crew", lambda *told: crews.append(FakeCrew(*told)) or crews[-1])
    monkeypatch.setattr(supervisor, "sandbox_rung", lambda *_: 0)
    one = task(0, tmp_path)
    parcel = parcels.pack(one.problem.path)
    options = SweepOptions(run=OPTIONS, devices=(selection.cpu(),), rung=0, lanes=1, jobs=1)
    there = supervisor.Supervisor("cpu")
    try:
        assert there.start(options, 0) == ""
        there.add([one], {one.problem.path: parcel}, {})
        (crew,) = crews
        (arrived,) = crew.tasks
        assert arrived.solution.path != one.solution.path
        found = hidden(results=tmp_path / "r", others=[crew.scratch], files=[arrived.solution.path])
        assert crew.scratch.resolve() in found
    finally:
        there.stop()
