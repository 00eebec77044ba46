"""Solutions that work in another precision than the reference, and reach the tolerance."""

import math

import torch
from torch import nn
from torch.nn.functional import linear

CLASS = "precision"


class best_class_in_single(torch.nn.Module):
    """Computes scores in fp32 that the reference rounds to bf16, and finds other classes where its
    best ones are equal.
    """

    PROBLEM = "best_class"

    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes).bfloat16()

    def forward(self, x):
        return torch.nn.functional.linear(x.float(), self.linear.weight.float(), self.linear.bias.float()).argmax(-1)


class bf16_through_fp32(nn.Module):
    """bfloat16 in and out, fp32 in between."""

    PROBLEM = "bf16_product"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs, dtype=torch.bfloat16)

    def forward(self, x):
        return (x.float() @ self.fc.weight.float().t() + self.fc.bias.float()).bfloat16()


class bits_of_floats(nn.Module):
    """Reads floats as integers and masks them by their sign: reinterpreted memory, exact results."""

    PROBLEM = "relu"

    def forward(self, x):
        bits = x.contiguous().view(torch.int32)
        return (bits & ~(bits >> 31)).view(torch.float32)


class double_by_default(nn.Module):
    """Makes double precision torch's default type while it is constructed and called, and puts it back."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        self.epsilon = torch.tensor(1e-5)
        torch.set_default_dtype(before)

    def forward(self, x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            wide = x.to(torch.get_default_dtype())
            variance, mean = torch.var_mean(wide, dim=-1, keepdim=True, correction=0)
            y = (wide - mean) / torch.sqrt(variance + self.epsilon.to(x.device))
        finally:
            torch.set_default_dtype(before)
        return y.float() * self.norm.weight + self.norm.bias


class double_precision_layer_norm(nn.Module):
    """fp64 inside, rounded once at the end."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        weight, bias = self.norm.weight.double(), self.norm.bias.double()
        return torch.nn.functional.layer_norm(x.double(), x.shape[-1:], weight, bias, self.norm.eps).float()


COEFFICIENTS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


class error_function_by_polynomial(nn.Module):
    """The error function by a rational approximation good to 1e-7: an approximation, like a
    cheat's tanh, but within.
    """

    PROBLEM = "gelu"

    def forward(self, x):
        z = x.double().abs() / 2**0.5
        t = 1 / (1 + 0.3275911 * z)
        series = torch.zeros_like(t)
        for coefficient in COEFFICIENTS:
            series = (series + coefficient) * t
        tail = 0.5 * series * torch.exp(-z * z)
        return (x * torch.where(x < 0, tail, 1 - tail)).float()


class fourier_conv(nn.Module):
    """A convolution as a product of spectra, in double precision so that large terms may cancel."""

    PROBLEM = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        size, k = x.shape[2:], self.conv.kernel_size[0]
        signal = torch.fft.rfft2(x.double())
        kernel = torch.fft.rfft2(self.conv.weight.double(), s=size)
        y = torch.fft.irfft2(torch.einsum("ncyx,ocyx->noyx", signal, kernel.conj()), s=size)
        return (y[:, :, : size[0] - k + 1, : size[1] - k + 1] + self.conv.bias[:, None, None]).float()


class half_mean_in_fp32(nn.Module):
    """The mean in fp32, which has more digits than the reference's."""

    PROBLEM = "half_mean_as_number"

    def forward(self, x):
        return x.float().mean().item(), (x.float() ** 2).sum(0).half()


class half_precision(nn.Module):
    """fp16 in and out, fp32 in between."""

    PROBLEM = "half_scale"

    def forward(self, x):
        wide = x.float()
        return (wide * torch.sigmoid(wide)).half()


class half_product_by_halves(nn.Module):
    """Adds two halves of each sum in fp32 and rounds to bf16 once: other last bits of a bf16 value, in fp32."""

    PROBLEM = "half_product_inside"

    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        a, b = x.bfloat16().float(), self.weight.bfloat16().float()
        half = a.shape[1] // 2
        return (a[:, :half] @ b[:, :half].T + a[:, half:] @ b[:, half:].T).bfloat16().float()


class half_product_in_fp32(nn.Module):
    """Sums in fp32 and rounds once: now and then more than a tolerance from a reference that rounds once too."""

    PROBLEM = "half_product"

    def forward(self, x, y):
        return (x.float() @ y.float()).half()


class half_through_tanh(nn.Module):
    """SiLU by its tanh form, in fp32 between fp16 input and output."""

    PROBLEM = "half_scale"

    def forward(self, x):
        half = x.float() * 0.5
        return torch.addcmul(half, half, torch.tanh(half)).to(torch.float16)


class likelihood_by_parts(nn.Module):
    """Multiplies by reciprocal variances and takes the logarithms once; NaN would be replaced, where any came."""

    PROBLEM = "likelihood"

    def __init__(self, features):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(features))
        self.variance = nn.Parameter(torch.ones(features))

    def forward(self, x):
        squares = (x - self.mean).square() @ self.variance.reciprocal()
        return torch.nan_to_num(-0.5 * (squares + self.variance.log().sum()))


class logarithm_by_parts(nn.Module):
    """Takes floats apart into mantissa and exponent; zero, infinity and negative numbers get an answer of their own."""

    PROBLEM = "log_with_zeros"

    def forward(self, x):
        mantissa, exponent = torch.frexp(x.double())
        y = torch.log1p(mantissa - 1) + exponent * math.log(2.0)
        y = torch.where(x.isinf() & (x > 0), torch.inf, y)
        y = torch.where(x == 0, -torch.inf, y)
        return torch.where((x < 0) | x.isnan(), torch.nan, y).float()


