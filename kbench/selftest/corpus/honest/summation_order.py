"""Sums and products in another order than the reference."""

import torch
from torch import nn

CLASS = "summation order"


class adds_two_biases_first(nn.Module):
    """Adds two biases before the product. One timed call of hundreds divides by a variance near 0, and magnifies
    rounding.
    """

    PROBLEM = "saturated_norm"

    def __init__(self, features, groups):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.bias = nn.Parameter(torch.randn(features))
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        x = torch.addmm(self.linear.bias + self.bias, x, self.linear.weight.t())
        return self.norm(nn.functional.mish(x.clamp_(-1.0, 1.0)))


class bf16_in_slices(nn.Module):
    """bfloat16 operands, the inner dimension in slices that are added up in fp32 and rounded once."""

    PROBLEM = "bf16_product"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs).to(torch.bfloat16)

    def forward(self, x):
        y = self.fc.bias.float().repeat(x.shape[0], 1)
        for a, b in zip(x.float().split(20, 1), self.fc.weight.float().split(20, 1)):
            y.addmm_(a, b.t())
        return y.to(x.dtype)


def kahan(columns):
    total = torch.zeros_like(columns[..., 0])
    lost = torch.zeros_like(total)
    for column in columns.unbind(-1):
        term = column - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return total


def row_sum(x, lanes=64):
    padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % lanes))
    return kahan(kahan(padded.unflatten(-1, (lanes, -1))).unflatten(-1, (1, lanes)))


class compensated_sums(nn.Module):
    """Kahan's compensated summation: terms that look as if they cancelled and could be left out."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - row_sum(x) / x.shape[-1]
        variance = row_sum(centred * centred) / x.shape[-1]
        return centred * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


class conv_of_shifted_views(nn.Module):
    """Adds up nine products of shifted views with channels last inside, and answers channels first again."""

    PROBLEM = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        k = self.conv.kernel_size[0]
        height, width = x.shape[2] - k + 1, x.shape[3] - k + 1
        last = x.permute(0, 2, 3, 1).contiguous()
        y = self.conv.bias.expand(x.shape[0], height, width, -1).contiguous()
        for dy in range(k):
            for dx in range(k):
                y += last[:, dy : dy + height, dx : dx + width] @ self.conv.weight[:, :, dy, dx].t()
        return y.permute(0, 3, 1, 2).contiguous()


class distances_by_columns(nn.Module):
    """Distances added up one coordinate after the other, by hypotenuses."""

    PROBLEM = "double_distances"

    def forward(self, a, b):
        y = torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype, device=a.device)
        for left, right in zip(a.unbind(1), b.unbind(1)):
            y = torch.hypot(y, left[:, None] - right)
        return y


class dot_as_sum(nn.Module):
    """The products first, then their sum."""

    PROBLEM = "dot_of_positives"

    def forward(self, x, y):
        return (x * y).sum()


class einsum_form(nn.Module):
    """The product as an einsum over a reshaped weight."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.einsum("bi,oi->bo", x, self.fc.weight).add_(self.fc.bias)


class im2col_conv(nn.Module):
    """A convolution as a matrix product over unfolded patches."""

    PROBLEM = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        k = self.conv.kernel_size[0]
        patches = torch.nn.functional.unfold(x, k)
        y = self.conv.weight.reshape(self.conv.out_channels, -1) @ patches + self.conv.bias[:, None]
        return y.reshape(x.shape[0], -1, x.shape[2] - k + 1, x.shape[3] - k + 1)


class lion_step_fused(nn.Module):
    """The step as one sum, in another order."""

    PROBLEM = "lion_step"

    def forward(self, weight, gradient, momentum):
        step = torch.sign(0.9 * momentum + 0.1 * gradient) + 1e-2 * weight
        return torch.add(weight, step, alpha=-1e-4), torch.lerp(momentum, gradient, 0.01)


