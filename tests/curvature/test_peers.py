"""Other libraries on the same networks: BackPACK and curvlinops for factors, laplace-torch for the evidence.

They share no line with us, so agreement to rounding is evidence on both sides. Where conventions differ the test says
how, and compares what is the same. All networks are copied before a peer sees them: BackPACK changes modules in place.
"""

import copy
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import covary
from covary.curvature import diag, kfac
from covary.linalg import Kron

# what the peers' own use of torch warns of
pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings(r"ignore:Using backward\(\) with create_graph=True"),
]

NUM_DATA, NUM_CLASSES, SIGMA_NOISE = 7, 3, 0.3
LOSSES = {"categorical": nn.CrossEntropyLoss(reduction="sum"), "gaussian": nn.MSELoss(reduction="sum")}
# Both sides work in float64 on small sums; the largest difference seen is a few 1e-16.
ROUNDING = {"rtol": 1e-12, "atol": 1e-14}
# Log-determinants of a few dozen eigenvalues, and sums of squares of residuals over σ², cancel to a smaller sum.
EVIDENCE_ROUNDING = {"rtol": 1e-11, "atol": 1e-11}


def peer(name: str) -> ModuleType:
    """The other library, or a skipped test."""
    reason = f"compares with {name}, which is not installed; `make test` installs it, from oracles.txt"
    return pytest.importorskip(name, reason=reason, exc_type=ImportError)


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, NUM_CLASSES))


def convnet(*, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, bias=bias),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 3, (2, 1), stride=(1, 2), bias=bias),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12, 4),
        nn.Tanh(),
        nn.Linear(4, NUM_CLASSES),
    )


def points() -> Tensor:
    return torch.randn(NUM_DATA, 2, generator=torch.Generator().manual_seed(1))


def images() -> Tensor:
    return torch.randn(NUM_DATA, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def targets(likelihood: str = "categorical") -> Tensor:
    generator = torch.Generator().manual_seed(2)
    if likelihood == "gaussian":
        return torch.randn(NUM_DATA, NUM_CLASSES, generator=generator)
    return torch.randint(0, NUM_CLASSES, (NUM_DATA,), generator=generator)


def backpack_run(network: nn.Module, x: Tensor, likelihood: str, *extensions: str, graph: bool = False) -> nn.Module:
    """A copy of the network whose parameters carry what the extensions compute."""
    backpack = peer("backpack")
    theirs = backpack.extend(copy.deepcopy(network))
    loss = backpack.extend(copy.deepcopy(LOSSES[likelihood]))
    with backpack.backpack(*(getattr(backpack.extensions, name)() for name in extensions)):
        loss(theirs(x), targets(likelihood)).backward(create_graph=graph)
    return theirs


@pytest.mark.parametrize("network", [mlp, convnet])
def test_kfac_has_the_factors_of_backpack(network):
    """KFLR: exact columns of Λ^½, with B summed over data and A averaged, so that their product needs no count.

    In convolutions BackPACK sums patches over positions in A, as "expand" does, but gradients before the outer product
    in B, as "reduce" does, and divides by N alone. Each factor has its equal here, their product has not.
    """
    ours, x = network(), points() if network is mlp else images()
    theirs = backpack_run(ours, x, "categorical", "KFLR")
    expand, reduce = (kfac(ours, (x, targets()), kfac_approx=approx) for approx in ("expand", "reduce"))
    for name, parameter in theirs.named_parameters():
        if isinstance(expand[name], Kron):
            torch.testing.assert_close(reduce[name].grad_cov, parameter.kflr[0], **ROUNDING)
            torch.testing.assert_close(expand[name].input_cov / NUM_DATA, parameter.kflr[1], **ROUNDING)
        if parameter.ndim == 2:
            torch.testing.assert_close(expand[name].to_dense(), torch.kron(*parameter.kflr), **ROUNDING)
        elif parameter.ndim == 1:
            torch.testing.assert_close(expand[name].to_dense(), parameter.kflr[0], **ROUNDING)


@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
@pytest.mark.parametrize("network", [mlp, convnet])
def test_diag_is_the_diagonal_of_backpack(network, likelihood):
    ours, x = network(), points() if network is mlp else images()
    theirs = backpack_run(ours, x, likelihood, "DiagGGNExact")
    # their loss is the square without ½, whose curvature is that of σ² = ½
    model = covary.Categorical() if likelihood == "categorical" else covary.Gaussian(0.5**0.5)
    blocks = diag(covary.Model(ours, model), (x, targets(likelihood)))
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(blocks[name].diagonal(), parameter.diag_ggn_exact.flatten(), **ROUNDING)


def bent(x: Tensor, strength: Tensor) -> Tensor:
    """A nonlinear map of the data that depends on a hyperparameter."""
    return x + strength * torch.sin(2 * x.flip(1) + strength)


def test_kfac_has_the_gradient_of_backpack_for_a_hyperparameter_of_the_data():
    strength, shift, network = torch.tensor(0.4, requires_grad=True), 0.7, mlp()
    theirs = backpack_run(network, bent(points(), strength), "categorical", "KFLR", graph=True)
    products = [torch.kron(*p.kflr) if len(p.kflr) == 2 else p.kflr[0] for p in theirs.parameters()]
    expected = torch.stack([torch.logdet(h + shift * torch.eye(len(h))) for h in products]).sum()
    ours = kfac(network, (bent(points(), strength), targets())).logdet(shift)
    torch.testing.assert_close(ours, expected, **ROUNDING)
    gradients = [torch.autograd.grad(value, strength)[0] for value in (ours, expected)]
    torch.testing.assert_close(*gradients, **ROUNDING)
    assert gradients[0].abs() > 0.1  # zero would agree with anything


@pytest.mark.parametrize("approx", ["expand", "reduce"])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1, "stride": 2},
        {"kernel_size": (2, 3), "padding": (1, 0), "dilation": (2, 1)},
        {"kernel_size": 3, "padding": "same"},
    ],
    ids=str,
)
def test_kfac_of_convolutions_is_that_of_curvlinops(options, approx):
    """Both approximations, as products.

    Not compared: a bias under "expand", which curvlinops expands and we keep exact (under "reduce" theirs is exact
    too); groups, which curvlinops averages into one factor; circular padding, which it takes for zeros.
    """
    curvlinops = peer("curvlinops")
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 2, **options)
    x, y = images(), targets()
    network = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(conv(x)[0].numel(), NUM_CLASSES))
    copied = copy.deepcopy(network)
    parameters = dict(copied.named_parameters())
    operator = curvlinops.KFACLinearOperator(
        copied,
        LOSSES["categorical"],
        list(parameters.values()),
        [(x, y)],
        fisher_type="type-2",
        kfac_approx=approx,
        separate_weight_and_bias=True,
        check_deterministic=False,
    )
    sizes = [parameter.numel() for parameter in parameters.values()]
    theirs = torch.as_tensor(operator @ torch.eye(sum(sizes))).split(sizes)
    ours = kfac(network, (x, y), kfac_approx=approx)
    start = 0
    for name, rows, size in zip(parameters, theirs, sizes, strict=True):
        if not (name == "0.bias" and approx == "expand"):
            torch.testing.assert_close(ours[name].to_dense(), rows[:, start : start + size], **ROUNDING)
        start += size


