"""Malformed flags, settings, records and weights. Each function returns the arguments of a command."""

import json
import os
import platform
import random
import struct
from pathlib import Path

from covary.records.checksums import checksums, sealed
from fuzz.hostile import CONTROL, LONG, changed_json, damaged, number, text

QUICK = ("--network", "mlp:2", "--epochs", "1", "--num-samples", "2")
SAVED_OPTIONS = {
    "predict": ("--out", "--network", "--num-samples", "--data-dir"),
    "report": ("--out",),
    "compare": ("--plot", "--correction"),
    "geometry": ("--images", "--data-dir", "--seed", "--out", "--data", "--network"),
    "verdict": ("--symmetry", "--data", "--data-dir", "--network"),
    "export": ("--out", "--network"),
    "watch": ("--interval",),
}
SAVED_NUMBERS = ("--num-samples", "--images", "--seed", "--interval")
NUMBER_FLAGS = ("--num-train", "--num-samples", "--epochs", "--seed")
TEXT_FLAGS = (
    *("--data", "--data-dir", "--symmetrize", "--network", "--augment", "--baselines", "--config", "--keys"),
    *("--target", "--size", "--task", "--equal", "--device", "--track"),
)
STUDY_FLAGS = ("--network", "--versions", "--num-seeds", "--num-train", "--processes", "--out")
SETTINGS = (
    *("epochs", "seed", "curvature", "weights.lr", "weights.batch_size", "weights.momentum", "weights.warmup_epochs"),
    *("weights.max_grad_norm", "weights.relative_lr", "hyper.lr", "hyper.burn_in", "hyper.every", "hyper.probes"),
    *("hyper.num_data", "hyper.num_samples", "hyper.num_sets", "hyper.num_steps", "hyper.num_prior_steps", "hyper"),
    *("evaluation.num_evaluations", "evaluation.probes", "size", "standardize", "task", "prior", "relaxation", "prune"),
    *(
        "dtype",
        "fixed_widths",
        "train_augment",
        "num_train",
        "fit",
        "weights",
        "data",
        "network",
        "augment",
        "data_dir",
    ),
)


def flags(rng: random.Random, folder: Path) -> list[str]:
    """A command with one to three malformed flags."""
    del folder
    command = rng.choice(("discover",) * 5 + ("layers", "layers", *SAVED_OPTIONS))
    if rng.random() < 0.15:
        return _other_command(rng)
    if command in SAVED_OPTIONS:
        return _saved_command(command, rng)
    small = QUICK if command == "discover" else ("--variant", "fc", "--alpha", "1", "--epochs", "1", "--set", "size=8")
    arguments = [command, "--data", "bars.npz", *small]
    for _ in range(rng.choice((1, 1, 2, 3))):
        arguments += _setting(rng)
    return [*arguments, rng.choice(("--estimate", "--print-config", "--print-config"))]


def _setting(rng: random.Random) -> list[str]:
    kind = rng.random()
    if kind < 0.3:
        return [rng.choice(NUMBER_FLAGS), number(rng)]
    if kind < 0.5:
        return [rng.choice(TEXT_FLAGS), text(rng)]
    if kind < 0.95:
        return ["--set", f"{rng.choice(SETTINGS)}={text(rng)}"]
    return ["--set", text(rng)] if kind < 0.98 else [f"--{text(rng)}"]


def _saved_command(command: str, rng: random.Random) -> list[str]:
    run = rng.choice(("run", "run", "run", "run/run.json", text(rng)))
    arguments = [command, run]
    if command == "predict":
        arguments += ["--data", rng.choice(("bars.npz", "bars.npz", text(rng)))]
    if command == "compare":
        arguments += [rng.choice(("run", text(rng)))]
    if command == "export":
        arguments += ["--to", rng.choice(("kornia", "timm", "hub", text(rng)))]
    places = (
        "page.html",
        "new/page.html",
        "bars.npz/page",
        "link",
        "absent",
        "x" * 300,
        CONTROL,
        "run",
        "",
    )
    for _ in range(rng.choice((1, 2))):
        option = rng.choice(SAVED_OPTIONS[command])
        kind = number if option in SAVED_NUMBERS else text
        arguments += [option, rng.choice(places) if option in ("--out", "--plot") else kind(rng)]
    return arguments


