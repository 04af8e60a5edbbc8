r"""
Sharpness that means something
==============================

Flat minima are said to generalize better. But the same network, written in other coordinates, has another Hessian:
its "sharpness" can be made anything. This tutorial shows the problem on a small network, and the cure: measure
curvature relative to a metric, and transform both.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import covary
from covary import geometry

# %%
# A small regression network
# --------------------------

torch.manual_seed(0)
x = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
y = x.sin() + 0.1 * torch.randn_like(x)
network = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1)).double()
optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
for _ in range(500):
    optimizer.zero_grad()
    loss = (network(x) - y).square().mean()
    loss.backward()
    optimizer.step()
print(f"mean squared error {loss.item():.4f}")

# %%
# The same function in other coordinates
# --------------------------------------
# A *chart* is an invertible map :math:`\psi = \varphi(\theta)` of the weights. Under :math:`\psi = c\,\theta` the
# network computes the same function, but the Hessian with respect to :math:`\psi` is :math:`H / c^2`.

likelihood = covary.Gaussian(0.3)
outputs = geometry.flat_outputs(network, x)
theta = geometry.Point(geometry.flatten(dict(network.named_parameters())).detach())
metric = geometry.euclidean_metric()


def negative_log_likelihood(weights):
    return -likelihood.log_prob(outputs(weights), y)


factors = [0.5, 1.0, 2.0]
naive, proper = [], []
for factor in factors:
    operator = geometry.hessian_operator(negative_log_likelihood, metric, theta.to(geometry.scaling(factor)))
    naive.append(operator.hessian.components.trace().item())
    proper.append(operator.trace().item())
    print(f"ψ = {factor} θ   trace of H {naive[-1]:9.2f}   trace of M⁻¹H {proper[-1]:9.2f}")

# %%
# The plain trace changes by a factor of four each way, although nothing about the network changed. The operator
# :math:`E = M^{-1} H`, where the metric :math:`M` is transformed together with the Hessian, has the same trace,
# determinant and eigenvalues in every chart.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(factors, naive, "o--", label="trace of H")
axes.plot(factors, proper, "o-", label="trace of $M^{-1}H$")
axes.set(
    xlabel="scale of the coordinates",
    ylabel="sharpness",
    xscale="log",
    yscale="log",
    xticks=factors,
    xticklabels=factors,
)
axes.legend(frameon=False)

# %%
# The evidence has the same problem
# ---------------------------------
# The evidence is an integral over weights, and the volume element belongs to a metric.
# :func:`covary.evidence.chart_evidence` computes it in any chart, here in polar coordinates (length and direction of
# each row of a weight matrix, which is weight normalization without its redundant direction).

model = covary.Model(network, likelihood, covary.Prior(network, "scalar"))
polar = geometry.network_chart(model.weights, {"*.weight": geometry.polar_of})
found = covary.evidence.chart_evidence(model, (x, y), polar)
print(f"naive, with the numbers of polar coordinates   {found.naive.log_evidence:9.4f}")
print(f"proper, computed in polar coordinates          {found.proper.log_evidence:9.4f}")
print(f"log_evidence, in Cartesian coordinates         {covary.log_evidence(model, (x, y), 'full').log_evidence:9.4f}")

# %%
# Large networks
# --------------
# :func:`covary.geometry.sharpness` estimates trace, largest eigenvalues and log-determinant of networks of any size
# from products with the curvature, with error bars. ``covary geometry RUN`` does it for a saved run. Background:
# :doc:`/explanation/geometry`.
