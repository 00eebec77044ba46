"""The typed keyword arguments are the fields of a run's options, and no others."""

from dataclasses import fields

import pytest

from kbench.api.options import Options, make_options
from kbench.core.errors import UsageError
from kbench.core.events import RunOptions
from kbench.storage.settings import Settings


def test_every_option_of_a_run_is_a_keyword() -> None:
    assert set(Options.__annotations__) == {field.name for field in fields(RunOptions)}


@pytest.mark.parametrize(
    ("name", "hint"), [("quick", "write `max_processes=1`"), ("eval", "write `eval_mode=True`"), ("level_", "level")]
)
def test_an_option_of_the_command_line_has_its_name_here_told(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"no option `{name}`") as refused:
        make_options(Settings(), {name: True})
    assert hint in refused.value.hint
