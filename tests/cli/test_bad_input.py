"""`covary discover` with bad input: one line that says what was expected and what it got, before any work."""

import pytest

from cli.outcomes import assert_one_line_and_code_2

FIXED = ("--baselines", "fixed", "--set")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data", "mnits"), ["mnits"]),
        (("--data", "no/such/folder/"), ["no/such/folder"]),
        (("--data", "no_such_module:load"), ["no_such_module:load", "cannot be imported"]),
        (("--data-dir", "no/such/folder", "--data", "mnist"), ["no/such/folder"]),
        (("--data", "math:sqrt"), ["math:sqrt cannot be called without arguments", "expected a function"]),
        (("--network", "mlp:none"), ["mlp:none", "Expected a network among"]),
        (("--network", "math:pi"), ["math:pi", "expected a function"]),
        (("--network", "math:sqrt"), ["math:sqrt cannot be called with (image_shape, num_outputs)", "expected"]),
        (("--augment", "wobble"), ["'wobble'", "expected one of affine"]),
        (("--augment", "rotation"), ["'rotation'", "Did you mean affine:rotation?"]),
        (("--augment", "scale"), ["Did you mean points:scale or volume:scale?"]),
        (("--augment", "flip"), ["Did you mean flips?"]),
        (("--augment", "flip_y"), ["Did you mean flips?"]),
        (("--augment", "afine"), ["Did you mean 'affine'?"]),
        (("--augment", "affine:wobble"), ["'wobble'", "rotation"]),
        (("--augment", "affine+correlated"), ["common name"]),
        (("--symmetrize", "twist:90"), ["twist:90", "rotate:DEGREES"]),
        (("--symmetrize", "rotate:270"), ["rotate:270", "at most 180"]),
        (("--num-train", "41"), ["between 1 and the 40", "got 41"]),
        (("--num-train", "0"), ["num_train", "at least 1"]),
        (("--num-train", "1"), ["limited to 1, has no training image of class", "is enough"]),
        (("--num-samples", "0"), ["num_samples", "at least 1"]),
        (
            ("--baselines", "plane"),
            ["'baselines'", "'plain', 'fixed', 'augerino', 'trivialaugment', ", "got ('plane',)"],
        ),
        (("--baselines", "fixed"), ["'fixed' needs widths", "--set 'fixed_widths={rotation=1.57}'"]),
        (("--set", "fixed_widths={rotation=1.5}"), ["widths of rotation belong to the baseline 'fixed'"]),
        (("--set", "fixed_widths={rotation=1.5}", "--baselines", "plain"), ["'fixed'", "leave the widths out"]),
        ((*FIXED, "fixed_widths"), ["name=value", "got 'fixed_widths'"]),
        ((*FIXED, "fixed_widths={rotation='much'}"), ["'fixed_widths' to be numbers by name", "'much'"]),
        ((*FIXED, "fixed_widths={rotation=-1}"), ["rotation", "-1"]),
        ((*FIXED, "fixed_widths={rotation=nan}"), ["rotation", "nan"]),
        ((*FIXED, "fixed_widths={wobble=1}"), ["'wobble' is no transform", "rotation"]),
        (("--set", "hyper.lrr=1"), ["Unknown setting 'hyper.lrr'", "Did you mean 'hyper.lr'"]),
        (("--set", "lr=1"), ["Unknown setting 'lr'", "'weights.lr' or 'hyper.lr'"]),
        (("--config", "no.toml"), ["'no.toml' cannot be read"]),
        (
            ("--set", "hyper.estimator=guess"),
            ["'hyper.estimator' to be one of 'running', 'two_pass', 'kernel', 'stochastic'", "got 'guess'"],
        ),
        (("--set", "curvature=flat"), ["'curvature' to be one of 'kron', 'kron-traced', 'kron-shared', 'full'"]),
        (("--set", "curvature=full", "--set", "hyper.probes=1"), ["'hyper.probes' to be 'exact'"]),
        (("--set", "evaluation.probes=few"), ["evaluation.probes", "got 'few'"]),
        (("--set", "weights.warmup_epochs=-1"), ["weights.warmup_epochs", "got -1"]),
        (("--set", "evaluation.num_evaluations=-1"), ["evaluation.num_evaluations", "got -1"]),
        (("--set", "weights.momentum=1"), ["'weights.momentum' to be at least 0 and below 1", "got 1.0"]),
        (("--set", "hyper.probes=none"), ["hyper.probes", "got 'none'"]),
        (("--set", "prior=diagonal"), ["diagonal prior", "got 'kron'"]),
        (("--set", "weights.optimizer=lbfgs"), ["'weights.optimizer' to be one of 'adam', 'sgd'"]),
        (("--set", "weights.lr=-0.1"), ["weights.lr", "got -0.1"]),
        (("--set", "hyper.augment_lr=-1"), ["augment_lr", "-1"]),
        (("--set", "hyper.prior_lr=nan"), ["prior_lr", "nan"]),
        (("--epochs", "few"), ["--epochs", "valid integer"]),
        (("--set", "dtype=float16"), ["'dtype' to be one of 'float32', 'float64'"]),
        (("--set", "task=digits"), ["'none', 'regression', 'digit', 'quadrant'", "got 'digits'", "mean 'digit'?"]),
        (("--set", "task=quadrant", "--num-train", "4"), ["no training image of class", "larger --num-train"]),
        (("--set", "size=3"), ["'size' to be a whole number from 4 to 1,024", "got 3"]),
        (("--set", "size=100000"), ["'size' to be a whole number from 4 to 1,024", "got 100000"]),
        (("--seed", "9223372036854775808"), ["seed", "2^63", "got 9223372036854775808"]),
        (("--seed", "-9223372036854775809"), ["seed", "2^63"]),
        (("--network", "mlp:1000000-1000000"), ["'mlp:1000000-1000000' has 1,000,0", "narrower"]),
        (("--network", "relaxed:fc:99999999999999999999"), ["can be counted with 64 bits"]),
        (("--network", "relaxed:conv:1:weight"), ["no sparse path", "s-fc+s-conv"]),
        (("--set", "train_augment=flips"), ["'train_augment' to be one of 'none', 'flips+shifts'"]),
        (("--augment", "none", "--baselines", "plain"), ["'plain' is about an augmentation"]),
        (("--baselines", "conv"), ["'conv' belongs to relaxed networks", "got 'mlp:4'"]),
        (("--network", "relaxed:wobble:1"), ["wobble", "f-fc+conv"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_one_line(run, quick, tmp_path, arguments, words):
    assert_one_line_and_code_2(run("discover", *quick, "--out", "a", *arguments), *words)
    assert not (tmp_path / "a").exists()


def test_a_corrupt_archive_is_named(run, quick, images, tmp_path):
    images.write_bytes(images.read_bytes()[:-200])
    assert_one_line_and_code_2(run("discover", *quick, "--out", "a"), str(images))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("arguments", [(), ("--estimate",), ("--set", "curvature=diag"), ("--augment", "none")])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "larger",
            ["'misfits:larger' does not accept images of shape (1, 6, 6)", "mat1 and mat2 shapes", "Build it for"],
        ),
        ("several", ["Expected outputs of shape (1, number of outputs) from", "'misfits:several'", "got type tuple"]),
        ("fewer", ["Expected 2 outputs", "'misfits:fewer', got 1", "Give its last layer 2 outputs"]),
    ],
)
def test_a_network_for_other_images_is_named(run, quick, tmp_path, name, words, arguments):
    (tmp_path / "misfits.py").write_text(
        "from torch import nn\n"
        "class Several(nn.Sequential):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x), x\n"
        "def larger(shape, outputs):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(784, outputs))\n"
        "def several(shape, outputs):\n"
        "    return Several(nn.Flatten(), nn.Linear(36, outputs))\n"
        "def fewer(shape, outputs):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(36, outputs - 1))\n"
    )
    outcome = run("discover", *quick, "--out", "a", "--network", f"misfits:{name}", *arguments)
    assert_one_line_and_code_2(outcome, *words)
    assert not (tmp_path / "a").exists()


def test_errors_of_a_network_itself_are_not_hidden(run, quick, tmp_path):
    (tmp_path / "faulty.py").write_text(
        "from torch import nn\n"
        "class Faulty(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        raise RuntimeError('a fault of its own')\n"
        "def network(shape, outputs):\n"
        "    return Faulty(36, outputs)\n"
    )
    with pytest.raises(RuntimeError, match="^a fault of its own$"):
        run("discover", *quick, "--out", "a", "--network", "faulty:network")


def test_a_network_that_mixes_data_is_refused(run, quick, tmp_path):
    (tmp_path / "mixing.py").write_text(
        "from torch import nn\n"
        "class Network(nn.Module):\n"
        "    def __init__(self, outputs):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(36, outputs)\n"
        "    def forward(self, x):\n"
        "        h = self.layer(x.flatten(1))\n"
        "        return h + h.mean(0)\n"
        "def network(shape, outputs):\n"
        "    return Network(outputs)\n"
    )
    assert_one_line_and_code_2(run("discover", *quick, "--out", "a", "--network", "mixing:network"), "mixes data")
