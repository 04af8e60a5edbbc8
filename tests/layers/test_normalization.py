import torch

from covary.layers import Bias, Scale


def test_one_number_for_all_features(generator):
    x = torch.randn(2, 3, 4, 4, generator=generator)
    torch.testing.assert_close(Scale(-1.5).double()(x), -1.5 * x)
    torch.testing.assert_close(Bias(0.25).double()(x), x + 0.25)
    assert [tuple(weight.shape) for layer in (Scale(), Bias()) for weight in layer.parameters()] == [(1,), (1,)]


def test_initially_the_identity(generator):
    x = torch.randn(5, 7, generator=generator)
    assert torch.equal(Bias()(Scale()(x)), x)
