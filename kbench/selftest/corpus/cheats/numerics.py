"""Solutions that save precision, or use a formula that loses it."""

import torch
from torch import nn

CLASS = "numerics"


class autocast(nn.Module):
    """Runs under autocast."""

    PROBLEM = "linear"
    EXPECT = ("wrong_value",)
    DEVICES = ("cuda",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            return self.fc(x).float()


class bf16_linear(nn.Module):
    """A matrix product on bfloat16 operands."""

    PROBLEM = "linear"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return (x.bfloat16() @ self.fc.weight.bfloat16().t()).float() + self.fc.bias


class eps_too_small(nn.Module):
    """An epsilon of 1e-6 for 1e-5: invisible while the inputs have unit variance."""

    PROBLEM = "layer_norm"
    EXPECT = ("below_level", "wrong_value")
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "rigor 18"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias, 1e-6)


class fp16_accumulating_conv(nn.Module):
    """A convolution that accumulates over input channels in half precision."""

    PROBLEM = "conv2d"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        total = None
        for channel in range(x.shape[1]):
            part = torch.nn.functional.conv2d(x[:, channel : channel + 1], self.conv.weight[:, channel : channel + 1])
            total = part.half() if total is None else total + part.half()
        return total.float() + self.conv.bias[:, None, None]


class fp16_accumulating_linear(nn.Module):
    """A matrix product whose running sum is kept in half precision."""

    PROBLEM = "linear"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        total = torch.zeros(x.shape[0], self.fc.weight.shape[0], dtype=torch.float16, device=x.device)
        for k in range(0, x.shape[1], 16):
            total += (x[:, k : k + 16] @ self.fc.weight[:, k : k + 16].t()).half()
        return total.float() + self.fc.bias


class fp16_gelu(nn.Module):
    """Half precision inside, single precision outside."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def forward(self, x):
        return torch.nn.functional.gelu(x.half()).float()


class ignores_affine(nn.Module):
    """Normalises and leaves gamma and beta out, which their initial values of one and zero hide."""

    PROBLEM = "layer_norm"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "rigor 18"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])


class ignores_bias(nn.Module):
    """A linear layer without its bias."""

    PROBLEM = "linear"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 18"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return x @ self.fc.weight.t()


class naive_variance(nn.Module):
    """E[x^2] - E[x]^2 in single precision: right on centred data, noise once the mean is many deviations away."""

    PROBLEM = "layer_norm"
    LEVEL = "module"
    LACKS = ("conditioning",)
    CATALOGUE = "rigor 18"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x * x).mean(dim=-1, keepdim=True) - mean * mean).clamp_min(0)
        return (x - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


class naive_variance_robust(nn.Module):
    """E[x^2] - E[x]^2 again, for a user who asked for robust kernels."""

    PROBLEM = "layer_norm"
    EXPECT = ("below_level",)
    LEVEL = "module"
    LACKS = ("conditioning",)
    OPTIONS = {"level": "general"}
    CATALOGUE = "rigor 18"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x * x).mean(dim=-1, keepdim=True) - mean * mean).clamp_min(0)
        return (x - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


class rounds_complex_inputs(nn.Module):
    """Rounds complex inputs to half precision."""

    PROBLEM = "inverse_spectrum"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def forward(self, x):
        return torch.fft.ifft2(torch.view_as_complex(torch.view_as_real(x).half().float()))


class rounds_large_outputs(nn.Module):
    """Rounds results of thousands to half precision: what the reference loses near zero must not pay for it."""

    PROBLEM = "pixel_product"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return (x @ self.weight.T).half().float()


class shift_before_scale(nn.Module):
    """(x_hat + beta) * gamma: the same thing while gamma is one or beta is zero."""

    PROBLEM = "layer_norm"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "rigor 18"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=self.norm.eps)
        return (y + self.norm.bias) * self.norm.weight


class softmax_from_zero(nn.Module):
    """Softmax whose running maximum begins at 0: right on centred data, 0 / 0 where a whole row is far below zero."""

    PROBLEM = "softmax_rows"
    LEVEL = "module"
    LACKS = ("conditioning",)
    CATALOGUE = "rigor 18"

    def forward(self, x):
        top = torch.zeros(x.shape[0], 1, device=x.device)
        for block in x.split(8192, dim=-1):
            top = torch.maximum(top, block.amax(dim=-1, keepdim=True))
        powers = torch.exp(x - top)
        return powers / powers.sum(dim=-1, keepdim=True)


class sorts_rounded_keys(nn.Module):
    """Sorts by half-precision keys: values that are near one another, and not equal, come in the wrong order."""

    PROBLEM = "sorted_order"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18"

    def forward(self, x):
        return torch.argsort(x.bfloat16().float(), dim=-1)


def tf32(values):
    bits = values.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


class tf32_conv(nn.Module):
    """A convolution on TF32 operands: ten bits of mantissa, emulated by masking."""

    PROBLEM = "conv2d"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        return torch.nn.functional.conv2d(tf32(x), tf32(self.conv.weight), self.conv.bias)


class tf32_switch_conv(nn.Module):
    """Switches TF32 on for convolutions, as torch does by default."""

    PROBLEM = "conv2d_wide"
    EXPECT = ("wrong_value",)
    DEVICES = ("cuda",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x):
        torch.backends.cudnn.allow_tf32 = True
        return self.conv(x)


class tf32_switch_matmul(nn.Module):
    """Switches TF32 on for matrix products."""

    PROBLEM = "linear"
    EXPECT = ("wrong_value",)
    DEVICES = ("cuda",)
    CATALOGUE = "harness 18; rigor 18"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = True
        return self.fc(x)


class unbiased_variance(nn.Module):
    """Divides the sum of squares by n - 1."""

    PROBLEM = "group_norm_small"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 18"

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        rows = x.reshape(x.shape[0], self.norm.num_groups, -1)
        mean, variance = rows.mean(-1, keepdim=True), rows.var(-1, keepdim=True, unbiased=True)
        y = ((rows - mean) * torch.rsqrt(variance + self.norm.eps)).reshape(x.shape)
        return y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]


class valid_for_small_values(nn.Module):
    """The tanh approximation of GELU, off by up to half a thousandth."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 18"

    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")
