"""A user's rule that is wrong is one line: what was expected, what was got, what to do."""

import pytest
import torch
from torch import nn

import covary
from covary.curvature import DirectVJP, OuterFactors, register_rule
from covary.curvature.rules import registry
from covary.curvature.rules.user import user_rule
from covary.errors import StructureError, UnsupportedLayerError


class Plain(nn.Module):
    """A linear layer without a bias."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, inputs * outputs).reshape(outputs, inputs).double())

    def forward(self, x):
        return x @ self.weight.T


def rows(features):
    return features.reshape(*features.shape[:2], -1, 1, features.shape[-1])


def good(module, x):
    return {"weight": OuterFactors(x, rows, rows)}


def evidence(rule, forms, network=None):
    register_rule(Plain, rule, forms)
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(12, 3, generator=generator, dtype=torch.float64), torch.arange(12) % 3
    return covary.log_evidence(network or nn.Sequential(Plain(3, 4), nn.Tanh(), Plain(4, 3)), data).log_evidence


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))


def test_a_right_rule_has_the_evidence_of_a_linear_layer():
    linear = [nn.Linear(3, 4, bias=False), nn.Linear(4, 3, bias=False)]
    network = nn.Sequential(linear[0], nn.Tanh(), linear[1]).double()
    network.load_state_dict(nn.Sequential(Plain(3, 4), nn.Tanh(), Plain(4, 3)).state_dict())
    assert evidence(good, {"weight": "kron"}).item() == pytest.approx(
        evidence(good, {"weight": "kron"}, network).item()
    )


@pytest.mark.parametrize(
    ("rule", "form", "words"),
    [
        (
            lambda m, x: {"weight": OuterFactors(2 * x, rows, rows)},
            "kron",
            r"autograd has it, .* differs by 1e\+00 of its size by the rule of Plain.*Correct",
        ),
        (lambda m, x: {"weight": OuterFactors(x, lambda f: f, rows)}, "kron", r"\(N, S, R, Q, D\) .*got \(12, 1, 3\)"),
        (lambda m, x: {"weight": OuterFactors(x, rows, lambda f: 1)}, "kron", r"\(N, S, R, Q, G\) .*got a int"),
        (lambda m, x: {"weight": OuterFactors(x, rows, lambda f: f @ x)}, "kron", "failed: .*Plain|Plain .*failed"),
        (lambda m, x: {"weight": OuterFactors(x[..., :2], rows, rows)}, "kron", r"12 entries .*\(4, 3\), got 8 by"),
        (lambda m, x: {"weight": DirectVJP(lambda g: g.sum(1))}, "exact", r"12 entries .*\(4, 3\), got 4 by"),
        (lambda m, x: {"weight": DirectVJP(lambda g: g)}, "exact", r"\(N, P\) with N = 12 .*got \(12, 1, 4\)"),
        (lambda m, x: {"weight": DirectVJP(lambda g: g.sum(1))}, "kron", "'kron' .*got DirectVJP of the form 'exact'"),
        (good, "kron_rows", "'kron_rows' .*got OuterFactors of the form 'kron'"),
        (lambda m, x: {"weight": x}, "kron", "expected to return OuterFactors, .*got a Tensor"),
        (lambda m, x: None, "kron", "by name of the parameter, .*got a NoneType"),
        (lambda m, x: {}, "kron", "factors for 'weight', got none. Return 'weight' too"),
        (lambda m, x: {"weigth": x}, "kron", "factors for 'weight', got 'weigth'"),
        (lambda m, x: {**good(m, x), "wait": x}, "kron", "factors for 'weight', got 'wait' as well"),
        (lambda m: {}, "kron", r"input of shape \(12, 1, 3\), .*failed: TypeError"),
        (lambda m, x: m.wait, "kron", "failed: AttributeError"),
    ],
)
def test_a_wrong_rule_is_one_line(rule, form, words):
    with pytest.raises(UnsupportedLayerError, match=words) as caught:
        evidence(rule, {"weight": form})
    assert "\n" not in str(caught.value)
    assert "Plain" in str(caught.value)


def test_an_error_of_ours_inside_a_rule_stays_as_it_is():
    def refuse(module, x):
        raise covary.errors.ShapeError("Expected three features.")

    with pytest.raises(covary.errors.ShapeError, match="Expected three features"):
        evidence(refuse, {"weight": "kron"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Plain, good, {"weight": "kronn"}), "one of 'kron', 'kron_rows', .* got 'kronn'. Did you mean 'kron'"),
        ((Plain, good, {}), "form of each parameter by name"),
        ((Plain, good, ["weight"]), "form of each parameter by name, .* got"),
        ((Plain, "rule", {"weight": "kron"}), r"function of \(module, inputs\)"),
        ((Plain(2, 2), good, {"weight": "kron"}), "class of a layer"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_at_once(arguments, words):
    with pytest.raises(StructureError, match=words):
        user_rule(*arguments)  # what `register_rule` calls, without the types that tests check


def test_a_form_of_a_parameter_that_the_layer_lacks_is_refused():
    """It would leave the parameter to autograd, without a word."""
    with pytest.raises(
        UnsupportedLayerError, match="parameter 'weigth', and the layer has weight. Did you mean 'weight'"
    ):
        evidence(good, {"weigth": "kron"})
