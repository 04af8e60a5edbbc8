"""The figures that paper 1 prints."""

import pytest

from covary.reproduce.paper1.published import ACCURACY, COLUMNS, THOUSANDS, accuracy, evidence
from covary.reproduce.paper1.recover import VERSIONS


def test_columns_are_the_versions():
    assert tuple(VERSIONS) == COLUMNS


def test_every_row_has_a_figure_for_every_version_or_the_last_one():
    for table in (ACCURACY, THOUSANDS):
        assert {len(row) for methods in table.values() for row in methods.values()} == {1, 5}
    assert ACCURACY.keys() == THOUSANDS.keys()


def test_the_paper_claims_what_we_test():
    """Learned above plain everywhere, by accuracy and by evidence."""
    for name, methods in ACCURACY.items():
        assert all(learned > plain for learned, plain in zip(methods["learned"], methods["plain"], strict=True)), name
        pairs = zip(THOUSANDS[name]["learned"], THOUSANDS[name]["plain"], strict=True)
        assert all(learned > plain for learned, plain in pairs), name


def test_single_figures():
    assert accuracy("mnist", "mlp", "augerino", "fully rotated") == 97.83
    assert accuracy("cifar-10", "resnet-14-16", "learned", "original") == 88.1
    assert evidence("cifar-10", "resnet-8-8", "plain", "scaled") == pytest.approx(-59_300 / 50_000)
    for missing in (("mnist", "lenet", "plain", "scaled"), ("cifar-10", "resnet-14-16", "plain", "scaled")):
        assert accuracy(*missing) is None
        assert evidence(*missing) is None
    assert evidence("mnist", "mlp", "augerino", "original") is None
