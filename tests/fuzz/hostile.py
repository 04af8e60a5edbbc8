"""Values and bytes that no file should contain, drawn by a seeded generator."""

import json
import random
from typing import Any

CONTROL = "\x1b]0;owned\x07\x1b[31m"
LONG = "x" * 20_000
NUMBERS = (
    *(
        "0",
        "-1",
        "3",
        "1e3",
        "2.5",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e-400",
        "0x10",
        "1_000",
        "+2",
        "１２",
        "1000000001",
    ),
    *(str(10**30), str(-(10**30)), "9" * 5000, str(2**63), str(2**64 + 1), "0.1", "-0", "1e308", "00"),
)
TEXTS = (
    *(
        "",
        " ",
        ",",
        ":",
        "=",
        "a:",
        ":b",
        "a:b:c",
        "none",
        "None",
        "null",
        "true",
        "[]",
        "{}",
        "{rotation=1}",
        "'",
        '"',
    ),
    *(CONTROL, "caf\u00e9", "\udcff\udcfe", "\u202edesrever", LONG, "..", "./.", "~", "*", "%s%n", "${HOME}", "`id`"),
    *("mlp", "mlp:0", "mlp:2-0", "mlp:99999999999", "mlp:" + "9" * 40, "resnet-7-3", "resnet-8-0", "relaxed:fc:1"),
    *("relaxed:conv:0", "relaxed::1", "relaxed:f-fc+conv:99999999999999999999", "lenet", "cnn", "math:sqrt", "math:pi"),
    *("no_such_module:f", "os:nothing", "affine+affine", "affine:rotation,rotation", "flips+", "correlated:wobble"),
    *("rotate:1e9", "rotate:nan", "scale:0", "scale:-1", "translate:inf", "float16", "exact", "kron", "full", "diag"),
)
PLAIN = (
    *(None, True, False, 0, -1, 1, 10**30, -(10**400), 2**63, 0.5, -1e308, 1e308, 5e-324, "", "x", LONG, CONTROL),
    *("evil:load", "evil:network", [], {}, [[]], [None], {"": None}, {"a": {"b": []}}, ["x"] * 1000, [0] * 9, "\x00"),
    *("\u202e", "mlp:4", [1, 1, 1, 1, 1], {"kind": "mlp"}, {"kind": "custom"}, {"kind": "averaged"}, -5, 3.5, 1e400),
)


def number(rng: random.Random) -> str:
    return rng.choice(NUMBERS)


def text(rng: random.Random) -> str:
    return rng.choice(NUMBERS + TEXTS) if rng.random() < 0.9 else "".join(map(chr, rng.choices(range(1, 0x300), k=9)))


def plain(rng: random.Random) -> Any:
    """A value of JSON, or one that JSON does not have but Python writes."""
    if rng.random() < 0.05:
        return nested(rng.choice((5, 50, 500)))
    return rng.choice(PLAIN)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value] if depth % 2 else {"a": value}
    return value


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes after one kind of damage: cut, flipped, zeroed, repeated, lengthened, or other ones."""
    size = max(len(content), 1)
    place, other = sorted((rng.randrange(size), rng.randrange(size)))
    changed = bytearray(content)
    kind = rng.randrange(8)
    if kind == 0:
        return content[:place]
    if kind == 1:
        for _ in range(rng.choice((1, 8, 64))):
            if changed:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if kind == 2:
        return content[:place] + bytes(other - place) + content[other:]
    if kind == 3:
        return content[:place] + content[other:]
    if kind == 4:
        return content + rng.randbytes(rng.choice((1, 100)))
    if kind == 5:
        return content[:other] + content[place:]
    if kind == 6:
        start = rng.randrange(min(size, 64))  # the header, where sizes are
        return content[:start] + rng.randbytes(8) + content[start + 8 :]
    return rng.choice((b"", b"\x00", rng.randbytes(200), b"PK\x03\x04", b"\x1f\x8b", b"\x93NUMPY", b"{", b"\xff" * 64))


def changed_json(value: Any, rng: random.Random) -> Any:
    """A copy in which one value, at a random place, is replaced, removed or renamed."""
    copy = json.loads(json.dumps(value))
    places: list[tuple[Any, Any]] = []
    _collect(copy, places)
    holder, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.8:
        holder[key] = plain(rng)
    elif kind < 0.9:
        del holder[key]
    elif isinstance(holder, dict):
        holder[rng.choice(("", "x", CONTROL, LONG))] = holder.pop(key)
    else:
        holder.extend(holder[:1] * rng.choice((1, 100)))
    return copy


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        places.append((value, key))
        _collect(value[key], places)
