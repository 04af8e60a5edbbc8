"""Checks of single settings, each with its error."""

import math

from ..errors import StructureError


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Nothing, or an error for a value that is none of the choices."""
    if value not in choices:
        raise StructureError(f"{name} must be one of {', '.join(choices)}; {value!r} came.")


def check_least(name: str, value: object, least: int) -> None:
    """Nothing, or an error for what is no whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise StructureError(f"{name} must be a whole number of at least {least}; {value!r} came.")


def check_between(name: str, value: object, least: int, most: int) -> None:
    """Nothing, or an error for what is no whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise StructureError(f"{name} must be a whole number from {least} to {most:,}; {value!r} came.")


def check_seed(seed: object) -> None:
    """Nothing, or an error for a seed that is no whole number of 64 bits with a sign."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise StructureError(f"seed must be a whole number from -2^63 to 2^63 - 1; {seed!r} came. Pass for example 0.")


def check_rate(name: str, value: object) -> None:
    """Nothing, or an error for a rate that is negative or not finite."""
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise StructureError(f"{name} must be a finite number of at least 0; {value!r} came.")


def check_positive(name: str, value: object) -> None:
    """Nothing, or an error for what is neither None nor a finite number above 0."""
    if value is not None and (not isinstance(value, int | float) or not math.isfinite(value) or value <= 0):
        raise StructureError(f"{name} must be a finite number above 0, or None; {value!r} came.")


def check_columns(name: str, value: object, exact_only: bool) -> None:
    """Nothing, or an error for what is neither "exact" nor a number of sketches, or not "exact" where it must be."""
    if value == "exact":
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise StructureError(f"{name} must be 'exact' or a whole number of at least 1; {value!r} came.")
    if exact_only:
        raise StructureError(f"curvature 'full' takes exact columns only. Pass {name}='exact', or use 'kron'.")
