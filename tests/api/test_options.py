"""The typed keyword arguments are the fields of a run's options, and no others."""

from dataclasses import fields

from kbench.api.options import NOT_FOR_A_POOL, Options
from kbench.core.events import RunOptions


def test_every_option_of_a_run_is_a_keyword() -> None:
    assert set(Options.__annotations__) == {field.name for field in fields(RunOptions)} - NOT_FOR_A_POOL
