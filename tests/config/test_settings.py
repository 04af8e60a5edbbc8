import pytest

from covary.config import FitConfig, HyperConfig, check_seed, parse_setting
from covary.errors import StructureError


def test_settings_are_replaced_by_name():
    config = FitConfig().replace(**{"epochs": 7, "hyper.lr": 0.5, "hyper.every": 3, "weights": {"batch_size": 9}})
    assert (config.epochs, config.hyper.lr, config.hyper.every, config.weights.batch_size) == (7, 0.5, 3, 9)
    assert FitConfig().replace(hyper=HyperConfig(every=5)).hyper.every == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hyper.lrr", "Unknown setting 'hyper.lrr'. Did you mean 'hyper.lr'?"),
        ("lr", "Unknown setting 'lr'. Did you mean 'weights.lr' or 'hyper.lr'?"),
        ("epoch", "Unknown setting 'epoch'. Did you mean 'epochs'?"),
        ("weights.burn_in", "Did you mean 'hyper.burn_in'?"),
        ("hyper.learning_rate", "Did you mean 'weights.lr' or 'hyper.lr'?"),
        ("burnin", "Did you mean 'hyper.burn_in'?"),
        ("zzz", "Unknown setting 'zzz'."),
    ],
)
def test_a_wrong_name_suggests_the_right_one(name, message):
    with pytest.raises(StructureError) as caught:
        FitConfig().replace(**{name: 1})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hyper.lr=0.05", ("hyper.lr", 0.05)),
        ("epochs = 3", ("epochs", 3)),
        ("hyper.probes=exact", ("hyper.probes", "exact")),
        ("standardize=true", ("standardize", True)),
        ('data="my data"', ("data", "my data")),
        ("symmetrize=rotate:90", ("symmetrize", "rotate:90")),
        ('baselines=["plain", "map"]', ("baselines", ["plain", "map"])),
    ],
)
def test_a_setting_of_the_command_line_has_the_values_of_toml(text, expected):
    assert parse_setting(text) == expected


def test_a_setting_without_a_value_is_refused():
    with pytest.raises(StructureError, match="name=value, such as hyper.lr=0.05, got 'hyper.lr'"):
        parse_setting("hyper.lr")


@pytest.mark.parametrize("seed", [2**63, 0.5, True, None])
def test_a_seed_is_a_whole_number_of_64_bits(seed):
    with pytest.raises(StructureError, match="seed"):
        check_seed(seed)
