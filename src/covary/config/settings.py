"""Records of settings: each value is checked against its annotation, set by name, read from and written to TOML."""

import dataclasses
import difflib
import math
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import tomli_w

from .._text import clipped, is_plain, meant
from ..errors import StructureError

S = TypeVar("S", bound="Settings")
NONE = "none"  # how TOML, which has no such value, says None


@dataclass(frozen=True)
class Check:
    """What a number has to be, in words, and the test of it; part of an annotation of a setting."""

    expected: str
    holds: Callable[[Any], bool]


def at_least(least: int, most: int) -> Check:
    """Whole numbers from `least` on, up to a number that is too large for any purpose."""
    return between(least, most, f"a whole number of at least {least} and at most {most:,}")


def between(least: int, most: int, expected: str | None = None) -> Check:
    """Whole numbers from `least` to `most`."""
    return Check(
        expected or f"a whole number from {least} to {most:,}",
        lambda value: _is_whole(value) and least <= value <= most,
    )


def real(expected: str, holds: Callable[[float], bool]) -> Check:
    """Finite numbers for which a condition holds."""
    return Check(expected, lambda value: _is_real(value) and holds(value))


SEED = between(-(2**63), 2**63 - 1, "a whole number from -2^63 to 2^63 - 1, such as 0")
DEVICE = Check(
    "'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'",
    lambda value: isinstance(value, str) and re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", value) is not None,
)
POSITIVE = real("a finite number above 0", lambda value: value > 0)


def check_seed(seed: object) -> None:
    """Raise `StructureError` if the seed is not a signed whole number of 64 bits.

    Example:
        >>> from covary.config import check_seed
        >>> check_seed(3)
    """
    check_setting("seed", seed, typing.Annotated[int, SEED])


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `StructureError` if the value is not one of the choices."""
    check_setting(name, value, typing.Literal[tuple(choices)])


@dataclass(frozen=True)
class Settings:
    """Base of records of settings, some of which may be groups: records of settings themselves."""

    prefix: ClassVar[str] = ""
    __no_type_check__: ClassVar[bool] = True  # values of a wrong type get an error of ours, below

    def __post_init__(self) -> None:
        """Raise `StructureError` for the first setting that has an impossible value."""
        for name, kind in annotations_of(type(self)).items():
            check_setting(self.prefix + name, getattr(self, name), kind)

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, those of a group as a mapping of their own."""
        return dataclasses.asdict(self)

    def replace(self: S, **settings: Any) -> S:
        """Return these settings with some of them changed.

        Arguments:
            settings: New values by name. A setting of a group is named with a dot, or in a mapping for its group.
        """
        nested: dict[str, Any] = {}
        for name, value in settings.items():
            if name not in names_of(self):
                raise StructureError(unknown(name, names_of(self)))
            group, _, rest = name.partition(".")
            if rest or isinstance(value, Mapping):
                value = nested.get(group, {}) | ({rest: value} if rest else value)
            nested[group] = value
        return self._with(nested)

    def _with(self: S, nested: Mapping[str, Any]) -> S:
        kinds = annotations_of(type(self))
        changes = {}
        for name, value in nested.items():
            old = getattr(self, name)
            if isinstance(old, Settings) and isinstance(value, Mapping):
                known = names_of(old)
                for inner in value:
                    if inner not in known:
                        raise StructureError(unknown(f"{name}.{inner}", names_of(self)))
                changes[name] = old._with(value)
            else:
                changes[name] = _converted(value, kinds[name])
        return dataclasses.replace(self, **changes)

    def to_toml(self) -> str:
        """The settings as TOML: every one of them, groups as tables, None as "none"."""
        return tomli_w.dumps(_writable(self.as_dict()))

    @classmethod
    def from_toml(cls: type[S], text: str, base: S | None = None) -> S:
        """Return the settings in a TOML text; those that it does not name are as in `base`, by default the defaults."""
        try:
            given = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # numbers of thousands of digits, too
            raise StructureError(f"The settings are not valid TOML: {error}.") from error
        return (cls() if base is None else base).replace(**given)


