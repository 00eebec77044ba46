"""The `kbench` command: its sub-commands, and the only place where an outcome becomes an exit status."""

import errno
import importlib.util
import io
import os
import re
import signal
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from kbench.catalog import source
from kbench.cli.command import Command, Group, completing
from kbench.cli.output import INTERRUPTED, Output, lost, missing_package, silence
from kbench.core.errors import ExitCode, InternalError, KbenchError, UsageError, did_you_mean
from kbench.core.version import __version__

HELP = "Is a GPU kernel right, how fast is it, and how far is it from the hardware's limit?"
EXIT_CODES = (
    "Exit codes: 0 done, verdict positive; 1 negative verdict (wrong, crashed, cheated, regressed); "
    "2 usage or configuration; 3 environment: no device, compiler or baseline; 4 inconclusive; "
    "5 nothing selected; 70 internal error; 130 interrupted"
)

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run.run", "Verify, then time, one or more solutions of a problem"),
    "verify": ("run.verify", "Verify only"),
    "watch": ("watch.main", "Verify and quickly time a file at each save"),
    "sweep": ("sweep.main", "Judge many solutions of many problems; resumable"),
    "serve": ("serve.main", "Serve verdicts over HTTP, for training loops"),
    "mcp": ("mcp.main", "Serve tools to an agent over stdin and stdout"),
    "compare": ("compare.main", "Compare saved runs, or the solutions of one run"),
    "profile": ("profile.main", "Explain why a solution is slow: kernels, limits, bottleneck"),
    "gate": ("gate.main", "Fail when a run regresses against its baseline"),
    "baseline": ("baseline.app", "Show and set baselines"),
    "list": ("list.main", "List problems, solutions, cases and runs"),
    "show": ("show.show", "Show a saved run in full"),
    "export": ("export.main", "Print a run as records for PyTorch's dashboard"),
    "report": ("show.report", "Write a run, a sweep or a history as one HTML page"),
    "doctor": ("doctor.main", "Check GPU, compilers, sandbox and peaks; print fixes"),
    "calibrate": ("calibrate.main", "Measure how noisy this device is"),
    "selftest": ("selftest.main", "Prove that attacks are caught and honest solutions pass"),
    "explain": ("explain.main", "Explain a code or a word of the output"),
    "import": ("imports.main", "Turn benchmark files of other tools into problems"),
    "new": ("new.app", "Write a problem or a solution to start from"),
}
"""Place in `kbench.cli` and summary of each command. Only the invoked command's module is imported,
because shell completion and `--help` wait for the imports."""

JUDGING = frozenset({"run", "verify", "profile"})
"""Commands that start a judge as soon as they can: their users wait for torch."""
WRONG_CHOICE = re.compile(r"'([^']*)' is not one of (.+)")
WRONG_OPTION = re.compile(r"No such option: (\S+)(?: \(Possible options: (.+)\))?")
WRONG_TYPE = re.compile(r": Input should be ([^,]+)(?:, unable to .+)?$")
OTHER_WORDS = dict.fromkeys(
    ("--verify-only", "--until"), "`kbench verify` verifies only, and so does `kbench sweep --until verify`"
)
"""Hints on options that other commands have."""
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def build_app(command: str | None) -> typer.Typer:
    """Make the application, with the flags of `command` alone; the others have their names and summaries."""
    app = typer.Typer(
        name="kbench",
        cls=Group,
        help=HELP,
        epilog=EXIT_CODES,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, (place, summary) in COMMANDS.items():
        if name != command:
            app.command(name, help=summary)(lambda: None)  # another process runs it
            continue
        module, _, attribute = place.partition(".")
        entry = getattr(importlib.import_module(f"kbench.cli.{module}"), attribute)
        if isinstance(entry, typer.Typer):
            app.add_typer(entry, name=name, help=summary)
        else:
            app.command(name, cls=Command)(entry)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"kbench {__version__}\n")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version")
    ] = False,
) -> None:
    pass


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with one of the documented codes."""
    arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    for number in INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` leaves SIGHUP
            signal.signal(number, _as_interrupt)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123  # as after `>&-`
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without `×` must not end a run
    _offer_own_programs()
    source.COMPUTE[:] = [_compute_cases]
    code = _guarded(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        silence(sys.stdout)
        code = code or (int(ExitCode.OK) if isinstance(error, BrokenPipeError) else _report(lost(error), arguments))
    sys.exit(int(code))


def _compute_cases(path: Path) -> Any:
    from kbench.host import listing  # imports much that most commands do not need

    return listing.computed(path)


def _offer_own_programs() -> None:
    """Put this environment's programs on PATH: torch looks for ninja there, activated or not."""
    own = os.path.dirname(sys.executable)  # noqa: PTH120  # pathlib is not loaded yet
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if own not in places:
        os.environ["PATH"] = os.pathsep.join([own, *places])


