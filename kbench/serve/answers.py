"""Answers from verdicts."""

from typing import Any, get_args

from kbench.api.evaluation import EvaluationResult, RewardPolicy
from kbench.core.explain import explain
from kbench.core.model import Failed, Status
from kbench.serve.schema import EvaluationResponse

LONGEST_MESSAGE = 4000
QUOTING = frozenset(
    {
        Status.WRONG_VALUE,
        Status.UNWRITTEN_OUTPUT,
        Status.NONDETERMINISTIC,
        Status.BELOW_LEVEL,
    }
)
"""Statuses whose reason quotes expected values; the answer has the diagnosis or the status's meaning instead."""
NOT_COMPILED = frozenset({Status.BUILD_FAILED, Status.BUILD_TIMEOUT, Status.IMPORT_FAILED, Status.IMPORT_TIMEOUT})


def answer_of(found: EvaluationResult) -> dict[str, Any]:
    """Return the fields of an answer that depend on a verdict."""
    outcome, row = found.outcome, found.rows[0]
    failure = outcome if isinstance(outcome, Failed) else None
    compiled = found.status not in NOT_COMPILED if found.is_verdict else None
    return {
        "status": "completed" if found.is_verdict else "failed",
        "verdict": found.status.value,
        "retryable": found.retryable,
        "compiled": compiled,
        "correctness": found.passed if found.is_verdict else None,
        "reference_runtime": _ms(row.ref_time_ns_median),
        "kernel_runtime": _ms(row.time_ns_median),
        "speedup": found.speedup,
        "speedup_low": found.interval[0] if found.interval is not None else None,
        "rewards": {policy: found.reward(policy) for policy in get_args(RewardPolicy)},
        "error_message": why(failure) if failure is not None else None,
        "error_code": failure.status.value if failure is not None else None,
        "metadata": {
            "source_sha256": row.source_sha256,
            "case": found.case,
            "level": str(outcome.level) if outcome.level is not None else None,
            "lacks": list(outcome.lacks),
            "required_level": row.required_level,
            "device": row.device,
            "gpu_name": row.gpu_name,
            "isolation": row.isolation,
            "attestation": row.attestation,
            "log": outcome.log[-LONGEST_MESSAGE:],
            "stage_s": {stage: round(spent_s, 4) for stage, spent_s in found.stage_s.items()},
            "kbench_version": row.kbench_version,
        },
    }


def why(failure: Failed) -> str:
    """Return why a solution failed, without any expected value."""
    if failure.status not in QUOTING and failure.correctness is None:
        return failure.reason[:LONGEST_MESSAGE]
    known = explain(failure.status.value)
    said = [failure.diagnosis.sentence] if failure.diagnosis is not None else [known.meaning] if known else []
    return "; ".join([*said, *([f"lacks {', '.join(failure.lacks)}"] if failure.lacks else [])])[:LONGEST_MESSAGE]


def failed(code: str, reason: str, *, retryable: bool = False) -> dict[str, Any]:
    """Return the fields of an answer without a verdict."""
    return {
        "status": "failed",
        "error_code": code,
        "error_message": reason[:LONGEST_MESSAGE],
        "retryable": retryable,
        "rewards": dict.fromkeys(get_args(RewardPolicy)),
    }


def moved_on(answer: EvaluationResponse, fields: dict[str, Any]) -> EvaluationResponse:
    """Return an answer with more fields set."""
    metadata = {**answer.metadata, **fields.get("metadata", {})}
    return EvaluationResponse.model_validate({**answer.model_dump(), **fields, "metadata": metadata})


def _ms(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / 1e6
