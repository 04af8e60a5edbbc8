"""The stochastic bound: below the evidence for every partition, equal to it without one, unbiased, differentiable."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary.batches import IndexedBatch
from covary.curvature.capture import capture
from covary.curvature.kernel import tangent_kernel
from covary.curvature.passes import root_probes
from covary.errors import DataError, StructureError
from covary.hypergrad import stochastic
from covary.hypergrad.stochastic import check_estimator, draw_outputs, minibatch_estimate
from covary.noise import Stream, permutation
from covary.priors import weights_of

STEP = 1e-6
NUM_DATA = 6
CHOICES = list(itertools.product(["kernel", "kron"], ["all", "one"]))


def setup(num_data: int = NUM_DATA, structure: str = "layerwise"):
    """A small averaged network with a width, a temperature and precisions to learn, and data."""
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, NUM_OUTPUTS))
    network = covary.Averaged(inner, covary.augment.Rotation2d(initial_width=0.7), 4)
    likelihood = covary.Categorical(temperature=1.3, learn_temperature=True)
    prior = covary.Prior(network, structure, 0.6)
    return covary.Model(network, likelihood, prior), (torch.randn(num_data, 2), targets("categorical", num_data))


def minibatches(data: tuple[Tensor, Tensor], size: int) -> Iterator[IndexedBatch]:
    """A partition of the data."""
    x, y = data
    for identity in torch.arange(len(x)).split(size):
        yield IndexedBatch(x[identity], y[identity], identity)


def estimate_of(parts, batch: IndexedBatch, drawn: Tensor | None = None, estimator: str = "kernel"):
    model, _ = parts
    captured = capture(model.network, batch.x, model.weights, index=batch.identity, seed=0)
    return minibatch_estimate(model, captured, batch.y, estimator, drawn)


def logdet(kernel: Tensor) -> Tensor:
    return torch.linalg.slogdet(kernel + torch.eye(len(kernel)))[1]


def refinements(rows: list[int], generator: torch.Generator) -> Iterator[list[list[int]]]:
    """Partitions from one block for each row to one block for all: at each step two blocks merge."""
    blocks = [[row] for row in rows]
    yield blocks
    while len(blocks) > 1:
        i, j = sorted(torch.randperm(len(blocks), generator=generator)[:2].tolist())
        merged = blocks[i] + blocks[j]
        blocks = [block for k, block in enumerate(blocks) if k not in (i, j)] + [merged]
        yield blocks


@pytest.mark.parametrize("case", ["linear", "conv2d grouped", "residual, tied module"])
def test_partitions_of_the_kernel_bound_it_and_tighten_as_blocks_merge(case, generator):
    network, x = CASES[case].make(4)
    weights = weights_of(network)
    with torch.no_grad():
        captured = capture(network, x, weights)
        probes = root_probes(covary.Categorical(), captured.outputs, None)
        kernel = tangent_kernel(captured, probes, dict.fromkeys(weights, torch.tensor(0.5)))
    for _ in range(5):
        chain = [
            sum(logdet(kernel[block][:, block]) for block in blocks)
            for blocks in refinements(list(range(len(kernel))), generator)
        ]
        assert all(finer >= coarser - 1e-10 for finer, coarser in itertools.pairwise(chain))
        assert chain[0] > chain[-1] + 1e-3
        torch.testing.assert_close(chain[-1], logdet(kernel), rtol=1e-10, atol=1e-10)


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """Every partition of a list."""
    if not items:
        yield []
        return
    first, *rest = items
    for smaller in partitions(rest):
        yield [[first], *smaller]
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [first, *block], *smaller[i + 1 :]]


def test_of_two_partitions_of_the_data_the_coarser_is_the_tighter():
    """Every pair of the 15 partitions of four data where one refines the other."""
    parts = setup(4)
    *_, (x, y) = parts
    ratios = {
        subset: estimate_of(parts, IndexedBatch(x[list(subset)], y[list(subset)], torch.tensor(subset))).log_ratio
        for size in range(1, 5)
        for subset in itertools.combinations(range(4), size)
    }
    every = [[tuple(sorted(block)) for block in partition] for partition in partitions(list(range(4)))]
    assert len(every) == 15
    for fine, coarse in itertools.permutations(every, 2):
        if all(any(set(small) <= set(large) for large in coarse) for small in fine):
            assert sum(ratios[b] for b in fine) > sum(ratios[b] for b in coarse)


@pytest.mark.parametrize("structure", ["scalar", "layerwise", "diagonal"])
def test_all_data_and_outputs_give_the_evidence_of_the_full_curvature(structure):
    model, data = setup(structure=structure)
    found = stochastic(model, data, num_data=NUM_DATA).terms
    expected = covary.log_evidence(model, data, "full")
    for term in ("log_likelihood", "log_prior", "log_volume", "log_evidence"):
        torch.testing.assert_close(getattr(found, term), getattr(expected, term), rtol=1e-10, atol=1e-10)
    assert found.num_data == NUM_DATA
    assert found.gradient_norm is None


def test_all_data_with_kron_give_the_evidence_and_gradient_of_kron():
    model, data = setup()
    found = stochastic(model, data, "kron", num_data=NUM_DATA)
    expected = covary.hypergrad.direct(model, data, "kron")
    torch.testing.assert_close(found.terms.log_volume, expected.terms.log_volume, rtol=1e-10, atol=1e-10)
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-8, atol=1e-10)


def test_all_data_and_outputs_give_the_gradient_of_the_full_curvature():
    model, data = setup()
    found = stochastic(model, data, num_data=NUM_DATA)
    expected = covary.hypergrad.direct(model, data, "full")
    assert found.keys() == expected.keys() == {
        "augment.raw_widths", "likelihood.log_temperature", "prior.log_precision",
    }  # fmt: skip
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-8, atol=1e-10)


def test_the_mean_over_a_partition_is_below_the_evidence_and_rises_with_the_size_of_its_parts():
    parts = setup()
    *_, data = parts
    whole = estimate_of(parts, next(minibatches(data, NUM_DATA)))
    ratios = []
    for size in (1, 2, 3, 6):
        estimates = [estimate_of(parts, batch).scaled(NUM_DATA / size) for batch in minibatches(data, size)]
        likelihoods, volumes = (torch.stack(values).mean() for values in zip(*estimates, strict=True))
        torch.testing.assert_close(likelihoods, whole.log_likelihood, rtol=1e-12, atol=1e-12)
        ratios.append(volumes)
    # 1 refines 2 and 3, both refine 6
    assert ratios[0] > ratios[1] > ratios[3]
    assert ratios[0] > ratios[2] > ratios[3]
    torch.testing.assert_close(ratios[3], whole.log_ratio, rtol=1e-12, atol=1e-12)


def test_the_public_function_is_the_scaled_estimate_of_its_minibatch():
    """Through `stochastic` itself: value and gradient are those of the minibatch its seed chooses, times N/M."""
    parts = setup()
    model, (x, y) = parts
    network, likelihood, prior = model.network, model.likelihood, model.prior
    network.augment.raw_widths.requires_grad_(False).zero_()  # the seed shall change the choice of data only
    identity = permutation(3, NUM_DATA, stream=Stream.SUBSET)[:2]
    estimate = estimate_of(parts, IndexedBatch(x[identity], y[identity], identity)).scaled(NUM_DATA / 2)
    found = stochastic(model, (x, y), num_data=2, seed=3)
    torch.testing.assert_close(found.terms.log_likelihood, estimate.log_likelihood.detach(), rtol=1e-10, atol=1e-10)
    prior_volume = -prior.log_density({n: torch.zeros_like(w) for n, w in weights_of(network).items()})
    torch.testing.assert_close(found.terms.log_volume, (prior_volume - 0.5 * estimate.log_ratio).detach())
    (gradient,) = torch.autograd.grad(estimate.log_likelihood - 0.5 * estimate.log_ratio, likelihood.log_temperature)
    torch.testing.assert_close(found["likelihood.log_temperature"], gradient, rtol=1e-9, atol=1e-11)
    assert found.terms.num_data == NUM_DATA


def test_the_mean_over_all_minibatches_through_the_public_function_is_a_bound():
    """Seeds that choose every pair of four data: each pair is as often in a random partition as any other."""
    model, data = setup(4)
    network, likelihood, prior = model.network, model.likelihood, model.prior
    network.augment.raw_widths.requires_grad_(False).zero_()
    found = {}
    for seed in itertools.count():
        pair = frozenset(permutation(seed, 4, stream=Stream.SUBSET)[:2].tolist())
        if pair not in found:
            found[pair] = stochastic(model, data, num_data=2, seed=seed)
        if len(found) == 6:
            break
    evidence = covary.log_evidence(covary.Model(network, likelihood, prior), data, "full").log_evidence
    mean = torch.stack([gradient.terms.log_evidence for gradient in found.values()]).mean()
    assert mean < evidence - 1e-3


def test_one_output_averaged_over_all_choices_is_below_all_outputs():
    parts = setup(3)
    *_, data = parts
    (batch,) = minibatches(data, 3)
    whole = estimate_of(parts, batch).log_ratio
    choices = [torch.tensor(choice) for choice in itertools.product(range(NUM_OUTPUTS), repeat=3)]
    values = {tuple(drawn.tolist()): estimate_of(parts, batch, drawn).log_ratio for drawn in choices}
    assert len(values) == NUM_OUTPUTS**3
    # the C shifts of a choice are a partition of the rows: each is a bound of its own, so is the mean over all
    for drawn in choices:
        shifts = [values[tuple(((drawn + j) % NUM_OUTPUTS).tolist())] for j in range(NUM_OUTPUTS)]
        assert torch.stack(shifts).mean() >= whole - 1e-10
    assert torch.stack(list(values.values())).mean() > whole + 1e-3


def test_one_drawn_output_is_a_block_of_the_kernel():
    parts = setup(3)
    model, data = parts
    network, likelihood, prior = model.network, model.likelihood, model.prior
    (batch,) = minibatches(data, 3)
    captured = capture(network, batch.x, weights_of(network), index=batch.identity, seed=0)
    kernel = tangent_kernel(captured, root_probes(likelihood, captured.outputs, None), prior.shifts())
    drawn = torch.tensor([2, 0, 1])
    rows = drawn * 3 + torch.arange(3)
    expected = NUM_OUTPUTS * logdet(kernel[rows][:, rows])
    torch.testing.assert_close(estimate_of(parts, batch, drawn).log_ratio, expected, rtol=1e-10, atol=1e-12)


def test_the_variance_of_one_output_would_break_the_bound():
    """The control: outputs that move against each other, and Λ_cc = p_c(1 − p_c) in place of a root's column."""
    torch.manual_seed(12)
    network = nn.Sequential(nn.Linear(2, 1), nn.Tanh(), nn.Linear(1, NUM_OUTPUTS))
    with torch.no_grad():
        network[2].weight.mul_(2)
    captured = capture(network, 1.5 * torch.randn(2, 2), weights_of(network))
    shifts = dict.fromkeys(weights_of(network), torch.tensor(10.0))
    likelihood, p = covary.Categorical(), captured.outputs.softmax(-1)
    exact = logdet(tangent_kernel(captured, root_probes(likelihood, captured.outputs, None), shifts))
    by_column, by_variance = [], []
    for choice in itertools.product(range(NUM_OUTPUTS), repeat=2):
        chosen = nn.functional.one_hot(torch.tensor(choice), NUM_OUTPUTS).to(p)
        column = likelihood.root_product(captured.outputs, chosen)
        by_column.append(logdet(tangent_kernel(captured, [column], shifts)))
        by_variance.append(logdet(tangent_kernel(captured, [chosen * (p * (1 - p)).sqrt()], shifts)))
    assert NUM_OUTPUTS * torch.stack(by_column).mean() > exact
    assert NUM_OUTPUTS * torch.stack(by_variance).mean() < 0.9 * exact


