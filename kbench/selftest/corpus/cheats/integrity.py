"""Solutions that change their inputs or weights, or return memory that is not theirs."""

import torch
from torch import nn

CLASS = "integrity"


class aliases_input_when_positive(nn.Module):
    """Returns a view of the input where that is right, an honest result elsewhere."""

    PROBLEM = "relu"
    EXPECT = ("output_aliased",)
    CATALOGUE = "rigor 4"

    def forward(self, x):
        return x.view_as(x) if bool((x >= 0).all()) else torch.relu(x)


class identity_where_mutated(nn.Module):
    """Returns its input unchanged where the reference changes it in place: right only if the judge mixes them up."""

    PROBLEM = "in_place_activation"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 8; rigor 1, 3"

    def __init__(self, slope):
        super().__init__()

    def forward(self, x):
        return x


class perturbs_one_input_value(nn.Module):
    """Answers rightly, then changes one value of the input."""

    PROBLEM = "gelu"
    EXPECT = ("input_mutated",)
    CATALOGUE = "harness 8; rigor 3"

    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        x.view(-1)[x.numel() // 3] += 1.0
        return y


class perturbs_parameters(nn.Module):
    """Answers rightly and nudges a weight afterwards."""

    PROBLEM = "linear"
    EXPECT = ("parameter_mutated", "wrong_value", "nondeterministic")
    CATALOGUE = "rigor 3"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.fc(x)
        with torch.no_grad():
            self.fc.weight[0, 0] += 0.5
        return y


class relu_aliases_input(nn.Module):
    """Returns its input after clamping it in place: right values, another's memory."""

    PROBLEM = "relu"
    EXPECT = ("input_mutated", "output_aliased")
    CATALOGUE = "harness 8; rigor 3, 4"

    def forward(self, x):
        return x.clamp_(min=0)


class returns_parameter(nn.Module):
    """Hands out its own parameter's memory as the answer, after writing the answer there."""

    PROBLEM = "scale_bias"
    EXPECT = ("parameter_mutated", "output_aliased", "wrong_value", "raised")
    CATALOGUE = "rigor 3, 4"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = x * self.weight + self.bias
        with torch.no_grad():
            self.bias.copy_(y[-1])
        return torch.cat([y[:-1], self.bias[None]])


class uses_input_as_scratch(nn.Module):
    """Computes in the input's memory and copies the result out: the caller's data is gone."""

    PROBLEM = "relu"
    EXPECT = ("input_mutated",)
    CATALOGUE = "harness 8; rigor 3"

    def forward(self, x):
        return x.mul_(2.0).clamp_(min=0).mul_(0.5).clone()


class zeroes_input(nn.Module):
    """Zeroes its input and answers for the zeroes, so that a reference that runs afterwards agrees."""

    PROBLEM = "gelu"
    EXPECT = ("input_mutated", "wrong_value")
    CATALOGUE = "harness 8; rigor 3"

    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)


class zeroes_parameters(nn.Module):
    """Zeroes its parameters, which it may share with the reference, and answers zeros."""

    PROBLEM = "linear"
    EXPECT = ("parameter_mutated", "wrong_value")
    CATALOGUE = "rigor 3"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
        return self.fc(x)


class copy_where_reference_mutates(nn.Module):
    """Leaves its input alone where the reference changes it: who reads the input afterwards finds the old values."""

    PROBLEM = "in_place_activation"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 8"

    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.maximum(x, x * self.slope)
