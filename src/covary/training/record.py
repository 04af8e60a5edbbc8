"""The record of a fit: everything that a report says of it, as plain data."""

import platform
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import cast

import torch
from torch import Tensor, nn

from .._text import plural, warn
from ..augment.limits import limits_of
from ..batches import Batches, Data, IndexedBatch, outputs_of_first
from ..config import FitConfig
from ..curvature import coverage
from ..distributed import own_part
from ..evidence import parametrization_of
from ..layer_summary import summarize_layers
from ..likelihoods import Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from ..models import Model
from ..networks.recipes import recipe_of
from ..priors import Prior, mean_precisions
from ..records import Coverage, Epoch, Evidence, Layer, PredictedNoise, RunRecord, Symmetry
from ..records.settling import with_states
from ..records.tables import noises
from ..records.words import meaning
from .ascent import evaluated_curvature, evaluated_network
from .constant import noise_notes, target_deviations
from .error_bars import with_errors
from .held_out import tested
from .metrics import predicted_noise
from .pictures import NUM_PICTURES, pictures_of
from .problems import problem_of_run
from .schedule import EVALUATE, SAMPLES, seed_for
from .state import FitState
from .storage import model_recipe
from .timing import timed
from .widths import Move, augmentation_of


def epoch_record(
    state: FitState,
    log_likelihood: float,
    evidence: Evidence | None,
    evaluated: Evidence | None,
    best: bool,
    seconds: float,
) -> Epoch:
    """The record of the epoch that has just ended."""
    augment = augmentation_of(state.network)
    widths = {} if augment is None else dict(zip(augment.names, augment.widths.tolist(), strict=True))
    return Epoch(state.epoch, log_likelihood, widths, _precisions(state.prior), evidence, evaluated, seconds, best)


def described(
    state: FitState, batches: Batches, config: FitConfig, test: Data | None, clock: Callable[[], float], name: str = ""
) -> RunRecord:
    """The record of a finished fit.

    Arguments:
        state: The state, its modules as they are to be kept.
        batches: The training data.
        config: The settings.
        test: Test data, or None.
        clock: The seconds that the fit has taken so far.
        name: The name of the data, where they have one.
    """
    first, augment = next(iter(batches)), augmentation_of(state.network)
    evidence = None if state.best is None else state.best.evidence
    with timed(state.timings, "evaluation"):
        learned = _symmetries(state, tuple(first.x.shape[1:]))
        symmetries = with_errors(learned, state.hyper, batches, config, evidence)
        layers = _layers(state, batches, config)
    with timed(state.timings, "test"):
        found, problems = tested(state, test, config.seed)
    deviations, predicted = _targets(state, batches, config.seed)
    problem = problem_of_run(state, batches, config)
    sizes = [*noises(_likelihood(state.likelihood)), *(noise.size for noise in predicted)]
    # what they advise does not help where there is a problem
    notes = [] if problem is not None else _notes(state, config, noise_notes(sizes, deviations))
    return RunRecord(
        title=title_of(name, state.hyper.num_data, tuple(first.x.shape[1:]), state.network),
        config=config.as_dict() | {"parametrization": parametrization_of(state.network)},
        versions=versions(),
        symmetries=symmetries,
        evidence=evidence,
        test=found,
        baselines=[],
        layers=layers,
        history=list(state.history),
        samples=None if augment is None else pictures_of(augment, _shown(batches, config.seed), config.seed),
        coverage=_coverage(state, config),
        correlation=_correlation(state.network),
        true_widths={},
        seconds=clock(),
        timings=dict(state.timings),
        notes=[*notes, *problems],
        problem=problem,
        model=model_recipe(state.model) | {"evaluation_modules": list(state.evaluation_modules)},
        likelihood=_likelihood(state.likelihood),
        target_std=deviations,
        predicted_noise=predicted,
        input_shape=list(first.x.shape[1:]),
        roles=_roles(state.model),
    )


