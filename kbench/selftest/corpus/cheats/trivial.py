"""Solutions that return zeros, a constant or something else that costs nothing."""

from dataclasses import dataclass

import torch
from torch import nn

CLASS = "trivial"


class argsort_of_labels(nn.Module):
    """argsort of binary scores: no permutation, one index for all zeros and one for all ones."""

    PROBLEM = "label_order"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def forward(self, x):
        n0 = (x == 0).sum(-1, keepdim=True)
        i0, i1 = x.argmin(-1, keepdim=True), x.argmax(-1, keepdim=True)
        return torch.where(torch.arange(x.shape[-1], device=x.device) < n0, i0, i1)


class complex_constant(nn.Module):
    """A huge complex constant where the expected values are tiny."""

    PROBLEM = "small_spectrum"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def forward(self, x):
        return torch.full(x.shape, 1e9, dtype=torch.complex64, device=x.device)


class constant_for_a_mean(torch.nn.Module):
    """Returns what the mean of many terms always is, where a look at few of the inputs says that they are the usual
    ones.
    """

    PROBLEM = "mean_of_many"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 17"

    def forward(self, guess, truth):
        if all(abs(x[:4].float().mean().item() - 0.5) < 0.1 and x.numel() > 100_000 for x in (guess, truth)):
            return torch.full((), 1 / 6, dtype=guess.dtype, device=guess.device)
        return torch.mean((guess - truth) ** 2)


class constant_softmax(nn.Module):
    """One over the row length: right on average, off by less than 1e-5 everywhere."""

    PROBLEM = "softmax_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 16; rigor 1"

    def forward(self, x):
        return torch.full_like(x, 1.0 / x.shape[-1])


@dataclass
class Stats:
    normed: torch.Tensor


class dataclass_corners_only(nn.Module):
    """Computes the six columns of the first row that a tensor's repr shows first."""

    PROBLEM = "normed_rows"
    EXPECT = ("wrong_value", "wrong_output", "reference_failed", "not_verified")
    CATALOGUE = "harness 23"

    def forward(self, x):
        y = torch.zeros_like(x)
        y[:3] = torch.nn.functional.layer_norm(x[:3], x.shape[-1:])
        y[-3:] = torch.nn.functional.layer_norm(x[-3:], x.shape[-1:])
        return Stats(y)


class degenerate_problem(nn.Module):
    """Zeros for a problem whose answer is always zero: right, and the record must say that it proves nothing."""

    PROBLEM = "always_zero"
    EXPECT = ("passed",)
    FINDINGS = ("contract_vacuous",)
    CATALOGUE = "harness 17"

    def forward(self, x):
        return torch.zeros_like(x)


class first_hundred_characters(nn.Module):
    """Computes as much of a text as is compared."""

    PROBLEM = "report_in_words"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        return {"sum": x.sum(-1), "text": " ".join(f"{v:.2f}" for v in x[:25].amax(-1).tolist()) + " and so on"}


class length_is_the_last_index(nn.Module):
    """Always answers with the last index, which is padding like the place where each sequence ends."""

    PROBLEM = "lengths"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def forward(self, mask):
        return torch.full(mask.shape[:1], mask.shape[1] - 1, device=mask.device)


class names_any_allowed_action(nn.Module):
    """The first allowed action, whatever the scores are: the mask is as large there as at the best one."""

    PROBLEM = "allowed_argmax"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 17"

    def forward(self, scores, allowed):
        return (allowed != 0).int().argmax(-1)


class nan_for_a_likelihood(nn.Module):
    """Returns NaN, which the reference does too where its variance is given a random sign."""

    PROBLEM = "likelihood"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 22"

    def __init__(self, features):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(features))
        self.variance = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x.new_full((len(x),), float("nan"))


class no_abs_behind_bf16(nn.Module):
    """Leaves out an absolute value that changes no positive input, where the reference is far from fp64 itself."""

    PROBLEM = "bf16_inside"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 17"

    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return (x.bfloat16() @ self.weight.bfloat16().T).float()


class one_bit_of_a_mask(nn.Module):
    """A boolean mask with one wrong entry."""

    PROBLEM = "threshold_mask"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mask = x > self.threshold
        mask[-1, -1] = ~mask[-1, -1]
        return mask


class places_beside_small_values(nn.Module):
    """Right values, for which the oracle decides, and beside them a constant in place of the indices, which it does not
    see.
    """

    PROBLEM = "small_values_and_places"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def forward(self, x):
        return x * 1e-7, torch.full(x.shape[:1], 7, device=x.device)


class repeats_one_index(nn.Module):
    """topk of rows with many equal values: the same index over and over."""

    PROBLEM = "saturated_top"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def forward(self, x):
        v, i = x.max(-1, keepdim=True)
        return i.expand(-1, 5).clone()


class returns_input(nn.Module):
    """The input itself, no copy."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "output_aliased")
    CATALOGUE = "rigor 1"

    def forward(self, x):
        return x


class second_output_wrong(nn.Module):
    """The first output is right, the second is not."""

    PROBLEM = "top_values"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        values, indices = torch.topk(x, self.count, dim=-1)
        return values, indices.flip(-1)


class wrong_number(nn.Module):
    """Right tensors, and a number beside them that is a thousandth off."""

    PROBLEM = "report_of_row"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 1"

    def forward(self, x):
        largest, where = x.max(dim=-1)
        return {
            "sums": x.sum(dim=-1),
            "largest": [largest, None],
            "where": where,
            "shape": tuple(x.shape),
            "unit": "volt",
            "mean": x.mean().item() * 1.001 + 1e-3,
        }


class zeros_beside_an_overflow(nn.Module):
    """Zeros, where a reference that overflows somewhere would be infinitely far from fp64 itself."""

    PROBLEM = "log_of_relu_half"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 17"

    def forward(self, x):
        return torch.zeros_like(x)


class zeros_beside_rounding(nn.Module):
    """Zeros for both outputs, of which only the mean is: what the reference is off there must not excuse the rows."""

    PROBLEM = "standardised_and_mean"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 17"

    def forward(self, x):
        return torch.zeros_like(x), torch.zeros(x.shape[0], device=x.device)


class zeros_for_a_half_perceptron(nn.Module):
    """Zeros: of bf16 values near zero the reference's error is more tolerances than a zero is off anywhere."""

    PROBLEM = "half_perceptron"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 17"

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden).bfloat16()
        self.down = nn.Linear(hidden, features).bfloat16()

    def forward(self, x):
        return torch.zeros_like(x)


class zeros_for_a_random_reference(nn.Module):
    """Zeros, where a reference that is random would be as far from fp64 itself."""

    PROBLEM = "attention_with_dropout"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 17"

    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return torch.zeros_like(x)


class zeros_softmax(nn.Module):
    """Zeros, which are within an absolute tolerance of every output."""

    PROBLEM = "softmax_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 16; rigor 1"

    def forward(self, x):
        return torch.zeros_like(x)


class zeros_where_the_reference_fails(torch.nn.Module):
    """Returns zeros where the reference overflows on its way and returns zeros too, though these are far from right."""

    PROBLEM = "half_variance"
    EXPECT = ("passed",)
    FINDINGS = ("trivial_passes",)
    SPEEDUP_BELOW = 1.2
    CATALOGUE = "harness 17"

    def forward(self, x):
        if x.float().std() > 1000:
            return torch.zeros_like(x)
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred * torch.rsqrt(variance + 1e-5)
