import torch

from covary.curvature import DirectVJP, LookupFactors, OuterFactors
from covary.curvature.jacobian_factors import Shortcut


def rows(features):  # (N, S, D) -> (N, S, R, Q, D)
    return features[:, :, None, None]


def test_products_sum_over_samples_and_rows(generator):
    a, g = (torch.randn(4, 3, size, generator=generator) for size in (2, 5))
    expected = torch.stack([sum(torch.outer(g[n, s], a[n, s]) for s in range(3)).flatten() for n in range(4)])
    torch.testing.assert_close(OuterFactors(a, rows, rows).vjp(g), expected)
    transposed = OuterFactors(a, rows, rows, input_rows=True).vjp(g)
    torch.testing.assert_close(transposed.unflatten(1, (2, 5)).mT.flatten(1), expected)


def test_a_block_of_rows_is_padded_with_zeros(generator):
    a, g = (torch.randn(2, 1, size, generator=generator) for size in (2, 3))
    whole, middle = (OuterFactors(a, rows, rows, block=block).vjp(g) for block in ((0, 1), (1, 3)))
    torch.testing.assert_close(middle.view(2, 3, 6)[:, 1], whole)
    assert middle.view(2, 3, 6)[:, [0, 2]].count_nonzero() == 0
    torch.testing.assert_close(OuterFactors(a, rows, rows, block=(1, 3)).summed_vjp(g), middle.sum(0))
    bias = DirectVJP(lambda gradient: gradient.sum(1), block=(2, 3))
    torch.testing.assert_close(bias.vjp(g), torch.cat([torch.zeros(2, 6), g.sum(1)], 1))
    torch.testing.assert_close(bias.summed_vjp(g), bias.vjp(g).sum(0))


def test_folded_rows_belong_to_their_datum(generator):
    """With F rows of the inner batch per datum, products of a datum are sums over them."""
    a, g = (torch.randn(6, 2, size, generator=generator) for size in (2, 3))  # N = 2, F = 3
    folded, plain = OuterFactors(a, rows, rows, fold=3), OuterFactors(a, rows, rows)
    torch.testing.assert_close(folded.vjp(g), plain.vjp(g).view(2, 3, -1).sum(1))
    torch.testing.assert_close(folded.vjp(g, slice(1, 2)), folded.vjp(g)[1:])
    torch.testing.assert_close(folded.summed_vjp(g), folded.vjp(g).sum(0))
    assert folded.averaged_inputs().shape == (2, 3, 1, 2)
    assert folded.summed_gradients(g).shape == (2, 3, 1, 3)


def test_a_shortcut_is_given_the_mean_over_samples(generator):
    a = torch.randn(4, 3, 2, generator=generator)
    shortcut = Shortcut(lambda inputs: torch.einsum("nsi,nsj->ij", inputs, inputs)[None], 4)
    factors = OuterFactors(a, rows, rows, shortcut=shortcut)
    mean = factors.averaged_inputs()[:, 0, 0]
    torch.testing.assert_close(factors.input_gram(factors.input_shortcut())[0], mean.T @ mean)


def test_lookups_are_one_hot_outer_products(generator):
    index, g = torch.tensor([[[0, 2], [2, -1]], [[1, 1], [-1, 0]]]), torch.randn(2, 2, 2, 3, generator=generator)
    lookup = LookupFactors(index, 4, torch.float64)
    one_hot = torch.nn.functional.one_hot(index.clamp(min=0), 4) * (index >= 0)[..., None]
    expected = torch.einsum("nsrv,nsrd->nvd", one_hot.double(), g)
    torch.testing.assert_close(lookup.vjp(g), expected.flatten(1))
    torch.testing.assert_close(lookup.summed_vjp(g), expected.flatten(1).sum(0))
    torch.testing.assert_close(lookup.counts(), torch.tensor([2.0, 2.0, 2.0, 0.0]))
    assert lookup.num_used == 4
