"""What an answer says of a failure: enough to act on, and no value that was expected."""

import pytest

from kbench.core.diagnosis import Diagnosis
from kbench.core.explain import explain
from kbench.core.model import Failed, Status
from kbench.serve.answers import why

QUOTED = "output[0, 0]: got -0.52, want 1.67; 128 of 128 elements wrong"
TF32 = Diagnosis(code="tf32", sentence="computed in TF32", evidence="want 1.67 explains")


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (Failed(status=Status.CRASHED, reason="signal 11"), "signal 11"),
        (Failed(status=Status.WRONG_VALUE, reason=QUOTED), explain("wrong_value").meaning),
        (Failed(status=Status.WRONG_VALUE, reason=QUOTED, diagnosis=TF32), "computed in TF32"),
        (
            Failed(status=Status.BELOW_LEVEL, reason=QUOTED, lacks=("cases", "values")),
            f"{explain('below_level').meaning}; lacks cases, values",
        ),
    ],
)
def test_a_reason_that_quotes_values_is_left_out(failed: Failed, said: str) -> None:
    assert why(failed) == said
    assert "want" not in why(failed)