def _other_command(rng: random.Random) -> list[str]:
    return rng.choice(
        (
            ["data", "--data-dir", text(rng), *rng.choice(([], ["--verify"], ["--json"]))],
            ["data", "--fetch", rng.choice((text(rng), "mnist", "mnist-mini"))],
            ["bench", text(rng)],
            ["bench", "evidence", "--repeats", "0"],
            ["bench", "evidence", "--plot", text(rng)],
            ["reproduce", text(rng)],
            ["reproduce", "table1", "--data", "no-such", rng.choice(STUDY_FLAGS), text(rng)],
            ["verdict", "run", rng.choice(("--epochs", "--repeats")), rng.choice(("0", "-1", "nan", str(10**30)))],
            ["reproduce", "toy", "--scale", text(rng)],
            ["reproduce", "toy", "--seed", str(10**30)],
            [text(rng)],
            [f"--{text(rng)}"],
            ["--version", text(rng)],
            [rng.choice(("discover", "report", "compare", "predict", "geometry")), text(rng), text(rng)],
        )
    )


TOML_VALUES = (
    *("1979-05-27", "07:32:00", "[1, [2, [3]]]", "{}", "{a={b={c=1}}}", "'''x'''", "inf", "-nan", "0x" + "f" * 5000),
    *(
        "9" * 5000,
        "1e400",
        '"\\u0000"',
        '"\\u001b[31m"',
        "[[[[",
        "true",
        "[]",
        "'none'",
        '"' + LONG + '"',
    ),
    *("[" * 3000, "{a=" * 3000, "1__0", "0o17", '"\\ud800"', "['plain', 'plain']", "['fixed']", "{rotation=1e999}"),
)


def settings_file(rng: random.Random, folder: Path) -> list[str]:
    path = folder / "settings.toml"
    lines = [f"{name} = {rng.choice(TOML_VALUES)}" for name in rng.sample(SETTINGS, rng.choice((1, 1, 2)))]
    lines += rng.choice(([], ["[weights]", "lr = 1"], ["[[hyper]]", "lr = 1"], ["[a.b.c]"], ["epochs = 1"], ["= 3"]))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        content = rng.choice(
            (damaged(content, rng), b"\xef\xbb\xbf" + content, content.decode().encode("utf-16"), b"\x00")
        )
    path.write_bytes(content)
    arguments = ["discover", "--config", str(path), "--data", "bars.npz", "--network", "mlp:2"]
    return [*arguments, rng.choice(("--print-config", "--print-config", "--estimate"))]


def record(rng: random.Random, folder: Path) -> list[str]:
    """A command that reads a run whose record is malformed."""
    path = folder / "run" / "run.json"
    content = json.loads(path.read_text())
    kind = rng.random()
    if kind < 0.8:
        part = rng.choice(("config", "model", "evidence", "history", "coverage", "samples", "symmetries", None))
        if part is None or not content.get(part):
            content = changed_json(content, rng)
        else:
            content[part] = changed_json(content[part], rng)
        written = json.dumps(sealed(content)).encode()
    elif kind < 0.9:
        written = damaged(path.read_bytes(), rng)
    else:
        written = rng.choice(
            (
                path.read_bytes().decode().encode("utf-16"),
                b"\xef\xbb\xbf" + path.read_bytes(),
                b"[" * 100_000,
                b'{"a":' * 100_000,
                b"9" * 100_000,
                b'{"format": "covary-run", "version": NaN}',
                b'{"format": "covary-run", "version": 1e400}',
                path.read_bytes().replace(b'"epochs": 1', b'"epochs": NaN'),
                path.read_bytes().replace(b"bars.npz", b"evil:load"),
            )
        )
    path.write_bytes(written)
    return _reading(rng)


