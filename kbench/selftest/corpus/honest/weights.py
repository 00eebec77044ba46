"""Solutions that name, store or prepare their weights in another way than the reference."""

import copy
import io
import pickle

import torch
from torch import nn
from torch.nn.utils import parametrize

CLASS = "weights"


class angles_computed_in_each_call(nn.Module):
    """No buffers: computes sines and cosines in every call, and rotates as complex numbers."""

    PROBLEM = "rotary"

    def __init__(self, length, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        width = x.shape[-1]
        frequencies = 100.0 ** (-torch.arange(0, width, 2, device=x.device).float() / width)
        angles = torch.arange(x.shape[1], device=x.device).float()[:, None] * frequencies
        turns = torch.polar(torch.ones_like(angles), angles)
        rotated = torch.view_as_real(torch.complex(x[..., 0::2], x[..., 1::2]) * turns)
        return rotated.flatten(-2) * self.gain


class batch_norm_training(nn.Module):
    """Batch normalisation in training mode, running statistics and all."""

    PROBLEM = "batch_norm_train"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        with torch.no_grad():
            n = x.shape[0]
            self.norm.running_mean.lerp_(mean, self.norm.momentum)
            self.norm.running_var.lerp_(variance * (n / (n - 1)), self.norm.momentum)
            self.norm.num_batches_tracked += 1
        y = (x - mean) * torch.rsqrt(variance + self.norm.eps)
        return y * self.norm.weight + self.norm.bias


class batch_norm_without_history(nn.Module):
    """Batch normalisation in training mode that leaves the running statistics alone: the output is the same."""

    PROBLEM = "batch_norm_train"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return torch.nn.functional.batch_norm(
            x, None, None, self.norm.weight, self.norm.bias, training=True, eps=self.norm.eps
        )


class buffers_under_other_names(nn.Module):
    """The reference's buffers under other names, one of them twice, and laid out for its own kernel."""

    PROBLEM = "rotary"

    def __init__(self, length, width):
        super().__init__()
        frequencies = 100.0 ** (-torch.arange(0, width, 2).float() / width)
        angles = torch.arange(length).float()[:, None] * frequencies
        self.register_buffer("cos_twice", torch.cos(angles).repeat_interleave(2, dim=1))
        self.register_buffer(
            "signed_sin", torch.sin(angles).repeat_interleave(2, dim=1) * torch.tensor([-1.0, 1.0]).repeat(width // 2)
        )
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        swapped = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        return (x * self.cos_twice + swapped * self.signed_sin) * self.scale


class cached_transpose(nn.Module):
    """Keeps a transposed copy of its weight for as long as the weight's version does not change."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.key = None
        self.transposed = None

    def forward(self, x):
        weight = self.fc.weight
        key = (weight.data_ptr(), weight._version, weight.device)
        if key != self.key:
            self.transposed = weight.detach().t().contiguous()
            self.key = key
        return torch.addmm(self.fc.bias, x, self.transposed)


class copies_and_pickles_itself(nn.Module):
    """Copies itself deeply and sends its state through pickle and back, then uses the module that it was."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        stored = io.BytesIO()
        torch.save(self.state_dict(), stored)
        stored.seek(0)
        self.load_state_dict(torch.load(stored))

    def forward(self, x):
        twin = copy.deepcopy(self.fc)
        assert pickle.loads(pickle.dumps((x.shape, str(x.dtype))))
        return twin(x)


class dropout_in_evaluation(nn.Module):
    """A module with dropout, which only evaluation mode makes comparable."""

    PROBLEM = "dropout_linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return self.dropout(self.fc(x))


class drops_the_mask_buffer(nn.Module):
    """Uses a causal flag instead of a registered mask; layers have the reference's names, declared in another order."""

    PROBLEM = "masked_attention"

    def __init__(self, width, length):
        super().__init__()
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.query = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class exact_where_it_saturates(nn.Module):
    """Takes the GELU of saturated sums by erfc, and the product by parts."""

    PROBLEM = "saturated_gelu"
    LEVEL = "general"

    def __init__(self, features, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width) / features**0.5)
        self.shift = nn.Parameter(1.0 + torch.rand(width))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        half = self.weight.shape[0] // 2
        products = x[:, half:] @ self.weight[half:] + x[:, :half] @ self.weight[:half]
        sums = -(products + self.shift).abs().sum(-1, keepdim=True)
        return 0.5 * sums * torch.special.erfc(-sums * 0.5**0.5) + self.bias


class folds_weights_that_are_loaded(nn.Module):
    """Packs its weight in the constructor, and again whenever a checkpoint is loaded: not when
    an optimiser changes it.
    """

    PROBLEM = "linear"
    LEVEL = "module"
    LACKS = ("weights_in_place",)

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.register_load_state_dict_post_hook(lambda model, _: model.pack())
        self.pack()

    def pack(self):
        self.packed = self.fc.weight.detach().t().contiguous()

    def forward(self, x):
        return torch.addmm(self.fc.bias, x, self.packed)


class fourier_layer_in_parts(nn.Module):
    """Multiplies real and imaginary parts of its own, as a kernel without complex numbers does."""

    PROBLEM = "fourier_layer"

    def __init__(self, channels, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, modes, dtype=torch.cfloat))

    def forward(self, x):
        spectrum = torch.fft.rfft(x)[..., : self.weight.shape[1]]
        a, b, c, d = spectrum.real, spectrum.imag, self.weight.real, self.weight.imag
        return torch.fft.irfft(torch.complex(a * c - b * d, a * d + b * c), n=x.shape[-1])


