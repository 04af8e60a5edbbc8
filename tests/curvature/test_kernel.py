"""The tangent kernel against the Jacobian by autograd, computed in both ways, and as the dual of the full curvature."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev

import covary
from cases import CASES, NUM_OUTPUTS, TiedEmbedding, targets
from covary.curvature import full
from covary.curvature import kernel as tangents
from covary.curvature.capture import Captured, capture
from covary.curvature.kernel import RowSizes, rows_are_cheaper, tangent_kernel
from covary.curvature.passes import root_probes
from covary.priors import weights_of
from oracles.curvature import flat_function

NUM_DATA = 3
FORMS = ["rows", "columns", "chosen"]


def force(monkeypatch, form: str) -> None:
    if form != "chosen":
        monkeypatch.setattr(tangents, "rows_are_cheaper", lambda *sizes: form == "rows")


def categorical_root(outputs: Tensor) -> Tensor:
    """A root L of Λ = diag(p) − ppᵀ, shape (N, C, C)."""
    p = outputs.softmax(-1)
    return torch.diag_embed(p.sqrt()) - p.unsqueeze(2) * p.sqrt().unsqueeze(1)


def brute_force(network: nn.Module, x: Tensor, shifts: dict[str, Tensor]) -> Tensor:
    """Λ^½ J δ⁻¹ Jᵀ Λ^½ from the Jacobian of every output with respect to every weight; row k·N + n."""
    weights = weights_of(network)
    function, theta = flat_function(network, x, list(weights))
    rows = torch.einsum("nck,ncp->knp", categorical_root(function(theta)), jacrev(function)(theta)).flatten(0, 1)
    shift = torch.cat([shifts[name].expand(weight.numel()) for name, weight in weights.items()])
    return (rows / shift) @ rows.T


def kernel_of(network: nn.Module, x: Tensor, shifts: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        captured = capture(network, x, weights_of(network))
        return tangent_kernel(captured, root_probes(covary.Categorical(), captured.outputs, None), shifts)


def random_shifts(network: nn.Module, structure: str) -> dict[str, Tensor]:
    shapes = {n: () if structure == "layerwise" else (w.numel(),) for n, w in weights_of(network).items()}
    return {name: 0.3 + torch.rand(shape) for name, shape in shapes.items()}


def averaged(num_samples: int = 4) -> covary.Averaged:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, NUM_OUTPUTS))
    return covary.Averaged(inner, covary.augment.Rotation2d(initial_width=0.7), num_samples)


@pytest.mark.parametrize("structure", ["layerwise", "diagonal"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_is_the_product_of_jacobians(case, form, structure, monkeypatch):
    force(monkeypatch, form)
    network, x = CASES[case].make(NUM_DATA)
    shifts = random_shifts(network, structure)
    expected = brute_force(network, x, shifts)
    torch.testing.assert_close(kernel_of(network, x, shifts), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_samples_of_an_averaged_network_are_rows(form, monkeypatch):
    force(monkeypatch, form)
    network, x = averaged(), torch.randn(NUM_DATA, 2)
    shifts = random_shifts(network, "layerwise")
    torch.testing.assert_close(kernel_of(network, x, shifts), brute_force(network, x, shifts), rtol=1e-10, atol=1e-12)


class TwoTables(nn.Module):
    """One table used twice, with a position that has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(4, 3, padding_idx=0), nn.Linear(3, NUM_OUTPUTS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(tokens)).sum(1) * self.table(tokens[:, 0]).exp())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("build", [TiedEmbedding, TwoTables])
