"""The posterior against dense matrices: outputs, weights, evidence, and what is refused."""

import warnings

import pytest
import torch
from torch import Tensor, nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary._text import warn_once
from covary.curvature import diag, full, kfac, tkfac
from covary.curvature.capture import capture
from covary.curvature.registry import as_curvature
from covary.errors import DataError, StructureError
from covary.networks import Averaged
from covary.posterior import Laplace
from covary.posterior import function_space as space
from covary.posterior.fitting import fit
from oracles.posterior import linear_regression, output_covariance

LIKELIHOODS = {
    "categorical": covary.Categorical(0.8),
    "bernoulli": covary.Bernoulli(),
    "gaussian": covary.Gaussian(0.7),
}


class Jitter(nn.Module):
    """Copies of the input with its entries scaled by noise, as an augmentation."""

    names = ("scale",)

    def __init__(self) -> None:
        super().__init__()
        self.width = nn.Parameter(torch.tensor(0.4))

    @property
    def widths(self) -> Tensor:
        return self.width.reshape(1)

    def sample_noise(self, index: Tensor, num_samples: int, *, seed: int) -> Tensor:
        return covary.noise.normal(seed, index, (num_samples, 1), dtype=self.width.dtype)

    def transform(self, x: Tensor, noise: Tensor) -> Tensor:
        scale = 1 + self.width * noise.view(*noise.shape[:2], *[1] * (x.ndim - 1))
        return x[:, None] * scale


class Backwards(nn.Module):
    """A network whose last layer is defined first, after which a layer is called and thrown away."""

    def __init__(self, tail: nn.Module | None = None) -> None:
        super().__init__()
        self.head, self.body, self.wasted = nn.Linear(5, NUM_OUTPUTS), nn.Linear(4, 5), nn.Linear(5, 2)
        self.tail = tail or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.body(x))
        outputs = self.head(h)
        self.wasted(h)
        return self.tail(outputs)


def averaged(case: str, num_data: int) -> tuple[nn.Module, Tensor]:
    network, x = CASES[case].make(num_data)
    return Averaged(network, Jitter(), 3), x


NETWORKS = {
    "linear": lambda n: CASES["linear"].make(n),
    "conv": lambda n: CASES["conv2d"].make(n),
    "grouped conv": lambda n: CASES["conv2d grouped"].make(n),
    "transposed conv": lambda n: CASES["conv transpose"].make(n),
    "tokens": lambda n: CASES["tokens"].make(n),
    "tied module": lambda n: CASES["residual, tied module"].make(n),
    "tied embedding": lambda n: CASES["tied embedding"].make(n),
    "norm": lambda n: CASES["layer norm"].make(n),
    "attention": lambda n: CASES["attention batch first"].make(n),
    "folded": lambda n: CASES["folded batch"].make(n),
    "unused": lambda n: CASES["unused layers"].make(n),
    "averaged linear": lambda n: averaged("linear", n),
    "averaged conv": lambda n: averaged("conv2d", n),
    "log-softmax after the last layer": lambda n: (Backwards(nn.LogSoftmax(1)), torch.randn(n, 4)),
}


def posterior(name: str, curvature: str, likelihood: str = "categorical", batch_size: int | None = None, **options):
    network, x = NETWORKS[name](7)
    y = targets(likelihood, 7)
    prior = covary.Prior(network, precision={"*weight": 0.7, "*": 1.3})
    model = covary.Model(network, LIKELIHOODS[likelihood], prior)
    return Laplace(model, covary.as_batches((x, y), batch_size), curvature, **options), x, y


def dense_precision(laplace: Laplace) -> Tensor:
    shifts = laplace.model.prior.shifts()
    diagonal = torch.cat([shifts[name].detach().expand(value.numel()) for name, value in laplace.mean.items()])
    return laplace.curvature.to_dense() + torch.diag(diagonal)


