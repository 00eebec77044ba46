"""Records and event streams that stand in for real runs where a test is about what is said, not measured."""

from dataclasses import replace

from records import TIMED, make_row

from kbench.core.events import REFERENCE, Judged, Planned, Saved, StageFinished, StageStarted
from kbench.core.levels import Level
from kbench.core.model import (
    Case,
    Correctness,
    Environment,
    Failed,
    Finding,
    Outcome,
    Passed,
    ResultRow,
    Sample,
    Status,
    Timing,
)

ROW = make_row(
    problem="softmax",
    solution="online",
    case="default",
    overrides="{}",
    git_dirty=False,
    level="module",
    lacks="alignment channels_last",
    samples=60,
    time_ns_median=524_000,
    time_ns_q1=523_000,
    time_ns_q3=526_000,
    time_ns_min=520_000,
    ref_time_ns_median=611_000,
    speedup=1.166,
    speedup_low=1.161,
    speedup_high=1.171,
    attested_ns=530_000,
    attested_half_width_ns=2_000,
    wall_ns=541_000,
    ref_wall_ns=628_000,
    oracle_ratio=0.9,
    isolation="2",
    dram_bytes=2_147_483_648,
    flops=1_000_000,
    limit_ns=445_000,
    percent_of_limit=85.0,
    own_share=0.97,
    torch="2.13.0",
)

CORRECT = Correctness(max_abs_err=3.1e-7, max_rel_err=2e-6, contract_ratio=0.03, elements=4096, calls=12, seeds=3)

ENVIRONMENT = Environment(
    device="cuda",
    gpu_name="NVIDIA H200",
    gpu_uuid="GPU-1",
    driver="580.65",
    cuda="13.0",
    torch="2.13.0",
)


def rows(count: int = 3, **changes: object) -> tuple[ResultRow, ...]:
    """Rows of `count` processes that differ a little in time."""
    base = replace(ROW, **changes)
    shifted = []
    for process in range(count):
        time = base.time_ns_median
        shifted.append(
            replace(
                base,
                process=process,
                time_ns_median=None if time is None else time + 100 * process,
                speedup=None if base.speedup is None else base.speedup * (1 + 0.001 * (process - 1)),
            )
        )
    return tuple(shifted)


def timing(process: int = 0) -> Timing:
    """Two paired samples of one process."""
    arms = (("reference", 611_000), ("candidate", 524_000))
    samples = tuple(
        Sample(
            process=process,
            block=0,
            sequence=place,
            arm=arm,
            t_event_ns=time,
            t_host_submit_ns=9_000,
            t_wall_ns=time + 1_000,
        )
        for place, (arm, time) in enumerate(arms)
    )
    return Timing(
        samples=samples,
        timer="events",
        l2="flushed",
        attested_ns=530_000.0,
        attested_half_width_ns=2_000.0,
        attestation="held",
        wall_ns=541_000.0,
        ref_wall_ns=628_000.0,
    )


def passed(solution: str = "online", case: str = "default", *, findings=(), timings=None, **changes: object) -> Judged:
    """A pass with three processes."""
    row = replace(ROW, **changes)
    outcome: Outcome = Passed(
        correctness=CORRECT,
        timings=timings or (timing(0),),
        findings=tuple(findings),
        level=Level(row.level),
        lacks=tuple(row.lacks.split()),
        own_share=row.own_share,
    )
    return Judged(
        solution=solution,
        case=case,
        outcome=outcome,
        rows=rows(solution=solution, case=case, **changes),
        stage_s={"build": 14.2, "verify": 1.3, "time": 8.0},
    )


def failed(status: Status, reason: str, *, solution: str = "online", case: str = "default", log: str = "") -> Judged:
    """A failure: one row, no time."""
    empty = {**dict.fromkeys(TIMED), "samples": 0, "level": "", "lacks": ""}
    row = replace(ROW, solution=solution, case=case, status=status.value, reason=reason, **empty)
    finding = Finding(code="seed", kind="integrity", message=reason, fatal=True, status=status)
    return Judged(
        solution=solution,
        case=case,
        outcome=Failed(status=status, reason=reason, log=log, findings=(finding,)),
        rows=(row,),
        stage_s={"build": 14.2, "verify": 0.4},
    )


def events(*judged: Judged, csv_path: str | None = "results/2026-11-20T123100-softmax-online.csv") -> list:
    """The stream of a run that ends in these judgements."""
    stream: list = [
        Planned(
            problem="softmax",
            solutions=tuple(dict.fromkeys(one.solution for one in judged)),
            cases=tuple(Case(name=name) for name in dict.fromkeys(one.case for one in judged)),
            device="cuda:0",
            processes=3,
        )
    ]
    for one in judged:
        for stage, elapsed_s in one.stage_s.items():
            ok = stage != "verify" or isinstance(one.outcome, Passed)
            stream.append(StageStarted(stage=stage, solution=one.solution, case=one.case))
            stream.append(
                StageFinished(
                    stage=stage,
                    solution=one.solution,
                    case=one.case,
                    process=None,
                    ok=ok,
                    elapsed_s=elapsed_s,
                    detail="",
                )
            )
        stream.append(one)
    stream.append(
        StageFinished(stage="open", solution=REFERENCE, case="default", process=0, ok=True, elapsed_s=1.5, detail="")
    )
    stream.append(Saved(csv_path=csv_path, environment=ENVIRONMENT))
    return stream
