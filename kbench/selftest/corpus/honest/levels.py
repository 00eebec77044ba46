"""Solutions that do the task, and hold no higher level."""

import math

import torch
from torch import nn

CLASS = "levels"


made = []


class constructs_once(nn.Module):
    """Does the task, but a second model in the same process fails: as after a CUDA graph whose capture failed
    (published 2/5).
    """

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("second_model",)

    def __init__(self, inputs, outputs):
        super().__init__()
        if made:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        made.append(True)
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.addmm(self.fc.bias, x, self.fc.weight.t())


class draws_on_the_cpu(nn.Module):
    """Draws its parameters where no device context reaches, and keeps what it makes of them: a
    GPU would draw others.
    """

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.Tensor(outputs, inputs))
        self.bias = nn.Parameter(torch.Tensor(outputs))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        nn.init.uniform_(self.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))
        self.register_buffer("packed", self.weight.detach().t().contiguous())

    def forward(self, x):
        return torch.addmm(self.bias, x, self.packed)


class draws_other_parameters_on_the_cpu(nn.Module):
    """Draws its parameters where no device context reaches, and registers more of them than the reference has."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.Tensor(outputs, inputs))
        self.bias = nn.Parameter(torch.Tensor(outputs))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        nn.init.uniform_(self.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))
        self.transposed = nn.Parameter(self.weight.t(), requires_grad=False)

    def forward(self, x):
        return torch.addmm(self.bias, x, self.transposed)


class folds_its_weights_in_the_first_call(nn.Module):
    """Folds a factor into its weights, in their place, in the first call: later calls need no product with it."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.is_folded = False

    def forward(self, x):
        if not self.is_folded:
            with torch.no_grad():
                self.fc.weight.data = 2 * self.fc.weight
                self.fc.bias *= 2
            self.is_folded = True
        return 0.5 * self.fc(x)


class four_values_at_a_time(nn.Module):
    """Loads four values at a time, as `float4` does, and nothing for addresses that are no multiple of 16 bytes."""

    PROBLEM = "swish_rows"
    LEVEL = "module"
    LACKS = ("alignment",)

    def forward(self, x):
        start = x.data_ptr() % 16 // x.element_size()
        loaded = x.contiguous().view(-1).roll(start)  # what a load from the address below would bring
        return torch.nn.functional.silu(loaded).view(x.shape)


class keeps_weights_of_construction(nn.Module):
    """Packs its weights when it is constructed, as many published kernels do: right for the task,
    not for a checkpoint.
    """

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.packed = self.fc.weight.detach().t().contiguous()
        self.added = self.fc.bias.detach().clone()

    def forward(self, x):
        return torch.addmm(self.added.to(x.device), x, self.packed.to(x.device))


class names_a_bias_twice(nn.Module):
    """Holds a parameter of an inner module under a name of its own, too."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        fc = nn.Linear(inputs, outputs)
        self.shift = fc.bias
        self.fc = fc

    def forward(self, x):
        return torch.addmm(self.shift, x, self.fc.weight.t())


packed = {}


class packs_weights_for_the_process(nn.Module):
    """Packs weights once for the process, by their shape: right for whoever constructs one model, as benchmarks do."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("second_model", "frozen_weights")

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        key = self.fc.weight.shape
        if key not in packed:
            packed[key] = (self.fc.weight.detach().t().contiguous(), self.fc.bias.detach().clone())
        weight, bias = packed[key]
        return torch.addmm(bias, x, weight)


class planes_in_order(nn.Module):
    """Reads an image plane by plane, whatever its strides are, as a kernel of raw pointers does."""

    PROBLEM = "max_pool"
    LEVEL = "module"
    LACKS = ("channels_last", "strides")

    def forward(self, x):
        _, channels, rows, columns = x.shape
        strides = (channels * rows * columns, rows * columns, columns, 1)
        in_order = torch.as_strided(x, x.shape, strides, x.storage_offset())
        return torch.nn.functional.max_pool2d(in_order, 3, stride=2, padding=1)


class refuses_odd_addresses(nn.Module):
    """Loads four values at a time, and says so where the address does not allow it."""

    PROBLEM = "swish_rows"
    LEVEL = "module"
    LACKS = ("alignment",)

    def forward(self, x):
        if x.data_ptr() % 16:
            raise ValueError("the input must begin at a multiple of 16 bytes")
        return torch.nn.functional.silu(x)


class right_for_its_task(nn.Module):
    """Packs its weights when it is constructed, and no more is asked of it than the task."""

    PROBLEM = "linear"
    OPTIONS = {"level": "task"}
    LEVEL = "task"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.packed = self.fc.weight.detach().t().contiguous()
        self.added = self.fc.bias.detach().clone()

    def forward(self, x):
        return torch.addmm(self.added.to(x.device), x, self.packed.to(x.device))


class scales_its_weights_at_construction(nn.Module):
    """Scales its weights when it is constructed, under the reference's names: copied over, they would be wrong."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("frozen_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        with torch.no_grad():
            self.fc.weight *= 2
            self.fc.bias *= 2

    def forward(self, x):
        return 0.5 * self.fc(x)


class weights_that_may_be_frozen(nn.Module):
    """Packs its weights when it is constructed, which is accepted on the record."""

    PROBLEM = "linear"
    OPTIONS = {"accept": ("frozen_weights",)}
    LEVEL = "task"
    LACKS = ("frozen_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.packed = self.fc.weight.detach().t().contiguous()
        self.added = self.fc.bias.detach().clone()

    def forward(self, x):
        return torch.addmm(self.added.to(x.device), x, self.packed.to(x.device))