def title_of(name: str, num_data: int, shape: tuple[int, ...], network: nn.Module) -> str:
    """The title of a run: its data and its network, without the wrappers around that.

    Arguments:
        name: The name of the data, or empty.
        num_data: Their number.
        shape: The shape of one of them.
        network: The network.
    """
    recipe = recipe_of(network)
    while recipe["kind"] in ("averaged", "standardized"):
        network, recipe = cast(nn.Module, network.network), recipe["network"]
    kind = type(network).__name__ if recipe["kind"] == "custom" else recipe["kind"]
    count = plural(num_data, "image") if len(shape) == 3 else f"{num_data:,} data"
    if name:
        return f"{name}: {count}, {kind}"
    sizes = " × ".join(map(str, shape[1:] if len(shape) == 3 else shape)) or "one number"
    return f"{count} of {sizes}{' features' if len(shape) == 1 else ''}, {kind}"


@torch.no_grad()
def _targets(state: FitState, batches: Batches, seed: int) -> tuple[list[float], list[PredictedNoise]]:
    """The standard deviation of each real target or count, and the noise of each that the network predicts."""
    if not isinstance(state.likelihood, Gaussian | HeteroscedasticGaussian | Poisson):
        return [], []
    first = next(iter(batches))
    means = state.likelihood.mean(outputs_of_first(state.network, first))
    return target_deviations(batches, means), predicted_noise(state.model, batches, seed_for(seed, EVALUATE))


def _notes(state: FitState, config: FitConfig, of_noise: list[str]) -> list[str]:
    """What a reader must know, said as a warning too."""
    learning = state.hyper.optimizer is not None and config.hyper.estimator != "augerino"
    notes = []
    if learning and state.hyper.learning.num_steps == 0:
        notes.append(
            f"No hyper step was taken: the burn-in has {config.hyper.burn_in} epochs of {config.epochs}. Widths and "
            "prior are those at the start; lower hyper.burn_in or raise epochs."
        )
    elif learning and _waits(state):
        notes.append(
            "No width was learned: the log-likelihood per datum never rose clearly above that of a constant "
            f"prediction, {state.hyper.constant:.4f}, so the network has nothing to say about transforms. Raise "
            "epochs, or change weights.lr."
        )
    elif learning and _stands_still(state):
        notes.append(
            f"No width moved in {state.hyper.learning.num_steps} hyper steps: the gradient of the evidence is zero in "
            "each, as for transforms that change no datum. Check that the augmentation suits the data."
        )
    if config.weights.warmup_epochs >= config.epochs:
        notes.append(
            f"The weights never reached their learning rate: the warm-up has {config.weights.warmup_epochs} epochs of "
            f"{config.epochs}. Lower weights.warmup_epochs or raise epochs."
        )
    if state.learns_likelihood or isinstance(state.likelihood, HeteroscedasticGaussian):
        notes += of_noise
    for note in notes:
        warn(note)
    return notes


def _symmetries(state: FitState, shape: tuple[int, ...]) -> list[Symmetry]:
    augment = augmentation_of(state.network)
    if augment is None:
        return []
    units = getattr(augment, "units", ("",) * len(augment.names))
    image = shape if len(shape) == 3 else None
    limits = {name: list(ends) for name, ends in limits_of(augment).items()}
    found = [
        Symmetry(name, width, unit, meaning(name, width, unit, image), limits=limits.get(name))
        for name, width, unit in zip(augment.names, augment.widths.tolist(), units, strict=True)
    ]
    return [_unmoved(entry, state) for entry in with_states(found, state.history, image)]


def _unmoved(symmetry: Symmetry, state: FitState) -> Symmetry:
    """The symmetry; a width that no hyper step was to move is not said to be moving, however few of them there were."""
    if any(epoch.widths[symmetry.name] != symmetry.width for epoch in state.history):
        return symmetry
    if _waits(state):
        return replace(symmetry, state="not learned yet")
    frozen = not Move(state.network, 0.0).parameters and symmetry.state == "still moving"
    return replace(symmetry, state="fixed") if frozen else symmetry


