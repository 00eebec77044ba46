"""Outputs of unusual structure, layout or type, which the reference has as well."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

CLASS = "output"


class batched_blocks(nn.Module):
    """Cuts rows into a padded batch, multiplies by `baddbmm`, and cuts the padding off again."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        rows = x.shape[0]
        blocks = torch.nn.functional.pad(x, (0, 0, 0, -rows % 32)).reshape(-1, 32, x.shape[1])
        weight = self.fc.weight.t().expand(blocks.shape[0], -1, -1)
        return torch.baddbmm(self.fc.bias, blocks, weight).flatten(0, 1)[:rows]


class boolean_output(nn.Module):
    """A boolean mask."""

    PROBLEM = "threshold_mask"

    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.logical_not(x <= self.threshold)


class channels_last_conv(nn.Module):
    """Computes and answers in channels-last order."""

    PROBLEM = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        return self.conv(x.to(memory_format=torch.channels_last))


class copy_where_reference_views(nn.Module):
    """A dense transposed copy where the reference answers with a view."""

    PROBLEM = "transpose_view"

    def forward(self, x):
        return x.transpose(1, 2).contiguous()


@dataclass
class Stats:
    normed: torch.Tensor


class dataclass_output(nn.Module):
    """A dataclass of its own, as the reference's."""

    PROBLEM = "normed_rows"

    def forward(self, x):
        y = x - x.mean(-1, keepdim=True)
        return Stats(y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5))


class deviation_in_one_pass(nn.Module):
    """Deviation by one pass over the values, returned as a number: badly conditioned inputs are a finding, as for
    tensors.
    """

    PROBLEM = "deviation_as_number"

    def forward(self, x):
        mean = x.mean()
        return x.sum(-1), ((x * x).mean() - mean * mean).clamp_min(0).sqrt().item(), int(x.argmax())


class dictionary_output(nn.Module):
    """A dictionary with its keys in another order, from one pass over the data."""

    PROBLEM = "row_statistics"

    def forward(self, x):
        variance, mean = torch.var_mean(x.double(), dim=-1, correction=0)
        return {"variance": variance.float(), "mean": mean.float()}


class half_of_a_full_spectrum(nn.Module):
    """The full spectrum, of which it returns a view of the first half, conjugated twice without being computed."""

    PROBLEM = "spectrum"

    def forward(self, x):
        return torch.fft.ifft(x, norm="forward")[..., : x.shape[-1] // 2 + 1].conj()


class histogram_by_sorting(nn.Module):
    """Sorts, and counts by searching for every bin's borders: integers throughout."""

    PROBLEM = "histogram"

    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values):
        ordered = values.sort(dim=-1).values
        borders = torch.arange(self.bins + 1, device=values.device).expand(values.shape[0], -1).contiguous()
        return torch.searchsorted(ordered, borders).diff(dim=-1)


class last_of_equals_first(nn.Module):
    """Sorts from behind: where values are equal, their order is the other way round. None of the orders is the right
    one.
    """

    PROBLEM = "sorted_order"
    FINDINGS = ("ties",)

    def forward(self, x):
        order = torch.sort(x.flip(-1), dim=-1, stable=True).indices
        return x.shape[-1] - 1 - order


class list_for_tuple(nn.Module):
    """A list where the reference returns a tuple; the values one maximum after the other."""

    PROBLEM = "top_values"

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        rest, values, indices = x.clone(), [], []
        for _ in range(self.count):
            value, index = rest.max(dim=-1)
            values.append(value)
            indices.append(index)
            rest.scatter_(1, index[:, None], float("-inf"))
        return [torch.stack(values, -1), torch.stack(indices, -1)]


class lstm_step_by_step(nn.Module):
    """The recurrence written out, its input projection for all steps ahead."""

    PROBLEM = "lstm"

    def __init__(self, inputs, hidden):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)

    def forward(self, x, h0, c0):
        layer, h, c, steps = self.lstm, h0[0], c0[0], []
        projected = x @ layer.weight_ih_l0.t() + layer.bias_ih_l0
        for step in projected.unbind(1):
            gates = step + h @ layer.weight_hh_l0.t() + layer.bias_hh_l0
            i, f, g, o = gates.chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            steps.append(h)
        return torch.stack(steps, 1), (h[None], c[None])


class mask_from_bytes(nn.Module):
    """Bytes that are reinterpreted as booleans."""

    PROBLEM = "threshold_mask"

    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.gt(x, self.threshold).to(torch.uint8).bitwise_and_(1).view(torch.bool)


class mixed_results(nn.Module):
    """Tensors, numbers, None and text in one result, the sums in another order."""

    PROBLEM = "report_of_row"

    def forward(self, x):
        where = torch.argmax(x, dim=-1)
        sums = torch.stack([row.double().sum() for row in x])
        return {
            "unit": "volt",
            "shape": [*x.shape],
            "where": where,
            "largest": (x.gather(1, where[:, None])[:, 0], None),
            "sums": sums.float(),
            "mean": float(sums.sum() / x.numel()),
        }


