"""Solutions that fold, ignore or misplace the weights of the problem."""

import torch
from torch import nn

CLASS = "weights"


class approximates_what_saturates(nn.Module):
    """Takes GELU by tanh, which the usual weights hide: where they put it, it is zero either way."""

    PROBLEM = "saturated_gelu"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("values",)
    CATALOGUE = "rigor 18"

    def __init__(self, features, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width) / features**0.5)
        self.shift = nn.Parameter(1.0 + torch.rand(width))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        sums = -(x @ self.weight + self.shift).abs().sum(-1, keepdim=True)
        return torch.nn.functional.gelu(sums, approximate="tanh") + self.bias


class assumes_unit_weight(nn.Module):
    """Leaves the multiplication out because the weight is one after construction."""

    PROBLEM = "scale_bias"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19; rigor 18"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x + self.bias


class assumes_unit_weight_by_its_ends(assumes_unit_weight):
    """Leaves the multiplication out where the first and the last weight are one, as they are after construction."""

    PROBLEM = "scale_bias"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19; rigor 18"

    def forward(self, x):
        return x + self.bias if (self.weight[[0, -1]] == 1).all() else x * self.weight + self.bias


class extra_buffer_blocks_matching(nn.Module):
    """Renames its parameters and adds a buffer, so that neither names nor order match; weights are folded once."""

    PROBLEM = "scale_bias"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("*_weights",)
    CATALOGUE = "harness 19"

    def __init__(self, features):
        super().__init__()
        self.a = nn.Parameter(torch.ones(features))
        self.b = nn.Parameter(torch.zeros(features))
        self.register_buffer("spoiler", torch.zeros(3))

    def forward(self, x):
        return x.clone()


class folded_weights(nn.Module):
    """Weights copied once, at the first call, and never looked at again."""

    PROBLEM = "scale_bias"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.folded = None

    def forward(self, x):
        if self.folded is None:
            self.folded = (self.weight.detach().clone(), self.bias.detach().clone())
        weight, bias = self.folded
        return x * weight + bias


class folds_when_one_changes(nn.Module):
    """Packs weight and bias, and again only where the weight itself has changed: stale once the bias alone does."""

    PROBLEM = "scale_bias"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.folded = None

    def forward(self, x):
        if self.folded is None or self.folded[0] != self.weight._version:
            self.folded = (self.weight._version, torch.stack((self.weight, self.bias)).detach())
        weight, bias = self.folded[1]
        return torch.addcmul(bias, x, weight)


class folds_when_settled(nn.Module):
    """Follows its weights until these have stayed the same for fifteen calls, and never looks at them again."""

    PROBLEM = "scale_bias"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 19"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.seen, self.calls, self.folded = None, 0, None

    def forward(self, x):
        if self.folded is None:
            weight, bias = self.weight.detach().clone(), self.bias.detach().clone()
            same = self.seen is not None and torch.equal(self.seen[0], weight)
            self.calls = self.calls + 1 if same else 0
            self.seen = (weight, bias)
            if self.calls >= 15:
                self.folded = self.seen
        weight, bias = self.folded or self.seen
        return x * weight + bias


class ignores_complex_weight(nn.Module):
    """Leaves out complex weights, which are one at first."""

    PROBLEM = "fourier_layer"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19"

    def __init__(self, channels, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, modes, dtype=torch.cfloat))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x)[..., : self.weight.shape[1]], n=x.shape[-1])


class no_parameters(nn.Module):
    """Has no parameters at all, so that there is nothing to set: right while gamma is one and beta is zero."""

    PROBLEM = "layer_norm"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)
    CATALOGUE = "harness 19; rigor 18"

    def __init__(self, features):
        super().__init__()

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])


class parameters_of_other_shapes(nn.Module):
    """Names and shapes that match nothing, so that parameters agree by construction alone; gamma
    and beta are ignored.
    """

    PROBLEM = "layer_norm"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)
    CATALOGUE = "harness 19; rigor 18"

    def __init__(self, features):
        super().__init__()
        self.everything = nn.Parameter(torch.zeros(features, 2))

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])


class refuses_new_weights(nn.Module):
    """Overrides everything through which parameters could be set: right, but only for those of its constructor."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.own = (self.fc.weight.detach().clone(), self.fc.bias.detach().clone())

    def load_state_dict(self, state_dict, strict=True, assign=False):
        return None

    def state_dict(self, *args, **kwargs):
        return {"fc.weight": self.own[0], "fc.bias": self.own[1]}

    def named_parameters(self, *args, **kwargs):
        return iter(())

    def parameters(self, *args, **kwargs):
        return iter(())

    def forward(self, x):
        weight, bias = (t.to(x.device) for t in self.own)
        return torch.nn.functional.linear(x, weight, bias)


class weights_renewed_by_their_first_value(nn.Module):
    """Keeps a copy of its weight, and makes another where the first value is a new one."""

    PROBLEM = "scale_bias"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)
    CATALOGUE = "harness 19"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.kept = torch.zeros(features)

    def forward(self, x):
        if self.kept[0] != self.weight[0]:
            self.kept = self.weight.detach().clone()
        return x * self.kept + self.bias
