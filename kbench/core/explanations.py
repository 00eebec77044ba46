"""What flags, verdicts on a change, bottlenecks and checks of `doctor` mean, and what to do: (meaning, fix) by code."""

_QUIETER = (
    "If the interval is too wide, close other programs and run again; `kbench show @latest --samples` shows every time."
)
"""What helps against disturbed times, whatever shows them. Flags with the same advice are told in one line."""

_DISTURBED = ("congested", "interference", "throttled", "unstable", "not_settled", "bimodal", "drift", "outliers")
CAUSES = {"attestation_weak": frozenset({*_DISTURBED, "resolution_limited"})}
"""Flags that may be the cause of another one: where a row has both, their advice is enough."""

FLAGS: dict[str, tuple[str, str]] = {
    "not_settled": ("times were still changing when timing began", _QUIETER),
    "throttled": (
        "the device lowered its clocks while timing",
        "Let it cool down, or ask an administrator for fixed clocks. If every call reaches the power cap, all count.",
    ),
    "resolution_limited": (
        "calls are so short that launch cost, threads that wake up or the timer's resolution show",
        "Try a larger case, or `--mode graph` on a GPU.",
    ),
    "interference": (
        "another process used the device while timing",
        "Stop it, or choose another device with `--device cuda:1`.",
    ),
    "congested": (
        "other programs used the processor while timing, for which the judge's time is corrected",
        _QUIETER,
    ),
    "unstable": ("too many pairs were throttled or disturbed", _QUIETER),
    "imprecise": (
        "the interval stayed wider than asked for",
        "Raise `--max-processes`, or accept a larger `--precision`.",
    ),
    "drift": ("times move steadily during the run, by clocks, heat or memory", _QUIETER),
    "bimodal": ("times fall into two groups, by clocks or placement", _QUIETER),
    "outliers": ("some times are far from the rest, and are kept", _QUIETER),
    "beats_limit": (
        "faster than the limit of its own precision",
        "Look for work that was left out; or measure the peaks again with `kbench doctor`.",
    ),
    "inputs_repeat": (
        "every call got the same inputs, which could not be varied: a solution that remembers its answer looks fast",
        "Draw the inputs at random in `get_inputs`, without setting a seed there.",
    ),
    "trivial_passes": (
        "zeros, one value everywhere or the answer to other inputs would pass as well, so being right proves little",
        "Choose inputs that change the result by more than its tolerance.",
    ),
    "copies_results": (
        "the solution returns the same memory in every call, so results were copied while the clock ran",
        "Allocate a new output in each call: the time of the copy is subtracted, but cannot be confirmed.",
    ),
    "host_bound": (
        "a plain loop of calls takes at least a tenth longer than the device works: the table shows both",
        "Launch fewer kernels in a call, do less in Python, or use a CUDA graph.",
    ),
    "host_synchronising": (
        "its `forward` waits for the device, or launches over 1,000 kernels: it cannot be queued, so plain loops count",
        "Remove `.item()`, `.cpu()`, `synchronize()` and the like from `forward`; record many kernels in a CUDA graph.",
    ),
    "reference_unqueued": (
        "the reference waits for the device, or launches over 1,000 kernels: it cannot be queued, so plain loops count",
        "Nothing, or take a case with fewer steps.",
    ),
    "attestation_weak": (
        "the judge's clock cannot confirm the time, so the speed-up is printed with two digits at most, as `~1.2×`",
        "See the other warnings of this row; on a CPU, close other programs or take a larger case.",
    ),
    "fallback": (
        "the sources declare kernels of their own, and a call used none of them: it fell back to libraries",
        "Look for a caught exception or a condition around the load; `kbench profile PROBLEM SOLUTION` lists what ran.",
    ),
    "library_time": (
        "at most 1 % of a call's time is in kernels of its own: libraries, copies or torch.compile's take the rest",
        "`kbench profile PROBLEM SOLUTION` lists what ran; `--require-custom` refuses a solution without any.",
    ),
    "one_process": (
        "one process: no interval and fewer digits, because one process does not show differences between processes",
        "Run without `--quick`.",
    ),
}

