"""Bad input that needs no child process to be found: each has its message and its exit code."""

from pathlib import Path

import pytest

from kbench.core.errors import UsageError
from kbench.devices import selection
from kbench.engine.journal import Journal

FILES = {
    "p.py": "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n",
    "plain.py": "x = 1\n",
    "s.py": "class ModelNew: pass\n",
    "named.py": "class LayerNorm(nn.Module): pass\ndef get_inputs(): pass\n",
    "notes.txt": "",
}


@pytest.fixture(autouse=True)
def _files() -> None:
    """Files that are no good, or good at something else."""
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("latin.py").write_bytes(b"# caf\xe9\nclass Model: pass\n")
    Path("binary.py").write_bytes(bytes(range(256)))
    Path("loop.py").symlink_to("loop.py")
    Path("lost.py").symlink_to("gone.py")
    Path("folder").mkdir()


NAMES = [
    ("grup_norm", "error: no problem named `grup_norm`\n\nhint: did you mean `group_norm`?\n"),
    ("group_norm egaer", "`group_norm` has no solution named `egaer`\n\nhint: did you mean `eager`?"),
    ("group_norm eager --case smal", "has no case `smal`\n\nhint: did you mean `small`?"),
    ("group_norm eager --set dim3=4", "has no constant `dim3`\n\nhint: did you mean `dim"),
    ("group_norm eager --set x", "error: `--set x` is not NAME=VALUE"),
    ("group_norm eager --set dim1=10**9", "'10**9' is no value\n\nhint: write numbers, words or Python literals"),
    ("group_norm eager --set dim1=ab", "`dim1` is 512, a number, and `ab` is text"),
    ("group_norm eager --set dim1=torch.float16", "`dim1` is 512, a number, and `float16` is text"),
    ("group_norm eager --grid dim1", "`--grid dim1` is not NAME=VALUE"),
    ("group_norm eager --grid dim3=4", "has no constant `dim3`\n\nhint: did you mean `dim"),
    ("group_norm eager --grid dim1=2 --set dim1=2", "`--grid dim1` and `--set dim1` contradict each other"),
    ("group_norm eager --grid dim1=2 --grid dim1=4", "`--grid dim1` and `--grid dim1` contradict each other"),
    ("group_norm eager --case smal --grid dim1=2", "has no case `smal`\n\nhint: did you mean `small`?"),
    ("./latn.py eager", "no problem file latn.py\n\nhint: did you mean `latin.py`?"),
    ("./named.py eager", "hint: it has the class `LayerNorm`: rename it, or add `Model = LayerNorm`"),
    ("group_norm eager --level modul", "hint: did you mean `module`?"),
    ("group_norm eager --dev cpu", "hint: did you mean `--device`?"),
    ("./plain.py eager", "defines no class `Model`"),
    ("./s.py eager", "it looks like a solution"),
    ("./s.py ./p.py", "hint: the problem comes first: `kbench verify ./p.py ./s.py`"),
    ("eager group_norm", "hint: the problem comes first: `kbench verify group_norm eager`"),
    ("./s.py group_norm", "hint: the problem comes first: `kbench verify group_norm ./s.py`"),
    ("./latin.py eager", "hint: save it as UTF-8"),
    ("./binary.py eager", "hint: save it as UTF-8"),
    ("./loop.py eager", "loop.py is a link that leads to no file"),
    ("./lost.py eager", "lost.py is a link that leads to no file"),
    ("folder eager", "folder is a folder, not a"),
    ("group_norm folder", "folder is a folder, not a"),
    (f"group_norm {'x' * 5000}.py", "too long for a file"),
    # Another process would read something else: a worker's standard input is not kbench's.
    ("group_norm /dev/stdin", "/dev/stdin is not the same file in every process"),
    ("group_norm /proc/self/fd/0", "/proc/self/fd/0 is not the same file in every process"),
    ("group_norm /dev/shm/kernel.py", "/dev/shm/kernel.py is not the same file in every process"),
]


