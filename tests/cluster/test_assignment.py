"""Which member gets which task."""

import pytest
from sweeping import task

from kbench.cluster.executor import assign

TASKS = [task(1), task(2), task(3, problem="q"), task(4, problem="q")]
P, Q = str(TASKS[0].problem.path), str(TASKS[2].problem.path)


@pytest.mark.parametrize(
    ("waiting", "losses", "flying", "problem", "given"),
    [
        (TASKS, {}, [], None, ["k1"]),  # the last tasks are spread over all lanes
        (TASKS, {}, ["k0"], Q, ["k3"]),  # one batch ahead, of the problem that is open
        (TASKS, {}, ["k8", "k9"], None, []),  # busy
        ([], {}, [], None, []),
        (TASKS[:2], {"k1": 1}, [], None, ["k2"]),  # what was lost comes last,
        (TASKS[:1], {"k1": 1}, ["k0"], None, []),  # alone,
        (TASKS[:1], {"k1": 1}, [], None, ["k1"]),
        (TASKS[1:], {"k1": 1}, ["k1"], None, []),  # and stays alone
    ],
)
def test_who_gets_what(waiting, losses, flying, problem, given) -> None:
    chosen = assign(waiting, losses, flying, problem, lanes=1, all_lanes=2)
    assert [one.key for one in chosen] == given