def _guarded(arguments: list[str]) -> int:
    try:
        command = command_name(arguments)
        with _torch_ahead(command, arguments):
            app = build_app(command)
            return int(app(args=arguments, prog_name="kbench", standalone_mode=False) or 0)
    except KbenchError as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        return _report(INTERRUPTED, arguments)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # the parser ends with 1 then, which is a verdict here
            return _unwritten(error.__context__, arguments)
        return error.code if isinstance(error.code, int) else int(ExitCode.INTERNAL)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a user may name a file that cannot be
            return _report(UsageError("a name is too long for a file", "give a shorter path"), arguments)
        return _unwritten(error, arguments)
    except Exception as error:  # noqa: BLE001  # the last line: no uncaught error may look like a verdict
        return _unexpected(error, arguments)


def _torch_ahead(command: str | None, arguments: list[str]) -> AbstractContextManager[object]:
    """Import torch in another process while this one reads the command line; where it is missing, its user says so."""
    if command not in JUDGING or _parser_prints(arguments) or importlib.util.find_spec("torch") is None:
        return nullcontext()
    from kbench.host import nursery_process

    return nursery_process.nursery()


def _unwritten(error: OSError, arguments: list[str]) -> int:
    """End a command whose help, version or completion could not be written; for other commands this is a defect."""
    if not _parser_prints(arguments):
        return _unexpected(error, arguments)
    silence(sys.stdout)
    return int(ExitCode.OK) if isinstance(error, BrokenPipeError) else _report(lost(error), arguments)


def _parser_prints(arguments: list[str]) -> bool:
    """Return whether the parser writes to stdout itself; `Output` writes everything else."""
    return completing() is not None or bool({"-h", "--help", "--version"} & set(arguments))


def _nearest_choice(message: str) -> str | None:
    """Return a hint with the value or the option that was meant, from what the parser says is possible."""
    if (value := WRONG_CHOICE.search(message)) is not None:
        return did_you_mean(value[1], re.findall(r"'([^']+)'", value[2]), listing="")
    if (flag := WRONG_OPTION.search(message)) is not None:
        if flag[1] in OTHER_WORDS:
            return OTHER_WORDS[flag[1]]
        possible = (flag[2] or "").split(", ")
        starts = [name for name in possible if name.startswith(flag[1])]
        return (
            f"did you mean `{starts[0]}`?"
            if len(starts) == 1
            else did_you_mean(flag[1], possible, listing="", cutoff=0.75)
        )
    return None


def _unexpected(error: Exception, arguments: list[str]) -> int:
    """Separate usage errors of the parser (exceptions without a public home) and missing packages from defects."""
    missing = missing_package(error)
    if missing is not None:
        return _report(missing, arguments)
    if isinstance(error.__cause__, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return _report(INTERRUPTED, arguments)
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        context = getattr(error, "ctx", None)
        asked = ["kbench", *[word for word in arguments[:1] if word in COMMANDS]]
        path = " ".join(asked) if context is None else context.command_path  # an option without its value has none
        hint = f"`{path} --help` shows what it takes"
        message = str(format_message()).rstrip(".").replace(": Value error, ", ": ")  # pydantic's words are no user's
        message = WRONG_TYPE.sub(r": it must be \1", message)
        return _report(UsageError(message, _nearest_choice(message) or hint), arguments)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"  # noqa: PTH119
    defect = InternalError(
        f"internal error: {type(error).__name__}: {error} ({where})",
        "this is a defect of kbench; `--verbose` shows the traceback to report",
    )
    if {"-v", "--verbose"} & set(arguments):
        traceback.print_exception(error)
    return _report(defect, arguments)


def _report(error: KbenchError, arguments: list[str]) -> int:
    if wants_json(arguments):
        from kbench.report.document import render_document

        command, code = command_name(arguments) or "", error.exit_code
        text = render_document(command, status="error", reason=error.message, hint=error.hint, exit_code=code)
        Output().data(text)
    else:
        Output().error(error)
    return int(error.exit_code)


def wants_json(arguments: list[str]) -> bool:
    """Look for the JSON flag in arguments that may not parse."""
    return bool({"--json", "--format=json"} & set(arguments)) or ("--format", "json") in pairwise(arguments)


def command_name(arguments: list[str]) -> str | None:
    """Find the sub-command: the first argument that is not a flag, or the word that a shell completes."""
    words = completing() or arguments
    return next((word for word in words if not word.startswith("-")), None)


def _as_interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Treat each like Ctrl-C: workers are killed, finished rows are kept. A second one does not stop the clean-up."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
