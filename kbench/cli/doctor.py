"""`kbench doctor`: is this machine ready, and how to fix it if not."""

from kbench import doctor as verb
from kbench.cli import shared_flags
from kbench.cli.options import OutputFlags, command, switch
from kbench.cli.output import Format
from kbench.core.errors import ExitCode
from kbench.doctor import Check, Health
from kbench.host import cache_bounds
from kbench.report.document import render_document, render_records
from kbench.report.table import one_line, table
from kbench.storage.settings import cache_dir


class _DoctorFlags(OutputFlags):
    device: str | None = shared_flags.device()
    remeasure: bool = switch("--remeasure", "Measure the peaks again")
    clean: bool = switch("--clean", "Remove all builds from the cache")


@command(_DoctorFlags)
def main(flags: _DoctorFlags) -> int:
    """Check GPU, compilers, sandbox and peaks; print fixes."""
    output = flags.output()
    device = flags.device or flags.settings().run.device
    if flags.clean:
        removed = cache_bounds.clear(cache_dir())
        output.note(f"removed {removed.entries} builds, {removed.size_bytes / 2**30:.1f} GiB")
    checks: list[Check] = []
    for check in verb.examine(device, cache_dir(), remeasure=flags.remeasure, announce=output.note):
        checks.append(check)
        if output.format is Format.TEXT and (output.verbosity >= 0 or check.status is not Health.OK):
            output.text(_line(check))
    unfit = [check for check in checks if check.status is not Health.OK]
    failing = [check for check in unfit if check.status is Health.FAIL]
    reason = "; ".join(f"{check.name}: {check.detail}" for check in failing)
    status, code = ("failed", ExitCode.ENVIRONMENT) if failing else ("passed", ExitCode.OK)
    rows = [{"status": one.status.value, "check": one.name, "detail": one.detail, "fix": one.fix} for one in checks]
    findings = [{"code": one.name, "kind": one.status, "message": one.detail} for one in unfit]
    output.show(
        text=str,  # each check was printed when it was made
        json=lambda: render_document(
            "doctor", status=status, reason=reason, exit_code=code, findings=findings, results=checks
        ),
        csv=lambda: render_records(checks, Check),
        md=table(rows).markdown,
    )
    return code


def _line(check: Check) -> str:
    fix = f"   fix: {check.fix}" if check.fix else ""
    return f"{check.status.value:<4}  {check.name:<9}  {one_line(check.detail)}{fix}"
