r"""
Write your own augmentation
===========================

An augmentation is any ``nn.Module`` with four members; there is no base class:

* ``names``: one name per learnable amount;
* ``widths``: the amounts, at least 0, differentiable in the module's parameters;
* ``sample_noise(index, num_samples, *, seed)``: noise with leading axes (N, S), a function of the seed and of each
  datum's index and of nothing else;
* ``transform(x, noise)``: the transformed data, (N, S, ...), differentiable in the parameters.

Optional members are ``units``, one text per name, and ``sample_weights(noise)``, shape (N, S) with rows summing to 1,
where samples do not count equally.

Here is color jitter: brightness, contrast and saturation, each by a uniform amount with a learned width.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import covary
from covary.noise import Stream, uniform


class ColorJitter(nn.Module):
    """Brightness, contrast and saturation of images (N, 3, H, W), each by a uniform amount."""

    names = ("brightness", "contrast", "saturation")
    units = ("gray levels", "log-factor", "log-factor")
    hyperparameters = ("raw_widths",)  # not a weight: learned by the evidence

    def __init__(self, initial_width=0.05):
        super().__init__()
        self.raw_widths = nn.Parameter(torch.full((3,), initial_width))

    @property
    def widths(self):
        return self.raw_widths.abs()

    def sample_noise(self, index, num_samples, *, seed):
        shape = (num_samples, 3)
        return 2 * uniform(seed, index, shape, stream=Stream.AUGMENTATION, dtype=self.raw_widths.dtype) - 1

    def transform(self, x, noise):
        amounts = (noise * self.widths).to(x)[..., None, None, None]  # (N, S, 3, 1, 1, 1)
        brightness, contrast, saturation = amounts.unbind(2)
        samples = x.unsqueeze(1)  # (N, 1, 3, H, W)
        mean = samples.mean((2, 3, 4), keepdim=True)
        samples = mean + (samples - mean) * contrast.exp() + brightness
        gray = samples.mean(2, keepdim=True)
        return gray + (samples - gray) * saturation.exp()


# %%
# Data whose labels ignore brightness
# -----------------------------------
# Two classes of small color images that differ in their pattern; the brightness of each image is random.

torch.manual_seed(0)
labels = torch.arange(240) % 2
stripes = torch.linspace(0, 12, 12).sin().expand(12, 12)
patterns = torch.stack([stripes, stripes.T])[labels][:, None] * torch.tensor([0.5, 0.3, 0.2])[:, None, None]
images = 0.5 + 0.2 * patterns + 0.1 * torch.randn(240, 3, 12, 12) + 0.4 * (2 * torch.rand(240, 1, 1, 1) - 1)

# %%
# It goes wherever the built-in augmentations go, also into ``covary.augment.Composed(Affine2d(), ColorJitter())``.

network = covary.networks.mlp(3 * 12 * 12, 20, 2, generator=torch.Generator().manual_seed(0))
averaged = covary.Averaged(network, ColorJitter(), num_samples=8)
run = covary.fit(averaged, (images, labels), epochs=40, callbacks=())
print(run)

# %%
# Neither the brightness nor the contrast matters for the pattern, and both widths grow.

history = run.record.history
for name in ColorJitter.names:
    plt.plot([epoch.epoch for epoch in history], [epoch.widths[name] for epoch in history], label=name)
plt.xlabel("epoch")
plt.ylabel("width")
plt.legend(frameon=False)

# %%
# Test that width 0 is the identity, that the same seed and index give the same noise in any batch, and that gradients
# agree with central differences:

jitter = ColorJitter(0.1).double()
x, index = images[:4].double(), torch.arange(4)
noise = jitter.sample_noise(index, 3, seed=0)
assert torch.equal(noise[2:], jitter.sample_noise(index[2:], 3, seed=0))
step = torch.tensor([1e-6, 0, 0], dtype=torch.float64)


def total(shift):
    jitter.raw_widths.data += shift
    value = jitter.transform(x, noise).square().sum()
    jitter.raw_widths.data -= shift
    return value


(gradient,) = torch.autograd.grad(total(0 * step), jitter.raw_widths)
central = (total(step) - total(-step)) / 2e-6
print(f"gradient {gradient[0].item():.4f}, central differences {central.item():.4f}")