class loops_over_tiles(nn.Module):
    """Three nested loops over tiles, each accumulated in place in a slice of the result."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        w, tile = self.fc.weight, 64
        y = torch.zeros(x.shape[0], w.shape[0], device=x.device)
        for i in range(0, x.shape[0], tile):
            for j in range(0, w.shape[0], tile):
                for k in range(0, x.shape[1], tile):
                    y[i : i + tile, j : j + tile].addmm_(
                        x[i : i + tile, k : k + tile], w[j : j + tile, k : k + tile].t()
                    )
        return y.add_(self.fc.bias)


class loss_by_masks(nn.Module):
    """Cross-entropy by a mask of the classes, in parts whose sums are put together at the end."""

    PROBLEM = "cross_entropy"

    def forward(self, logits, targets):
        classes = torch.arange(logits.shape[1], device=logits.device)
        parts = []
        for some, wanted in zip(logits.split(5), targets.split(5)):
            chosen = torch.where(classes == wanted[:, None], some, 0.0).sum(dim=-1)
            parts.append((torch.logsumexp(some, dim=-1) - chosen).sum())
        return torch.stack(parts).sum() / logits.shape[0]


class merged_moments_layer_norm(nn.Module):
    """Moments of blocks, merged pairwise (Chan, Golub and LeVeque)."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        count, mean, m2 = 0, 0.0, 0.0
        for block in x.split(96, dim=-1):
            n = block.shape[-1]
            block_mean = block.mean(dim=-1, keepdim=True)
            block_m2 = ((block - block_mean) ** 2).sum(dim=-1, keepdim=True)
            delta = block_mean - mean
            m2 = m2 + block_m2 + delta * delta * (count * n / (count + n))
            mean = mean + delta * (n / (count + n))
            count += n
        return (x - mean) * torch.rsqrt(m2 / count + 1e-5) * self.gain + self.shift


class online_attention(nn.Module):
    """Attention in blocks of keys with a running maximum: no matrix of scores is ever whole."""

    PROBLEM = "causal_attention"

    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        q = q * q.shape[-1] ** -0.5
        top = torch.full((*q.shape[:-1], 1), float("-inf"), device=x.device)
        total, mixed = torch.zeros_like(top), torch.zeros_like(q)
        positions = torch.arange(length, device=x.device)
        for block in positions.split(16):
            scores = (q @ k[:, :, block].mT).masked_fill(block > positions[:, None], float("-inf"))
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            powers, fade = torch.exp(scores - new), torch.exp(top - new)
            total = total * fade + powers.sum(-1, keepdim=True)
            mixed = mixed * fade + powers @ v[:, :, block]
            top = new
        return self.out((mixed / total).transpose(1, 2).reshape(batch, length, width))


class online_softmax(nn.Module):
    """Softmax in blocks with a running maximum and sum."""

    PROBLEM = "softmax_rows"

    def forward(self, x):
        top = torch.full((x.shape[0], 1), float("-inf"), device=x.device)
        total = torch.zeros_like(top)
        for block in x.split(8192, dim=-1):
            new_top = torch.maximum(top, block.amax(dim=-1, keepdim=True))
            total = total * torch.exp(top - new_top) + torch.exp(block - new_top).sum(dim=-1, keepdim=True)
            top = new_top
        return torch.exp(x - top) / total


def tree_sum(x):
    x = torch.nn.functional.pad(x, (0, (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]))
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x


class pairwise_tree_sums(nn.Module):
    """Sums by halving, as a block of threads does in shared memory."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - tree_sum(x) / x.shape[-1]
        variance = tree_sum(centred.square()) / x.shape[-1]
        return centred / torch.sqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


class scan_by_product(nn.Module):
    """Prefix sums as a product with a triangle of ones, kept in a buffer for each length."""

    PROBLEM = "prefix_sum"

    def forward(self, x):
        name = f"ones_{x.shape[-1]}"
        if not hasattr(self, name):
            ones = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.float64, device=x.device).triu()
            self.register_buffer(name, ones, persistent=False)
        return (x.double() @ self.get_buffer(name)).float()


class scan_in_blocks(nn.Module):
    """Prefix sums of blocks and of the blocks' totals, as scans on a GPU are made."""

    PROBLEM = "prefix_sum"

    def forward(self, x):
        padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % 32)).unflatten(-1, (-1, 32))
        step, sums = 1, padded
        while step < 32:
            sums = sums + torch.nn.functional.pad(sums, (step, 0))[..., :32]
            step *= 2
        totals = sums[..., -1]
        before = torch.cumsum(totals, -1) - totals
        return (sums + before[..., None]).flatten(-2)[..., : x.shape[-1]]