def test_drawn_outputs_are_uniform_and_functions_of_seed_and_identity():
    num_data = 3000
    network, x = CASES["linear"].make(num_data)
    with torch.no_grad():
        captured = capture(network, x, weights_of(network))
    identity = torch.arange(num_data)
    drawn = draw_outputs(captured, IndexedBatch(x, x, identity), 5)
    counts = torch.bincount(drawn, minlength=NUM_OUTPUTS)
    assert len(counts) == NUM_OUTPUTS
    assert (counts - num_data / NUM_OUTPUTS).abs().max() < 4 * (num_data * 2 / 9) ** 0.5  # four standard deviations
    assert torch.equal(draw_outputs(captured, IndexedBatch(x, x, identity.flip(0)), 5), drawn.flip(0))
    assert not torch.equal(draw_outputs(captured, IndexedBatch(x, x, identity), 6), drawn)


@pytest.mark.parametrize(("estimator", "outputs"), CHOICES)
@pytest.mark.parametrize("num_data", [3, NUM_DATA])
def test_gradients_are_central_differences(estimator, outputs, num_data):
    model, data = setup()
    network, likelihood, prior = model.network, model.likelihood, model.prior

    def value() -> float:
        found = stochastic(model, data, estimator, outputs=outputs, num_data=num_data, seed=1)
        return float(found.terms.log_evidence)

    gradient = stochastic(model, data, estimator, outputs=outputs, num_data=num_data, seed=1)
    parameters = {
        "augment.raw_widths": network.augment.raw_widths,
        "likelihood.log_temperature": likelihood.log_temperature,
        "prior.log_precision": prior.log_precision,
    }
    assert gradient.keys() == parameters.keys()
    for name, parameter in parameters.items():
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            before = float(flat[i])
            flat[i] = before + STEP
            up = value()
            flat[i] = before - STEP
            down = value()
            flat[i] = before
            expected = (up - down) / (2 * STEP)
            assert abs(expected) > 1e-4, "the test needs a gradient to see"
            assert float(gradient[name].view(-1)[i]) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_diagonal_prior_has_a_gradient_for_every_weight():
    model, data = setup(structure="diagonal")
    found = stochastic(model, data, num_data=NUM_DATA)
    expected = covary.hypergrad.direct(model, data, "full")
    torch.testing.assert_close(found["prior.log_precision"], expected["prior.log_precision"], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("estimator", ["kernel", "kron"])
def test_the_mean_of_gradients_over_a_partition_is_the_gradient_of_the_mean(estimator):
    parts = setup()
    model, data = parts
    network, likelihood, prior = model.network, model.likelihood, model.prior
    parameters = [network.augment.raw_widths, likelihood.log_temperature, prior.log_precision]

    def objective(batch: IndexedBatch) -> Tensor:
        estimate = estimate_of(parts, batch, estimator=estimator).scaled(NUM_DATA / 2)
        return estimate.log_likelihood - 0.5 * estimate.log_ratio

    single = [torch.autograd.grad(objective(batch), parameters) for batch in minibatches(data, 2)]
    mean = torch.stack([objective(batch) for batch in minibatches(data, 2)]).mean()
    for gradients, expected in zip(zip(*single, strict=True), torch.autograd.grad(mean, parameters), strict=True):
        torch.testing.assert_close(torch.stack(gradients).mean(0), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("estimator", "outputs"), CHOICES)
def test_no_gradient_stays_behind(estimator, outputs):
    model, data = setup()
    network, likelihood, prior = model.network, model.likelihood, model.prior
    with torch.no_grad():  # as inside a step of an optimizer
        found = stochastic(covary.Model(network, likelihood, prior), data, estimator, outputs=outputs, num_data=4)
    parameters = [*network.parameters(), *likelihood.parameters(), *prior.parameters()]
    assert all(parameter.grad is None for parameter in parameters)
    terms = [found.terms.log_likelihood, found.terms.log_prior, found.terms.log_volume]
    assert not any(value.requires_grad for value in [*found.values(), *terms])
    assert not any(len(module._forward_hooks) for module in network.modules())
    structures = set(found.terms.structures.values())
    assert structures == ({"kernel"} if estimator == "kernel" else {"kron", "dense"})


@pytest.mark.parametrize(("estimator", "outputs"), CHOICES)
def test_a_prior_alone_needs_no_graph_through_the_pass(estimator, outputs, monkeypatch):
    """A network without hyperparameters: the same gradient as with a graph, without making one."""
    network, x = CASES["linear"].make(NUM_DATA)
    prior, data = covary.Prior(network), (x, targets("categorical", NUM_DATA))
    modes = []
    bound = import_module("covary.hypergrad.stochastic")
    original = bound.captured_batch

    def watched(*arguments, **named):
        modes.append(torch.is_grad_enabled())
        return original(*arguments, **named)

    monkeypatch.setattr(bound, "captured_batch", watched)
    found = [
        stochastic(covary.Model(network, likelihood, prior), data, estimator, outputs=outputs, num_data=4)
        for likelihood in (covary.Categorical(), covary.Categorical(learn_temperature=True))
    ]
    assert modes == [False, True]
    without, with_graph = (gradient["prior.log_precision"] for gradient in found)
    torch.testing.assert_close(without, with_graph, rtol=1e-10, atol=1e-12)


def test_the_seed_decides_everything():
    model, data = setup()
    found = [stochastic(model, data, outputs="one", num_data=3, seed=seed).terms for seed in (0, 0, 1)]
    assert found[0].log_evidence == found[1].log_evidence != found[2].log_evidence


def test_a_dataset_gives_what_its_tensors_give():
    model, data = setup()
    values = [stochastic(model, source, num_data=3).terms.log_evidence for source in (data, TensorDataset(*data))]
    torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=1e-12)


