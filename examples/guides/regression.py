r"""
Regression and other likelihoods
================================

The default likelihood is ``Categorical``, for class labels. ``Gaussian`` is for real targets and learns its noise;
``Bernoulli`` is for independent binary labels; the guide on tasks lists the others. The likelihood is part of the
:class:`covary.Model`.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import covary

torch.manual_seed(0)
x = torch.cat([torch.rand(60, 1) * 2 - 3, torch.rand(60, 1) * 2 + 1])
y = x.sin() + 0.2 * torch.randn_like(x)

network = nn.Sequential(nn.Linear(1, 30), nn.Tanh(), nn.Linear(30, 1))
model = covary.Model(network, covary.Gaussian(sigma_noise=1.0))

# %%
# ``Gaussian(sigma_noise=1.0)`` starts with a noise of 1 and learns it by the evidence; ``learn_sigma_noise=False``
# fixes it. No validation set is needed to separate noise from signal.
#
# **Targets should have a mean near 0 and a standard deviation near 1**, as these have: a network begins near 0, and
# prices of 450 ± 160 would take it too long to reach. For such targets wrap the network,
# ``covary.networks.Rescaled(network, y.mean(0), y.std(0))``, and start with a noise in their units,
# ``Gaussian(sigma_noise=float(y.std()))``; then noise and predictions have their units, too. Inputs should be
# standardized as well. ``covary discover --task regression`` does all of this by itself.

config = covary.FitConfig(epochs=200).replace(curvature="full", hyper={"probes": "exact", "likelihood_lr": 0.1})
run = covary.fit(model, (x, y), config, callbacks=())
print(f"learned noise {run.likelihood.sigma_noise.item():.3f} (the data have 0.2)")
print(run.evidence)

# %%
# When it underfits
# -----------------
# The noise explains whatever the weights do not. If they are slow to fit, the noise grows, the likelihood becomes flat,
# and the run ends there. **A learned noise near the standard deviation of y means that the weights did not fit**;
# above half of it ``fit`` warns, and record and report say so:

print(f"standard deviation of y {y.std():.3f}, learned noise {run.likelihood.sigma_noise.item():.3f}")

# %%
# Then raise ``weights.lr``, ``epochs`` or ``hyper.burn_in`` (epochs in which the weights train alone), and keep the run
# with the highest ``run.evidence.log_evidence``; no test data are needed for that choice. An example, with 150 points
# of :math:`y = x_1^2 - x_2` with noise 0.3, both inputs uniform in ±2, where y has a standard deviation of 1.80, and a
# network 2-20-1 with the other settings of this page:
#
# =========================================================  =============  ============
# settings                                                   learned noise  log evidence
# =========================================================  =============  ============
# ``epochs=120``                                             1.32           −267
# ``epochs=200``, ``weights.lr=1e-2``                        0.419          −121
# ``epochs=200``, ``weights.lr=1e-2``, ``hyper.burn_in=50``  0.398          −114
# =========================================================  =============  ============

# %%
# The posterior knows where it has seen no data
# ---------------------------------------------
# ``run.posterior`` is the Laplace posterior; for a Gaussian likelihood its prediction has a mean and a variance.

posterior = run.posterior((x, y), curvature="full")
grid = torch.linspace(-5, 5, 200)[:, None]
prediction = posterior.predict(grid)
mean, deviation = prediction.mean[:, 0].detach(), prediction.variance[:, 0].detach().sqrt()

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(x, y, ".", color="gray")
axes.plot(grid, mean)
axes.fill_between(grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, alpha=0.25)
axes.set(xlabel="x", ylabel="y", ylim=(-4, 4))

# %%
# Binary labels
# -------------
# ``Bernoulli`` has one output per label, and targets of the same shape with zeros and ones.

labels = torch.cat([(x > 0), (x.abs() > 2)], 1).float()
several = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 2))
binary = covary.fit(covary.Model(several, covary.Bernoulli()), (x, labels), epochs=150, callbacks=())
print(binary.predict_proba(torch.tensor([[-2.5], [1.5]])))

# %%
# A likelihood of your own is an object with the members of ``covary.likelihoods.Likelihood``: ``log_prob``,
# ``log_prob_each``, ``root_product`` (a square root of :math:`\Lambda = -\nabla_f^2 \log p(y \mid f)` times a
# vector), ``mean`` and ``check``.
