"""The whole command line: help, exit codes, completion, start-up time, settings, interrupts and pipes."""

import importlib.util
import inspect
import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import pytest

import kbench as package
from kbench.cli.app import COMMANDS, EXIT_CODES, main
from kbench.cli.command import GROUPS
from kbench.cli.run import RunFlags, VerifyFlags
from kbench.cli.sweep import SweepFlags
from kbench.core.errors import ExitCode
from kbench.host import nursery_process

ROOT = Path(package.__file__).parent.parent
PINNED = re.search(r"^typer==(.+)$", (ROOT / "constraints.txt").read_text(), re.M)


def python(*arguments: str, **options):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    return subprocess.run([sys.executable, *arguments], check=False, **streams | options)


def run(*arguments: str, **options):
    return python("-m", "kbench", *arguments, **options)


@pytest.mark.skipif(version("typer") != PINNED[1], reason="another typer lays help texts out otherwise")
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(kbench, golden, command):
    done = kbench(*([command] if command else []), "--help")
    assert done.code == 0
    golden(f"help{'_' if command else ''}{command}.txt", done.out.rstrip("\n"))


@pytest.mark.parametrize("command", ["run", "verify", "sweep"])
def test_long_help_comes_in_groups_and_hides_nothing_for_good(kbench, command):
    def options(text: str) -> list[str]:
        return re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M)

    first, all_of_them = options(kbench(command, "--help").out), options(kbench(command, "--help-all").out)
    assert len(first) <= (22 if command == "sweep" else 15), "two are for help"
    assert set(first) < set(all_of_them)
    assert len(all_of_them) == len(set(all_of_them))
    assert f"shows {len(all_of_them) - len(first)} more options" in kbench(command, "--help").out
    grouped = {name for groups in GROUPS.values() for group in groups for name in group}
    kinds = {"run": RunFlags, "verify": VerifyFlags, "sweep": SweepFlags}
    assert {field.name for field in fields(kinds[command])} - grouped == {"problem", "solutions", "help_all"}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in {"baseline", "new"}])
def test_the_short_summary_is_the_commands_own(command):
    place, summary = COMMANDS[command]
    module, _, attribute = place.partition(".")
    function = getattr(importlib.import_module(f"kbench.cli.{module}"), attribute)
    assert inspect.getdoc(function).splitlines()[0] == summary + "."
    assert len(summary) < 80


def test_every_exit_code_is_in_the_help():
    told = {int(number) for number in re.findall(r"\b(\d+) ", EXIT_CODES)}
    assert told == {int(code) for code in ExitCode}


def test_no_arguments_show_help_and_misspelt_commands_the_nearest(kbench):
    assert kbench().out.startswith("Usage: kbench [OPTIONS] COMMAND")
    done = kbench("rnu")
    assert done.code == 2
    assert "Did you mean 'run'?" in done.err


def test_the_package_is_a_program():
    assert run("--version").stdout == f"kbench {package.__version__}\n"


def test_help_imports_at_most_half_as_much_again_as_its_libraries():
    count = "import atexit, sys\natexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n"
    libraries = python("-c", f"{count}import typer, rich.console, rich.panel, rich.table, typer.rich_utils")
    helped = python("-c", f"{count}sys.argv = ['kbench', '--help']\nfrom kbench.cli.app import main\nmain()")
    assert int(helped.stderr) <= 1.5 * int(libraries.stderr)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kbench ver", ["verify"]),
        ("kbench new solution group_n", ["group_norm"]),
        ("kbench verify group_norm ea", ["eager"]),
        ("kbench run group_norm eager --quick two_k", ["two_kernel"]),
        ("kbench run group_norm --quick --case ra", ["ragged"]),
        ("kbench gate --confirm --jun", ["--junit"]),
        ("kbench baseline set --name main @la", ["@latest"]),
        ("kbench compare @la", ["@latest"]),
        ("kbench explain wrong_v", ["wrong_value"]),
        ("kbench selftest inference_m", ["inference_mode"]),
    ],
)
def test_completion_loads_nothing_heavy(words, expected):
    code = (
        "import atexit, sys\n"
        "heavy = {'torch', 'pandas', 'numpy', 'pydantic', 'kbench.engine', 'rich.console'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
        "sys.argv = ['kbench']\nfrom kbench.cli.app import main\nmain()"
    )
    asked = {"_KBENCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = python("-c", code, env={**os.environ, **asked})
    assert done.stdout.split() == expected, done.stderr
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("-m kbench explain --json", 0),
        ("-c 'from kbench.cli.output import Output; Output().data(\"x\" * 100_000); raise SystemExit(7)'", 7),
    ],
)
def test_a_reader_that_has_had_enough_changes_no_exit_code(words, code):
    command = f"{sys.executable} {words} | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, len(done.stdout), done.stderr) == (code, 1, "")