SHARD = """
import sys, torch, covary
torch.set_default_dtype(torch.float64)
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
inner = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
network = covary.Averaged(inner, covary.augment.Rotation2d(initial_width=0.7), 4)
prior, x, y, index = covary.Prior(network), torch.randn(7, 2), torch.randint(0, 3, (7,)), torch.arange(7)
part = slice(0, 4) if rank == 0 else slice(4, 7)
model, data = covary.Model(network, prior=prior), (x[part], y[part], index[part])
alone = covary.hypergrad.stochastic(model, data, num_data=2, outputs="one")
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
joint = covary.hypergrad.stochastic(model, data, num_data=2, outputs="one")
try:
    covary.log_evidence(model, data, "kernel")
except ValueError as error:
    assert "one process must hold" in str(error)
else:
    raise AssertionError("the kernel of one shard is no evidence of all")
nothing = prior.log_density({name: torch.zeros_like(w) for name, w in prior.weights(network).items()})
of_prior = prior.log_density(prior.weights(network)) - nothing
(gradient,) = torch.autograd.grad(of_prior, prior.log_precision)
saved = {"alone": dict(alone), "joint": dict(joint), "num_data": joint.terms.num_data, "gradient": gradient}
values = [alone.terms.log_evidence, joint.terms.log_evidence, of_prior.detach()]
torch.save({**saved, "values": values}, f"{folder}/{rank}")
"""


