"""The self-check: curvature that would be wrong is refused, whichever datum shows it."""

import pytest
import torch
from torch import Tensor, nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary import hypergrad
from covary.curvature import OuterFactors, diag, full, kfac
from covary.curvature.rules import registry
from covary.curvature.self_check import check_jacobian_factors
from covary.errors import DataError, ShapeError, UnsupportedLayerError
from covary.priors import weights_of
from oracles.curvature import ggn, loss_of


class Around(nn.Module):
    """Two layers with something before and after the first."""

    def __init__(self, before=lambda h: h, after=lambda h: h) -> None:
        super().__init__()
        self.first, self.second, self.before, self.after = nn.Linear(4, 4), nn.Linear(4, NUM_OUTPUTS), before, after

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.after(self.first(self.before(x)))))


class Sorted(Around):
    """Rows in the order of their first entry inside the first layer, and in their own order after it."""

    def forward(self, x: Tensor) -> Tensor:
        order = x[:, 0].argsort()
        return self.second(torch.tanh(self.first(x[order])[order.argsort()]))


class SometimesFunctional(Around):
    """The second weight is used once more, for data whose first entry is above a threshold."""

    threshold = 0.0

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        again = nn.functional.linear(h, self.second.weight) * (x[:, :1] > self.threshold)
        return self.second(h) + again


def _last_two(h: Tensor) -> Tensor:
    """The last two rows exchanged: most data stay where they are."""
    return torch.cat([h[:-2], h[-2:].flip(0)])


PERMUTED = {
    "roll": lambda: Around(lambda h: h.roll(1, 0), lambda h: h.roll(-1, 0)),
    "flip": lambda: Around(lambda h: h.flip(0), lambda h: h.flip(0)),
    "sort": Sorted,
    "last two": lambda: Around(_last_two, _last_two),
}
MIXED = {
    "mean": lambda: Around(after=lambda h: h + h.mean(0)),
    "mean for some data": lambda: Around(after=lambda h: h + (h[:, :1] > 0.5) * h.mean(0)),
    "noise for some data": lambda: Around(after=lambda h: h + (h[:, :1] > 0.5) * torch.randn_like(h)),
    "softmax over the batch": lambda: Around(after=lambda h: h.softmax(0)),
    "noise": lambda: Around(after=lambda h: h + 1e-3 * torch.randn_like(h)),
}
CURVATURES = (full, diag, kfac)


def made(build, num_data: int = 40) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return build(), (torch.randn(num_data, 4), targets("categorical", num_data))


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("build", PERMUTED.values(), ids=PERMUTED)
def test_rows_that_move_between_data_are_refused(build, curvature):
    network, data = made(build)
    with pytest.raises(UnsupportedLayerError, match=r"'first\.\w+' only in part.*moves rows between data"):
        curvature(network, data)


def test_rows_that_move_within_a_datum_are_not():
    torch.manual_seed(0)

    class Flipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.head = nn.Linear(2, 3), nn.Linear(6, NUM_OUTPUTS)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.tanh(self.tokens(x.unflatten(1, (2, 2)).flip(1))).flip(1).flatten(1))

    network, (x, y) = Flipped(), (torch.randn(3, 4), targets("categorical", 3))
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1.0])
def test_a_weight_that_some_data_use_functionally_is_refused(threshold):
    network, data = made(SometimesFunctional, num_data=64)
    network.threshold = threshold
    with pytest.raises(UnsupportedLayerError, match=r"'second.weight' only in part"):
        kfac(network, data)


def test_no_datum_that_uses_it_is_no_fault():
    network, data = made(SometimesFunctional)
    network.threshold = 100.0
    kfac(network, data)


@pytest.mark.parametrize("build", MIXED.values(), ids=MIXED)
def test_data_that_depend_on_each_other_are_refused(build):
    network, data = made(build)
    with pytest.raises(UnsupportedLayerError, match=r"depend on this datum alone.*h\.mean\(0\).*network\.eval\(\)"):
        kfac(network, data)


ALONE = {
    "deviation": (lambda: Around(after=lambda h: h / h.std(0)), r"NaN or infinity"),
    "another row": (lambda: Around(after=lambda h: h + h[1]), r"IndexError: index 1 is out of bounds"),
}


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(("build", "found"), ALONE.values(), ids=ALONE)
@pytest.mark.parametrize("compute", [kfac, covary.log_evidence, covary.Laplace, covary.fit])
def test_outputs_that_one_datum_does_not_have_are_refused(build, found, compute):
    network, data = made(build)
    with pytest.raises(
        UnsupportedLayerError, match=rf"depend on this datum alone.*{found}.*h / h\.std\(0\).*LayerNorm"
    ):
        compute(network, data)


def test_outputs_that_no_batch_has_keep_their_own_error():
    network, data = made(lambda: Around(after=lambda h: h * float("nan")))
    with pytest.raises(DataError, match="Outputs must be finite"):
        kfac(network, data)
    network, data = made(lambda: Around(after=lambda h: h[:, 9]))
    with pytest.raises(IndexError, match="index 9"):
        kfac(network, data)


def test_every_way_to_an_evidence_checks():
    network, data = made(PERMUTED["roll"])
    for compute in (covary.log_evidence, hypergrad.direct, hypergrad.two_pass, covary.Laplace):
        with pytest.raises(UnsupportedLayerError):
            compute(network, data)


@pytest.mark.parametrize(("dtype", "seen"), [(torch.float64, 1e-5), (torch.float32, 1e-2)])
def test_a_rule_that_is_slightly_wrong_is_refused(dtype, seen, monkeypatch):
    def tokens(features: Tensor) -> Tensor:
        return features[:, :, None, None]

    class Head(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input)

    def off_by(relative: float):
        return lambda module, x: {"weight": OuterFactors((1 + relative) * x, tokens, tokens)}

    torch.manual_seed(0)
    network, x = (
        nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Head(4, 3, bias=False)).to(dtype),
        torch.randn(9, 4).to(dtype),
    )
    for relative, refused in ((seen, True), (0.0, False)):
        monkeypatch.setitem(registry._RULES, Head, registry.Rule(off_by(relative), {"weight": "kron"}))
        if refused:
            with pytest.raises(UnsupportedLayerError, match="'2.weight' only in part"):
                check_jacobian_factors(network, x, weights_of(network))
        else:
            check_jacobian_factors(network, x, weights_of(network))


@pytest.mark.parametrize("case", CASES)
def test_single_precision_passes(case):
    network, x = CASES[case].make(5)
    network, x = network.float(), x if CASES[case].tokens else x.float()
    check_jacobian_factors(network, x, weights_of(network))


def test_deep_networks_in_single_precision_pass():
    for seed in range(3):
        torch.manual_seed(seed)
        network = covary.networks.fixup_resnet(8, 4, num_channels=1).float()
        check_jacobian_factors(network, torch.randn(40, 1, 12, 12).float(), weights_of(network))


@pytest.mark.parametrize("compute", [kfac, covary.fit])
@pytest.mark.parametrize("outputs", [tuple, lambda h: {"logits": h}], ids=["tuple", "dictionary"])
def test_outputs_that_are_no_tensor_are_refused(outputs, compute):
    class Wrapped(Around):
        def forward(self, x: Tensor):
            return outputs(super().forward(x))

    network, data = made(Wrapped)
    with pytest.raises(ShapeError, match=r"returns one tensor of outputs, got a (tuple|dict).*network\(x\).logits"):
        compute(network, data)