def beside(rng: random.Random, folder: Path) -> list[str]:
    """A command that reads a malformed file beside a record: augmentation, corrected evidence, log, or lock."""
    kind = rng.randrange(4)
    if kind == 0:
        path = folder / "run" / "augment.json"
        path.write_bytes(_json(path.read_bytes(), rng))
        _reseal(folder / "run")
        return ["export", "run", "--to", rng.choice(("kornia", "torchvision", "albumentations", "nnunet", "timm"))]
    if kind == 1:
        evidence = json.loads((folder / "run" / "run.json").read_text())
        model = evidence["files"]["model.safetensors"]
        content = json.dumps({"format": "covary-evidence", "model": model, "evidence": evidence["evidence"]})
        (folder / "run" / "evidence.json").write_bytes(_json(content.encode(), rng))
        return rng.choice((["compare", "run", "run"], ["compare", "run", "other", "--json"], ["verify", "run"]))
    if kind == 2:
        path = next((folder / "unfinished").rglob("progress.jsonl"))
        lines = path.read_bytes().splitlines(keepends=True)
        lines[rng.randrange(len(lines))] = _json(lines[-1], rng) + b"\n"
        path.write_bytes(b"".join(lines))
        return ["watch", "unfinished", *rng.choice(([], ["--json"]))]
    lock = {"host": platform.node(), "process": rng.choice((1, os.getpid(), 2**31)), "since": CONTROL}
    (folder / "run" / ".lock").write_bytes(_json(json.dumps(lock).encode(), rng))
    return rng.choice((["watch", "run"], ["export", "run", "--to", "hub", "--out", "run"]))


def _json(content: bytes, rng: random.Random) -> bytes:
    """A JSON file with damage anywhere, or with other values and, if it states one, the right checksum."""
    if rng.random() < 0.3:
        return damaged(content, rng)
    return json.dumps(sealed(changed_json(json.loads(content), rng))).encode()


def weights(rng: random.Random, folder: Path) -> list[str]:
    """A command that reads a run whose weights are malformed, or that continues from such a checkpoint."""
    if rng.random() < 0.35:
        return _checkpoint(rng, folder)
    path = folder / "run" / "model.safetensors"
    path.write_bytes(_tensors(path.read_bytes(), rng))
    _reseal(folder / "run")
    return _reading(rng)


def _checkpoint(rng: random.Random, folder: Path) -> list[str]:
    place = folder / "unfinished" / "checkpoints"
    found = [*sorted(place.rglob("*.safetensors")), place / "settings.json"]
    for path in found if rng.random() < 0.5 else [rng.choice(found)]:
        path.write_bytes(
            _tensors(path.read_bytes(), rng) if path.suffix == ".safetensors" else damaged(path.read_bytes(), rng)
        )
    return ["discover", "--config", "unfinished.toml", "--out", "unfinished", "--resume"]


def _tensors(content: bytes, rng: random.Random) -> bytes:
    """A file of tensors with damage anywhere, or with another header."""
    if rng.random() < 0.5:
        return damaged(content, rng)
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    for _ in range(rng.choice((1, 1, 3))):
        header = changed_json(header, rng)
    written = json.dumps(header).encode("utf-8", "surrogatepass")
    length = rng.choice((len(written),) * 6 + (0, 2**63, len(written) + 10))
    return struct.pack("<Q", length) + written + content[8 + size :]


def _reading(rng: random.Random) -> list[str]:
    return rng.choice(
        (
            ["report", "run"],
            ["compare", "run", "other"],
            ["compare", "run", "run", "--json"],
            ["predict", "run", "--data", "bars.npz"],
            ["predict", "run", "--data", "bars.npz", "--num-samples", "2", "--json"],
            ["geometry", "run", "--images", "4"],
            ["load", "run"],
            ["verify", "run"],
            ["watch", "run"],
            ["watch", "run", "--json"],
            ["verdict", "run", "--epochs", "2"],
            ["export", "run", "--to", rng.choice(("kornia", "ultralytics", "timm", "hub"))],
        )
    )


def _reseal(folder: Path) -> None:
    """State the checksums of changed files in the record, as somebody would who means harm."""
    path = folder / "run.json"
    content = json.loads(path.read_text())
    content["files"] |= checksums(folder, content["files"])
    path.write_text(json.dumps(sealed(content)))
