"""Problems with unusual inputs."""

import torch
from torch import nn

CLASS = "input"


class computes_what_never_changes(nn.Module):
    """Does all of the work for inputs that never change, though it need not."""

    PROBLEM = "self_seeded_sines"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x.clone()
        for _ in range(self.rounds):
            y.add_(x).sin_()
        return y


class integer_input(nn.Module):
    """Rows of a table by index_select."""

    PROBLEM = "embedding"

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        return self.table.index_select(0, indices.reshape(-1)).reshape(*indices.shape, -1)


class makes_inputs_contiguous(nn.Module):
    """Asks for dense inputs itself, as a kernel that reads raw memory must."""

    PROBLEM = "matrix_product"

    def forward(self, a, b):
        b = b.contiguous()
        return torch.as_strided(a.contiguous(), a.shape, (a.shape[1], 1)) @ torch.as_strided(
            b, b.shape, (b.shape[1], 1)
        )


class max_pool_by_windows(nn.Module):
    """Pads with minus infinity and takes the maximum over a view of windows."""

    PROBLEM = "max_pool"

    def forward(self, x):
        padded = torch.nn.functional.pad(x, (1, 1, 1, 1), value=float("-inf"))
        return padded.unfold(2, 3, 2).unfold(3, 3, 2).amax(dim=(-1, -2))


class number_input(nn.Module):
    """A Python number among the inputs."""

    PROBLEM = "scalar_product"

    def forward(self, a, s):
        return s * a


class one_hot_product(nn.Module):
    """Looks rows up by multiplying a matrix of zeros and ones with the table, which is exact."""

    PROBLEM = "embedding"

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, indices):
        hot = torch.nn.functional.one_hot(indices, self.table.num_embeddings).to(self.table.weight.dtype)
        return torch.tensordot(hot, self.table.weight, dims=1)


class reduces_without_view(nn.Module):
    """Takes any layout where the reference takes contiguous inputs only."""

    PROBLEM = "flattened_images"

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x):
        scale = x.square().mean((1, 2, 3), keepdim=True).add(1e-6).rsqrt()
        return x * scale * self.weight[:, None, None]


class scalar_output(nn.Module):
    """Cross-entropy against integer targets, a scalar, through gather."""

    PROBLEM = "cross_entropy"

    def forward(self, logits, targets):
        logs = torch.log_softmax(logits, dim=-1)
        return -logs.gather(1, targets[:, None]).mean()


class takes_a_named_tuple(nn.Module):
    """Unpacks a named tuple and uses its names too; the number among the inputs differs from call to call."""

    PROBLEM = "drawn_slope"

    def forward(self, pair, slope):
        above, _ = pair
        assert isinstance(pair, tuple)
        assert pair._fields == ("above", "below")
        return torch.add(above, pair.below, alpha=slope)


class takes_lists(nn.Module):
    """A list and a dictionary of tensors as inputs, neither of which it changes."""

    PROBLEM = "listed_inputs"

    def forward(self, parts, weights):
        return torch.addcmul(parts[0] * weights["first"], parts[1], weights["second"])


class transposed_input(nn.Module):
    """A transposed view among the inputs."""

    PROBLEM = "matrix_product"

    def forward(self, a, b):
        return torch.einsum("ik,kj->ij", a, b)


class views_with_any_strides(nn.Module):
    """Takes inputs that are broadcast, overlap themselves or are empty, and expects nothing of their layout."""

    PROBLEM = "strided_views"

    def forward(self, row, windows, nothing):
        return torch.vstack([torch.mul(windows, row), nothing])


class writes_its_cache(nn.Module):
    """Writes both caches with other operations than the reference, and attends step by step."""

    PROBLEM = "cache_step"

    def forward(self, query, key, value, keys, values):
        last = torch.tensor([keys.shape[1] - 1], device=keys.device)
        keys.index_copy_(1, last, key)
        values.index_copy_(1, last, value)
        scores = query @ keys.transpose(1, 2) * query.shape[-1] ** -0.5
        return torch.softmax(scores, -1) @ values
