import pytest

from covary.config import ExperimentConfig, FitConfig, HyperConfig, check_seed, parse_setting
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


HUGE = (10**30, 1 << 100_000, -(10**30), 10**400)


@pytest.mark.parametrize(
    "name",
    ["epochs", "seed", "weights.batch_size", "weights.lr", "weights.warmup_epochs", "hyper.num_steps", "hyper.burn_in"],
)
@pytest.mark.parametrize("value", HUGE, ids=range(len(HUGE)))
def test_a_huge_number_is_refused_in_a_short_line(name, value):
    with pytest.raises(StructureError, match=f"Expected '{name}' to be") as caught:
        FitConfig().replace(**{name: value if name != "weights.lr" else value * 10**310})
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000, "0x" + "f" * 5000], ids=["digits", "nested", "hex"])
def test_a_value_that_python_cannot_convert_is_refused_as_any_other(value):
    name, parsed = parse_setting(f"epochs={value}")
    with pytest.raises(StructureError, match="Expected 'epochs' to be a whole number") as caught:
        FitConfig().replace(**{name: parsed})
    assert len(str(caught.value)) < 250
    with pytest.raises(StructureError, match=r"not valid TOML|Expected 'epochs'"):
        FitConfig.from_toml(f"epochs = {value}")


@pytest.mark.parametrize("letter", ["\x1b", "\x00", "\x9b", "\n", "\udcff"])
def test_a_text_that_no_record_could_hold_is_refused(letter):
    with pytest.raises(StructureError, match="Expected 'data' to be a string without control characters"):
        ExperimentConfig(data=f"a{letter}b.npz")


def test_long_names_and_values_are_not_repeated_whole():
    for attempt in ({"x" * 20_000: 1}, {"curvature": "x" * 20_000}):
        with pytest.raises(StructureError) as caught:
            FitConfig().replace(**attempt)
        assert len(str(caught.value)) < 250
    with pytest.raises(StructureError, match="name=value") as caught:
        parse_setting("x" * 20_000)
    assert len(str(caught.value)) < 250


def test_patterns_are_joined_by_commas_on_the_command_line():
    name, value = parse_setting("point=*.bias, norm.*")
    assert ExperimentConfig().replace(**{name: value}).point == ("*.bias", "norm.*")
    assert ExperimentConfig().replace(point=["*.bias"]).point == ("*.bias",)
    config = ExperimentConfig(point=("*.bias",), hyperparameters=("scale",))
    assert ExperimentConfig.from_toml(config.to_toml()) == config
