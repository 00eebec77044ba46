"""`doctor`: is this machine ready to build, judge and time kernels, and how to fix it. Imports no torch."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kbench.core.errors import MachineError
from kbench.core.roofline import arithmetic_peaks
from kbench.devices import monitor, nvml, peaks, selection, toolkit
from kbench.devices.admission import Admission, DeviceBusyError, Wait
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.host import cache_bounds, health
from kbench.sandbox import rung_probe
from kbench.sandbox.rungs import Rung

NEEDED_DISK_BYTES = 256 << 20
WANTED_DISK_BYTES = 4 << 30
OLDEST_HOST_COMPILER = (9, 0)
TORCH_INDEX = "https://download.pytorch.org/whl/cu{major}{minor}"

Version = tuple[int, int]
Announce = Callable[[str], object]


class Health(StrEnum):
    """Result of a check: ok, a warning, or a failure."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding about the machine; `fix` says what to do unless it is `ok`."""

    name: str
    status: Health
    detail: str
    fix: str = ""


def _made(status: Health, name: str, detail: str, fix: str = "") -> Check:
    return Check(name=name, status=status, detail=detail, fix=fix)


ok = functools.partial(_made, Health.OK)
warn = functools.partial(_made, Health.WARN)
fail = functools.partial(_made, Health.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The installed torch, read from its files."""

    version: str
    cuda: Version | None
    """None: a build without CUDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Data of NVML about a GPU; None if not available."""

    name: str
    memory_bytes: int | None
    driver: str
    driver_cuda: Version | None
    """The newest CUDA version that the driver runs."""
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    throttle_reasons: int | None
    power_limit_mw: int | None
    default_power_limit_mw: int | None


def examine(device: str, cache_dir: Path, *, remeasure: bool = False, announce: Announce = str) -> Iterator[Check]:
    """Yield the checks; measure peaks, after `announce`, if unknown or with `remeasure`. Raises UsageError."""
    try:
        choice = selection.choose(device)
    except MachineError as error:
        yield fail("gpu", error.message, GPU_FIX)
        choice = selection.cpu()
    torch, on_gpu = find_torch(), backend(choice.kind).has_own_memory
    gpu = read_gpu(choice) if on_gpu else None
    if gpu is not None:
        yield check_gpu(gpu, monitor.foreign_processes(choice))
        yield check_driver(gpu, torch)
    elif device == "auto":
        here = f"problems run on the processor ({choice.name})"
        yield warn("gpu", f"none found: {here}; not checked: driver, nvcc, clocks, health", GPU_FIX)
    yield check_torch(torch, on_gpu=on_gpu)
    if on_gpu:
        yield check_nvcc(find_nvcc(), torch)
    yield check_host_compiler(*find_host_compiler())
    yield check_ninja(shutil.which("ninja"))
    if gpu is not None:
        yield check_clocks(gpu)
    yield check_sandbox(choice.kind, cache_dir)
    cache = check_cache(cache_dir)
    yield cache
    yield check_disk(cache_dir)
    sick = health.examine(choice)
    if cache.status != Health.FAIL and torch is not None and sick is None:
        yield check_peaks(choice, cache_dir, remeasure=remeasure, announce=announce)
    if on_gpu:
        reset = f"reset the device (`nvidia-smi --gpu-reset -i {choice.uuid}`) or reboot"
        yield ok("health", "a kernel computed right") if sick is None else fail("health", sick, reset)


GPU_FIX = "install the NVIDIA driver, or pass the GPU into this container; `nvidia-smi` must list it"


def check_gpu(gpu: Gpu, foreign: tuple[str, ...] | None) -> Check:
    """Check the GPU, and other processes on it."""
    named = gpu.name + (f", {gpu.memory_bytes / 2**30:.0f} GiB" if gpu.memory_bytes else "")
    if foreign is None:
        return ok("gpu", f"{named}, other processes on it are not visible here")
    if not foreign:
        return ok("gpu", f"{named}, nothing else running")
    others = f"{len(foreign)} other process{'es' if len(foreign) > 1 else ''}: {', '.join(foreign[:4])}"
    return warn("gpu", f"{named}, {others}", "wait for them, or end them: they share the GPU's time and memory")


def check_driver(gpu: Gpu, torch: Torch | None) -> Check:
    """Compare the driver with the CUDA version that torch was built for."""
    wanted, able = torch.cuda if torch is not None else None, gpu.driver_cuda
    detail = gpu.driver + (f", runs CUDA up to {_dotted(able)}" if able else "")
    if wanted is None or able is None or able >= wanted:
        return ok("driver", detail)
    detail += f"; torch was built for CUDA {_dotted(wanted)}"
    if able[0] != wanted[0]:
        return fail("driver", detail, f"update the driver, or install a torch that was built for CUDA {able[0]}.x")
    fix = "update the driver if kernels fail to load (minor versions are compatible, new PTX is not)"
    return warn("driver", detail, fix)


def check_torch(torch: Torch | None, *, on_gpu: bool) -> Check:
    """Compare torch's build with the device."""
    if torch is None:
        return fail("torch", "not installed", "pip install torch")
    detail = f"{torch.version}, " + (f"built for CUDA {_dotted(torch.cuda)}" if torch.cuda else "built without CUDA")
    if on_gpu and torch.cuda is None:
        return fail("torch", detail, "install a CUDA build of torch: https://pytorch.org/get-started/locally")
    return ok("torch", detail)


def check_nvcc(nvcc: tuple[Path, Version | None] | None, torch: Torch | None) -> Check:
    """Compare the CUDA compiler with torch: extensions need the same major version."""
    wanted = torch.cuda if torch is not None else None
    if nvcc is None:
        which = _dotted(wanted) if wanted else "of your torch's version"
        fix = f"install the CUDA toolkit {which} and put its bin folder on PATH, or set CUDA_HOME"
        return warn("nvcc", "not found: CUDA C++ solutions cannot be built", fix)
    path, version = nvcc
    if version is None:
        return fail("nvcc", f"{path} does not run", f"run `{path} --version`")
    detail = f"{_dotted(version)} ({path})"
    if wanted is None or version == wanted:
        return ok("nvcc", detail)
    detail += f" but torch was built for CUDA {_dotted(wanted)}"
    index = TORCH_INDEX.format(major=version[0], minor=version[1])
    fix = f"set CUDA_HOME to a {_dotted(wanted)} toolkit, or: pip install torch --index-url {index}"
    return (warn if version[0] == wanted[0] else fail)("nvcc", detail, fix)


def check_host_compiler(name: str, version: Version | None) -> Check:
    """Look for the C++ compiler that extensions are built with."""
    if version is None:
        return fail("c++", f"{name} not found: no C++ or CUDA solution can be built", "apt install g++, or set CXX")
    if "clang" not in name and version < OLDEST_HOST_COMPILER:
        fix = f"install g++ {_dotted(OLDEST_HOST_COMPILER)} or newer: torch needs C++17 in full"
        return fail("c++", f"{name} {_dotted(version)}", fix)
    return ok("c++", f"{name} {_dotted(version)}")


def check_ninja(path: str | None) -> Check:
    """Look for ninja on PATH, where torch's extension builder looks."""
    if path is not None:
        return ok("ninja", path)
    beside = Path(sys.executable).with_name("ninja")
    fix = f"add {beside.parent} to PATH (activate the environment)" if beside.exists() else "pip install ninja"
    return fail("ninja", "not on PATH", fix)


def check_clocks(gpu: Gpu) -> Check:
    """Return whether something holds the clocks down right now."""
    now = f"{gpu.sm_clock_mhz:,} MHz now" if gpu.sm_clock_mhz is not None else "clock unknown"
    detail = now + (f", up to {gpu.max_sm_clock_mhz:,} MHz" if gpu.max_sm_clock_mhz else "")
    reasons = [text for bit, text in monitor.SLOWED_BY.items() if (gpu.throttle_reasons or 0) & bit]
    if reasons:
        fix = "let the GPU cool down and its neighbours finish; `nvidia-smi -q -d PERFORMANCE` says more"
        return warn("clocks", f"{detail}, held down by {', '.join(reasons)}", fix)
    limit, default = gpu.power_limit_mw, gpu.default_power_limit_mw
    if limit is not None and default is not None and limit < default:
        fix = "times hold for this limit only; an administrator sets it with `nvidia-smi -pl`"
        return warn("clocks", f"{detail}, power limited to {limit / 1000:.0f} of {default / 1000:.0f} W", fix)
    return ok("clocks", detail)


def check_sandbox(kind: str, cache_dir: Path) -> Check:
    """Report the rung of the sandbox that works here, and what the next one lacks."""
    reached = rung_probe.reached(kind, cache_dir)
    detail = f"rung {reached.value} ({reached.name.lower()}): {reached.description}"
    if reached == Rung.FULL:
        return ok("sandbox", detail)
    missing = rung_probe.works(Rung.FULL, kind)
    if reached == Rung.LANDLOCK:
        return ok("sandbox", f"{detail}; no namespaces: {missing}")
    fix = "judge untrusted code on Linux 6.12 or newer with Landlock (`landlock` in /sys/kernel/security/lsm)"
    return warn("sandbox", f"{detail}; {missing}", fix)


def check_cache(cache_dir: Path) -> Check:
    """Write into the folder of builds and peaks."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache_dir, prefix="doctor-") as file:
            file.write(b"x")
    except OSError as error:
        return fail("cache", f"{cache_dir}: {error.strerror}", "set KBENCH_CACHE to a folder that can be written")
    used = cache_bounds.use(cache_dir)
    return ok("cache", f"{cache_dir}: {used.entries} builds, {used.size_bytes / 2**30:.1f} GiB")


def check_disk(cache_dir: Path) -> Check:
    """Check the free space for builds and scratch folders."""
    free, tightest = min((_free_bytes(place), place) for place in (cache_dir, Path(tempfile.gettempdir())))
    detail = f"{free / 2**30:.1f} GiB free for {tightest}"
    if free >= WANTED_DISK_BYTES:
        return ok("disk", detail)
    made = warn if free >= NEEDED_DISK_BYTES else fail
    return made("disk", detail, "make room, or point KBENCH_CACHE and TMPDIR elsewhere")


def _free_bytes(place: Path) -> int:
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def check_peaks(device: DeviceChoice, cache_dir: Path, *, remeasure: bool, announce: Announce) -> Check:
    """Return the device's measured peaks, or measure them now, alone on the device."""
    known = None if remeasure else peaks.load_peaks(device, cache_dir)
    try:
        if known is None:
            with Admission(uuid=device.uuid).exclusive(Wait(timeout_s=0.0)):
                announce(f"measuring the peaks of {device.name}: about ten seconds")
                known = peaks.refresh_peaks(device, cache_dir)
    except DeviceBusyError as busy:
        return warn("peaks", f"not measured: the device is held by {busy.holder}", "try again when it is free")
    except MachineError as error:
        return fail("peaks", error.message, error.hint or "run `python -m kbench.devices.peaks cuda` to see why")
    words = [f"copy {known.copy_bytes_per_s / 1e9:,.0f} GB/s"]
    words += [f"{name} {rate / 1e12:.3g} TFLOP/s" for name, rate in arithmetic_peaks(known).items()]
    day = f" (measured {known.measured_utc[:10]})" if known.measured_utc else ""
    return ok("peaks", ", ".join(words) + day)


def find_torch() -> Torch | None:
    """Read the version of the installed torch from its files."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        return None
    values = dict(re.findall(r"""^(\w+)\b[^=\n]*= *["']([^"'\n]*)""", text, re.M))
    return Torch(version=values.get("__version__", "?"), cuda=_version(values.get("cuda", "")))


def find_nvcc() -> tuple[Path, Version | None] | None:
    """Find the nvcc that torch would use: of CUDA_HOME, of PATH, of the usual folder."""
    found = toolkit.find("nvcc")
    return (found, _version(_output([str(found), "--version"]), after="release ")) if found else None


def find_host_compiler() -> tuple[str, Version | None]:
    """Return the name and version of the C++ compiler that torch would use."""
    name = os.environ.get("CXX", "c++")
    return name, _version(_output([*name.split(), "-dumpfullversion", "-dumpversion"]))


def read_gpu(choice: DeviceChoice) -> Gpu | None:
    """Ask NVML about a GPU; None where it does not answer at all."""
    gpu = nvml.handle(choice.uuid)
    if gpu is None:
        return None
    cuda = nvml.ask("nvmlSystemGetCudaDriverVersion")
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", gpu)
    return Gpu(
        name=choice.name,
        memory_bytes=memory.total if memory else None,
        driver=nvml.driver_version() or "unknown",
        driver_cuda=(cuda // 1000, cuda % 1000 // 10) if cuda else None,
        sm_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", gpu, of="NVML_CLOCK_SM"),
        max_sm_clock_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", gpu, of="NVML_CLOCK_SM"),
        throttle_reasons=nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),
        power_limit_mw=nvml.ask("nvmlDeviceGetEnforcedPowerLimit", gpu),
        default_power_limit_mw=nvml.ask("nvmlDeviceGetPowerManagementDefaultLimit", gpu),
    )


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _version(text: str, after: str = "") -> Version | None:
    match = re.search(re.escape(after) + r"(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2] or 0)) if match else None


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
