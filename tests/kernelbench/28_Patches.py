import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Patches of an image through a linear layer, as in the first step of a vision transformer.
    """

    def __init__(self, image_size, patch_size, channels, dim):
        super(Model, self).__init__()
        assert image_size % patch_size == 0, "the image is a multiple of the patch"
        self.patch_size = patch_size
        self.project = nn.Linear(channels * patch_size**2, dim)

    def forward(self, img):
        p = self.patch_size
        x = img.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5)
        return self.project(x.reshape(x.shape[0], -1, x.shape[3] * p * p))


image_size = 32
patch_size = 8
channels = 3
dim = 24


def get_inputs():
    return [torch.rand(2, channels, image_size, image_size)]


def get_init_inputs():
    return [image_size, patch_size, channels, dim]
