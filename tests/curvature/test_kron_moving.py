"""Curvature of an average whose outputs move with the input, against an explicit mean and autograd's Jacobian."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import covary
from cases import NUM_OUTPUTS, diagonal_blocks, targets
from covary.augment import Affine2d, Composed, FiniteGroup, MovedMasks, MovedPoints, PermutedOutputs
from covary.curvature import Curvature, diag, full, kfac
from covary.curvature.capture import capture
from covary.curvature.passes import root_probes
from covary.errors import StructureError
from covary.hypergrad import direct, two_pass
from covary.priors import weights_of
from oracles.curvature import loss_of, matrix_root, output_hessian

PROBABILITY = 0.3
SWAP = [1, 0, 2]  # the flip exchanges the first two classes


def linear_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, NUM_OUTPUTS))


def convolution():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, NUM_OUTPUTS))


def flipped(inner, num_samples=2, num_sets=1):
    augment, action = FiniteGroup(("identity", "flip_x"), PROBABILITY), PermutedOutputs({"flip_x": SWAP})
    return covary.Averaged(inner, augment, num_samples, num_sets=num_sets, output_action=action)


def explicit(inner):
    """The average by its definition, from torch alone."""

    def function(weights, x):
        def f(images):
            return torch.func.functional_call(inner, weights, (images,))

        return (1 - PROBABILITY) * f(x) + PROBABILITY * f(x.flip(-1))[:, SWAP]

    return function


def explicit_ggn(inner, x, loss):
    """The GGN by the Jacobian of the explicit average, blocks of weights in their order, shape (P, P)."""
    weights = {name: weight.detach() for name, weight in inner.named_parameters()}
    function = explicit(inner)
    jacobians = torch.func.jacrev(lambda w: function(w, x))(weights)
    jacobian = torch.cat([j.flatten(2) for j in jacobians.values()], 2)  # (N, C, P)
    outputs = function(weights, x)
    curvatures = torch.autograd.functional.hessian(loss, outputs)  # (N, C, N, C)
    own = torch.stack([curvatures[n, :, n] for n in range(len(x))])
    return torch.einsum("ncp,ncd,ndq->pq", jacobian, own, jacobian)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(5, 1, 3, 3, generator=generator), targets("categorical", 5)


@pytest.mark.parametrize("make", [linear_layers, convolution])
@pytest.mark.parametrize("num_samples", [2, 4])
def test_full_diagonal_and_kernel_are_those_of_the_explicit_mean(make, num_samples, data):
    inner, (x, y) = make(), data
    network = flipped(inner, num_samples)
    torch.testing.assert_close(network(x), explicit(inner)(dict(inner.named_parameters()), x))
    oracle = explicit_ggn(inner, x, loss_of("categorical", y))
    torch.testing.assert_close(full(network, data).to_dense(), oracle, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(diag(network, data).diagonal(), oracle.diagonal(), rtol=1e-9, atol=1e-12)
    evidences = [covary.log_evidence(network, data, c).log_evidence for c in ("full", "kernel")]
    torch.testing.assert_close(*evidences, rtol=1e-10, atol=0)


@pytest.mark.parametrize("structure", ["kron", "kron-traced"])
@pytest.mark.parametrize(("num_samples", "num_sets"), [(2, 1), (4, 1), (4, 2)])
def test_factors_of_linear_layers_are_the_partial_traces_of_the_explicit_ggn(structure, num_samples, num_sets, data):
    inner, (x, y) = linear_layers(), data
    network = flipped(inner, num_samples, num_sets)
    probes = root_probes(covary.Categorical(), network(x).detach(), None)
    ours = Curvature(structure).blocks(capture(network, x, dict(weights_of(network))), probes)
    sizes = [weight.numel() for weight in inner.parameters()]
    blocks = diagonal_blocks(explicit_ggn(inner, x, loss_of("categorical", y)), sizes)
    for (name, weight), block in zip(inner.named_parameters(), blocks, strict=True):
        if weight.ndim == 1:
            torch.testing.assert_close(ours[f"network.{name}"].to_dense(), block, rtol=1e-9, atol=1e-12)
            continue
        pairs = block.reshape(*weight.shape, *weight.shape)
        inputs, outputs = torch.einsum("gigj->ij", pairs), torch.einsum("gihi->gh", pairs)
        expected = torch.kron(outputs, inputs) / block.trace()
        torch.testing.assert_close(ours[f"network.{name}"].to_dense(), expected, rtol=1e-9, atol=1e-12)


def test_places_of_a_convolution_are_summed_one_by_one(data):
    """A and B by loops over data, places, pairs of samples and columns of the root of Λ."""
    inner, (x, y) = convolution(), data
    conv, tail = inner[0], inner[1:]
    block = kfac(flipped(inner), data).blocks["network.0.weight"]
    weights = torch.tensor([1 - PROBABILITY, PROBABILITY])
    outputs = explicit(inner)(dict(inner.named_parameters()), x).detach()
    inputs, gradients = 0.0, 0.0
    for n in range(len(x)):
        samples = torch.stack([x[n], x[n].flip(-1)])
        a = nn.functional.unfold(samples, 2).transpose(1, 2)  # (S, R, D)
        hidden = conv(samples).detach()
        jacobian = torch.func.jacrev(lambda h: tail(h))(hidden)  # (S, C, S, G, H, W)
        own = torch.stack([jacobian[s][SWAP if s else [0, 1, 2]][:, s] for s in range(2)]).flatten(3)  # (S, C, G, R)
        root = matrix_root(output_hessian(lambda f, n=n: loss_of("categorical", y[n : n + 1])(f[None]), outputs[n]))
        g = torch.einsum("s,scgr,ck->ksrg", weights, own, root)
        for r in range(a.shape[1]):
            for s in range(2):
                for t in range(2):
                    inputs = inputs + (g[:, s, r] * g[:, t, r]).sum() * torch.outer(a[s, r], a[t, r])
                    gradients = gradients + (a[s, r] @ a[t, r]) * torch.einsum("kg,kh->gh", g[:, s, r], g[:, t, r])
    torch.testing.assert_close(block.to_dense(), torch.kron(gradients, inputs) / inputs.trace(), rtol=1e-9, atol=1e-12)


def test_means_over_samples_would_lose_the_curvature_of_odd_images():
    """The control: KFAC by means, as for outputs that do not move, of images whose mirror image is their negative."""
    torch.manual_seed(0)
    network = flipped(nn.Sequential(nn.Flatten(), nn.Linear(9, NUM_OUTPUTS)))
    network.augment.logits.data.zero_()  # both elements alike
    x = torch.randn(5, 1, 3, 3)
    x = x - x.flip(-1)
    captured = capture(network, x, dict(weights_of(network)))
    traces = []
    for found in (captured, replace(captured, moving=False)):
        probes = root_probes(covary.Categorical(), captured.outputs.detach(), None)
        traces.append(Curvature().blocks(found, probes)["network.1.weight"].diagonal().sum())
    assert traces[0] > 1
    assert traces[1] < 1e-12


@pytest.mark.parametrize("curvature", ["kron", "full", "diag"])
def test_gradients_of_the_evidence_are_those_of_one_graph_and_central_differences(curvature, data):
    torch.manual_seed(0)
    augment = Composed(
        FiniteGroup(("identity", "flip_x"), PROBABILITY), Affine2d(("rotation", "shift_x"), initial_width=0.3)
    )
    inner = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 4))
    network = covary.Averaged(
        inner, augment, 4, output_action=(MovedPoints(), PermutedOutputs({"flip_x": [2, 3, 0, 1]}))
    )
    model, own = covary.Model(network, covary.Gaussian(0.7)), (data[0], torch.randn(5, 4))
    one, two = direct(model, own, curvature), two_pass(model, covary.as_batches(own, 2), curvature)
    assert {"augment.parts.0.logits", "augment.parts.1.raw_widths"} <= set(one)
    for name, gradient in one.items():
        torch.testing.assert_close(two[name], gradient, rtol=1e-9, atol=1e-11)
    raw, ends = augment.parts[1].raw_widths, []
    for step in (1e-6, -1e-6):
        raw.data[0] += step
        ends.append(float(covary.log_evidence(model, own, curvature).log_evidence))
        raw.data[0] -= step
    assert float(one["augment.parts.1.raw_widths"][0]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_masks_are_covered_by_every_exact_curvature():
    torch.manual_seed(0)
    inner, augment = nn.Conv2d(1, 2, 3, padding=1), FiniteGroup(("identity", "flip_x"), PROBABILITY)
    network = covary.Averaged(inner, augment, 2, output_action=MovedMasks())
    x, y = torch.randn(3, 1, 4, 4), torch.randint(2, (3, 4, 4))
    model = covary.Model(network, covary.Categorical(num_classes=2))
    expected = (1 - PROBABILITY) * inner(x) + PROBABILITY * inner(x.flip(-1)).flip(-1)
    torch.testing.assert_close(network(x), expected)
    weights = {name: weight.detach() for name, weight in inner.named_parameters()}

    def function(w):
        first, second = (torch.func.functional_call(inner, w, (images,)) for images in (x, x.flip(-1)))
        return (1 - PROBABILITY) * first + PROBABILITY * second.flip(-1)

    jacobians = torch.func.jacrev(function)(weights)
    jacobian = torch.cat([j.flatten(4) for j in jacobians.values()], 4)  # (N, C, H, W, P)
    probabilities = expected.detach().softmax(1)
    curvature = torch.einsum("nchw,cd->ncdhw", probabilities, torch.eye(2))
    curvature = curvature - torch.einsum("nchw,ndhw->ncdhw", probabilities, probabilities)
    oracle = torch.einsum("nchwp,ncdhw,ndhwq->pq", jacobian, curvature, jacobian)
    torch.testing.assert_close(full(model, (x, y)).to_dense(), oracle, rtol=1e-9, atol=1e-12)
    evidences = [covary.log_evidence(model, (x, y), c).log_evidence for c in ("full", "kernel")]
    torch.testing.assert_close(*evidences, rtol=1e-10, atol=0)
    assert torch.isfinite(covary.log_evidence(model, (x, y), "kron").log_evidence)


def test_one_gradient_factor_for_all_blocks_is_refused(data):
    with pytest.raises(StructureError, match="'kron-shared' is not available.*Use 'kron'"):
        covary.log_evidence(flipped(linear_layers()), data, "kron-shared")