@pytest.mark.slow
def test_processes_add_what_their_data_say_and_count_the_prior_once(tmp_path):
    (tmp_path / "shard.py").write_text(SHARD)
    commands = [[sys.executable, tmp_path / "shard.py", str(rank), tmp_path] for rank in (0, 1)]
    started = [subprocess.Popen(command) for command in commands]
    assert [process.wait(120) for process in started] == [0, 0]
    first, second = (torch.load(tmp_path / str(rank)) for rank in (0, 1))
    (one, _, of_prior), (other, *_) = first["values"], second["values"]
    for saved in (first, second):
        assert saved["num_data"] == 7
        torch.testing.assert_close(saved["values"][1], one + other - of_prior, rtol=1e-10, atol=1e-10)
        for name, gradient in saved["joint"].items():
            twice = saved["gradient"] if name.startswith("prior") else 0
            expected = first["alone"][name] + second["alone"][name] - twice
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-11)


def test_more_data_than_one_batch_are_one_minibatch():
    network, x = CASES["linear without bias"].make(1200)
    data, prior = (x, targets("categorical", 1200)), covary.Prior(network)
    found = stochastic(covary.Model(network, prior=prior), data, outputs="one", num_data=1100)
    assert found.terms.num_data == 1200
    assert bool(found["prior.log_precision"].isfinite().all())


