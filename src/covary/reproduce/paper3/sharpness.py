"""How sharp are the minima of two optimizers, and how well do they generalize? Paper 3, Fig. 5, Tables 2 and 3.

One data set at a time: LeNet on MNIST and Fashion-MNIST, a wide residual network on CIFAR-10 and CIFAR-100, whose batch
normalization is in evaluation mode for the Hessian and for accuracies.
"""

import statistics
from dataclasses import asdict, replace
from typing import Any

from ...config.settings import check_choice
from ...records import Claim, Study
from ...training import versions
from ..study import Request
from .coordinates import row
from .optimizer_bias import FACTORS, OPTIMIZERS, Minima, Minimum, case, claims_of, train_minima

# Table 2: test accuracies in %, and Table 3, CIFAR-10: generalization gap in % and trace.
ACCURACY = {
    "mnist": {"SGD": 99.3, "Adam": 99.2},
    "fashion-mnist": {"SGD": 92.9, "Adam": 92.6},
    "cifar-10": {"SGD": 94.9, "Adam": 92.4},
    "cifar-100": {"SGD": 76.8, "Adam": 71.9},
}
GAP = {"cifar-10": {"SGD": 5.2, "Adam": 7.2}}
WIDE = {"smoke": "wide-resnet-10-1", "cpu": "wide-resnet-10-1", "full": "wide-resnet-10-1", "paper": "wide-resnet-16-4"}
SCALES = {
    "smoke": Minima(("mnist-mini",), 100, 2, 1, 20, num_products=3),
    "cpu": Minima(("mnist",), 5000, 12, 2, 500),
    "full": Minima(("mnist",), None, 30, 2, 2000),
    "paper": Minima(("mnist",), None, 100, 5, 2000, num_products=60),
}


def sharpness(request: Request) -> Study:
    """Test accuracy, generalization gap and traces at the minima of SGD and Adam on one data set."""
    data = request.options.data or "mnist"
    check_choice("data", data, ACCURACY)
    chosen, options = SCALES[request.scale], request.options
    chosen = replace(
        chosen,
        data=chosen.data if request.scale == "smoke" else (data,),
        num_train=options.num_train or chosen.num_train,
        num_seeds=options.num_seeds or chosen.num_seeds,
        network=WIDE[request.scale] if data.startswith("cifar") else "lenet",
    )
    found = train_minima(chosen, request)
    minima = {name: found[f"{chosen.data[0]}, {name}"] for name in OPTIMIZERS}
    rows = [_row(data, name, ones) for name, ones in minima.items()]
    first = minima["SGD"][0]
    traces = zip(FACTORS, first.naive_scaled, first.aware_scaled, strict=True)
    return Study(
        name="sharpness",
        scale=request.scale,
        title=f"{data}, {chosen.network}: sharpness of the minima of SGD and Adam",
        config=asdict(chosen) | {"seed": request.seed},
        versions=versions(),
        rows=rows,
        series={
            "minima": {f"{data}, {name}": [asdict(one) for one in ones] for name, ones in minima.items()},
            "scaled": [row("Table 3", case(factor), "trace / N", naive, carried) for factor, naive, carried in traces],
        },
        claims=[*claims_of(chosen, found), *_claims(minima)],
        seconds=sum(one.seconds for ones in minima.values() for one in ones),
    )


def _row(data: str, optimizer: str, ones: list[Minimum]) -> dict[str, Any]:
    """The line of an optimizer: means over seeds, beside what the paper prints."""
    known = [100 * one.gap for one in ones if one.gap is not None]
    return {
        "optimizer": optimizer,
        "test accuracy %": 100 * statistics.fmean(one.accuracy for one in ones),
        "paper's accuracy %": ACCURACY[data][optimizer],
        "gap %": statistics.fmean(known),
        "paper's gap %": GAP.get(data, {}).get(optimizer),
        "trace / N": statistics.fmean(one.naive for one in ones),
        "own metric": statistics.fmean(one.own for one in ones),
        "seeds": len(ones),
    }


def _claims(minima: dict[str, list[Minimum]]) -> list[Claim]:
    """Tables 2 and 3: SGD's test accuracy is the higher one, and its generalization gap the smaller one."""
    sgd, adam = (100 * statistics.fmean(one.accuracy for one in minima[name]) for name in OPTIMIZERS)
    wide, narrow = (
        100 * statistics.fmean(one.gap for one in minima[name] if one.gap is not None) for name in ("Adam", "SGD")
    )
    return [
        Claim("Table 2: test accuracy of SGD at or above Adam's", f"≥ {adam:.2f} %", f"{sgd:.2f} %", sgd >= adam),
        Claim("Table 3: generalization gap of SGD below Adam's", f"< {wide:.2f} %", f"{narrow:.2f} %", narrow < wide),
    ]
