"""`kbench import`: problem files from the benchmark files of other tools."""

from pathlib import Path
from typing import Any

from kbench.catalog.imported_benchmark import read_benchmarks
from kbench.catalog.imported_trace import Imported, read_trace
from kbench.cli import shared_flags
from kbench.cli.new import write_new
from kbench.cli.options import OutputFlags, argument, command
from kbench.core.errors import ExitCode, UsageError
from kbench.report.table import one_line, table


class _ImportFlags(OutputFlags):
    files: list[Path] = argument(
        "FILE", "Hugging Face `Benchmark` classes (.py), flashinfer-trace definitions (.json), workloads (.jsonl)"
    )
    folder: Path = shared_flags.folder("Folder to write to", default=Path())


@command(_ImportFlags)
def main(flags: _ImportFlags) -> int:
    """Turn benchmark files of other tools into problems."""
    made: list[Imported] = []
    workloads = [path for path in flags.files if path.suffix == ".jsonl"]
    for path in (path for path in flags.files if path not in workloads):
        if path.suffix not in {".py", ".json"}:
            raise UsageError(
                f"{path} has no format that kbench reads",
                "name a Python file of a `Benchmark`, or a definition and its workloads as `.json` and `.jsonl`",
            )
        made += read_benchmarks(path) if path.suffix == ".py" else [read_trace(path, workloads)]
    if not made:
        raise UsageError("workloads need their definition", "name it too: `DEFINITION.json`")
    rows: list[dict[str, Any]] = [
        {"problem": flags.folder / f"{one.name}.py", "cases": one.cases, "not taken over": one.left_out} for one in made
    ]
    for row, one in zip(rows, made, strict=True):
        write_new(row["problem"], one.text)
    cells = [
        {name: one_line("; ".join(v) if isinstance(v, tuple) else str(v)) for name, v in row.items()} for row in rows
    ]
    output = flags.output()
    output.records("import", table(cells, wraps={"not taken over"}), rows)
    output.note(f"hint: look at the file, then `kbench run {rows[0]['problem']} eager`")
    return ExitCode.OK
