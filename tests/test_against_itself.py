"""What the script says of kbench processes that share a device."""

from against_itself import compared


def row(problem: str, speedup: str, status: str = "passed") -> dict[str, str]:
    return {"problem": problem, "status": status, "speedup": speedup, "elapsed_s": "6.5"}


def test_other_verdicts_and_times_beside_others_are_told():
    solo = [row("a", "1.0"), row("b", "2.0"), row("c", ""), row("left out", "1.0")]
    beside = [row("a", "1.005"), row("b", "1.9"), row("c", "", "unfinished_output"), row("unknown", "1.0")]
    assert compared(beside, solo, 7.0) == (
        "of 3 files 2 end as alone, not c; 1 of 2 speed-ups within 1 % of the one alone, 5.0% at most; "
        "7 s in place of 20 s one after the other"
    )
