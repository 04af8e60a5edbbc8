"""Several runs side by side: their order by evidence, and whether the order means anything."""

from collections.abc import Sequence
from typing import Any

from ..records import RunRecord

# Settings that say which data a run saw: evidences of different data are no rivals.
DATA_SETTINGS = ("data", "num_train", "symmetrize", "task")


def comparison(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """One row per run, the highest log evidence first, those without an evidence last.

    `log_bayes_factor` is the log evidence minus that of the best: 0 for the best, negative for all others.
    """
    order = sorted(runs, key=lambda run: (run.evidence is None, -run.evidence.log_evidence if run.evidence else 0.0))
    best = order[0].evidence.log_evidence if order and order[0].evidence else 0.0
    rows = []
    for number, run in enumerate(order, 1):
        known = run.evidence
        rows.append(
            {
                "rank": number if known else None,
                "title": run.title,
                "log_evidence": known and known.log_evidence,
                "log_bayes_factor": known and known.log_evidence - best,
                "log_likelihood": known and known.log_likelihood,
                "log_prior": known and known.log_prior,
                "log_volume": known and known.log_volume,
                "num_data": known and known.num_data,
                "curvature": known and known.curvature,
                "accuracy": run.test and run.test.accuracy,
                "complete": run.complete,
            }
        )
    return rows


def comparability(runs: Sequence[RunRecord]) -> list[str]:
    """Reasons why the evidences of these runs cannot be compared, one sentence each; empty where they can."""
    warnings = [f"'{run.title}' has no evidence: it is listed last." for run in runs if run.evidence is None]
    warnings += [f"'{run.title}' did not come to its end: its evidence may rise." for run in runs if not run.complete]
    known = [run.evidence for run in runs if run.evidence is not None]
    differing = {
        "are of different numbers of data": {str(evidence.num_data) for evidence in known},
        "use different curvatures": {evidence.curvature for evidence in known},
        "use different columns": {evidence.columns for evidence in known},
        "are in different parametrizations": {run.config.get("parametrization", "Cartesian") for run in runs},
    }
    # the seed draws the images of a limit, the amounts of a symmetry, and the quadrants of a task
    made = ("symmetrize", "task")
    drawn = any(run.config.get("num_train") or any(run.config.get(s, "none") != "none" for s in made) for run in runs)
    for setting in (*DATA_SETTINGS, "seed") if drawn else DATA_SETTINGS:
        differing[f"saw different data, by the setting {setting}"] = {repr(run.config.get(setting)) for run in runs}
    for difference, found in differing.items():
        if len(found) > 1:
            listed = ", ".join(sorted(found))
            warnings.append(f"The runs {difference} ({listed}): their evidences cannot be compared.")
    return warnings
