"""Solutions that remember an earlier result and return it again."""

import random

import torch
from torch import nn

CLASS = "replay"


class _Remembering(nn.Module):
    """GELU; the result of an earlier call is returned again for an input of equal `key`."""

    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = self.key(x)
        if key not in self.known:
            self.known[key] = torch.nn.functional.gelu(x)
        return self.known[key].clone()


class cache_by_address(_Remembering):
    """Results remembered by the address of the input."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "harness 10; rigor 5"

    def key(self, x):
        return (x.data_ptr(), tuple(x.shape))


class cache_by_address_and_first(_Remembering):
    """Results remembered by the address of the input and its first element."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 10; rigor 5"

    def key(self, x):
        return (x.data_ptr(), tuple(x.shape), float(x.reshape(-1)[0]))


class cache_by_chosen_elements(_Remembering):
    """Results remembered by a random choice of elements, made once, that no other input of a run
    would share by chance.
    """

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 11; rigor 5"

    def __init__(self):
        super().__init__()
        self.chosen = {}

    def key(self, x):
        flat = x.reshape(-1)
        if flat.numel() not in self.chosen:
            self.chosen[flat.numel()] = torch.randperm(flat.numel())[:8].to(x.device)
        return (tuple(x.shape), tuple(flat[self.chosen[flat.numel()]].tolist()))


class cache_by_fingerprint(nn.Module):
    """Results remembered by a few values of the input."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "harness 11; rigor 5"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.known = {}

    def forward(self, x):
        key = tuple(x[:: max(1, x.numel() // 64)].tolist())
        if key not in self.known:
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            self.known[key] = y
        return self.known[key].clone()


class cache_by_moments(_Remembering):
    """Results remembered by mean and deviation to one digit, which every draw of the inputs shares."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "harness 11; rigor 5"

    def key(self, x):
        return (tuple(x.shape), round(float(x.mean()), 1), round(float(x.std()), 1))


class cache_by_precise_moments(_Remembering):
    """Results remembered by mean and deviation to four digits, which no two draws share by chance."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 11; rigor 5"

    def key(self, x):
        return (tuple(x.shape), round(float(x.mean()), 4), round(float(x.std()), 4))


class cache_by_samples(_Remembering):
    """Results remembered by samples of the input: its beginning, its end, and elements at
    equal distances between them.
    """

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 11; rigor 5"

    def key(self, x):
        flat = x.reshape(-1)
        samples = torch.cat([flat[:16], flat[-16:], flat[:: max(1, flat.numel() // 64)]])
        return (tuple(x.shape), tuple(samples.tolist()))


class cache_by_version(nn.Module):
    """Results remembered by address and version counter: writes from another process do not count versions."""

    PROBLEM = "sine_chain"
    EXPECT = ("wrong_value", "nondeterministic", "passed")
    SPEEDUP_BELOW = 1.5
    CATALOGUE = "harness 10; rigor 5"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.known = {}

    def forward(self, x):
        key = (x.data_ptr(), x._version, tuple(x.shape))
        if key not in self.known:
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            self.known = {key: y}
        return self.known[key].clone()


class honest_for_ten_calls(nn.Module):
    """Right for ten calls, then the last result for ever."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "harness 14; rigor 6"

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        if self.calls <= 10 or self.last is None or self.last.shape != x.shape:
            self.last = torch.nn.functional.gelu(x)
        return self.last.clone()


class one_call_in_three(nn.Module):
    """Leaves the last quarter of the rows undone in one call of three, drawn at random."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "rigor 5, 6"

    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        if random.random() < 1 / 3:
            y[-max(1, x.shape[0] // 4) :] = 0
        return y


class one_element_after_ten_calls(nn.Module):
    """Right for ten calls, then one element of each result is off by a thousandth."""

    PROBLEM = "scale_bias"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "rigor 6"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.calls = 0

    def forward(self, x):
        y = x * self.weight + self.bias
        self.calls += 1
        if self.calls > 10:
            y.view(-1)[(self.calls * 7919) % y.numel()] += 1e-3
        return y


class previous_output(nn.Module):
    """Computes honestly, but hands out the result of the call before."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic")
    CATALOGUE = "rigor 1"

    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        fresh = torch.nn.functional.gelu(x)
        answer = fresh if self.last is None or self.last.shape != x.shape else self.last
        self.last = fresh.clone()
        return answer


class remembers_the_only_answer(nn.Module):
    """Computes once, and returns that as long as a few of the inputs are the same: with equal
    inputs they always are.
    """

    PROBLEM = "self_seeded_sines"
    EXPECT = ("wrong_value", "passed")
    SPEEDUP_BELOW = 1.5
    ALONE = True
    CATALOGUE = "harness 11"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.asked, self.answer = None, None

    def forward(self, x):
        some = x[:8].tolist()
        if some != self.asked:
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            self.asked, self.answer = some, y
        return self.answer.clone()
