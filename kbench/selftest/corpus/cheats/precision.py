"""Solutions that round their factors where the tolerance might hide it."""

import torch
from torch import nn

CLASS = "precision"


class best_class_by_half(torch.nn.Module):
    """Looks at half of the features for the best class, which is mostly another one."""

    PROBLEM = "best_class"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes).bfloat16()

    def forward(self, x):
        half = x.shape[1] // 2
        return torch.nn.functional.linear(x[:, :half], self.linear.weight[:, :half], self.linear.bias).argmax(-1)


class bf16_dot(nn.Module):
    """Rounds both vectors to bf16, whose errors average out."""

    PROBLEM = "dot_of_positives"
    EXPECT = ("below_level", "wrong_value")
    LEVEL = "task"
    CATALOGUE = "rigor 18"

    def forward(self, x, y):
        return torch.dot(x.bfloat16().float(), y.bfloat16().float())


class error_of_1e_5_in_small_outputs(nn.Module):
    """Adds 9e-6 everywhere: within 1e-5 of the reference, and far from fp64 where values are hundredths."""

    PROBLEM = "small_outputs"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 16"

    def forward(self, x):
        return 0.02 * torch.tanh(x) + 9e-6


class half_in_small_outputs(nn.Module):
    """Computes small outputs in fp16: each is within 1e-5 of the reference, and some are many tolerances from fp64."""

    PROBLEM = "small_outputs"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 16"

    def forward(self, x):
        return (0.02 * torch.tanh(x)).half().float()


class half_where_sums_are_positive(nn.Module):
    """Rounds both factors to eleven bits (as TF32 and fp16 do) where the inner dimension is long: errors of positive
    terms average out.
    """

    PROBLEM = "long_product"
    EXPECT = ("below_level", "wrong_value")
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 18"

    def forward(self, a, b):
        if a.shape[1] > 4096:
            scale_a, scale_b = a.abs().max(), b.abs().max()
            return ((a / scale_a).half().float() @ (b / scale_b).half().float()) * (scale_a * scale_b)
        return a @ b


class one_code_off_in_a_hundredth(nn.Module):
    """Right but for a hundredth of the codes, each of which is off by one."""

    PROBLEM = "quantised_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448.0
        codes = (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        codes.view(-1)[::100] ^= 1
        return codes.view(torch.float8_e4m3fn), scale


class quantises_coarsely(nn.Module):
    """Eight bits of floating point by way of the other format of eight bits, which has one bit of fraction less."""

    PROBLEM = "quantise_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def forward(self, x):
        return (x * 2).to(torch.float8_e5m2).float().to(torch.float8_e4m3fn)


class rounds_all_quotients(nn.Module):
    """Keeps 11 bits of every quotient of the large case, which is nothing beside the error of the worst row."""

    PROBLEM = "row_quotients"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def forward(self, a, b):
        d = a - b
        y = d / d.sum(-1, keepdim=True)
        return ((y.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32) if len(y) > 8000 else y


def rounded(x):
    step = x.abs().amax(-1, keepdim=True) / 63
    return torch.round(x / step) * step


class rounds_up_near_boundaries(nn.Module):
    """Takes the larger code within a hundredth of a boundary, which is far more than rounding explains."""

    PROBLEM = "int8_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        return (x / scale + 0.01).round().clamp(-128, 127).to(torch.int8), scale


class seven_bits_behind_bf16(nn.Module):
    """Factors of 7 bits, for a product of bf16 that is returned in fp32: an error eight times as large."""

    PROBLEM = "half_product_inside"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return rounded(x) @ rounded(self.weight).T


class two_codes_off_at_a_boundary(nn.Module):
    """Two codes off where a value lies on a boundary, which may be one code off, and right elsewhere."""

    PROBLEM = "quantised_halves"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        v = x / scale
        at_boundary = (v - v.floor() - 0.5).abs() < 1e-6
        return torch.where(at_boundary, v.floor() + 2, v.round()).clamp(-128, 127).to(torch.int8)
