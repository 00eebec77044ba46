from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def ieee_reference() -> Iterator[None]:
    """Run the reference with TF32 off; solutions must not depend on the caller for that."""
    convolution = torch.backends.cudnn.conv
    before = convolution.fp32_precision
    convolution.fp32_precision = "ieee"
    torch.manual_seed(11)
    yield
    convolution.fp32_precision = before
