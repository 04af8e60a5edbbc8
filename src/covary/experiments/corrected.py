"""The corrected evidence of a saved run: `covary compare --correction`."""

from pathlib import Path

from .._types import Resampling
from ..evidence import Correction, log_evidence
from ..models import Model
from ..records import Evidence, read_run
from ..training.ascent import evaluated_curvature, evidence_record
from ..training.schedule import EVALUATE, filled_in, seed_for
from .restore import NOTHING, Replacements, restored


def corrected_evidence(folder: Path, correction: Correction, given: Replacements = NOTHING) -> Evidence:
    """The evidence of a saved run with the log-volume of the whole Gauss–Newton matrix, and its standard error.

    The training data are those that the record names, unless others are given; the number of augmentation samples is
    that of the run's evaluations.

    Arguments:
        folder: The folder of a run of `discover` or `layers`.
        correction: How to correct it.
        given: What to use in place of what the record names.

    Example:
        >>> from pathlib import Path
        >>> from covary.evidence import Correction
        >>> from covary.experiments import corrected_evidence
        >>> corrected_evidence(Path("runs/latest"), Correction("lanczos"))  # doctest: +SKIP
    """
    run = read_run(folder)
    config, task, model = restored(run, folder, given, same_data=True)
    network, fit = model.network, filled_in(config.fit, len(task.dataset.x_train))
    if isinstance(network, Resampling) and fit.evaluation.num_samples is not None:
        network = network.with_samples(fit.evaluation.num_samples)
    curvature, seed = evaluated_curvature(fit), seed_for(fit.seed, EVALUATE)
    whole = Model(network, model.likelihood, model.prior)
    terms = log_evidence(whole, task.dataset.train, curvature, seed=seed, correction=correction)
    return evidence_record(terms, fit.curvature, fit.evaluation.probes)