class Top(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor


class multiplies_by_the_reciprocal(nn.Module):
    """Multiplies by the reciprocal of a scale, as serving libraries do: few elements get the neighbouring code of fp8."""

    PROBLEM = "quantised_rows"

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448.0
        return (x * (1.0 / scale)).clamp(-448, 448).to(torch.float8_e4m3fn), scale


class named_tuple_output(nn.Module):
    """A named tuple of its own where the reference returns a plain one."""

    PROBLEM = "top_values"

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        values, order = torch.sort(x, dim=-1, descending=True, stable=True)
        return Top(indices=order[:, : self.count], values=values[:, : self.count].clone())


class non_contiguous_output(nn.Module):
    """The right values in column-major order."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return (self.fc.weight @ x.t() + self.fc.bias[:, None]).t()


class Statistics(OrderedDict):
    def __getattr__(self, name):
        return self[name]


class other_halves(nn.Module):
    """Multiplies by a reciprocal where a value in every fourth row lies in the middle between two codes."""

    PROBLEM = "quantised_halves"
    FINDINGS = ("boundary_codes",)

    def forward(self, x):
        factor = 127.0 / x.abs().amax(-1, keepdim=True).clamp_min(1e-12)
        return (x * factor).round().clamp(-128, 127).to(torch.int8)


class other_kind_of_dictionary(nn.Module):
    """An OrderedDict of a class of its own, filled in another order."""

    PROBLEM = "row_statistics"

    def forward(self, x):
        count = 0
        mean, m2 = torch.zeros(2, x.shape[0], dtype=torch.float64, device=x.device)
        for block in x.double().split(100, dim=-1):
            n = block.shape[-1]
            delta = block.mean(dim=-1) - mean
            m2 = m2 + block.var(dim=-1, unbiased=False) * n + delta.square() * (count * n / (count + n))
            mean, count = mean + delta * (n / (count + n)), count + n
        return Statistics(variance=(m2 / count).float(), mean=mean.float())


class outputs_share_storage(nn.Module):
    """Two outputs that are views of one allocation."""

    PROBLEM = "row_statistics"

    def forward(self, x):
        both = torch.empty(2, x.shape[0], device=x.device)
        both[0] = x.mean(dim=-1)
        both[1] = ((x - both[0][:, None]) ** 2).mean(dim=-1)
        return {"mean": both[0], "variance": both[1]}


class quantises_by_adding(nn.Module):
    """The same values in eight bits, which are compared exactly, by an addition in place of a product."""

    PROBLEM = "quantise_rows"

    def forward(self, x):
        return (x + x).to(torch.float8_e4m3fn)


class rearranged_by_reshapes(nn.Module):
    """Transposes through a chain of reshapes and permutations, as einops does."""

    PROBLEM = "transpose_view"

    def forward(self, x):
        batch, rows, columns = x.shape
        flat = x.permute(2, 1, 0).reshape(columns * rows, batch).unflatten(0, (columns, rows))
        return flat.movedim(-1, 0)


class ring_of_outputs(nn.Module):
    """Results are slices of one large buffer, handed out in turn."""

    PROBLEM = "short_sines"
    DEVICES = ("cuda", "cpu")

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.rings, self.turn = {}, 0

    def forward(self, x):
        ring = self.rings.get(x.shape)
        if ring is None:
            ring = self.rings[x.shape] = torch.empty(64, *x.shape, device=x.device)
        self.turn = (self.turn + 1) % 64
        y = x
        for n in range(self.rounds):
            y = torch.sin(y + x) if n < self.rounds - 1 else torch.sin(y + x, out=ring[self.turn])
        return y


class rounds_half_away(nn.Module):
    """Rounds halves away from zero where the reference rounds to even, and multiplies by a reciprocal."""

    PROBLEM = "int8_rows"

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        v = x * (1.0 / scale)
        return (v.sign() * (v.abs() + 0.5).floor()).clamp(-128, 127).to(torch.int8), scale


class scores_masked_by_where(nn.Module):
    """Chooses between scores and -inf instead of filling."""

    PROBLEM = "masked_scores"

    def forward(self, x, y):
        row = torch.arange(64, device=x.device)
        return torch.where(row[:, None] >= row, torch.relu(x @ y), -torch.inf)


class slice_of_padded_output(nn.Module):
    """A view into a padded buffer of its own."""

    PROBLEM = "gelu"

    def forward(self, x):
        padded = torch.zeros(x.shape[0], -(-x.shape[1] // 64) * 64 + 64, device=x.device)
        view = padded[:, 3 : 3 + x.shape[1]]
        view.copy_(torch.nn.functional.gelu(x))
        return view


class sums_scores_in_parts(nn.Module):
    """Sums scores in two parts: where the two best are equal but for rounding, another of them comes first."""

    PROBLEM = "best_sum"
    FINDINGS = ("ties",)

    def forward(self, x):
        half = x.shape[-1] // 3
        return (x[..., :half].sum(-1) + x[..., half:].sum(-1)).argmax(-1)


class transposed_result(nn.Module):
    """Computes on the transpose and returns it turned back: right values with other strides."""

    PROBLEM = "gelu"
    DEVICES = ("cuda", "cpu")

    def forward(self, x):
        return torch.nn.functional.gelu(x.t().contiguous()).t()


class tuple_output(nn.Module):
    """Top values by sorting everything: the same values and, without ties, the same indices."""

    PROBLEM = "top_values"

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        order = torch.argsort(x, dim=-1, descending=True)[:, : self.count]
        return torch.gather(x, -1, order), order


class view_like_the_reference(nn.Module):
    """A view of its input, which is what the reference answers too."""

    PROBLEM = "transpose_view"

    def forward(self, x):
        return x.mT