@pytest.mark.parametrize(("words", "told"), NAMES)
def test_names(refused, words, told):
    code, err = refused("verify", *words.split(), "--device", "cpu")
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("run", 2, "Missing argument 'PROBLEM'"),
        ("run group_norm eager --device tpu", 2, "`tpu` is not a device\n\nhint: "),
        ("run group_norm eager --device cpu --mode graph", 2, "`--mode graph` needs a GPU, and this run is on a CPU"),
        ("run group_norm --mode hot", 2, "Invalid value for '--mode'"),
        ("run group_norm --mode graf", 2, "hint: did you mean `graph`?"),
        ("doctor --sho", 2, "hint: `kbench doctor --help` shows what it takes"),
        ("explain nonsense", 2, "error: no code or word `nonsense`\n\nhint: `kbench explain` lists all"),
        ("run group_norm --precision 4", 2, "Invalid value for '--precision'"),
        ("run group_norm --timeout soon", 2, "Invalid value for '--timeout'"),
        ("run group_norm --quick --processes 5", 2, "`--quick` runs one process and contradicts `--processes`"),
        ("run group_norm --quick --max-processes 5", 2, "`--quick` runs one process and contradicts `--max-processes`"),
        ("run group_norm --processes 3 --max-processes 1", 2, "`--processes 3` is more than `--max-processes 1`"),
        ("run group_norm eager --device cpu --results notes.txt/a", 3, "elsewhere with `--results DIR`"),
        ("run group_norm eager --device cpu --results notes.txt", 3, "a file of that name where a folder is needed"),
        ("profile group_norm eager --device tpu", 2, "`tpu` is not a device"),
        ("list grup_norm", 2, "hint: did you mean `group_norm`?"),
        ("list --frob", 2, "No such option"),
        ("frobnicate", 2, "No such command 'frobnicate'"),
        ("list --config absent.toml", 2, "no settings file absent.toml"),
        ("explain wrong_valu", 2, "error: no code or word `wrong_valu`\n\nhint: did you mean `wrong_value`?\n"),
        ("show nothing", 2, "no run named `nothing`"),
        ("show @last", 2, "did you mean `@latest`?"),
        ("show @latset", 2, "did you mean `@latest`?"),
        ("compare nothing", 2, "no run named `nothing`"),
        ("gate nothing", 2, "no run named `nothing`"),
        ("gate --against HEAD", 2, "`--against` needs a problem to measure"),
        ("gate group_norm --against HEAD --baseline main", 2, "needs no baseline"),
        ("gate grup_norm --against HEAD", 2, "did you mean `group_norm`?"),
        ("gate run other", 2, "a gate on a saved run takes the run alone"),
        ("gate --case small", 2, "a gate on a saved run takes the run alone"),
        ("baseline set nothing", 2, "no run named `nothing`"),
        ("doctor --device tpu", 2, "`tpu` is not a device"),
        ("calibrate nothing", 2, "no problem named `nothing`"),
        ("selftest nothing --devices cpu", 2, "`nothing`"),
        ("new problem no-name", 2, "invalid name: `no-name`"),
        ("new solution group_norm compile", 2, "every problem has a solution named `compile` already"),
        ("new solution grup_norm x", 2, "no problem named `grup_norm`"),
        ("new solution group_norm x --language fortran", 2, "Invalid value for '--language'"),
        # With --self all names are problems: a shell makes several arguments of a glob that is not quoted.
        ("sweep group_norm grup_norm --self --devices cpu", 2, "no problem named `grup_norm`"),
    ],
)
def test_what_else_is_refused(refused, words, code, told):
    found, err = refused(*words.split())
    assert found == code
    assert told in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("verify", "no\nthere.py", "eager"), "error: no problem file no\\nthere.py\n\nhint: check the path\n"),
        (("sweep", "--resume"), "\n\nhint: `kbench sweep --help` shows what it takes\n"),
        (("gate", "--slower"), "\n\nhint: `kbench gate --help` shows what it takes\n"),
        (("--nonsense",), "\n\nhint: `kbench --help` shows what it takes\n"),
    ],
)
def test_what_was_typed_is_quoted_on_one_line_and_a_lacking_value_names_the_help(kbench, arguments, text):
    assert kbench(*arguments).err.endswith(text)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--format json", "no problem named `grup_norm`"),
        ("--format=json", "no problem named `grup_norm`"),
        ("--json --format csv", "`--json` contradicts `--format csv`"),
        ("--json -q -v", "`--verbose` contradicts `--quiet`"),
    ],
)
def test_an_error_is_a_document_however_it_is_asked_for(kbench, words, reason):
    assert kbench("run", "grup_norm", *words.split()).document["reason"] == reason