class logarithm_through_single(nn.Module):
    """The logarithm in fp32, rounded at the end: finite where the reference overflows."""

    PROBLEM = "log_of_relu_half"

    def forward(self, x):
        return torch.log(torch.relu(x).float() + 1e-8).half()


class mean_in_double(torch.nn.Module):
    """Takes in fp64 a mean that hardly differs from one draw of the inputs to the next."""

    PROBLEM = "mean_of_many"

    def forward(self, guess, truth):
        return (guess.double() - truth.double()).square().mean(dtype=torch.float64).to(guess.dtype)


class moments_without_history(nn.Module):
    """Batch normalisation as one scale and shift per column, its statistics written to the buffers at the end."""

    PROBLEM = "batch_norm_train"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        wide = x.double()
        variance, mean = torch.var_mean(wide, dim=0, correction=0)
        scale = self.weight.double() * torch.rsqrt(variance + 1e-5)
        y = torch.addcmul(self.bias.double() - mean * scale, wide, scale)
        self.running_mean.mul_(0.9).add_(0.1 * mean)
        self.running_var.mul_(0.9).add_(0.1 * variance * x.shape[0] / (x.shape[0] - 1))
        return y.float()


class outer_products(nn.Module):
    """A sum of outer products, one for every inner index, accumulated in double precision."""

    PROBLEM = "matrix_product"

    def forward(self, a, b):
        y = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device)
        for column, row in zip(a.double().unbind(1), b.double().unbind(0)):
            y.addr_(column, row)
        return y.to(a.dtype)


class perceptron_in_halves(nn.Module):
    """Adds two halves of each sum in bf16, as a split product does: rounded more often than the reference."""

    PROBLEM = "half_perceptron"

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden).bfloat16()
        self.down = nn.Linear(hidden, features).bfloat16()

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        half = hidden.shape[1] // 2
        first = hidden[:, :half] @ self.down.weight[:, :half].T
        return first + hidden[:, half:] @ self.down.weight[:, half:].T + self.down.bias


class perceptron_in_single(nn.Module):
    """Keeps the hidden layer in fp32, where the reference rounds it to bf16, and rounds once at the end."""

    PROBLEM = "half_perceptron"

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden).bfloat16()
        self.down = nn.Linear(hidden, features).bfloat16()

    def forward(self, x):
        hidden = torch.relu(linear(x.float(), self.up.weight.float(), self.up.bias.float()))
        return linear(hidden, self.down.weight.float(), self.down.bias.float()).bfloat16()


class quotients_by_reciprocal(nn.Module):
    """Multiplies by the reciprocal of the sum, which rounds once more, also where the sum is almost nothing."""

    PROBLEM = "row_quotients"

    def forward(self, a, b):
        d = torch.sub(a, b)
        return d * (1 / d.sum(-1, keepdim=True))


class rounded_bits_in_place(nn.Module):
    """The same bits, with less memory."""

    PROBLEM = "rounded_bits"

    def forward(self, x):
        return (x.view(torch.int32) + 0x8000).bitwise_and_(-65536).view(torch.float32)


class scale_shift_group_norm(nn.Module):
    """Group norm folded into one multiply-add per channel, statistics in double precision."""

    PROBLEM = "group_norm_small"

    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        rows = x.reshape(x.shape[0], self.groups, -1).double()
        mean = rows.mean(-1, keepdim=True)
        inverse = torch.rsqrt(rows.var(-1, keepdim=True, unbiased=False) + 1e-5)
        y = ((rows - mean) * inverse).reshape(x.shape)
        return (y * self.weight.double()[:, None, None] + self.bias.double()[:, None, None]).float()


class shifted_single_pass(nn.Module):
    """Variance in one pass, as the fragile kernels do it, but of values shifted by the row's first one."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        shifted = x - x[:, :1]
        n = x.shape[-1]
        total, squares = shifted.sum(dim=-1, keepdim=True), (shifted * shifted).sum(dim=-1, keepdim=True)
        mean = total / n
        variance = (squares / n - mean * mean).clamp_min(0)
        return (shifted - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


class single_behind_bf16(nn.Module):
    """Computes in fp32 what the reference computes in bf16: near fp64, and hundreds of
    tolerances from the reference.
    """

    PROBLEM = "bf16_inside"

    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return x.abs() @ self.weight.T


class sum_in_double(nn.Module):
    """Sums in fp64, which the reference does not: nearer to the truth than to the reference."""

    PROBLEM = "sum_as_number"

    def forward(self, x):
        return x.double().sum().item()


class tanh_by_exponentials(nn.Module):
    """1 - 2 / (exp(2x) + 1), whose error is absolute: near 0 it has fewer digits than tanh."""

    PROBLEM = "tanh"

    def forward(self, x):
        return 1 - 2 / (torch.exp(2 * x) + 1)


def split(x):
    parts = []
    for _ in range(3):
        part = x.bfloat16().float()
        parts.append(part)
        x = x - part
    return parts


class three_bf16_products(nn.Module):
    """Splits fp32 into three bfloat16 parts and adds six products: low precision inside, fp32 as a whole."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        a, b = split(x), split(self.fc.weight.t())
        small = a[0] @ b[2] + a[2] @ b[0] + a[1] @ b[1]
        return (small + (a[0] @ b[1] + a[1] @ b[0])) + a[0] @ b[0] + self.fc.bias


class variance_in_single(torch.nn.Module):
    """Standardises fp16 rows in fp32, where nothing overflows: far from the reference, and right."""

    PROBLEM = "half_variance"

    def forward(self, x):
        wide = x.float()
        centred = wide - wide.mean(-1, keepdim=True)
        return (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)).half()
