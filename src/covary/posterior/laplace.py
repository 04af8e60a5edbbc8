r"""The Laplace posterior of the weights, and what follows from it."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Data
from ..errors import DataError, StructureError
from ..evidence import EvidenceTerms, Model, evidence_terms
from ..likelihoods import Likelihood
from ..linalg import Block
from ..noise import Stream, normal
from ..priors import Prior
from .fitting import Fitted, fit, fitted_map, posterior_shifts
from .function_space import ENTRIES, Linearized, covariance_parts, variance_parts
from .last_layer import restricted
from .predictive import (
    GaussianPrediction,
    OutputDistribution,
    Sampling,
    check_prediction,
    predict_glm,
    predict_mc,
)
from .storage import from_state, read_state, to_state, write_state


class Laplace:
    r"""The Gaussian posterior :math:`N(\theta, (H + \delta)^{-1})` of the weights that a prior covers.

    θ are the network's weights now, H the curvature of the training data, with exact columns, δ the prior's
    precisions at the time of each question: a prior that is tuned later needs no second pass. Predictions refuse a
    network whose weights have moved since.

    Arguments:
        network: The trained network, averaged or plain, in evaluation mode where it has modes.
        likelihood: The likelihood.
        prior: The prior, made for this network.
        data: The training data: a pair of tensors, a `Dataset`, or an iterable of batches.
        curvature: "kron" (KFAC), "kron-traced" (KFAC with partial traces), "full" or "diag".
        subset: "all" weights, or those of the "last_layer": of the module that is called last; the others are
            constants. With "kron" the cost then does not grow with the number of outputs times weights.
        seed: The seed of an averaged network's noise.
        batch_size: How many data go through at once, where the data can be cut.
    """

    def __init__(
        self,
        network: nn.Module,
        likelihood: Likelihood,
        prior: Prior,
        data: Data,
        curvature: str = "kron",
        *,
        subset: str = "all",
        seed: int = 0,
        batch_size: int | None = None,
    ) -> None:
        fitted = fit(network, likelihood, prior, data, (curvature, subset, seed, batch_size))
        self._set(network, likelihood, prior, fitted)

    @property
    def mean(self) -> Mapping[str, Tensor]:
        r"""The posterior's mean θ by name."""
        return self.fitted.mean

    @property
    def curvature(self) -> Block:
        r"""The curvature H of the data, without the prior."""
        return self.fitted.factors.curvature

    @property
    def num_params(self) -> int:
        """The number P of weights."""
        return self.curvature.size

    @torch.no_grad()
    def predict(
        self, x: Tensor, method: str = "glm", link: str = "probit", num_samples: int = 100, seed: int = 0
    ) -> Tensor | GaussianPrediction:
        r"""The predictive distribution: probabilities (N, C), or mean and variance (N, C) for Gaussian.

        The curvature is that of the linearized network, and so "glm" is the prediction that goes with it; networks
        with sampled weights ("mc") often predict far worse than the trained one.

        Arguments:
            x: The inputs, shape (N, ...).
            method: "glm": the linearized network, whose outputs are Gaussian; "mc": networks with sampled weights.
            link: For "glm" and classes: "probit" (needs variances only), "bridge" (the Laplace bridge, Categorical
                only), or "mc" (samples of the outputs, exact in the limit).
            num_samples: The number of samples, where there are any.
            seed: The seed of the samples; they are functions of it and of position, not of batches.
        """
        check_prediction(self.likelihood, method, link, num_samples)
        if method == "glm":
            return predict_glm(self._linearized(), x, link, Sampling(num_samples, seed))
        warnings.warn(
            "Networks with weights sampled from a Laplace posterior often underfit; method='glm' is the prediction "
            "that goes with its curvature.",
            stacklevel=2,
        )
        return predict_mc(self._model(), x, self._samples(num_samples, seed))

    @torch.no_grad()
    def function_distribution(self, x: Tensor) -> OutputDistribution:
        r"""The Gaussian of the linearized network's outputs: mean (N, C), covariance :math:`J(H+\delta)^{-1}J^\top`.

        The covariance is (N, C, C); `function_variance` has its diagonals without forming it. `function_space.py`
        says what either costs.
        """
        parts = list(covariance_parts(self._linearized(), x))
        means, covariances = [part.mean for part in parts], [part.spread for part in parts]
        return OutputDistribution(torch.cat(means), torch.cat(covariances))

    @torch.no_grad()
    def function_variance(self, x: Tensor) -> Float[Tensor, "N C"]:
        """The variance of each output of the linearized network."""
        return torch.cat([part.spread for part in variance_parts(self._linearized(), x)])

    @torch.no_grad()
    def sample_weights(self, num_samples: int, seed: int = 0) -> dict[str, Tensor]:
        r"""Samples :math:`\theta + (H + \delta)^{-1/2}\epsilon` by name, shape (num_samples, *shape).

        Sample s is a function of (seed, s), however many are drawn.
        """
        if num_samples < 1:
            raise DataError(f"num_samples must be at least 1; {num_samples} came. Pass for example 10.")
        return self._sampled(torch.arange(num_samples, device=self.curvature.device), seed)

    def log_evidence(self) -> EvidenceTerms:
        """The evidence in its terms, differentiable in the prior; for "last_layer", with the other weights given."""
        prior = restricted(self.prior, self.network, tuple(self.mean))
        weights = {name: nn.Parameter(value, requires_grad=False) for name, value in self.mean.items()}
        return evidence_terms(self.fitted.factors, prior, weights)

    def to(self, target: torch.dtype | torch.device | str) -> "Laplace":
        """The same posterior in another dtype or on another device; the network is moved by its own `to`."""
        return self._made(self.network, self.likelihood, self.prior, fitted_map(self.fitted, lambda t: t.to(target)))

    def state_dict(self) -> dict[str, Any]:
        """The tensors by key, with a JSON header that says what they are."""
        return to_state(self.fitted, self.likelihood, self.prior)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing; the posterior becomes the saved one, if that was made for this network, likelihood and prior."""
        self.fitted = from_state(state, self.network, self.likelihood, self.prior)

    def save(self, path: str | Path) -> None:
        """Nothing; a safetensors file at the path, which `load` reads."""
        write_state(self.state_dict(), path)

    @classmethod
    def load(cls, path: str | Path, network: nn.Module, likelihood: Likelihood, prior: Prior) -> "Laplace":
        """The posterior of a file, in the dtype and on the device of the network's weights; no pass over data.

        The network must be at the posterior's mean before it predicts: load its own weights, or
        `network.load_state_dict(posterior.mean, strict=False)`.

        Arguments:
            path: The file.
            network: The network.
            likelihood: The likelihood, with the parameters that it had.
            prior: The prior, with the precisions that it had.
        """
        return cls._made(network, likelihood, prior, from_state(read_state(path), network, likelihood, prior))

    @classmethod
    def _made(cls, network: nn.Module, likelihood: Likelihood, prior: Prior, fitted: Fitted) -> "Laplace":
        posterior = cls.__new__(cls)
        posterior._set(network, likelihood, prior, fitted)
        return posterior

    def _set(self, network: nn.Module, likelihood: Likelihood, prior: Prior, fitted: Fitted) -> None:
        self.network, self.likelihood, self.prior, self.fitted = network, likelihood, prior, fitted

    def _model(self) -> Model:
        """The model, after a check that the network is still at the mean."""
        weights = self.prior.weights(self.network)
        for name, mean in self.mean.items():
            weight = weights[name]
            if (weight.dtype, weight.device) != (mean.dtype, mean.device):
                raise StructureError(
                    f"Weight '{name}' is {weight.dtype} on {weight.device}, the posterior {mean.dtype} on "
                    f"{mean.device}. "
                    "Move one of them: posterior.to(...) returns a moved one, network.to(...) moves the network."
                )
            # a network that went through another dtype is rounded; one that was trained on is not that close
            if not torch.allclose(weight, mean, rtol=1e-5, atol=1e-8):
                raise StructureError(
                    f"Weight '{name}' has moved since the posterior was made, and its covariance holds there only. "
                    "Make a new Laplace, or go back: network.load_state_dict(posterior.mean, strict=False)."
                )
        return Model(self.network, self.likelihood, {name: weights[name] for name in self.mean}, self.fitted.seed)

    def _linearized(self) -> Linearized:
        return Linearized(self._model(), self.curvature, posterior_shifts(self.curvature, self.prior, self.mean))

    def _samples(self, num_samples: int, seed: int) -> Iterator[dict[str, Tensor]]:
        for numbers in torch.arange(num_samples, device=self.curvature.device).split(
            max(1, ENTRIES // self.num_params)
        ):
            samples = self._sampled(numbers, seed)
            yield from ({name: value[s] for name, value in samples.items()} for s in range(len(numbers)))

    def _sampled(self, numbers: Tensor, seed: int) -> dict[str, Tensor]:
        curvature, shifts = self.curvature, posterior_shifts(self.curvature, self.prior, self.mean)
        noise = normal(seed, numbers, (self.num_params,), stream=Stream.POSTERIOR, dtype=curvature.dtype)
        steps = curvature.sample(noise, shifts).split([value.numel() for value in self.mean.values()], 1)
        return {
            name: value + step.view(-1, *value.shape)
            for (name, value), step in zip(self.mean.items(), steps, strict=True)
        }
