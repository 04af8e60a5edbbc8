r"""The Laplace posterior of the weights, and its predictions."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import Data
from ..curvature.registry import Curvature, CurvatureName, as_curvature
from ..errors import DataError, StructureError
from ..evidence import EvidenceTerms
from ..evidence.terms import evidence_terms
from ..linalg import Block
from ..models import Model, as_model
from ..noise import Stream, normal
from .fitting import Fitted, Subset, fit, fitted_map, posterior_shifts
from .function_space import ENTRIES, Linearized, covariance_chunks, variance_chunks
from .predictive import GaussianPrediction, OutputDistribution, Sampling, check_prediction, predict_glm, predict_mc
from .storage import from_state, read_state, to_state, write_state


class Laplace:
    r"""The Gaussian posterior :math:`N(\theta, (H + \delta)^{-1})` of the weights that a prior covers.

    θ are the network's weights now, H the curvature of the training data, δ the prior's precisions at the time of each
    call: a prior that is tuned later needs no second pass. Predictions refuse a network whose weights have changed
    since.

    Arguments:
        model: The trained model, or a network; call `eval()` first if it has `BatchNorm` or `Dropout`.
        data: The training data: arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        curvature: The choice of curvature, or the name of its structure; any but "kernel".
        subset: "all" weights, or those of the "last_layer": of the module that is called last; the others are
            constants. With "kron" the cost then does not grow with the number of outputs times weights.
        seed: The seed of an averaged network's noise and of random probes.

    Example:
        >>> import torch, covary
        >>> data = torch.randn(8, 4), torch.arange(8) % 3
        >>> posterior = covary.Laplace(torch.nn.Linear(4, 3), data)
        >>> posterior.predict(torch.zeros(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        model: nn.Module | Model,
        data: Data,
        curvature: Curvature | CurvatureName = "kron",
        *,
        subset: Subset = "all",
        seed: int = 0,
    ) -> None:
        self.model = as_model(model)
        self.fitted = fit(self.model, data, as_curvature(curvature), subset=subset, seed=seed)

    @property
    def mean(self) -> Mapping[str, Tensor]:
        r"""The posterior's mean θ by name."""
        return self.fitted.mean

    @property
    def curvature(self) -> Block:
        r"""The curvature H of the data, without the prior."""
        return self.fitted.statistics.curvature

    @property
    def num_params(self) -> int:
        """The number P of weights."""
        return self.curvature.size

    @torch.no_grad()
    def predict(
        self, x: Tensor, method: str = "glm", link: str = "probit", num_samples: int = 100, seed: int = 0
    ) -> Tensor | GaussianPrediction:
        r"""The predictive distribution: probabilities (N, C), expected counts, or mean and variance (N, C) of reals.

        Of classes per position "glm" gives probabilities (N, C, P), the positions flattened.

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
        check_prediction(self.model.likelihood, method, link, num_samples)
        if method == "glm":
            return predict_glm(self._linearized(), x, link, Sampling(num_samples, seed))
        warnings.warn(
            "Networks with weights sampled from a Laplace posterior often underfit; method='glm' is the prediction "
            "that goes with its curvature.",
            stacklevel=2,
        )
        return predict_mc(self._checked_model(), x, self._samples(num_samples, seed), self.fitted.seed)

    @torch.no_grad()
    def function_distribution(self, x: Tensor) -> OutputDistribution:
        r"""The Gaussian of the linearized network's outputs: mean (N, C), covariance :math:`J(H+\delta)^{-1}J^\top`.

        The covariance is (N, C, C); `function_variance` has its diagonals without forming it. `function_space.py`
        says what either costs.
        """
        parts = list(covariance_chunks(self._linearized(), x))
        means, covariances = [part.mean for part in parts], [part.spread for part in parts]
        return OutputDistribution(torch.cat(means), torch.cat(covariances))

    @torch.no_grad()
    def function_variance(self, x: Tensor) -> Float[Tensor, "N C"]:
        """The variance of each output of the linearized network."""
        return torch.cat([part.spread for part in variance_chunks(self._linearized(), x)])

    @torch.no_grad()
    def sample_weights(self, num_samples: int, seed: int = 0) -> dict[str, Tensor]:
        r"""Samples :math:`\theta + (H + \delta)^{-1/2}\epsilon` by name, shape `(num_samples, ...)`.

        Sample s is a function of (seed, s), however many are drawn.
        """
        if num_samples < 1:
            raise DataError(f"Expected num_samples of at least 1, got {num_samples}. Pass for example 10.")
        return self._sampled(torch.arange(num_samples, device=self.curvature.device), seed)

    def log_evidence(self) -> EvidenceTerms:
        """The evidence in its terms, differentiable in the prior; for "last_layer", with the other weights given."""
        return evidence_terms(self._restricted(), self.fitted.statistics, weights=self.mean)

    def to(self, target: torch.dtype | torch.device | str) -> "Laplace":
        """The same posterior in another dtype or on another device; the network is moved by its own `to`."""
        return self._made(self.model, fitted_map(self.fitted, lambda t: t.to(target)))

    def state_dict(self) -> dict[str, Any]:
        """The tensors by key, with a JSON header that describes them."""
        return to_state(self.fitted, self.model)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the posterior by a saved one, which must have been made for this model."""
        self.fitted = from_state(state, self.model)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file, which `load` reads."""
        write_state(self.state_dict(), path)

    @classmethod
    def load(cls, path: str | Path, model: nn.Module | Model) -> "Laplace":
        """The posterior of a file, in the dtype and on the device of the network's weights; no pass over data.

        The network must be at the posterior's mean before it predicts: load its own weights, or
        `network.load_state_dict(posterior.mean, strict=False)`.

        Arguments:
            path: The file.
            model: The model, with the parameters of the likelihood and the precisions of the prior that it had.
        """
        model = as_model(model)
        return cls._made(model, from_state(read_state(path), model))

    @classmethod
    def _made(cls, model: Model, fitted: Fitted) -> "Laplace":
        posterior = cls.__new__(cls)
        posterior.model, posterior.fitted = model, fitted
        return posterior

    def _restricted(self) -> Model:
        """The model of the weights that the posterior is over."""
        return self.model.restricted(self.mean)

    def _checked_model(self) -> Model:
        """The model of these weights, after a check that the network is still at the mean."""
        model = self._restricted()
        for name, weight in model.weights.items():
            mean = self.mean[name]
            if (weight.dtype, weight.device) != (mean.dtype, mean.device):
                raise StructureError(
                    f"Expected weight '{name}' to be {mean.dtype} on {mean.device} as the posterior is, got "
                    f"{weight.dtype} on {weight.device}. Move one of them by posterior.to(...) or network.to(...)."
                )
            # a network that went through another dtype is rounded; one that was trained on is not that close
            if not torch.allclose(weight, mean, rtol=1e-5, atol=1e-8):
                raise StructureError(
                    f"Weight '{name}' has changed since the posterior was made, and its covariance holds there only. "
                    "Make a new Laplace, or restore it: network.load_state_dict(posterior.mean, strict=False)."
                )
        return model

    def _linearized(self) -> Linearized:
        model = self._checked_model()
        return Linearized(model, self.curvature, posterior_shifts(self.curvature, model), self.fitted.seed)

    def _samples(self, num_samples: int, seed: int) -> Iterator[dict[str, Tensor]]:
        for numbers in torch.arange(num_samples, device=self.curvature.device).split(
            max(1, ENTRIES // self.num_params)
        ):
            samples = self._sampled(numbers, seed)
            yield from ({name: value[s] for name, value in samples.items()} for s in range(len(numbers)))

    def _sampled(self, numbers: Tensor, seed: int) -> dict[str, Tensor]:
        curvature, shifts = self.curvature, posterior_shifts(self.curvature, self._restricted())
        noise = normal(seed, numbers, (self.num_params,), stream=Stream.POSTERIOR, dtype=curvature.dtype)
        steps = curvature.sample(noise, shifts).split([value.numel() for value in self.mean.values()], 1)
        return {
            name: value + step.view(-1, *value.shape)
            for (name, value), step in zip(self.mean.items(), steps, strict=True)
        }