VERDICTS: dict[str, tuple[str, str]] = {
    "same": ("The change is within what counts as equal.", "Nothing."),
    "faster": ("The whole interval lies below the margin.", "Make it the baseline: `kbench baseline set RUN`."),
    "slower": (
        "The whole interval lies above the margin.",
        "Look for the cause, or accept it: `kbench baseline accept CASE --up-to SHARE --until DATE --reason TEXT`.",
    ),
    "unclear": ("The interval spans the margin: neither slower nor equal is shown.", "Measure more processes."),
    "new_fail": (
        "The case passed before and fails now.",
        "Correct it; `kbench verify PROBLEM SOLUTION` shows how it fails.",
    ),
    "newly_fixed": ("The case failed before and passes now.", "Nothing."),
    "not_comparable": (
        "The two measurements cannot be compared; the reason says why.",
        "Measure both on the same device, with the same case, mode and versions.",
    ),
}

CHECKS: dict[str, tuple[str, str]] = {
    "d01": ("The GPU, and other processes that use it.", "Install the driver, or end the others."),
    "d02": ("Whether the driver runs the CUDA version that torch was built for.", "Update the driver."),
    "d03": ("Whether torch is installed, and built for this device.", "Install the build for your CUDA version."),
    "d04": ("Whether nvcc is installed, in the version that torch was built for.", "Set CUDA_HOME to that toolkit."),
    "d05": ("Whether a C++ compiler for torch's extensions is installed.", "Install g++ 9 or newer."),
    "d06": ("Whether ninja is on PATH, where torch looks for it.", "Run `pip install ninja`."),
    "d07": ("Whether something lowers the clocks now.", "Let the GPU cool down and its neighbours finish."),
    "d08": (
        "The rung of the sandbox that works here: limits, Landlock, system-call filter, namespaces.",
        "Use a newer kernel with Landlock to judge untrusted code.",
    ),
    "d09": ("Whether the folder of builds and peaks is writable.", "Set KBENCH_CACHE to another folder."),
    "d10": ("Whether there is room for builds and scratch files.", "Make room, or set KBENCH_CACHE and TMPDIR."),
    "d11": (
        "The measured peaks of this device, which limits are computed from.",
        "Run `kbench doctor --remeasure` while the device is free.",
    ),
    "d12": (
        "Whether the device is quarantined: after a crash it no longer answered, so nothing is measured on it.",
        "Reset it or reboot, then run `kbench doctor --clear-quarantine`, which probes it again.",
    ),
    "d13": (
        "The installed languages besides CUDA and C++. A solution needs only those that it imports.",
        "Install the package that a solution needs, such as `pip install helion`.",
    ),
}

BOTTLENECKS: dict[str, tuple[str, str]] = {
    "nothing_seen": (
        "The profiler saw no kernel: nothing ran on the device, or CUPTI is missing or in use.",
        "End other profilers; see `kbench doctor`.",
    ),
    "synchronising": (
        "The host waits for the device inside the call, and the device idles meanwhile.",
        "Keep `.item()`, `.cpu()` and synchronisation out of `forward`.",
    ),
    "launch_bound": (
        "The device idles between kernels, which end before the host submits the next one.",
        "Fuse kernels, or capture the call in a CUDA graph.",
    ),
    "python_bound": (
        "Python, between operators, takes a large share of the call on a processor.",
        "Use fewer and larger operators, or `torch.compile`.",
    ),
    "spills": (
        "The kernel keeps values in local memory: registers do not hold them, or it has local arrays.",
        "Hold fewer values at a time, or raise the limit with `__launch_bounds__` or `maxrregcount`.",
    ),
    "bank_conflicts": (
        "Threads of a warp access different rows of one bank of shared memory, one after the other.",
        "Pad or swizzle the tile.",
    ),
    "uncoalesced": (
        "Global accesses move more bytes than they use.",
        "Let neighbouring threads access neighbouring addresses.",
    ),
    "memory_bound": ("Memory is at its limit.", "Move fewer bytes: fuse, or store less."),
    "compute_bound": ("Arithmetic is at its limit.", "Compute less, on tensor cores, or with fewer bits."),
    "tail_effect": (
        "The grid is a few waves of blocks, and the last one leaves most SMs idle.",
        "Choose block sizes that fill whole waves, or a persistent kernel.",
    ),
    "low_occupancy": (
        "Too few warps are on an SM to hide latency.",
        "Use less of what limits it: registers, shared memory, or a grid or block of another size.",
    ),
    "latency_bound": (
        "Warps wait, and neither memory nor arithmetic is near its limit.",
        "Have more independent work in flight; the stall shows which kind.",
    ),
    "unexplained": ("No rule explains the time.", "Add `--ncu`, or open its report in Nsight Compute."),
}
"""`library_only` is a status too and `fallback` a flag, and they are explained as such."""
