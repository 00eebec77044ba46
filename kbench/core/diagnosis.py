"""Why values are wrong: the record of an explanation that fits, and what each code means."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """An explanation of wrong values that was tried and fits."""

    code: str
    """A key of MEANINGS."""
    sentence: str
    """What happened, for the reason: begins in lower case and has no full stop."""
    evidence: str
    """What was compared, and how well it fits the error."""


MEANINGS: dict[str, tuple[str, str]] = {
    "tf32": (
        "The reference with the factors of its products rounded to TF32 (11 bits) gives what the solution gives.",
        "Multiply in fp32 (in Triton `input_precision='ieee'`), or allow TF32 on both sides: `--allow-tf32`.",
    ),
    "fp16": (
        "The reference computed or stored in fp16 gives what the solution gives.",
        "Keep values in fp32, and split or scale factors that go through fp16 units.",
    ),
    "bf16": (
        "The reference computed or stored in bf16 gives what the solution gives.",
        "Keep values in fp32; bf16 has 8 bits.",
    ),
    "precision_switch": (
        "The solution changed a precision switch of torch for its process; its errors are those of that precision.",
        "Leave torch's switches alone; `--allow-tf32` allows TF32 on both sides.",
    ),
    "frozen_weights": (
        "The solution is right with the weights of construction or of its first call, and wrong with the current ones.",
        "Read the parameters in each call, or recompute what depends on them once their `_version` changes.",
    ),
    "missing_bias": (
        "The reference without one of its summands (a bias, say) gives what the solution gives.",
        "Add it.",
    ),
    "missing_scale": (
        "The reference without one of its factors (a weight of a norm, a scale) gives what the solution gives.",
        "Multiply by it.",
    ),
    "unwritten": (
        "Some elements still hold what kbench filled the memory with, and the reason says where.",
        "Cover the whole output: look at tails, early exits and the launch's grid size.",
    ),
    "partial_block": (
        "One region of the output is far off while all others are right.",
        "Look at what the kernel does with the last or only partly filled block there.",
    ),
    "transposed": (
        "Two dimensions of the result, or of an operand, are swapped; the rest is right.",
        "Exchange the two indices or strides.",
    ),
    "epsilon": (
        "The reference with another epsilon, or with it outside the root, gives what the solution gives.",
        "Use the reference's epsilon, where the reference adds it.",
    ),
    "biased_variance": (
        "The reference with variances over n - 1 instead of n, or the reverse, gives what the solution gives.",
        "Divide by what the reference divides by: norms use n, `torch.var` and `torch.std` n - 1.",
    ),
    "gelu_form": (
        "The reference with GELU by tanh in place of erf, or the reverse, gives what the solution gives.",
        "Use the reference's form: `approximate='none'` (erf) is torch's default.",
    ),
    "stale_output": (
        "The output is the right answer to an earlier call.",
        "Compute from the inputs of each call; copy them into a graph or buffer that you keep.",
    ),
    "needs_other_shape": (
        "The solution is right at the problem's own shape and wrong at another one, which the reason names.",
        "Handle every shape, or raise an error at those that the kernel is not made for.",
    ),
}
"""By code: what it means, and what to do about it."""
