"""Settings are strict: what is misspelt or of the wrong type is an error with a hint, never a default."""

from pathlib import Path

import pytest

from kbench.core.errors import ExitCode, UsageError
from kbench.storage import settings
from kbench.storage.settings import GateOverride, Settings


def pyproject(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_defaults_without_a_file(tmp_path):
    assert settings.load(start=tmp_path) == Settings()


def test_the_nearest_table_wins_and_files_without_one_are_passed_over(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "kernels").mkdir()
    path = pyproject(tmp_path, '[tool.kbench]\npaths = ["kernels"]\n[tool.kbench.run]\nprocesses = 5\n')
    pyproject(inner, "[tool.other]\nx = 1\n")
    loaded = settings.load(start=inner)
    assert loaded.run.processes == 5
    assert loaded.paths == (tmp_path / "kernels",)
    assert loaded.results == tmp_path / "results"
    assert loaded.source == path


def test_all_tables_are_typed(tmp_path):
    path = pyproject(
        tmp_path,
        '[tool.kbench.run]\nprecision = 0.1\nmode = "graph"\n'
        '[tool.kbench.gate]\nslower = 0.03\nunclear = "fail"\n'
        '[tool.kbench.gate.override."softmax/*/small"]\nslower = 0.08\n',
    )
    loaded = settings.load(path)
    assert loaded.run.precision == 0.1
    assert loaded.gate.override == {"softmax/*/small": GateOverride(slower=0.08)}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[tool.kbench]\npath = []", "unknown setting `path`", "did you mean `paths`?"),
        ("[tool.kbench.run]\nproceses = 3", "unknown setting `run.proceses`", "did you mean `processes`?"),
        ("[tool.kbench.gate]\nslowr = 3", "unknown setting `gate.slowr`", "did you mean `slower`?"),
        ('[tool.kbench.gate.override."*"]\nxyz = 3', r"unknown setting `gate.override.\*.xyz`", "known: slower"),
        ("[tool.kbench.run]\npairs = 0", "`run.pairs` is 0: input should be greater than or equal to 1", None),
        ("[tool.kbench.run]\nprecision = 1", "`run.precision` is 1: input should be less than 1", None),
        ("[tool.kbench.run]\nbudget_s = 0", "`run.budget_s` is 0: input should be greater than 0", None),
        ('[tool.kbench]\npaths = ["nowhere"]', "nowhere, which does not exist", "correct the path, or remove it"),
        ("[tool.kbench.gate]\nslower = nan", "`gate.slower` is nan: input should be less than 1", None),
        ("[tool.kbench.gate]\nslower = 5.0", "`gate.slower` is 5.0: input should be less than 1", None),
        (
            '[tool.kbench.gate.override."a/*"]\nslower = inf',
            r"`gate.override.a/\*.slower` is inf: input should be less than 1",
            None,
        ),
        ("[tool.kbench]\nsource = 'x'", "unknown setting `source`", None),
        ("[tool.kbench.run]\nprocesses = '3'", "`run.processes` is '3': input should be a valid integer", None),
        ("[tool.kbench.run]\nprocesses = 2.5", "`run.processes` is 2.5", None),
        ("[tool.kbench.run]\nmode = 'hot'", "`run.mode` is 'hot': input should be 'cold', 'warm' or", None),
        ("[tool.kbench.run]\ndevice = 2026-01-01", "holds a date or a time", "write it in quotes"),
        ("[tool]\nkbench = 3", "tool.kbench is not a table", "settings go below `[tool.kbench]`"),
        ("[tool.kbench\n", "is not TOML", "correct that line"),
        ("[tool.other]\n", "has no", "settings go below `[tool.kbench]`"),
    ],
)
def test_bad_settings_say_what_and_where(tmp_path, text, message, hint):
    path = pyproject(tmp_path, text)
    with pytest.raises(UsageError, match=message) as caught:
        settings.load(path)
    assert str(path) in caught.value.message
    assert caught.value.exit_code == ExitCode.USAGE
    if hint:
        assert caught.value.hint == hint


def test_a_missing_file_is_an_error_only_when_asked_for(tmp_path):
    with pytest.raises(UsageError, match="no settings file"):
        settings.load(tmp_path / "absent.toml")


def test_the_cache_is_in_the_users_cache_folder(monkeypatch):
    monkeypatch.delenv("KBENCH_CACHE", raising=False)
    assert settings.cache_dir().name == "kbench"