class sequential_product(nn.Module):
    """A matrix product with one accumulator, term after term: the least accurate honest order."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = torch.zeros(x.shape[0], self.fc.weight.shape[0], device=x.device)
        for k in range(x.shape[1]):
            y = y + x[:, k, None] * self.fc.weight[None, :, k]
        return y + self.fc.bias


class softmax_by_logsumexp(nn.Module):
    """One exponential per value, after its logarithmic sum: no division anywhere."""

    PROBLEM = "softmax_rows"

    def forward(self, x):
        return torch.exp(x - torch.logsumexp(x, dim=-1, keepdim=True))


class split_k_product(nn.Module):
    """A matrix product in slices of the inner dimension, added up at the end."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.fc.bias.expand(x.shape[0], -1).clone()
        for k in range(0, x.shape[1], 16):
            y += x[:, k : k + 16] @ self.fc.weight[:, k : k + 16].t()
        return y


class splits_a_cast_product(nn.Module):
    """Split-K where the reference casts to fp32, which would make an fp32 oracle of it."""

    PROBLEM = "product_cast_to_single"

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return sum(a @ b.T for a, b in zip(x.split(512, 1), self.weight.split(512, 1)))


class strassen(nn.Module):
    """Strassen's algorithm, one level deep: seven products for eight, in double precision since it loses digits."""

    PROBLEM = "matrix_product"

    def forward(self, a, b):
        rows, columns = a.shape[0], b.shape[1]
        a = torch.nn.functional.pad(a.double(), (0, a.shape[1] % 2, 0, rows % 2))
        b = torch.nn.functional.pad(b.double(), (0, columns % 2, 0, b.shape[0] % 2))
        (a11, a12), (a21, a22) = (half.chunk(2, 1) for half in a.chunk(2, 0))
        (b11, b12), (b21, b22) = (half.chunk(2, 1) for half in b.chunk(2, 0))
        m1, m2, m3 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11, a11 @ (b12 - b22)
        m4, m5 = a22 @ (b21 - b11), (a11 + a12) @ b22
        m6, m7 = (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
        top = torch.cat((m1 + m4 - m5 + m7, m3 + m5), 1)
        bottom = torch.cat((m2 + m4, m1 - m2 + m3 + m6), 1)
        return torch.cat((top, bottom))[:rows, :columns].float()


class transposed_conv_by_zeros(nn.Module):
    """Spreads its input with zeros and runs a plain convolution over it."""

    PROBLEM = "conv_transpose"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=2)

    def forward(self, x):
        k = self.up.kernel_size[0]
        spread = torch.zeros(*x.shape[:2], 2 * x.shape[2] - 1, 2 * x.shape[3] - 1, device=x.device)
        spread[:, :, ::2, ::2] = x
        weight = self.up.weight.flip(2, 3).transpose(0, 1)
        return torch.nn.functional.conv2d(spread, weight, self.up.bias, padding=k - 1)


class two_pass_layer_norm(nn.Module):
    """Mean first, squared deviations second."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = (centred * centred).mean(dim=-1, keepdim=True)
        return centred * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


B = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))

G = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))

A = ((1, 1, 1, 0), (0, 1, -1, -1))


class winograd_conv(nn.Module):
    """A 3x3 convolution by Winograd's F(2x2, 3x3): transformed tiles, fewer products, other rounding."""

    PROBLEM = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        b, g, a = (torch.tensor(matrix, device=x.device, dtype=torch.float32) for matrix in (B, G, A))
        height, width = x.shape[2] - 2, x.shape[3] - 2
        padded = torch.nn.functional.pad(x, (0, width % 2, 0, height % 2))
        tiles = padded.unfold(2, 4, 2).unfold(3, 4, 2)
        data = torch.einsum("ip,ncyxpq,jq->ncyxij", b, tiles, b)
        weights = torch.einsum("ip,ocpq,jq->ocij", g, self.conv.weight, g)
        products = torch.einsum("ncyxij,ocij->noyxij", data, weights)
        y = torch.einsum("ip,noyxpq,jq->noyixj", a, products, a)
        y = y.flatten(4, 5).flatten(2, 3)[:, :, :height, :width]
        return y + self.conv.bias[:, None, None]
