"""`kbench config` shows what holds and why; a settings file can be named."""


def test_values_and_their_origin(kbench, tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.kbench.run]\nprocesses = 5\n")
    values = {item["key"]: item for item in kbench("config", "--json").document["results"]}
    assert values["run.processes"] == {"key": "run.processes", "value": 5, "origin": str(path)}
    assert values["gate.unclear"]["origin"] == "default"
    assert values["cache"]["origin"] == "KBENCH_CACHE"
    line = next(line for line in kbench("config").out.splitlines() if line.startswith("run.processes"))
    assert line.split() == ["run.processes", "5", str(path)]


def test_a_file_can_be_named(kbench, tmp_path):
    path = tmp_path / "other.toml"
    path.write_text('[tool.kbench]\nresults = "elsewhere"\n')
    assert str(tmp_path / "elsewhere") in kbench("config", "--config", path).out
    assert kbench("config", "--config", tmp_path / "absent.toml").code == 2
