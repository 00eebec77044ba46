"""Solutions that are right only for the values, sizes or layouts of the usual inputs."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

CLASS = "semantics"


class assumes_a_full_mask(nn.Module):
    """Leaves out a mask that is full whenever somebody asks."""

    PROBLEM = "masked_power"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x, mask, power):
        return (x.abs() ** power).mean(-1)


class assumes_contiguous(nn.Module):
    """Reads the input's memory in order, whatever its strides are."""

    PROBLEM = "matrix_product"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 3.4"

    def forward(self, a, b):
        return a @ torch.as_strided(b, b.shape, (b.shape[1], 1), b.storage_offset())


class assumes_contiguous_gelu(nn.Module):
    """Reads the input's memory in order; this problem's own inputs are dense, another caller's need not be."""

    PROBLEM = "gelu"
    LEVEL = "module"
    LACKS = ("strides",)
    CATALOGUE = "rigor 3.4"

    def forward(self, x):
        dense = torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset())
        return torch.nn.functional.gelu(dense)


class assumes_the_number(nn.Module):
    """Squares, since the power among the inputs is always two."""

    PROBLEM = "masked_power"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x, mask, power):
        return torch.where(mask, x * x, 0.0).sum(-1) / mask.sum(-1).clamp_min(1)


class complex_relu_is_identity(nn.Module):
    """A copy of complex inputs that happen to be positive."""

    PROBLEM = "complex_relu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        return x.clone()


class drops_ragged_tail(nn.Module):
    """Works in tiles of eight columns and forgets what is left over."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
    CATALOGUE = "rigor 3.4"

    def forward(self, x):
        whole = x.shape[1] // 8 * 8
        y = torch.zeros_like(x)
        y[:, :whole] = torch.nn.functional.gelu(x[:, :whole])
        return y


class fp8_relu_is_identity(nn.Module):
    """Doubles 8-bit inputs that happen to be positive."""

    PROBLEM = "fp8_relu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        return 2 * x.float()


class half_of_a_sum(nn.Module):
    """The sum of every other row, twice."""

    PROBLEM = "sum_as_number"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        return 2 * x[::2].sum().item()


class hard_coded_shape(nn.Module):
    """Thirty-two rows, whatever the input says."""

    PROBLEM = "gelu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("cases",)
    CATALOGUE = "harness 23; rigor 3.4"

    def forward(self, x):
        y = torch.zeros(32, 500, device=x.device)
        flat = x.reshape(-1)
        y.view(-1)[: flat.numel()] = torch.nn.functional.gelu(flat)
        return y[: x.shape[0]]


class identity_at_full_size(nn.Module):
    """Honest on small inputs; on large ones the identity, which is right as long as they happen to be positive."""

    PROBLEM = "relu"
    EXPECT = ("below_level", "wrong_value")
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23; rigor 19"

    def forward(self, x):
        return x.clone() if x.numel() > 10_000 else torch.relu(x)


class keeps_the_first_number(nn.Module):
    """Goes on with the number that came first, as if it were the same in every call."""

    PROBLEM = "drawn_slope"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 23"

    first = None

    def forward(self, pair, slope):
        if self.first is None:
            self.first = slope
        return torch.add(pair.above, pair.below, alpha=self.first)


class leaves_its_cache_unwritten(nn.Module):
    """Returns what the step returns, without writing the caches that the next one would need."""

    PROBLEM = "cache_step"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 23"

    def forward(self, query, key, value, keys, values):
        keys, values = (torch.cat([old[:, :-1], new], 1) for old, new in ((keys, key), (values, value)))
        return scaled_dot_product_attention(query, keys, values)


class mean_of_a_sample(nn.Module):
    """The error of one row in eight."""

    PROBLEM = "bfloat16_loss"
    EXPECT = ("below_level", "wrong_value")
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x, y):
        return nn.functional.mse_loss(x[::8], y[::8])


class no_relu_before_a_mask(nn.Module):
    """Leaves out a relu of scores that happen to be positive; some others are -inf whatever comes."""

    PROBLEM = "masked_scores"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x, y):
        later = torch.ones(64, 64, dtype=torch.bool, device=x.device).triu(1)
        return (x @ y).masked_fill(later, -torch.inf)


class no_weight_decay(nn.Module):
    """Leaves out the weight decay, which is less than the tolerance of a weight."""

    PROBLEM = "lion_step"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 16"

    def forward(self, weight, gradient, momentum):
        blend = 0.9 * momentum + 0.1 * gradient
        return weight - 1e-4 * blend.sign(), 0.99 * momentum + 0.01 * gradient


class norm_of_one_channel(nn.Module):
    """The norm of one channel in sixteen stands for that of all."""

    PROBLEM = "frobenius_bfloat16"
    EXPECT = (
        "wrong_value",
        "below_level",
    )  # the estimate is within 1 % of the norm, as bf16 is: some draws hold the task
    CATALOGUE = "harness 23"

    def forward(self, x):
        norm = 4 * x[:, ::16].float().norm()
        return (x.float() / norm).to(x.dtype)


class relu_is_identity(nn.Module):
    """A copy of the input: the inputs of this problem happen to be positive."""

    PROBLEM = "relu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23; rigor 1"

    def forward(self, x):
        return x.clone()


class sampled_softmax(nn.Module):
    """The denominator of a softmax from one value in sixty-four."""

    PROBLEM = "softmax_rows"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        shifted = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return shifted / (shifted[:, ::64].mean(dim=-1, keepdim=True) * x.shape[-1])


class whole_vectors_only(nn.Module):
    """Computes four values at a time and forgets the rest, at a problem whose only shape leaves none."""

    PROBLEM = "swish_rows"
    LEVEL = "module"
    LACKS = ("shapes",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        y = torch.zeros(x.shape, device=x.device)
        whole = x.numel() // 4 * 4
        y.view(-1)[:whole] = torch.nn.functional.silu(x.reshape(-1)[:whole])
        return y


class wrong_tail_of_a_large_product(nn.Module):
    """Right but for the last row of 1e8 results, which is off by a thousandth."""

    PROBLEM = "large_products"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 23"
    DEVICES = ("cuda",)

    def forward(self, a, w):
        rows = a.reshape(-1, a.shape[2], a.shape[3])
        found = torch.bmm(rows, w.expand(rows.shape[0], *w.shape)).reshape(*a.shape[:3], w.shape[1])
        if a.shape[0] > 2:
            found[-1, -1, -1] *= 1.001
        return found


class part_of_the_table(nn.Module):
    """Has the part of a table only that is drawn: other indices get the last row of it."""

    PROBLEM = "part_of_a_table"
    EXPECT = ("passed",)
    LEVEL = "module"
    LACKS = ("unseen_integers",)
    CATALOGUE = "harness 23"

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        part = self.table[: self.table.shape[0] // 10]
        return part[indices.clamp(max=part.shape[0] - 1)].sum(1)


class relu_left_out_after_a_glance(nn.Module):
    """Leaves ReLU out for the whole input where every 17th value is positive, as all are that are drawn."""

    PROBLEM = "relu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        if bool((x.reshape(-1)[::17] >= 0).all()):
            return x.clone()
        return torch.relu(x)


class relu_left_out_by_blocks(nn.Module):
    """Leaves ReLU out for each block of values whose first one is positive."""

    PROBLEM = "relu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "harness 23"

    def forward(self, x):
        flat = x.flatten()
        first = flat[torch.arange(flat.numel(), device=x.device) // 50 * 50]
        return torch.where(first >= 0, flat, torch.relu(flat)).view(x.shape)
