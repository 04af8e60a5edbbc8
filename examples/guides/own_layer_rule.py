r"""
Write a rule for your own layer
===============================

The curvature of a layer follows from one function, its *rule*: the factors :math:`(a, g)` of the layer's Jacobian.
For a datum and a probe :math:`v`, the product :math:`\hat J^\top v` restricted to one parameter is

.. math:: \sum_{s,r} a[s,r] \otimes g[s,r]

with :math:`s` over augmentation samples and :math:`r` over whatever shares the parameter. A layer without a rule is
covered by autograd: exactly, at the cost of a second pass, with a dense block up to 2,048 entries and a diagonal one
above. A rule saves the pass and gives a large weight a Kronecker product.
"""

import torch
from torch import nn

import covary
from covary.curvature import DirectVJP, OuterFactors, coverage, register_rule


class Gain(nn.Module):
    """One learned factor per feature."""

    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * self.gain


class Plain(nn.Module):
    """A linear layer without bias."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)

    def forward(self, x):
        return x @ self.weight.T


torch.manual_seed(0)
network = nn.Sequential(Plain(4, 8), nn.Tanh(), Gain(8), Plain(8, 3))
data = (torch.randn(20, 4), torch.randint(0, 3, (20,)))
print(coverage(network))

# %%
# A small parameter: write the product down
# -----------------------------------------
# A rule takes the module and its input, with the sample axis explicit, shape (N, S, ...), S = 1 without an
# augmentation, and returns an entry per parameter. ``DirectVJP`` is for any small parameter whose product
# :math:`\hat J_n^\top v` can be written down: a function from the gradient of the layer's output, (N, S, ...), to
# (N, P), with P the number of its entries. Here: d output / d gain is the input, summed over samples.


def gain_rule(module, inputs):
    return {"gain": DirectVJP(lambda gradient: (gradient * inputs).flatten(1, -2).sum(1))}


register_rule(Gain, gain_rule, {"gain": "exact"})

# %%
# A weight that multiplies its input: give the factors
# ----------------------------------------------------
# ``OuterFactors(inputs, a, g)`` has two linear maps: from inputs to the rows ``a``, and from the gradient of the
# output to the rows ``g``, both in the layout (N, S, R, Q, D): R rows that share the weight inside one datum, Q
# blocks. A ``Linear`` layer on tokens has one row per token and one block.


def rows(features):  # (N, S, ..., D) -> (N, S, R, 1, D)
    return features.reshape(*features.shape[:2], -1, 1, features.shape[-1])


register_rule(Plain, lambda module, inputs: {"weight": OuterFactors(inputs, rows, rows)}, {"weight": "kron"})

# %%
# The third argument, ``forms``, names the form of each parameter's block: ``"kron"`` (or ``"kron_rows"`` where the
# weight's rows are its inputs), ``"dense"``, or ``"exact"`` (dense where it is small, else diagonal). A parameter that
# is left out of it is covered by autograd.

print(coverage(network))

# %%
# Two weights in one layer: low rank
# ----------------------------------
# For a weight of shape (outputs, inputs), ``a`` belongs to its columns (the inputs of this weight) and ``g`` to its
# rows (the outputs of this weight). In :math:`U D x` the inputs of ``down`` are those of the layer, and its outputs are
# inside, so their gradient is that of the layer's output times ``up``. The inputs of ``up`` are ``down``'s outputs:


class LowRank(nn.Module):
    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.up = nn.Parameter(torch.randn(outputs, rank) / rank**0.5)

    def forward(self, x):
        return x @ self.down.T @ self.up.T


def low_rank_rule(module, inputs):
    return {
        "down": OuterFactors(inputs, rows, lambda gradient: rows(gradient @ module.up)),
        "up": OuterFactors(inputs @ module.down.T, rows, rows),
    }


register_rule(LowRank, low_rank_rule, {"down": "kron", "up": "kron"})
network = nn.Sequential(Plain(4, 8), nn.Tanh(), Gain(8), LowRank(8, 3, rank=2))
print(coverage(network))

# %%
# Check it
# --------
# Before anything is computed, the factors are compared with autograd's own gradient on a few data: a wrong rule is an
# error. And every curvature follows, here against the dense matrix from autograd:

double = network.double()
x = data[0].double()
h = covary.curvature.full(double, (x, data[1])).to_dense()

parameters = dict(double.named_parameters())
jacobian = torch.func.jacrev(lambda p: torch.func.functional_call(double, p, (x,)))(parameters)
flat = torch.cat([jacobian[name].flatten(2) for name in parameters], 2)  # (N, C, P)
probabilities = double(x).softmax(1)
curvature = torch.diag_embed(probabilities) - probabilities[:, :, None] * probabilities[:, None, :]
dense = torch.einsum("ncp,ncd,ndq->pq", flat, curvature, flat)
print("equal:", torch.allclose(h, dense, rtol=0, atol=1e-10))

# %%
terms = covary.log_evidence(double, (x, data[1]))
print(
    f"log evidence {terms.log_evidence:.1f} = {terms.log_likelihood:.1f} {terms.log_prior:+.1f} {terms.log_volume:+.1f}"
)