class fused_projections(nn.Module):
    """One parameter for query, key and value together, made from the layers that the reference has."""

    PROBLEM = "causal_attention"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)

    def __init__(self, width, heads):
        super().__init__()
        layers = [nn.Linear(width, width) for _ in range(3)]
        self.weight = nn.Parameter(torch.cat([layer.weight.detach() for layer in layers]))
        self.bias = nn.Parameter(torch.cat([layer.bias.detach() for layer in layers]))
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        q, k, v = torch.nn.functional.linear(x, self.weight, self.bias).unflatten(-1, (3, self.heads, -1)).unbind(2)
        y = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        return self.out(y.transpose(1, 2).flatten(2))


class is_a_linear_layer(nn.Linear):
    """Derives from nn.Linear itself, so that its parameters have no prefix, and overrides what the layer does."""

    PROBLEM = "linear"

    def forward(self, x):
        return torch.matmul(x, self.weight.mT) + self.bias


class linear_for_uncopied(nn.Module):
    """The same product as a linear layer."""

    PROBLEM = "uncopied_model"

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class lstm_of_cells(nn.Module):
    """Cells instead of a layer: the same parameters in the same order, and the last state is a view of the first
    output.
    """

    PROBLEM = "lstm"

    def __init__(self, inputs, hidden):
        super().__init__()
        self.cell = nn.LSTMCell(inputs, hidden)

    def forward(self, x, h0, c0):
        y = torch.empty(x.shape[0], x.shape[1], h0.shape[-1], device=x.device)
        h, c = h0[0], c0[0]
        for number, step in enumerate(x.unbind(1)):
            h, c = self.cell(step, (h, c))
            y[:, number] = h
        return y, (y[:, -1][None], c[None])


class Inner(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, outputs))

    def forward(self, x):
        return self.layers(x)


class nested_modules(nn.Module):
    """The same layer two modules down, so that its names have other prefixes."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.inner = Inner(inputs, outputs)

    def forward(self, x):
        return self.inner(x)


class own_buffer_counts_calls(nn.Module):
    """A buffer of its own that changes with every call: statistics that the reference does not have."""

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return torch.nn.functional.gelu(x)


class own_dropout(nn.Module):
    """Asks its `training` flag before it drops anything: in evaluation it must not."""

    PROBLEM = "dropout_linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.fc(x)
        if self.training:
            keep = torch.rand_like(y) > 0.2
            y = y * keep / 0.8
        return y


class own_weight_layout(nn.Module):
    """Keeps its weight transposed, as its kernel wants it: matched by nothing but the order of construction."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)

    def __init__(self, inputs, outputs):
        super().__init__()
        layer = nn.Linear(inputs, outputs)
        self.weight_t = nn.Parameter(layer.weight.detach().t().contiguous())
        self.bias = nn.Parameter(layer.bias.detach().clone())

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight_t)


