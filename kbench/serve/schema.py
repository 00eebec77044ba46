"""Requests and answers. Names are KernelGYM's if the meaning is the same; the others are kbench's options."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_IN_BATCH = 100
NOT_USED = (
    *("toolkit", "backend_adapter", "backend", "reference_backend", "workflow", "priority", "device_preference"),
    *("num_correct_trials", "num_perf_trials", "num_warmup", "resources", "uuid", "use_reference_cache", "is_valid"),
    *("force_refresh", "verbose_errors", "enable_profiling", "enable_triton_detection", "run_triton_detection"),
)
"""Fields of KernelGYM that kbench ignores; `metadata.not_used` names them."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
TaskId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")]
SourceText = Annotated[str, Field(min_length=10, max_length=400_000)]
"""Chosen. The largest number of characters is ten times that of the longest of 36 published kernels."""
TaskState = Literal["pending", "processing", "completed", "failed", "timeout", "cancelled"]


class ClientRequest(BaseModel):
    """Known fields only, with values that can be stored and read again."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _is_unicode(cls, given: Any) -> Any:
        """Refuse halves of surrogate pairs, which JSON can write and UTF-8 cannot."""
        try:
            json.dumps(given, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("it has a text that is not Unicode") from None
        return given


class EvaluationRequest(ClientRequest):
    """One solution of one problem, each as a text or as a name that the server knows."""

    task_id: TaskId | None = Field(
        default=None, description="Also the idempotency key: a repeated request gets the same answer."
    )
    reference_code: SourceText | None = Field(default=None, description="Text of a problem; the server must allow it.")
    problem: Name | None = Field(default=None, description="Name of a problem that the server knows.")
    kernel_code: SourceText | None = Field(default=None, description="Text of a solution.")
    solution: Name | None = Field(
        default=None, description="Name of a solution that the server knows, such as `eager`."
    )
    entry_point: Literal["Model"] = Field(default="Model", description="Class of the reference.")
    entry: Name | None = Field(default=None, description="Class or function of the solution, instead of `ModelNew`.")
    run_performance: bool | None = Field(default=None, description="False: verify only.")
    measure_performance: bool | None = Field(default=None, description="As `run_performance`, which wins.")
    run_correctness: Literal[True] | None = Field(default=None, description="Timed solutions are always verified.")
    timeout: float = Field(default=300.0, gt=0, le=3600, description="Timeout of the execution in seconds.")
    queue_timeout: float = Field(
        default=600.0, gt=0, le=86400, description="Timeout of waiting in the queue, in seconds."
    )
    level: Literal["task", "module", "general"] | None = None
    accept: list[str] = Field(default_factory=list, max_length=20)
    case: Name | None = None
    overrides: dict[str, int | float | bool | str] = Field(default_factory=dict, max_length=50)
    not_used: list[str] = Field(default_factory=list, exclude=True, description="Set by the server.")

    @model_validator(mode="before")
    @classmethod
    def _set_apart(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        for name, text in (("problem", "reference_code"), ("solution", "kernel_code")):
            if "\n" in str(given.get(name, "")):
                raise ValueError(f"`{name}` is a name: send a text as `{text}`")
        unused = [name for name in NOT_USED if name in given]
        return {**{name: value for name, value in given.items() if name not in NOT_USED}, "not_used": unused}

    @model_validator(mode="after")
    def _one_of_each(self) -> "EvaluationRequest":
        if (self.reference_code is None) == (self.problem is None):
            raise ValueError("give one of `reference_code` and `problem`")
        if (self.kernel_code is None) == (self.solution is None):
            raise ValueError("give one of `kernel_code` and `solution`")
        return self

    @property
    def verify_only(self) -> bool:
        """True if the request asks for no time."""
        wanted = self.run_performance if self.run_performance is not None else self.measure_performance
        return wanted is False


class BatchEvaluationRequest(ClientRequest):
    """Several requests at once: all of them are accepted, or none."""

    batch_id: TaskId
    tasks: list[EvaluationRequest] = Field(min_length=1, max_length=MOST_IN_BATCH)


class EvaluationResponse(BaseModel):
    """The answer to a request. A value that is not known is null."""

    task_id: str
    status: TaskState
    verdict: str | None = Field(default=None, description="`passed`, or a status that `kbench explain` explains.")
    retryable: bool = Field(default=False, description="Not the solution's fault: send it again with another task_id.")
    compiled: bool | None = None
    correctness: bool | None = None
    reference_runtime: float | None = Field(default=None, description="Milliseconds.")
    kernel_runtime: float | None = Field(default=None, description="Milliseconds.")
    speedup: float | None = None
    speedup_low: float | None = Field(default=None, description="Lower end of the 95 % interval.")
    rewards: dict[str, float | None] = Field(
        default_factory=dict, description="By policy; null: leave this sample out."
    )
    error_message: str | None = None
    error_code: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    submitted_at: str | None = None
    completed_at: str | None = None
    queue_time: float | None = Field(default=None, description="Seconds.")
    processing_time: float | None = Field(default=None, description="Seconds.")


class BatchEvaluationResponse(BaseModel):
    """The answers to a batch, in its order."""

    batch_id: str
    total_tasks: int
    completed_tasks: int
    failed_tasks: int
    results: list[EvaluationResponse]