def check_outputs(laplace: Laplace, x: Tensor) -> None:
    mean, covariance = output_covariance(laplace.model.network, x, list(laplace.mean), dense_precision(laplace))
    ours = laplace.function_distribution(x)
    torch.testing.assert_close(ours.mean, mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.covariance, covariance, rtol=1e-9, atol=1e-11)
    variance = laplace.function_variance(x)
    torch.testing.assert_close(variance, covariance.diagonal(dim1=1, dim2=2), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
@pytest.mark.parametrize("name", NETWORKS)
def test_function_distribution_is_the_dense_product(name, curvature):
    laplace, x, _ = posterior(name, curvature)
    check_outputs(laplace, x)


@pytest.mark.parametrize("case", ["factored dense", "conv2d grouped"])
def test_function_distribution_of_a_shared_gradient_factor(case):
    network, x = CASES[case].make(6)
    check_outputs(Laplace(network, (x, targets("categorical", 6)), "kron-shared"), x)


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
@pytest.mark.parametrize("name", NETWORKS)
def test_function_distribution_of_the_last_layer_is_the_dense_product(name, curvature):
    laplace, x, _ = posterior(name, curvature, subset="last_layer")
    assert len(laplace.mean) < len(laplace.model.prior.names) or name == "tied embedding"
    check_outputs(laplace, x)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", {"0.weight": "rows", "0.bias": "explicit", "2.weight": "head", "2.bias": "head"}),
        ("averaged linear", {"network.0.weight": "rows", "network.2.weight": "head", "network.2.bias": "head"}),
        ("grouped conv", {"0.weight": "explicit", "0.bias": "explicit", "3.weight": "head", "3.bias": "head"}),
        ("log-softmax after the last layer", {"head.weight": "rows", "head.bias": "explicit"}),
        ("tied module", {"inner.weight": "explicit", "head.weight": "head"}),
        ("unused", {"used.weight": "head", "used.bias": "head"}),
    ],
)
def test_the_cheapest_form_is_taken(name, expected):
    """The tests above mean something only if every form occurs."""
    laplace, x, _ = posterior(name, "kron")
    weights = laplace.model.prior.weights(laplace.model.network)
    forms = space._forms(capture(laplace.model.network, x, weights), laplace.curvature)
    assert expected.items() <= forms.items()
    assert "never.weight" not in forms