def laplace_evidence(
    network: nn.Module, likelihood: str, data: tuple[Tensor, Tensor], structure: str, backend: str, batch_size: int
) -> Tensor:
    """log Z of laplace-torch with the precisions and the noise of this file."""
    laplace, curvature = peer("laplace"), peer("laplace.curvature")
    approximation = laplace.Laplace(
        copy.deepcopy(network),
        "classification" if likelihood == "categorical" else "regression",
        subset_of_weights="all",
        hessian_structure=structure,
        backend=getattr(curvature, backend),
        prior_precision=precisions(network),
        **({"sigma_noise": SIGMA_NOISE} if likelihood == "gaussian" else {}),
    )
    approximation.fit(DataLoader(TensorDataset(*data), batch_size=batch_size))
    return approximation.log_marginal_likelihood().detach()


def precisions(network: nn.Module) -> Tensor:
    """Another precision for each tensor."""
    return torch.linspace(0.4, 2.0, len(list(network.parameters())))


def our_evidence(
    network: nn.Module, likelihood: str, data: tuple[Tensor, Tensor], structure: str, batch_size: int
) -> Tensor:
    names = [name for name, _ in network.named_parameters()]
    prior = covary.Prior(network, "layerwise", dict(zip(names, precisions(network).tolist(), strict=True)))
    model = covary.Categorical() if likelihood == "categorical" else covary.Gaussian(SIGMA_NOISE)
    return covary.log_evidence(
        covary.Model(network, model, prior), covary.as_batches(data, batch_size), structure
    ).log_evidence


@pytest.mark.parametrize("batch_size", [NUM_DATA, 3])
@pytest.mark.parametrize("backend", ["BackPackGGN", "CurvlinopsGGN"])
@pytest.mark.parametrize("structure", ["full", "diag", "kron"])
@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
def test_the_evidence_is_that_of_laplace_torch(likelihood, structure, backend, batch_size):
    """Exact for every structure: laplace-torch too gives weight and bias blocks of their own and sums over data."""
    network, data = mlp(), (points(), targets(likelihood))
    theirs = laplace_evidence(network, likelihood, data, structure, backend, batch_size)
    torch.testing.assert_close(
        our_evidence(network, likelihood, data, structure, batch_size), theirs, **EVIDENCE_ROUNDING
    )


@pytest.mark.parametrize(
    ("structure", "backend"), [("diag", "BackPackGGN"), ("full", "CurvlinopsGGN"), ("kron", "CurvlinopsGGN")]
)
def test_the_evidence_of_a_convnet_is_that_of_laplace_torch(structure, backend):
    """Without biases in convolutions, which the backend of "kron" expands over positions and we keep exact."""
    network, data = convnet(bias=False), (images(), targets())
    theirs = laplace_evidence(network, "categorical", data, structure, backend, NUM_DATA)
    torch.testing.assert_close(
        our_evidence(network, "categorical", data, structure, NUM_DATA), theirs, **EVIDENCE_ROUNDING
    )
