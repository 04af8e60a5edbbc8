"""Do layers become convolutional on natural images by themselves?

Paper 2, Sec. 6.2, Tables 2 and 4, Figure 3. Free paths beside convolutions overfit when every prior has the precision
1; the evidence learns which paths to prune. Sparse layers are learned with a prior on their anchor values alone, with
length-scales as weights that have a prior, and with length-scales as hyperparameters: the columns of Table 2.
"""

from dataclasses import replace
from typing import Any

from ...config import FitConfig
from ...records import Claim, Study
from ..study import Request, above, below
from .layer_study import EVIDENCE, MAP, METHODS, PAPER, SMOKE, Cell, Cells, Job, Scale, Version, train_all

DATA = "CIFAR-10"
FACTORED, SPARSE = RELAXED = ("F-FC+CONV", "S-FC+S-CONV")
# Network -> its paths, and what the prior is on: weights θ, anchor values u, inverse length-scales ω.
NETWORKS = {
    "CONV": ("conv", "θ"),
    FACTORED: ("f-fc+conv", "θ"),
    "S-CONV": ("s-conv", "u"),
    SPARSE: ("s-fc+s-conv", "u"),
    f"{SPARSE}, ω a weight": ("s-fc+s-conv:weight", "u, ω"),
    f"{SPARSE}, ω learned": ("s-fc+s-conv:hyperparameter", "u, and ω without one"),
}
# Paths without a convolution, the other rows of Table 2: at the scales where they fit.
FREE = {"FC": ("fc", "θ"), "F-FC": ("f-fc", "θ"), "S-FC": ("s-fc", "u")}
NARROWER = {"full": {"FC": 1}}  # α of a network that would be too large at the common one
EARLY = 4  # layers of eight
CLOSE = 0.02

# A path that is useless at the first hyper step is pruned for good, and filters on natural images learn slowly: a long
# burn-in. Half the usual learning rate is far better for the sparse sum; MAP overfits, by its test loss, after many
# epochs. KFAC overstates the curvature of dense paths up to a hundred times, its partial traces far less.
LATE = FitConfig.preset("layers").replace(
    epochs=160, curvature="kron-traced", weights={"lr": 2.5e-3}, hyper={"burn_in": 60, "every": 10}
)
SCALES = {
    "smoke": Scale(1, 100, 8, SMOKE),
    "cpu": Scale(6, 3000, 32, LATE, processes=2, train_augment="flips+shifts"),
    "full": Scale(6, 6000, 32, LATE, processes=2, train_augment="flips+shifts", start="best"),
    "paper": Scale(10, None, 32, PAPER, train_augment="flips+shifts"),
}


def cifar_layers(request: Request) -> Study:
    """Test accuracy of strict and relaxed layers by MAP and by the evidence, and what each relaxed layer became."""
    chosen = SCALES[request.scale].with_options(request)
    version = Version("mnist-mini" if request.scale == "smoke" else "cifar-10")
    networks = NETWORKS if request.scale == "cpu" else NETWORKS | FREE
    narrower = NARROWER.get(request.scale, {})
    scales = {name: replace(chosen, alpha=narrower.get(name, chosen.alpha)) for name in networks}
    jobs = [
        Job(DATA, network, method, scales[network].config(paths, version, seeded))
        for seeded in chosen.requests(request)
        for network, (paths, _) in networks.items()
        for method in METHODS
        if method == EVIDENCE or ":" not in paths
    ]
    cells = train_all(jobs, chosen, request)
    title, config = "Layers that may become convolutional, on CIFAR-10", {"data": version.data, "narrower": narrower}
    study = cells.study("cifar-layers", title, _claims(cells), config)
    return replace(study, rows=[_row(cell) for cell in cells.all])


def _row(cell: Cell) -> dict[str, Any]:
    """The line of a network, with what its prior covers and the learned types of its layers, from the input."""
    learned = " ".join(layer.learned for layer in cell.layers) or None
    return cell.row() | {"prior on": (NETWORKS | FREE)[cell.network][1], "learned types": learned}


def _claims(cells: Cells) -> list[Claim]:
    best = cells.best_accuracy(DATA, "CONV")
    claims = []
    for network in RELAXED:
        claims += _hurt(cells, network)
        learned = cells.accuracy(DATA, network, EVIDENCE)
        claims.append(above(f"evidence repairs {network} to within 2 points of CONV", learned, best - CLOSE))
        alone, learned = (cells.loss(DATA, network, method) for method in METHODS)
        claims.append(below(f"evidence lowers the test loss of {network}", learned, alone))
    return [*claims, *(_early(cells, network) for network in RELAXED)]


def _hurt(cells: Cells, network: str) -> list[Claim]:
    """Whether a network is worse than CONV by MAP, in either column of Table 2: test loss and accuracy."""
    found, bar = (cells.loss(DATA, name, MAP) for name in (network, "CONV"))
    worse = Claim(f"MAP hurts {network}: test loss", f"> {bar:.3f}, CONV's", f"{found:.3f}", found > bar)
    found, bar = (100 * cells.accuracy(DATA, name, MAP) for name in (network, "CONV"))
    return [worse, Claim(f"MAP hurts {network}: accuracy", f"< {bar:.2f} %, CONV's", f"{found:.2f} %", found < bar)]


def _early(cells: Cells, network: str) -> Claim:
    """Whether the path that commutes with shifts has the most effective parameters of each early layer."""
    layers = next(cell.layers for cell in cells.all if (cell.network, cell.method) == (network, EVIDENCE))
    strict = network.lower().split("+")[-1]
    held = [layer.learned == strict for layer in layers[:EARLY]]
    found = ", ".join(layer.learned for layer in layers)
    return Claim(f"{network}: early layers become convolutional", f"{strict} in layers 1 to {EARLY}", found, all(held))
