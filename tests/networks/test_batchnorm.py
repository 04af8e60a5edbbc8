"""Replacements of batch normalization."""

import pytest
import torch
from torch import nn

import covary
from covary.curvature import full
from covary.errors import StructureError, UnsupportedLayerError
from covary.layers import FrozenBatchNorm
from covary.networks import replace_batchnorm
from covary.networks.batchnorm import check_replacement
from oracles.curvature import ggn, loss_of


class Residual(nn.Module):
    """A block whose norm is called twice, inside and after a residual branch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.tied = self.norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.tied(self.conv(torch.relu(self.norm(x)))))


def trained() -> nn.Sequential:
    """A network whose norms have statistics, scales and shifts of their own."""
    torch.manual_seed(0)
    body = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), Residual(), nn.Flatten()
    network = nn.Sequential(*body, nn.Linear(64, 6), nn.BatchNorm1d(6, affine=False), nn.Linear(6, 3))
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
            if module.affine:
                nn.init.normal_(module.weight, 1.0, 0.3)
                nn.init.normal_(module.bias)
    return network


DATA = torch.randn(5, 1, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])


def test_frozen_keeps_the_function_of_evaluation_mode_in_both_modes():
    network = trained()
    frozen = replace_batchnorm(network, by="frozen")
    expected = network.eval()(DATA[0])
    before = {name: value.clone() for name, value in frozen.state_dict().items()}
    for mode in (True, False):
        assert torch.equal(frozen.train(mode)(DATA[0]), expected)
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())
    assert not torch.allclose(network.train()(DATA[0]), expected)  # the control


@pytest.mark.parametrize("by", ["group", "frozen", "fixup-scale"])
def test_the_curvature_is_exact_in_training_mode(by):
    x, y = DATA
    with pytest.raises(
        UnsupportedLayerError, match=r"statistics of the batch.*replace_batchnorm\(network, by='group'\)"
    ):
        full(trained(), (x, y))
    network = replace_batchnorm(trained(), by).train()
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))


@pytest.mark.parametrize("by", ["group", "frozen", "fixup-scale"])
def test_the_network_is_a_copy_and_ties_are_kept(by):
    network = trained()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    replaced = replace_batchnorm(network, by)
    assert not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in replaced.modules())
    assert replaced[2].norm is replaced[2].tied
    with torch.no_grad():
        for parameter in replaced.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_group_norms_have_the_scales_and_shifts():
    network = trained()
    network[1].weight.requires_grad_(False)
    replaced = replace_batchnorm(network, by="group")
    assert torch.equal(replaced[1].weight, network[1].weight)
    assert torch.equal(replaced[1].bias, network[1].bias)
    assert not replaced[1].weight.requires_grad
    assert replaced[5].weight is None


@pytest.mark.parametrize(("channels", "groups"), [(64, 16), (256, 32), (6, 1), (12, 3), (3, 1), (1, 1)])
def test_groups_divide_the_channels(channels, groups):
    assert replace_batchnorm(nn.BatchNorm2d(channels), by="group").num_groups == groups


def test_fixup_scales_are_the_nearest_single_numbers():
    norm = trained()[1].eval()
    replaced = replace_batchnorm(nn.Sequential(norm), by="fixup-scale")[0]
    scales = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
    assert replaced[0].weight.item() == pytest.approx(float(scales.square().mean().sqrt()))
    assert replaced[1].bias.item() == pytest.approx(float((norm.bias.detach() - norm.running_mean * scales).mean()))
    bare = nn.BatchNorm1d(3, affine=False, track_running_stats=False)
    torch.testing.assert_close(
        replace_batchnorm(bare, by="fixup-scale")(torch.ones(2, 3)), torch.ones(2, 3), atol=1e-5, rtol=0
    )
    equal = nn.BatchNorm1d(3).eval()
    equal.running_mean.fill_(0.5)
    x = torch.randn(4, 3)
    torch.testing.assert_close(replace_batchnorm(equal, by="fixup-scale")(x), equal(x))


@pytest.mark.parametrize("by", ["group", "frozen", "fixup-scale"])
def test_mode_and_dtype_are_kept(by):
    replaced = replace_batchnorm(nn.Sequential(nn.BatchNorm2d(4).float().eval()), by)
    assert not replaced[0].training
    assert {parameter.dtype for parameter in replaced.parameters()} == {torch.float32}


def test_a_grouped_network_is_fitted_and_has_an_evidence():
    network = replace_batchnorm(trained(), by="group")
    run = covary.fit(network, DATA, epochs=1, callbacks=())
    assert run.record.evidence is not None


def test_what_cannot_be_replaced_is_refused():
    with pytest.raises(StructureError, match="got one without"):
        replace_batchnorm(nn.Linear(2, 2))
    with pytest.raises(StructureError, match="'group', 'frozen', 'fixup-scale', got 'layer'"):
        check_replacement("layer")
    with pytest.raises(UnsupportedLayerError, match="track_running_stats=False"):
        replace_batchnorm(nn.BatchNorm1d(2, track_running_stats=False), by="frozen")
    with pytest.raises(UnsupportedLayerError, match="lazy BatchNorm '0'"):
        replace_batchnorm(nn.Sequential(nn.LazyBatchNorm1d()))


def test_a_frozen_norm_without_weights():
    norm = FrozenBatchNorm(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 1.0]), eps=0.0, affine=False)
    assert not list(norm.parameters())
    assert norm(torch.tensor([[3.0, 2.0]])).tolist() == [[1.0, 0.0]]
    assert "2, eps=0.0, affine=False" in repr(norm)