@pytest.mark.parametrize("name", ["linear", "conv", "averaged linear"])
def test_chunks_change_nothing(name, monkeypatch):
    laplace, x, _ = posterior(name, "kron")
    whole, variance = laplace.function_distribution(x).covariance, laplace.function_variance(x)
    samples = laplace.predict(x, link="mc", num_samples=5)
    monkeypatch.setattr(space, "ENTRIES", 150)
    torch.testing.assert_close(laplace.function_distribution(x).covariance, whole, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(laplace.function_variance(x), variance, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(laplace.predict(x, link="mc", num_samples=5), samples, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_curvature_is_that_of_the_curvature_package(curvature, likelihood):
    laplace, x, y = posterior("linear", curvature, likelihood, batch_size=3)
    function = {"kron": kfac, "kron-traced": tkfac, "full": full, "diag": diag}[curvature]
    with torch.no_grad():
        expected = function(laplace.model, (x, y)).to_dense()
    torch.testing.assert_close(laplace.curvature.to_dense(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", ["linear", "averaged linear", "conv", "log-softmax after the last layer"])
def test_last_layer_without_columns_has_the_same_curvature(name, likelihood):
    """The short cut for a layer at the end, and its control where something follows."""
    laplace, x, y = posterior(name, "kron", likelihood, subset="last_layer", batch_size=3)
    with torch.no_grad():
        expected = kfac(covary.Model(laplace.model.network, LIKELIHOODS[likelihood]).restricted(laplace.mean), (x, y))
    assert [type(b) for b in laplace.curvature.blocks.values()] == [type(b) for b in expected.blocks.values()]
    torch.testing.assert_close(laplace.curvature.to_dense(), expected.to_dense(), rtol=1e-9, atol=1e-12)


def test_last_layer_is_the_last_one_called_on_the_way_to_the_outputs():
    network = Backwards()
    laplace = Laplace(network, (torch.randn(5, 4), targets("categorical", 5)), subset="last_layer")  # fmt: skip
    assert list(laplace.mean) == ["head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("class token", ["head.weight", "head.bias"]),  # the module around it ends later, and has weights too
        ("weight norm", ["3.bias", "3.parametrizations.weight.original0", "3.parametrizations.weight.original1"]),
    ],
)
def test_last_layer_of_a_network_with_weights_that_have_no_rule(case, expected):
    network, x = CASES[case].make(5)
    laplace = Laplace(network, (x, targets("categorical", 5)), subset="last_layer")
    assert list(laplace.mean) == expected


def test_last_layer_needs_no_rule_for_the_layers_before():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, NUM_OUTPUTS)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x)[0][:, -1])

    network, x = Recurrent(), torch.randn(6, 3, 4)
    data = (x, targets("categorical", 6))
    warn_once.cache_clear()
    with pytest.warns(UserWarning, match=r"covered by autograd \(4 of 6\)"):
        check_outputs(Laplace(network, data), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_outputs(Laplace(network, data, subset="last_layer"), x)


def test_last_layer_is_one_of_integrated_weights():
    network, x = CASES["linear"].make(5)
    prior = covary.Prior(network, point="2.*")
    laplace = Laplace(covary.Model(network, prior=prior), (x, targets("categorical", 5)), subset="last_layer")
    assert list(laplace.mean) == ["0.weight", "0.bias"]
    check_outputs(laplace, x)


@pytest.mark.parametrize("curvature", ["full", "diag"])
@pytest.mark.parametrize("subset", ["all", "last_layer"])
def test_diagonal_priors_enter_entry_by_entry(curvature, subset):
    network, x = CASES["linear"].make(6)
    prior = covary.Prior(network, "diagonal")
    with torch.no_grad():
        prior.log_precision.copy_(torch.linspace(-1, 1, prior.num_params))
    laplace = Laplace(covary.Model(network, prior=prior), (x, targets("categorical", 6)), curvature, subset=subset)
    check_outputs(laplace, x)
    assert laplace.log_evidence().log_evidence.isfinite()


def test_predictions_follow_a_prior_that_is_tuned_later():
    laplace, x, _ = posterior("linear", "kron")
    before = laplace.function_variance(x)
    with torch.no_grad():
        laplace.model.prior.log_precision += 1.0
    assert (laplace.function_variance(x) < before).all()
    check_outputs(laplace, x)


@pytest.mark.parametrize("curvature", ["kron", "full"])
@pytest.mark.parametrize("method", ["glm", "mc"])
def test_linear_regression_is_the_closed_form(curvature, method, generator):
    x, new = torch.randn(20, 3, generator=generator), torch.randn(6, 3, generator=generator)
    y = torch.randn(20, 2, generator=generator)
    network = nn.Linear(3, 2, bias=False)
    mean, variance = linear_regression(x, y, new, precision=1.7, noise=0.4)
    covariance = torch.linalg.inv(x.T @ x / 0.4**2 + 1.7 * torch.eye(3))
    with torch.no_grad():
        network.weight.copy_((covariance @ x.T @ y / 0.4**2).T)
    laplace = Laplace(
        covary.Model(network, covary.Gaussian(0.4), covary.Prior(network, precision=1.7)), (x, y), curvature
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = laplace.predict(new, method, num_samples=4000 if method == "mc" else 1)
    # Monte-Carlo error falls as the root of the number of samples
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if method == "glm" else {"rtol": 0.06, "atol": 0.03}
    torch.testing.assert_close(ours.mean, mean, **tolerance)
    torch.testing.assert_close(ours.variance, variance, **tolerance)


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_weights_have_the_covariance_of_the_posterior(curvature, monkeypatch):
    """The identity as noise gives the root, whose square is the covariance."""
    laplace, _, _ = posterior("linear", curvature)
    size = laplace.num_params
    monkeypatch.setattr("covary.posterior.laplace.normal", lambda seed, index, shape, **_: torch.eye(size))
    samples = laplace.sample_weights(size)
    steps = torch.cat([(samples[name] - mean).flatten(1) for name, mean in laplace.mean.items()], 1)
    torch.testing.assert_close(steps.T @ steps, torch.linalg.inv(dense_precision(laplace)), rtol=1e-9, atol=1e-11)


def test_weights_have_the_moments_of_the_posterior():
    laplace, _, _ = posterior("linear", "kron")
    samples = laplace.sample_weights(20_000)
    assert all(samples[name].shape == (20_000, *mean.shape) for name, mean in laplace.mean.items())
    steps = torch.cat([(samples[name] - mean).flatten(1) for name, mean in laplace.mean.items()], 1)
    expected = torch.linalg.inv(dense_precision(laplace))
    deviation = expected.diagonal().sqrt()
    # five standard errors of a mean and of a covariance
    assert (steps.mean(0).abs() < 5 * deviation / 20_000**0.5).all()
    assert ((steps.T @ steps / 20_000 - expected).abs() < 5 * 2**0.5 * deviation.outer(deviation) / 20_000**0.5).all()


def test_a_sample_is_a_function_of_its_seed_and_number():
    laplace, _, _ = posterior("linear", "kron")
    few, many = laplace.sample_weights(2, seed=3), laplace.sample_weights(5, seed=3)
    other = laplace.sample_weights(2, seed=4)
    for name in few:
        torch.testing.assert_close(few[name], many[name][:2], rtol=1e-12, atol=1e-14)
        assert not torch.allclose(few[name], other[name])


@pytest.mark.parametrize("name", ["linear", "averaged linear"])
@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_evidence_is_that_of_the_evidence_package(name, curvature):
    laplace, x, y = posterior(name, curvature)
    expected = covary.log_evidence(laplace.model, (x, y), curvature)
    for term in ("log_likelihood", "log_prior", "log_volume", "gradient_norm"):
        torch.testing.assert_close(getattr(laplace.log_evidence(), term), getattr(expected, term))


def test_evidence_of_the_last_layer_is_that_of_a_prior_of_it_alone():
    laplace, x, y = posterior("linear", "kron", subset="last_layer")
    for name, weight in laplace.model.network.named_parameters():
        weight.requires_grad_(name in laplace.mean)
    alone = covary.Prior(laplace.model.network, precision={"*weight": 0.7, "*": 1.3})
    expected = covary.log_evidence(covary.Model(laplace.model.network, laplace.model.likelihood, alone), (x, y))
    for weight in laplace.model.network.parameters():
        weight.requires_grad_(True)
    torch.testing.assert_close(laplace.log_evidence().log_evidence, expected.log_evidence)


def refused(**changes):
    network, x = CASES["linear"].make(5)
    settings = {"prior": None, "data": (x, targets("categorical", 5)), "curvature": "kron", "subset": "all"} | changes
    model = covary.Model(network, prior=settings["prior"])
    return fit(model, settings["data"], as_curvature(settings["curvature"]), subset=settings["subset"], seed=0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"curvature": "kernel"}, StructureError, "'kron', 'kron-traced', 'kron-shared', 'full' or 'diag'"),
        (
            {"curvature": "low rank"},
            StructureError,
            "'full', 'diag', 'kernel', got 'low rank'",
        ),
        ({"subset": "first_layer"}, StructureError, "'all' or 'last_layer'"),
        ({"prior": covary.Prior(nn.Linear(4, 3))}, StructureError, "another network"),
        ({"data": (torch.full((2, 4), torch.nan), torch.zeros(2, dtype=torch.int64))}, DataError, "not finite"),
        ({"data": (torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))}, DataError, "empty"),
    ],
)
def test_what_gives_no_posterior_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        refused(**changes)


def test_a_diagonal_prior_with_kron_is_refused():
    network, x = CASES["linear"].make(5)
    with pytest.raises(StructureError, match="diagonal prior"):
        Laplace(covary.Model(network, prior=covary.Prior(network, "diagonal")), (x, targets("categorical", 5)))


def test_a_network_that_was_trained_on_is_refused():
    laplace, x, _ = posterior("linear", "kron")
    with torch.no_grad():
        next(laplace.model.network.parameters()).add_(0.01)
    with pytest.raises(StructureError, match="has changed since"):
        laplace.predict(x)
    laplace.model.network.load_state_dict(laplace.mean, strict=False)
    laplace.predict(x)
    assert laplace.log_evidence().log_evidence.isfinite()


def test_samples_need_a_number():
    laplace, _, _ = posterior("linear", "kron")
    with pytest.raises(DataError, match="num_samples"):
        laplace.sample_weights(0)