def test_no_gpu(refused, monkeypatch):
    monkeypatch.setattr(selection, "visible_gpus", list)
    code, err = refused("run", "group_norm", "eager", "--device", "cuda")
    assert code == 3
    assert "no CUDA device found" in err


@pytest.mark.parametrize(("devices", "quoted"), [("gpu0", "`gpu0` is not a device"), ("0", "`--devices cpu`")])
def test_a_sweeps_devices_are_told_by_its_own_option(refused, monkeypatch, devices, quoted):
    monkeypatch.setattr(selection, "visible_gpus", list)
    assert quoted in refused("sweep", "group_norm", "--self", "--devices", devices, "--no-save")[1]


def test_an_error_moves_no_cursor(kbench):
    Path("a\x1b[2J\x9b2Jb.csv").write_text("nonsense\n")
    told = kbench("show", "./a\x1b[2J\x9b2Jb.csv")
    assert told.code == 2
    assert r"a\x1b[2J\x9b2Jb.csv is not a kbench results file" in told.err
    assert not {"\x1b", "\x9b"} & set(told.err)


def test_the_name_of_a_solution_is_no_file_to_watch(kbench):
    done = kbench("watch", "group_norm", "cpp_openmp")
    assert done.code == 2
    assert "`cpp_openmp` is a name, and a file is watched" in done.err
    assert "group_norm/cpp_openmp.py`" in done.err


@pytest.fixture
def begun_sweep(kbench, monkeypatch) -> str:
    """A sweep that ended before its first verdict."""
    monkeypatch.setattr("kbench.engine.sweep.Sweep.judge", lambda *_: (_ for _ in ()).throw(UsageError("ended")))
    with monkeypatch.context() as patched:
        patched.setattr("kbench.engine.sweep.Sweep.judge", _write_header)
        kbench("sweep", "group_norm", "--self", "--until", "verify", "--devices", "cpu", "--name", "one")
    return "one"


def _write_header(work, *_):
    with Journal(work.journal, work.header):
        pass
    raise UsageError("ended")
    yield


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("clamp --self", "`--resume one` judges what that sweep was started with, and other names are given"),
        ("group_norm eager", "`--resume one` judges what that sweep was started with, and other names are given"),
        ("--until time", "`--until` is given, and the sweep `one` was started with `--until verify`"),
        ("--quick", "`--quick` is given, and the sweep `one` was started without it"),
        ("group_norm --self --eval", "`--eval` is given, and the sweep `one` was started without it"),
    ],
)
def test_a_resumed_sweep_is_the_one_that_was_started(refused, begun_sweep, more, told):
    code, err = refused("sweep", *more.split(), "--resume", begun_sweep, "--devices", "cpu")
    assert code == 2
    assert told in err


@pytest.mark.parametrize("more", ["", "group_norm --self", "group_norm --self --until verify", "--self"])
def test_a_sweep_is_resumed_by_the_command_that_started_it(kbench, begun_sweep, more):
    assert "error: ended" in kbench("sweep", *more.split(), "--resume", begun_sweep, "--devices", "cpu").err
