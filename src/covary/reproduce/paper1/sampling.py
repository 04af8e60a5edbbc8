"""How many augmentation samples does an average need? Errors of outputs and of hyper-gradients against S.

A network with one hidden layer, trained on digits under fixed rotations, shifts and scales. Its averaged outputs and
the gradient of the log evidence with respect to the widths (two passes, Kronecker curvature, exact probes) are
compared with those of many Sobol samples; an error is relative and root-mean-square over outputs or widths, data, and
independent seeds of the noise. Errors of independent samples fall as 1/√S, those of Sobol points on a grid faster:
outputs are smooth in the five amounts. The hyper-gradient also has a bias of about 1/S: the variance of f̂ adds to the
curvature as the widths do, so with a few samples most of the error is common to all seeds. Two independent sets of half
as many samples remove that bias from the curvature's factors, and have a larger variance.
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...augment import Affine2d
from ...config import EvalConfig, ExperimentConfig, FitConfig, WeightConfig
from ...data import limited, load
from ...hypergrad import two_pass
from ...models import Model
from ...networks import Averaged, mlp
from ...noise import fold
from ...priors import Prior
from ...records import Claim, Study
from ...training import fit, versions
from ..study import ADAM_STEPS, Request

WIDTHS = {"shift_x": 0.1, "shift_y": 0.1, "rotation": math.pi / 2, "scale_x": 0.15, "scale_y": 0.15}
SAMPLERS = ("sobol", "two sets", "random")
QUANTITIES = ("outputs", "hyper-gradient")
FEW = 16  # Sobol samples, against twice as many independent ones


@dataclass(frozen=True)
class Scale:
    """The sizes of the study: numbers S of samples, S of the reference, data, seeds of the noise, and training."""

    sizes: tuple[int, ...]
    reference: int
    num_data: int
    num_seeds: int
    num_train: int
    num_hidden: int
    fit: FitConfig


_FIT = FitConfig(
    epochs=10,
    weights=WeightConfig(lr=5e-3, batch_size=250),
    hyper=ADAM_STEPS.replace(burn_in=2, every=1, num_prior_steps=4, augment_lr_min=0.005),
    evaluation=EvalConfig(num_evaluations=0),
)
SCALES = {
    "smoke": Scale((8, 16, 32), 64, 4, 1, 100, 10, _FIT.replace(epochs=2, hyper={"burn_in": 1})),
    "cpu": Scale((1, 2, 4, 8, 16, 32, 64, 128), 2048, 48, 8, 2000, 100, _FIT),
    "paper": Scale((1, 2, 4, 8, 16, 32, 64, 128), 4096, 100, 8, 5000, 1000, _FIT.replace(epochs=30)),
}


def sampling(request: Request) -> Study:
    """Errors of averaged outputs and hyper-gradients for each S: Sobol samples in one or two sets, independent ones.

    Scale "paper" has the network of paper 1; the papers have no such study.
    """
    started, chosen = time.perf_counter(), SCALES[request.scale]
    seed, progress = request.seed, request.progress
    progress("training", 0.0)
    model = _trained(chosen, seed)
    progress("reference", 0.2)
    reference = model.quantities("sobol", chosen.reference, fold(seed, 0))
    seeds = [fold(seed, 1 + number) for number in range(chosen.num_seeds)]
    rows = []
    for done, size in enumerate(chosen.sizes):
        progress(f"S = {size}", 0.5 + 0.5 * sum(chosen.sizes[:done]) / sum(chosen.sizes))
        rows += [_row(model, sampler, size, reference, seeds) for sampler in SAMPLERS if _possible(sampler, size)]
    exponents = {f"{name}, {sampler}": _exponent(rows, sampler, name) for name in QUANTITIES for sampler in SAMPLERS}
    return Study(
        name="sampling",
        scale=request.scale,
        title="Errors of an average over S augmentation samples",
        config=asdict(chosen) | {"seed": seed, "widths": WIDTHS},
        versions=versions(),
        rows=rows,
        series={"exponents": exponents, "conclusion": _conclusion(rows)},
        claims=_claims(rows, exponents),
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Model:
    """A trained network with the few data that errors are measured on."""

    network: nn.Module
    prior: Prior
    x: Tensor
    y: Tensor

    def quantities(self, sampler: str, num_samples: int, seed: int) -> dict[str, Tensor]:
        """Averaged outputs, and the gradient of the log evidence with respect to every width."""
        points = "random" if sampler == "random" else "sobol"
        augment = Affine2d(tuple(WIDTHS), initial_width=WIDTHS, sampler=points).to(self.x)
        averaged = Averaged(self.network, augment, num_samples, num_sets=2 if sampler == "two sets" else 1).eval()
        gradient = two_pass(Model(averaged, prior=self.prior), (self.x, self.y), "kron", seed=seed)
        with torch.no_grad():
            # datum by datum: the reference has a thousand samples of each
            each = [averaged(x, torch.tensor([n]), seed=seed) for n, x in enumerate(self.x.split(1))]
        return dict(zip(QUANTITIES, (torch.cat(each), gradient["augment.raw_widths"]), strict=True))


def _trained(chosen: Scale, seed: int) -> _Model:
    """The network after training under the fixed widths, in float64."""
    data = limited(load("mnist-mini"), chosen.num_train, seed)
    network = mlp(784, chosen.num_hidden, 10, generator=torch.Generator().manual_seed(seed)).float()
    augment = Affine2d(tuple(WIDTHS), initial_width=WIDTHS).float().requires_grad_(False)
    averaged = Averaged(network, augment, 4)
    prior = Prior(averaged)
    fit(Model(averaged, prior=prior), (data.x_train, data.y_train), chosen.fit, seed=seed, callbacks=())
    x, y = data.x_test[: chosen.num_data].double(), data.y_test[: chosen.num_data]
    return _Model(network.double(), prior.double(), x, y)


def _row(model: _Model, sampler: str, size: int, reference: dict[str, Tensor], seeds: list[int]) -> dict[str, Any]:
    """Relative errors over all seeds, and of the mean over seeds, which steps with new noise do not average out."""
    found = [model.quantities(sampler, size, seed) for seed in seeds]
    row: dict[str, Any] = {"sampler": sampler, "S": size}
    for name, true in reference.items():
        errors = torch.stack([one[name] - true for one in found])
        row[name] = float(errors.norm() / true.norm()) / math.sqrt(len(seeds))
        row[f"{name}, mean"] = float(errors.mean(0).norm() / true.norm())
    return row


def _possible(sampler: str, size: int) -> bool:
    """Whether the sampler can draw this number of samples: two sets have an even number."""
    return sampler != "two sets" or size % 2 == 0


def _exponent(rows: list[dict[str, Any]], sampler: str, name: str) -> float:
    """The exponent k of an error proportional to S^k, by least squares."""
    line = torch.tensor([[row["S"], row[name]] for row in rows if row["sampler"] == sampler], dtype=torch.float64)
    size, error = (line.log() - line.log().mean(0)).T
    return float(size @ error / (size @ size))


def _error(rows: list[dict[str, Any]], sampler: str, size: int, name: str) -> float:
    return next(float(row[name]) for row in rows if (row["sampler"], row["S"]) == (sampler, size))


def _conclusion(rows: list[dict[str, Any]]) -> str:
    """The numbers of samples that `covary discover` uses, and their errors."""
    outputs, fit = ExperimentConfig().num_samples, ExperimentConfig().fit
    gradient = fit.hyper.num_samples or FEW
    sampler, sets = ("two sets", "two sets") if fit.hyper.num_sets == 2 else ("sobol", "one set")
    error, bias = (_error(rows, sampler, gradient, name) for name in ("hyper-gradient", "hyper-gradient, mean"))
    return (
        f"{outputs} Sobol samples have an error of {_error(rows, 'sobol', outputs, 'outputs'):.1%} in outputs and of "
        f"{_error(rows, 'sobol', outputs, 'hyper-gradient'):.1%} in the hyper-gradient; {gradient} in {sets} have "
        f"{error:.1%} there, of which {bias:.1%} remain in the mean over seeds: discover uses {outputs} samples in "
        f"weight steps and {gradient}, in {sets}, in hyper steps."
    )


def _claims(rows: list[dict[str, Any]], exponents: dict[str, float]) -> list[Claim]:
    claims = []
    for name in QUANTITIES:
        few, many = _error(rows, "sobol", FEW, name), _error(rows, "random", 2 * FEW, name)
        sentence = f"{name}: {FEW} Sobol samples beat {2 * FEW} independent ones"
        claims.append(Claim(sentence, f"error < {many:.4f}", f"{few:.4f}", few < many))
    one, two = (_error(rows, sampler, FEW, "hyper-gradient, mean") for sampler in ("sobol", "two sets"))
    sentence = f"hyper-gradient: {FEW} samples in two sets have less bias than in one"
    claims.append(Claim(sentence, f"mean error < {one:.4f}", f"{two:.4f}", two < one))
    random, sobol = exponents["outputs, random"], exponents["outputs, sobol"]
    sentence, holds = "outputs: the error of independent samples falls as 1/√S", abs(random + 0.5) < 0.1
    return [
        *claims,
        Claim(sentence, "exponent −0.5 ± 0.1", f"{random:.2f}", holds),
        Claim("outputs: that of Sobol samples falls faster", f"< {random:.2f}", f"{sobol:.2f}", sobol < random),
    ]