def parse_setting(text: str) -> tuple[str, Any]:
    """Return name and value of a setting written as "hyper.lr=0.05"; a value that is not TOML is a string.

    Example:
        >>> from covary.config import parse_setting
        >>> parse_setting("hyper.lr=0.05")
        ('hyper.lr', 0.05)
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise StructureError(f"Expected a setting as name=value, such as hyper.lr=0.05, got {clipped(text)}.")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # numbers of thousands of digits, too
        return name, value


def names_of(settings: Settings) -> list[str]:
    """The names of all settings, groups included, those inside groups with a dot."""
    names = []
    for field in dataclasses.fields(settings):
        inner = getattr(settings, field.name)
        names += [field.name]
        names += [f"{field.name}.{name}" for name in names_of(inner)] if isinstance(inner, Settings) else []
    return names


def unknown(name: str, known: list[str]) -> str:
    """The message for a name that no setting has, with the names that it may have been meant as."""
    last = {"learning_rate": "lr", "rate": "lr"}.get(name.rpartition(".")[2], name.rpartition(".")[2])
    same = [other for other in known if other.rpartition(".")[2] == last]
    near = (
        same
        or difflib.get_close_matches(name, known, n=1)
        or [other for other in known if difflib.get_close_matches(last, [other.rpartition(".")[2]], cutoff=0.75)]
    )
    meant = " or ".join(f"'{other}'" for other in near[:3])
    advice = f"Did you mean {meant}?" if near else "See the reference of FitConfig."
    return f"Unknown setting {clipped(name)}. {advice}"


def annotations_of(kind: type[Settings]) -> dict[str, Any]:
    """The annotation of each setting of a record, checks included."""
    return {field.name: field.type for field in dataclasses.fields(kind)}


def check_setting(name: str, value: object, kind: Any) -> None:
    """Raise `StructureError` if the value of a setting does not fit its annotation."""
    if not _fits(value, kind):
        raise StructureError(f"Expected '{name}' to be {_expected(kind)}, got {clipped(value)}.{_meant(value, kind)}")


def _meant(value: object, kind: Any) -> str:
    """The choice that a wrong value is like, of a setting that has choices, or lists of them."""
    members = [kind, *typing.get_args(kind)]
    choices = [c for member in members if typing.get_origin(member) is typing.Literal for c in typing.get_args(member)]
    wrong = [v for v in (value if isinstance(value, tuple | list) else [value]) if isinstance(v, str)]
    return next((found for found in (meant(v, choices) for v in wrong if v not in choices) if found), "")


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return all(check.holds(value) for check in inner[1:])
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, member) for member in inner)
    if origin is typing.Literal:
        return isinstance(value, str) and value in inner
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(entry, inner[0]) for entry in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if kind is str:
        return isinstance(value, str) and is_plain(value)  # no record holds another
    return _is_real(value) if kind is float else isinstance(value, kind)


def _expected(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return " and ".join(check.expected for check in inner[1:])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_expected(member) for member in inner)
    if origin is typing.Literal:
        return repr(inner[0]) if len(inner) == 1 else f"one of {', '.join(map(repr, inner))}"
    if origin is tuple:
        return f"a list with entries that are {_expected(inner[0])}"
    if isinstance(kind, type) and issubclass(kind, Settings):
        return f"a {kind.__name__}, or its settings by name"
    words = {
        type(None): f"None (in a command {NONE})",
        str: "a string without control characters",
        bool: "true or false",
        float: "a finite number",
    }
    return words.get(kind, "numbers by name" if origin is dict else f"a {getattr(kind, '__name__', kind)}")


def _converted(value: Any, kind: Any) -> Any:
    """A value as TOML has it, in the type that the annotation asks for, where there is such a value."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if type(None) in inner and value == NONE:
            return None
        return next((_converted(value, member) for member in inner if _fits(value, member)), value)
    if origin is typing.Annotated:
        return _converted(value, inner[0])
    if origin is tuple and inner[0] is str and isinstance(value, str):  # as --set has it
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if origin is tuple and isinstance(value, list):
        return tuple(value)
    if origin is dict and isinstance(value, Mapping):
        return {name: _converted(entry, inner[1]) for name, entry in value.items()}
    return float(value) if kind is float and _is_whole(value) and _is_real(value) else value


def _writable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _writable(entry) for name, entry in value.items()}
    return NONE if value is None else list(value) if isinstance(value, tuple) else value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False