def test_tables_that_are_used_twice(build, form, monkeypatch):
    force(monkeypatch, form)
    torch.manual_seed(0)
    network, tokens = build(), torch.randint(0, 3, (5, 3))
    shifts = random_shifts(network, "layerwise")
    expected = brute_force(network, tokens, shifts)
    torch.testing.assert_close(kernel_of(network, tokens, shifts), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_chunks_of_rows_give_the_same_kernel(form, monkeypatch):
    network, x = CASES["conv2d grouped"].make(5)
    shifts = random_shifts(network, "layerwise")
    force(monkeypatch, form)
    whole = kernel_of(network, x, shifts)
    monkeypatch.setattr(tangents, "row_slices", lambda num, _: (slice(i, min(i + 2, num)) for i in range(0, num, 2)))
    torch.testing.assert_close(kernel_of(network, x, shifts), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_both_forms_have_the_derivative_of_the_full_curvature(form, monkeypatch):
    """∂ log|I + K| = ∂ log|H + δ| in a width and the precision, although rows are recomputed for the derivative."""
    force(monkeypatch, form)
    network, x = averaged(), torch.randn(4, 2)
    weights, (width,) = weights_of(network), network.augment.parameters()
    shift = torch.tensor(0.7, requires_grad=True)
    captured = capture(network, x, weights)
    columns = root_probes(covary.Categorical(), captured.outputs, None)
    kernel = tangent_kernel(captured, columns, dict.fromkeys(weights, shift))
    ours = torch.linalg.slogdet(kernel + torch.eye(len(kernel)))[1]
    num_params = sum(weight.numel() for weight in weights.values())
    curvature = full(network, (x, targets("categorical", 4)))
    theirs = curvature.logdet(shift) - num_params * shift.log()
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    for a, b in zip(*(torch.autograd.grad(v, [width, shift]) for v in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_fewer_probes_are_fewer_rows():
    network, x = CASES["linear"].make(NUM_DATA)
    shifts = random_shifts(network, "layerwise")
    with torch.no_grad():
        captured = capture(network, x, weights_of(network))
        second = list(root_probes(covary.Categorical(), captured.outputs, None))[1]
        kernel = tangent_kernel(captured, [second], shifts)
    rows = slice(NUM_DATA, 2 * NUM_DATA)
    torch.testing.assert_close(kernel, brute_force(network, x, shifts)[rows, rows], rtol=1e-10, atol=1e-12)


def test_no_tensor_of_the_size_of_the_weight_if_rows_are_cheaper(monkeypatch):
    monkeypatch.setattr(Captured, "vjp", lambda *arguments: pytest.fail("products were formed"))
    network = nn.Linear(200, 100, bias=False)
    captured = capture(network, torch.randn(4, 200), weights_of(network))
    tangent_kernel(captured, [torch.randn(4, 100)], {"weight": torch.tensor(1.0)})


@pytest.mark.parametrize(("sizes", "expected"), [
    (RowSizes(8, 1, 784, 1000), True),  # a layer of an MLP, 8 samples
    (RowSizes(1, 1, 1000, 10), True),
    (RowSizes(784, 1, 9, 16), False),  # a 3×3 convolution at 784 positions
    (RowSizes(784, 32, 9, 1), False),  # depthwise
    (RowSizes(60, 1, 784, 1000), False),  # many samples
])  # fmt: skip
def test_the_cheaper_form(sizes, expected):
    for num_columns in (1, 10):
        assert rows_are_cheaper(100, num_columns, [sizes]) == expected


@pytest.mark.parametrize("structure", ["scalar", "layerwise", "diagonal"])
@pytest.mark.parametrize("case", ["linear", "conv2d grouped", "embedding", "encoder layer", "unused layers"])
def test_the_evidence_by_the_kernel_is_that_of_the_full_curvature(case, structure):
    network, x = CASES[case].make(6)
    prior = covary.Prior(network, structure, 0.8)
    with torch.no_grad():
        prior.log_precision.add_(0.3 * torch.randn_like(prior.log_precision))
    data = (x, targets("categorical", 6))
    by_kernel, by_weights = (
        covary.log_evidence(covary.Model(network, prior=prior), covary.as_batches(data, 4), c)
        for c in ("kernel", "full")
    )
    for term in ("log_likelihood", "log_prior", "log_volume"):
        torch.testing.assert_close(getattr(by_kernel, term), getattr(by_weights, term), rtol=1e-10, atol=1e-10)
    assert by_kernel.num_data == 6
    assert set(by_kernel.structures.values()) == {"kernel"}


@pytest.mark.parametrize("likelihood", [covary.Gaussian(0.6), covary.Bernoulli()], ids=["gaussian", "bernoulli"])
def test_the_evidence_by_the_kernel_for_other_likelihoods(likelihood):
    network, x = averaged(), torch.randn(5, 2)
    data = (x, targets(type(likelihood).__name__.lower(), 5))
    values = [covary.log_evidence(covary.Model(network, likelihood), data, c).log_evidence for c in ("kernel", "full")]
    torch.testing.assert_close(values[0], values[1], rtol=1e-10, atol=1e-10)


def test_the_kernel_has_no_mode_correction():
    network, x = CASES["linear"].make(3)
    data = (x, targets("categorical", 3))
    with pytest.raises(covary.errors.StructureError, match="Use 'full' or 'kron'"):
        covary.log_evidence(network, data, "kernel", mode_correction=True)