class packs_weights_by_version(nn.Module):
    """Packs weight and bias into one matrix, and again whenever either's version counter has moved."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.packed = None

    def _pack(self):
        parts = (self.fc.weight, self.fc.bias)
        key = tuple((part.data_ptr(), part._version) for part in parts)
        if self.packed is None or self.packed[0] != key:
            matrix = torch.cat((self.fc.weight, self.fc.bias[:, None]), dim=1).detach().t().contiguous()
            self.packed = (key, matrix)
        return self.packed[1]

    def forward(self, x):
        return torch.nn.functional.pad(x, (0, 1), value=1.0) @ self._pack()


class parameters_in_dictionary(nn.Module):
    """Keeps the convolution's parameters in a dictionary, under names of its own."""

    PROBLEM = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.held = nn.ParameterDict({"a_filter": conv.weight, "b_offset": conv.bias})

    def forward(self, x):
        return torch.nn.functional.conv2d(x, self.held["a_filter"], self.held["b_offset"])


class Same(nn.Module):
    def forward(self, w):
        return w


class parametrized_weight(nn.Module):
    """A registered parametrisation (identity) on the weight: the
    parameter is called parametrizations.weight.original.
    """

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        parametrize.register_parametrization(self.fc, "weight", Same())

    def forward(self, x):
        return self.fc(x)


class renamed_parameters(nn.Module):
    """The same parameters under other names, in the same order."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.gamma, self.beta)


class renamed_with_own_buffer(nn.Module):
    """Other names for its parameters and a buffer of its own besides."""

    PROBLEM = "scale_bias"

    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.register_buffer("one", torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x * self.gain * self.one + self.shift


class sequential_wrapper(nn.Sequential):
    """nn.Sequential of the reference's layer and nothing else: names differ."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__(nn.Linear(inputs, outputs))


class table_of_constants(nn.Module):
    """Keeps a table of its own in a buffer, which is no parameter and must not be changed by anybody."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.register_buffer("averaging", torch.full((features, 1), 1.0 / features, dtype=torch.float64))
        self.register_buffer("scratch_counter", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x):
        wide = x.double()
        centred = wide - wide @ self.averaging
        variance = (centred * centred) @ self.averaging
        return (centred * torch.rsqrt(variance + self.norm.eps)).float() * self.norm.weight + self.norm.bias


class weights_as_buffers(nn.Module):
    """Parameters registered as buffers under other names, as inference code does: same order, same shapes."""

    PROBLEM = "scale_bias"

    def __init__(self, features):
        super().__init__()
        self.register_buffer("factor", torch.ones(features))
        self.register_buffer("shift", torch.zeros(features))

    def forward(self, x):
        return torch.addcmul(self.shift, x, self.factor)


class weights_in_a_list(nn.Module):
    """Parameters in a ParameterList and a ParameterDict: names made of numbers and words that the reference has not."""

    PROBLEM = "scale_bias"

    def __init__(self, features):
        super().__init__()
        self.factors = nn.ParameterList([torch.ones(features)])
        self.terms = nn.ParameterDict({"shift": torch.zeros(features)})

    def forward(self, x):
        return torch.addcmul(self.terms["shift"], x, self.factors[0])


class weights_outside_the_module:
    """Keeps its weights as plain tensors that no module knows: nothing can change them, and nothing has to."""

    PROBLEM = "linear"
    EXPECT = ("below_level",)
    LEVEL = "task"
    LACKS = ("unmatched_weights",)

    def __init__(self, inputs, outputs):
        layer = nn.Linear(inputs, outputs)
        self.weight, self.bias = layer.weight.detach(), layer.bias.detach()

    def __call__(self, x):
        return torch.addmm(self.bias, x, self.weight.t())


class statistics_left_alone(nn.Module):
    """Leaves parameters alone that the reference changes in each call, and that its result does not follow from."""

    PROBLEM = "statistics_as_parameters"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.mean = nn.Parameter(torch.zeros(features))
        self.variance = nn.Parameter(torch.ones(features))

    def forward(self, x):
        centred = x - x.mean(0)
        return centred * torch.rsqrt(centred.square().mean(0) + 1e-5) * self.weight