def test_steps_on_the_bound_raise_the_evidence():
    model, data = setup(20)
    prior = model.prior
    with torch.no_grad():
        prior.log_precision.fill_(-3.0)
    values = [covary.log_evidence(model, data, "full").log_evidence]
    for seed in range(30):
        gradient = stochastic(model, data, outputs="one", num_data=5, seed=seed)
        with torch.no_grad():
            prior.log_precision.add_(0.02 * gradient["prior.log_precision"])
    values.append(covary.log_evidence(model, data, "full").log_evidence)
    assert values[1] > values[0] + 1


@pytest.mark.parametrize(("estimator", "outputs", "structure", "message"), [
    ("full", "all", "layerwise", "Expected an estimator among kernel, kron, got 'full'"),
    ("kernel", "two", "layerwise", "Expected outputs among all, one, got 'two'"),
    ("kernel", 1, "layerwise", "got 1"),
    ("kron", "all", "diagonal", "estimator='kernel'"),
])  # fmt: skip
def test_choices_that_cannot_be_are_refused(estimator, outputs, structure, message):
    prior = setup(structure=structure)[0].prior
    with pytest.raises(StructureError, match=message):
        check_estimator(estimator, outputs, prior)


def test_a_diagonal_prior_with_kron_is_refused_before_work():
    model, data = setup(structure="diagonal")
    with pytest.raises(StructureError, match="no closed-form"):
        stochastic(model, data, "kron", num_data=3)


@pytest.mark.parametrize("num_data", [0, NUM_DATA + 1])
def test_more_data_than_there_are_cannot_be_drawn(num_data):
    model, data = setup()
    with pytest.raises(DataError, match=f"subset of 1 to 6 data, got {num_data}"):
        stochastic(model, data, num_data=num_data)


def test_an_iterable_of_batches_has_no_random_part():
    model, data = setup()
    with pytest.raises(DataError, match="that can be read one by one"):
        stochastic(model, [data], num_data=2)


def test_wrong_targets_are_refused():
    model, (x, y) = setup()
    with pytest.raises(DataError):
        stochastic(model, (x, y + NUM_OUTPUTS), num_data=3)
