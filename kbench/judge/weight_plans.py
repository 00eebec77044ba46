"""Weight plans: ways to give a solution the reference's weights, tried in order until one gives right values."""

from dataclasses import dataclass
from enum import StrEnum


class Copied(StrEnum):
    """What a solution gets of the reference's parameters and buffers."""

    ALL = "all"
    """All that match, by name or by place; nothing if none do."""
    ALL_BUT_BUFFERS = "all but buffers"
    """All but buffers that the constructors made different: a table in another layout."""
    NOTHING = "nothing"
    """Nothing: both constructors draw from one seed, and equal places may hold other weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """One way, and where both sides are constructed."""

    copied: Copied = Copied.ALL
    on_cpu: bool = False


def further_plans(
    first: WeightPlan, *, matched: bool, differing: bool, differing_buffers: bool, has_own_memory: bool
) -> list[WeightPlan]:
    """Return the plans after a `first` one that gave wrong values, in their order.

    Where parameters are `matched`, or there are none, and the constructors made them alike, no other plan gives other
    values. Else those of the constructor may be meant, and on a GPU the two may have drawn on different devices: both
    are then constructed on the CPU, as benchmarks do, and moved.
    """
    if matched and not differing:
        return []
    ways = [first.copied]
    if matched:
        ways += [Copied.ALL_BUT_BUFFERS] * differing_buffers + [Copied.NOTHING]
    here = [WeightPlan(copied=way) for way in ways[1:]]
    return here + [WeightPlan(copied=way, on_cpu=True) for way in ways] * has_own_memory
