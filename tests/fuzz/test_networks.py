"""The short form of `make fuzz ARGS="--suite networks"`: a few random networks, and a control that must fall short."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.random_networks import AUTOGRAD_LAYERS, LAYERS, problems
from fuzz.suites import networks

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
    pytest.mark.filterwarnings("ignore:Weights without a rule"),
]
NAMES = st.sampled_from(sorted(LAYERS)) | st.sampled_from(sorted(AUTOGRAD_LAYERS))


@settings(max_examples=6)
@given(data=st.data(), name=NAMES, precisions=networks.PRECISIONS)
def test_curvature_and_evidence_are_those_of_the_dense_matrix(data, name, precisions):
    networks.check_curvature(data.draw(problems(name)), precisions)


@settings(max_examples=5)
@given(data=st.data(), name=NAMES, structure=st.sampled_from(networks.STRUCTURES), precisions=networks.PRECISIONS)
def test_gradients_are_differences_of_evidences(data, name, structure, precisions):
    networks.check_gradient(data.draw(problems(name)), precisions, structure)


def test_what_is_wrong_falls_short_and_can_be_shown_again(monkeypatch, capsys):
    held = networks._row("linear", 2, 0)
    assert (held.kind, held.tried, held.failures) == ("linear", 2, [])
    original = networks.diag
    monkeypatch.setattr(networks, "diag", lambda *given: original(*given) * 2)
    (failure,) = networks._row("linear", 2, 0).failures
    assert failure.startswith("linear:0 diag: ")
    assert networks.show("linear:0", seed=0) == 1
    assert "Traceback" in capsys.readouterr().out
