"""The sentences in which OpenAI refuses a request, so that what a test sees is what a user would see."""

from __future__ import annotations

import re

from cyclops_nb.testing.pieces import Failure

__all__ = [
    "below_minimum",
    "bounds",
    "kind",
    "missing",
    "refusal",
    "text_problem",
    "unsupported",
    "wrong_type",
]


def refusal(message: str, param: str | None = None, code: str | None = None, *, status: int = 400) -> Failure:
    """Refuse a request as invalid."""
    return Failure(status, message, "invalid_request_error", code, param)


def kind(value: object) -> str:
    """Name the JSON type of a value, with its article."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a decimal", str: "a string", list: "an array"}
    return names.get(type(value), "an object")


def missing(param: str) -> Failure:
    """Refuse a request without a required parameter."""
    return refusal(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def wrong_type(param: str, expected: str, value: object) -> Failure:
    """Refuse a value of the wrong JSON type; ``expected`` comes with its article."""
    message = f"Invalid type for '{param}': expected {expected}, but got {kind(value)} instead."
    return refusal(message, param, "invalid_type")


def below_minimum(param: str, value: str | list[object]) -> Failure:
    """Refuse an empty array or string."""
    name = "string" if isinstance(value, str) else "array"
    message = f"Invalid '{param}': empty {name}. Expected {kind(value)} with minimum length 1, but got an empty {name} instead."
    return refusal(message, param, f"empty_{name}")


def unsupported(param: str, value: object, supported: tuple[str, ...]) -> Failure:
    """Refuse a value that is none of the supported ones."""
    quoted = [f"'{name}'" for name in supported]
    listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}, and {quoted[-1]}"
    message = f"Invalid value: '{value}'. Supported values are: {listed}."
    return refusal(message, param, "invalid_value")


def bounds(param: str, value: float, low: float | None, high: float | None) -> Failure | None:
    """Refuse a number that is too small or too large."""
    name = "integer" if isinstance(value, int) else "decimal"
    if low is not None and value < low:
        message = f"Invalid '{param}': {name} below minimum value. Expected a value >= {low:g}, but got {value:g} instead."
        return refusal(message, param, f"{name}_below_min_value")
    if high is not None and value > high:
        message = f"Invalid '{param}': {name} above maximum value. Expected a value <= {high:g}, but got {value:g} instead."
        return refusal(message, param, f"{name}_above_max_value")
    return None


def text_problem(
    param: str, value: object, pattern: str | None = None, longest: int | None = None
) -> Failure | None:
    """Refuse what is no string, or one that is empty, too long or not of the pattern."""
    if not isinstance(value, str):
        return wrong_type(param, "a string", value)
    if not value:
        return below_minimum(param, value)
    if longest is not None and len(value) > longest:
        message = (
            f"Invalid '{param}': string too long. Expected a string with maximum length {longest}, "
            f"but got a string with length {len(value)} instead."
        )
        return refusal(message, param, "string_above_max_length")
    if pattern is not None and not re.fullmatch(pattern, value):
        message = (
            f"Invalid '{param}': string does not match pattern. "
            f"Expected a string that matches the pattern '^{pattern}$'."
        )
        return refusal(message, param, "invalid_value")
    return None
