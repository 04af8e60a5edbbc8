"""Block diagonals: names, shifts by name, decompositions in one round."""

import pytest
import torch

from covary.errors import NotPositiveDefiniteError, ShapeError, StructureError
from covary.linalg import Block, Dense, Diagonal, Kron, eigen
from oracles import linalg as oracle

from .structures import CASES, gram
from .test_psd import EXACT


def mixed() -> Block:
    value = CASES["block"].value()
    assert isinstance(value, Block)
    return value


def by_name(value: Block) -> tuple[dict[str, float | torch.Tensor], torch.Tensor]:
    """Shifts of every kind that the blocks accept, and the diagonal of all of them."""
    shifts = {
        "grouped": torch.tensor(0.3),  # in another order than the blocks
        "dense": torch.tensor([0.1, 0.2, 0.4]),
        "diagonal": torch.tensor([0.5, 0.6, 0.7, 0.8]),
        "kron": 0.9,
    }
    ones = [torch.ones(block.size) * shifts[name] for name, block in value.blocks.items()]
    return shifts, torch.cat(ones)


def test_shifts_by_name_give_the_dense_values() -> None:
    value, vectors = mixed(), torch.linspace(-1, 1, 2 * mixed().size).reshape(2, -1)
    shifts, flat = by_name(value)
    matrix = value.to_dense()
    torch.testing.assert_close(value.logdet(shifts), oracle.logdet(matrix, flat), **EXACT)
    torch.testing.assert_close(value.solve(vectors, shifts), oracle.solve(matrix, vectors, flat), **EXACT)
    expected = oracle.effective_dimension(matrix, flat)
    torch.testing.assert_close(value.effective_dimension(shifts), expected, **EXACT)
    root = value.sample(torch.eye(value.size), shifts).mT
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(oracle.shifted(matrix, flat)), **EXACT)


def test_gradients_by_name() -> None:
    shifts = {name: torch.tensor(0.2 + i, requires_grad=True) for i, name in enumerate(mixed().blocks)}
    flat = torch.cat([torch.ones(block.size) * shifts[name] for name, block in mixed().blocks.items()])
    expected = torch.autograd.grad(oracle.logdet(mixed().to_dense(), flat), list(shifts.values()))
    ours = torch.autograd.grad(mixed().logdet(shifts), list(shifts.values()))
    torch.testing.assert_close(ours, expected, **EXACT)


def test_cotangents_by_name() -> None:
    value = mixed()
    shifts, _ = by_name(value)
    ours = value.half_logdet_cotangents(shifts)
    assert list(ours) == list(value.tensors) == ["dense", "diagonal", "kron", "grouped"]
    torch.testing.assert_close(ours["kron"], value["kron"].half_logdet_cotangents(shifts["kron"]))


def test_shifts_of_missing_and_unknown_names_are_refused() -> None:
    value = mixed()
    shifts, _ = by_name(value)
    del shifts["kron"]
    with pytest.raises(StructureError, match=r"lacks \['kron'\] and adds \['tail'\].*one entry per block"):
        value.logdet({**shifts, "tail": 1.0})
    with pytest.raises(StructureError, match=r"one number or a mapping.*got a tensor \(19,\)"):
        value.logdet(torch.ones(19))


def test_errors_of_a_block_include_its_name() -> None:
    value = Block({"body": Dense(torch.eye(2)), "head": Kron(torch.zeros(2, 2), torch.eye(2))})
    with pytest.raises(NotPositiveDefiniteError, match="block 'head'"):
        value.logdet()
    with pytest.raises(StructureError, match=r"block 'head'.*no closed-form"):
        value.logdet({"body": 1.0, "head": torch.ones(4)})


def test_sums_of_blocks_closed_under_sums_are_exact() -> None:
    left = Block({"a": Dense(gram(0, 2, 2)), "b": Diagonal(torch.ones(3))})
    right = Block({"b": Dense(gram(1, 3, 3)), "a": Dense(gram(2, 2, 2))})  # joined by name, not by position
    in_order = Block({"a": right["a"], "b": right["b"]})
    total = left + right
    torch.testing.assert_close(total.to_dense(), left.to_dense() + in_order.to_dense(), **EXACT)
    with pytest.raises(TypeError, match="Kronecker"):
        mixed() + mixed()
    with pytest.raises(TypeError, match="unsupported operand"):
        left + Dense(torch.eye(5))


def test_accumulation_by_name() -> None:
    value = mixed()
    joined = value.accumulate(value * 2.0)
    torch.testing.assert_close(joined["kron"].count, 3 * value["kron"].count)
    torch.testing.assert_close(joined["dense"].to_dense(), 3 * value["dense"].to_dense(), **EXACT)
    with pytest.raises(StructureError, match=r"another Block lacks .* adds \['c'\]"):
        value.accumulate(Block({"c": Dense(torch.eye(2))}))
    with pytest.raises(StructureError, match="same structure"):
        value.accumulate(Dense(torch.eye(2)))


def test_all_blocks_are_decomposed_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: dict[str, list[int]] = {"eigh_all": [], "eigvalsh_all": []}

    def counting(name):
        original = getattr(eigen, name)

        def counted(matrices, *rest, **options):
            rounds[name] += [len(matrices)] if matrices else []
            return original(matrices, *rest, **options)

        return counted

    for name in rounds:
        monkeypatch.setattr(eigen, name, counting(name))
    value = mixed()
    shifts, _ = by_name(value)
    value.logdet(shifts)
    # two Kronecker products, by their eigenvalues; the dense block uses Cholesky
    assert rounds == {"eigh_all": [], "eigvalsh_all": [4]}
    value.solve(torch.ones(value.size), 1.0)
    assert rounds == {"eigh_all": [5], "eigvalsh_all": [4]}  # now with eigenvectors, and the dense block too
    value.effective_dimension(2.0)
    value.half_logdet_cotangents(3.0)
    assert rounds == {"eigh_all": [5], "eigvalsh_all": [4]}


def test_blocks_share_the_decomposition_of_their_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = Dense(gram(3, 3, 3))
    Block({"a": dense}).logdet(1.0)

    def refused(matrix):
        raise AssertionError("decomposed twice")

    monkeypatch.setattr(torch.linalg, "eigh", refused)
    assert dense.name == ""
    dense.logdet(2.0)
    Block({"b": dense}).logdet(3.0)


def test_invalid_blocks_are_refused() -> None:
    with pytest.raises(ShapeError, match="at least one block"):
        Block({})
    with pytest.raises(StructureError, match="block 'inner' to be Dense, Diagonal or Kron, got Block"):
        Block({"inner": mixed()})
    with pytest.raises(StructureError, match="one dtype and device"):
        Block({"a": Diagonal(torch.ones(2)), "b": Diagonal(torch.ones(2, dtype=torch.float32))})
