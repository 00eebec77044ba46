"""Which stage of a solution's work an exception comes from, and its description for the judge."""

from kbench.core import traces
from kbench.sandbox import namespaces
from kbench.wire.channel import Message, both_ends
from kbench.worker.extensions import BuildError


class StageError(Exception):
    """An exception of the solution, with the stage in which it was raised."""

    def __init__(self, stage: str):
        super().__init__(stage)
        self.stage = stage


class Stage:
    """Marks which stage an exception comes from; exceptions of builds keep their own mark."""

    def __init__(self, name: str):
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, StageError):
            raise StageError(self._name) from error


def describe(error: BaseException) -> Message:
    """Describe an exception for the judge."""
    stage = ""
    if isinstance(error, StageError) and error.__cause__ is not None:
        stage, error = error.stage, error.__cause__
    if isinstance(error, BuildError) or "Error building extension" in str(error) or "CUDA_HOME" in str(error):
        stage = "build"
    return {
        "stage": stage,
        "type": type(error).__name__,
        "message": both_ends(f"{error}{namespaces.why_closed(error)}"),
        "traceback": both_ends(traces.trace_of(error)),
    }