def _waits(state: FitState) -> bool:
    """Whether there are widths to learn, and the network never predicted well enough for it."""
    return state.hyper.learning.begun is None and bool(Move(state.network, 0.0).parameters)


def _stands_still(state: FitState) -> bool:
    """Whether hyper steps were to move the widths, and moved none."""
    trajectory = state.hyper.learning.widths
    moved = any(widths != trajectory[0] for widths in trajectory)
    return bool(Move(state.network, 0.0).parameters) and len(trajectory) > 1 and not moved


def _roles(model: Model) -> dict[str, dict[str, int]]:
    """The number of entries of each parameter, by role and name."""
    counts = {name: parameter.numel() for name, parameter in model.parameters().items()}
    found: dict[str, dict[str, int]] = {}
    for name, role in model.roles.items():
        found.setdefault(role, {})[name] = counts[name]
    return found


def _precisions(prior: Prior) -> dict[str, float]:
    """The precision of each group; of a group with many, their geometric mean."""
    if prior.structure != "diagonal":
        return dict(zip(prior.groups, prior.precision.tolist(), strict=True))
    means = mean_precisions(prior)
    return {name: means[name] for name in prior.names}


def _likelihood(likelihood: Likelihood) -> dict[str, float]:
    """The positive hyperparameters of a likelihood by name, several of one name with their numbers."""
    logs = {name[4:]: p.detach().exp() for name, p in likelihood.named_parameters() if name.startswith("log_")}
    each = {name: list(enumerate(p.tolist())) if p.ndim else [(None, p.item())] for name, p in logs.items()}
    return {f"{name}" if n is None else f"{name}[{n}]": value for name, found in each.items() for n, value in found}


def _correlation(network: nn.Module) -> list[list[float]] | None:
    matrix = getattr(augmentation_of(network), "correlation", None)
    return matrix.tolist() if isinstance(matrix, Tensor) else None


def _shown(batches: Batches, seed: int) -> IndexedBatch:
    """A few data to look at, from anywhere: many sets are sorted by class. Of a stream, those that come first."""
    if batches.read is None:
        return next(iter(batches))
    return next(iter(batches.subset(min(NUM_PICTURES, batches.num_data), seed_for(seed, SAMPLES))))


def _coverage(state: FitState, config: FitConfig) -> list[Coverage]:
    """How each weight enters the evaluated evidence: by its own rule in Kronecker form, else all of them alike."""
    rows = coverage(state.network, state.model.weights).rows
    evaluated = "kernel" if config.hyper.estimator == "kernel" else config.curvature
    alike = {"full": "full", "diag": "diagonal", "kernel": "kernel"}.get(evaluated)
    modules = [f"{row.modules} (by autograd)" if row.by_autograd else row.modules for row in rows]
    return [
        Coverage(row.name, list(row.shape), module, alike or row.structure)
        for row, module in zip(rows, modules, strict=True)
    ]


def _layers(state: FitState, batches: Batches, config: FitConfig) -> list[Layer]:
    """What each relaxed layer became, under the noise of the evaluated evidence; none without learning.

    The curvature is the settings', also where kernels have evaluated: these have no eigenvalues by weight.
    """
    if state.hyper.optimizer is None:
        return []
    model = replace(state.model, network=evaluated_network(state.network, config))
    curvature = evaluated_curvature(config)
    seed, first = seed_for(config.seed, EVALUATE), next(iter(batches))
    found = summarize_layers(model, own_part(batches), curvature, probe_batch=first, seed=seed)
    return [Layer(layer.name, layer.learned, list(layer.paths), *layer.errors) for layer in found]


def versions() -> dict[str, str]:
    """The versions that a result depends on, and the number of threads.

    Example:
        >>> from covary.training import versions
        >>> sorted(versions())
        ['covary', 'python', 'threads', 'torch']
    """
    return {
        "covary": version("covary"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": str(torch.get_num_threads()),
    }
