"""The sentences in which OpenAI refuses a request, so that what a test sees is what a user would see.

Checks that are needed in many places are generators of what is wrong, as all checks of requests are: the
first problem counts, and code after a ``yield`` may rely on what was checked before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cyclops_nb.testing.pieces import Failure

__all__ = [
    "choice_problems",
    "empty",
    "key_problems",
    "list_problems",
    "missing",
    "number_problems",
    "object_problems",
    "refusal",
    "text_problems",
    "unsupported",
    "wrong_type",
]


def refusal(message: str, param: str | None = None, code: str | None = None, *, status: int = 400) -> Failure:
    """Refuse a request as invalid."""
    return Failure(status, message, "invalid_request_error", code, param)


def missing(param: str) -> Failure:
    """Refuse a request without a required parameter."""
    return refusal(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def wrong_type(param: str, expected: str, value: object) -> Failure:
    """Refuse a value of the wrong JSON type; ``expected`` comes with its article."""
    names = {bool: "a boolean", int: "an integer", float: "a decimal", str: "a string", list: "an array"}
    got = "null" if value is None else names.get(type(value), "an object")
    message = f"Invalid type for '{param}': expected {expected}, but got {got} instead."
    return refusal(message, param, "invalid_type")


def empty(param: str, name: str) -> Failure:
    """Refuse an empty array or string; ``name`` says which."""
    article = "an" if name == "array" else "a"
    message = (
        f"Invalid '{param}': empty {name}. Expected {article} {name} with minimum length 1, "
        f"but got an empty {name} instead."
    )
    return refusal(message, param, f"empty_{name}")


def unsupported(param: str, value: object, supported: tuple[str, ...]) -> Failure:
    """Refuse a value that is none of the supported ones."""
    quoted = [f"'{name}'" for name in supported]
    listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}, and {quoted[-1]}"
    return refusal(f"Invalid value: '{value}'. Supported values are: {listed}.", param, "invalid_value")


def choice_problems(param: str, value: object, supported: tuple[str, ...]) -> Iterator[Failure]:
    """Refuse what is no string, or none of the supported ones."""
    if not isinstance(value, str):
        yield wrong_type(param, "a string", value)
    if value not in supported:
        yield unsupported(param, value, supported)


def object_problems(param: str, value: Any, required: tuple[str, ...] = ()) -> Iterator[Failure]:
    """Refuse what is no object, or one that lacks a required key."""
    if not isinstance(value, dict):
        yield wrong_type(param, "an object", value)
    for key in required:
        if key not in value:
            yield missing(f"{param}.{key}")


def key_problems(param: str, value: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[Failure]:
    """Refuse an object with keys that nobody knows."""
    for key in value:
        if key not in known:
            name = f"{param}.{key}" if param else key
            yield refusal(f"Unknown parameter: '{name}'.", name, "unknown_parameter")


def list_problems(param: str, value: Any) -> Iterator[Failure]:
    """Refuse what is no array, or an empty one."""
    if not isinstance(value, list):
        yield wrong_type(param, "an array of objects", value)
    if not value:
        yield empty(param, "array")


def number_problems(param: str, value: Any, expected: str, low: float | None, high: float | None) -> Iterator[Failure]:
    """Refuse what is no number of the expected type, or one that is too small or too large."""
    fits = int if expected == "an integer" else int | float
    if isinstance(value, bool) or not isinstance(value, fits):
        yield wrong_type(param, expected, value)
    name = "integer" if isinstance(value, int) else "decimal"
    for limit, sign, beyond, short in (
        (low, ">=", "below minimum", "min"),
        (high, "<=", "above maximum", "max"),
    ):
        if limit is not None and (value < limit if short == "min" else value > limit):
            message = (
                f"Invalid '{param}': {name} {beyond} value. "
                f"Expected a value {sign} {limit:g}, but got {value:g} instead."
            )
            yield refusal(message, param, f"{name}_{beyond.split()[0]}_{short}_value")


def text_problems(param: str, value: Any, pattern: str | None = None, longest: int | None = None) -> Iterator[Failure]:
    """Refuse what is no string, or one that is empty, too long or not of the pattern."""
    if not isinstance(value, str):
        yield wrong_type(param, "a string", value)
    if not value:
        yield empty(param, "string")
    if longest is not None and len(value) > longest:
        message = (
            f"Invalid '{param}': string too long. Expected a string with maximum length {longest}, "
            f"but got a string with length {len(value)} instead."
        )
        yield refusal(message, param, "string_above_max_length")
    if pattern is not None and not re.fullmatch(pattern, value):
        message = (
            f"Invalid '{param}': string does not match pattern. "
            f"Expected a string that matches the pattern '^{pattern}$'."
        )
        yield refusal(message, param, "invalid_value")