@pytest.mark.parametrize(("words", "unbuffered"), [("--help", ""), ("list", "1"), ("explain --json", "")])
def test_a_full_stdout_is_the_machines_fault(words, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = run(*words.split(), stdout=full, env=environment)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.startswith("error: stdout cannot be written: No space left on device")


@pytest.mark.parametrize(("words", "code"), [("list", ExitCode.OK), ("list absent", ExitCode.USAGE)])
def test_a_full_stderr_is_nobodys_fault(words, code):
    with Path("/dev/full").open("w") as full:
        assert run(*words.split(), stderr=full).returncode == code


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(redirection):
    command = f"{sys.executable} -m kbench list {redirection}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_that_breaks_inside_a_command_is_no_success(monkeypatch, capsys):
    def broken(*_):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("kbench.storage.settings.load", broken)
    with pytest.raises(SystemExit) as left:
        main(["list"])
    assert left.value.code == ExitCode.INTERNAL
    assert "BrokenPipeError" in capsys.readouterr().err


def started(body: str) -> subprocess.Popen[str]:
    """Start `kbench run --json` with this body of `run`, and wait until that says that it is ready."""
    code = (
        "import signal, sys, time\nfrom kbench.engine import run as verb\nfrom kbench.cli.app import main\n"
        # A shell's background jobs ignore the one, what runs below `nohup` the other.
        "signal.signal(signal.SIGINT, signal.default_int_handler); signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "def say(text):\n    sys.stderr.write(text + '\\n'); sys.stderr.flush()\n"
        f"def run(*_, **__):\n    {body}\n"
        "verb.run = run\nmain(['run', 'group_norm', 'eager', '--device', 'cpu', '--json'])\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    child = subprocess.Popen([sys.executable, "-c", code], **pipes)
    assert child.stderr.readline() == "ready\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_interrupts_end_with_130(number):
    child = started("say('ready'); time.sleep(600); yield")
    child.send_signal(number)
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 130
    assert '"status": "interrupted"' in out


def test_a_second_interrupt_does_not_break_off_what_the_first_one_ends():
    child = started(
        "try: say('ready'); time.sleep(600); yield\n    finally: say('ending'); time.sleep(0.5); say('ended')"
    )
    child.send_signal(signal.SIGINT)
    assert child.stderr.readline() == "ending\n"
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=120)
    assert "ended\n" in err
    assert child.returncode == 130


@pytest.mark.parametrize(
    ("words", "starts"),
    [
        ("verify nosuch", True),
        ("run nosuch", True),
        ("profile nosuch", True),
        ("verify --help", False),
        ("list", False),
    ],
)
def test_torch_is_imported_while_the_command_line_is_read(words, starts, monkeypatch, kbench):
    begun = []
    monkeypatch.setattr(nursery_process, "nursery", lambda: nullcontext(begun.append(words)))
    kbench(*words.split())
    assert begun == [words] * starts


def test_without_torch_a_usage_error_is_still_one(monkeypatch, kbench):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else known(name, *more)
    )
    assert kbench("verify", "nosuch").code == ExitCode.USAGE
    missing = kbench("verify", "group_norm", "eager", "--device", "cpu")
    assert missing.code == ExitCode.ENVIRONMENT
    assert "`torch` is not installed" in missing.err


def test_a_terminal_without_our_letters_gets_them_escaped():
    done = run("explain", "call_timeout", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "50 \\xd7 the reference" in done.stdout


def test_programs_of_an_environment_that_is_not_activated_are_found(monkeypatch, kbench):
    monkeypatch.setenv("PATH", "/nowhere")
    kbench("--version")
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/nowhere"


@pytest.mark.parametrize(
    ("module", "package", "command"),
    [
        ("typer", "typer", ["list"]),
        ("pynvml", "nvidia-ml-py", ["doctor"]),
        ("numpy", "numpy", ["show"]),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(tmp_path, module, package, command):
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('No module named {module}', name='{module}')")
    saved = ROOT / "results" / "h200" / "group_norm.csv"
    words = [*command, str(saved)] if command == ["show"] else command
    done = run(*words, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])})
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.splitlines() == [
        f"error: the Python package `{package}` is not installed",
        "",
        f"hint: `{sys.executable} -m pip install {package}`",
    ]


def test_a_missing_module_of_its_own_is_a_defect(kbench, monkeypatch):
    def build(_command: str | None) -> None:
        raise ModuleNotFoundError("No module named 'kbench.gone'", name="kbench.gone")

    monkeypatch.setattr("kbench.cli.app.build_app", build)
    done = kbench("list")
    assert done.code == ExitCode.INTERNAL
    assert "defect of kbench" in done.err


def test_a_file_can_be_named(kbench, tmp_path):
    path = tmp_path / "other.toml"
    path.write_text('[tool.kbench]\nresults = "elsewhere"\n')
    assert "no run is saved in" in (told := kbench("list", "--runs", "--config", path).err)
    assert "elsewhere" in told
    assert kbench("list", "--config", tmp_path / "absent.toml").code == 2
