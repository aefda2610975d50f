"""What all data classes of the library share: text that can be encoded, read-only JSON, positional constructors.

Messages are shared between a session and its forks, between threads, and with snapshots that a store is still
writing. That is only safe if nothing in them can change, so mappings and lists inside are made read-only where they
come in. Text that UTF-8 cannot hold (lone surrogates) is mended at the same place: once stored it would make every
later request and every save fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar
from uuid import uuid4

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, PlainSerializer

__all__ = [
    "FrozenDict",
    "FrozenJson",
    "Memo",
    "MutableJson",
    "Text",
    "Timestamp",
    "Value",
    "clean_json",
    "clean_text",
    "freeze",
    "new_id",
    "now",
    "positional",
]

_F = TypeVar("_F", bound=Callable[..., None])


def new_id() -> str:
    """Return a fresh random id of 32 hexadecimal digits."""
    return uuid4().hex


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def clean_text(text: str) -> str:
    r"""Return `text` so that UTF-8 can hold it: surrogate pairs joined, lone surrogates replaced by U+FFFD.

    Examples
    --------
    >>> clean_text("ok \ud83d\ude00 \udc9d") == "ok \U0001f600 \ufffd"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    # a subclass of str would lose its kind in storage: keep the plain text alone
    return text if type(text) is str else str.__str__(text)


def _clean_any(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


class FrozenDict(dict[str, Any]):
    """A `dict` that refuses changes, so that values holding it can be shared."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("this mapping is read-only: make a new message with other values instead")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


def _jsonable(value: Any, mapping: type[dict[str, Any]], sequence: type, where: str) -> Any:
    """Return `value` as JSON data made of `mapping` and `sequence`, or raise `ValueError` naming the place."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None  # JSON has no NaN; null is what pandas writes too
    if isinstance(value, Mapping):
        items = ((clean_text(str(key)), item) for key, item in value.items())
        return mapping((key, _jsonable(item, mapping, sequence, f"{where}.{key}")) for key, item in items)
    if isinstance(value, list | tuple):
        return sequence(_jsonable(item, mapping, sequence, f"{where}[{i}]") for i, item in enumerate(value))
    raise ValueError(
        f"{where.lstrip('.') or 'the value'} is a {type(value).__name__}, which JSON cannot hold: "
        "give text, numbers, booleans, None, lists and dicts of these"
    )


def freeze(value: Any) -> Any:
    """Return JSON data as read-only mappings and tuples.

    Parameters
    ----------
    value : JSON data
        Text, numbers, booleans, None, lists, tuples and mappings of these. Not-a-number becomes None.

    Raises
    ------
    ValueError
        If something in it is no JSON data.

    Examples
    --------
    >>> freeze({"a": [1, 2]})
    {'a': (1, 2)}
    """
    if type(value) is FrozenDict:
        return value
    return _jsonable(value, FrozenDict, tuple, "")


def clean_json(value: Any) -> Any:
    """Return JSON data as plain dicts and lists that can be encoded; the counterpart of `freeze`."""
    return _jsonable(value, dict, list, "")


Text = Annotated[str, BeforeValidator(_clean_any)]
"""A string that UTF-8 can hold."""

FrozenJson = Annotated[dict[Text, Any], AfterValidator(freeze)]
"""A JSON object, read-only."""

MutableJson = Annotated[dict[str, Any], PlainSerializer(clean_json)]
"""A JSON object that users may change; what JSON cannot hold is found when it is written."""

Timestamp = AwareDatetime
"""A moment with its time zone."""


def positional(init: _F) -> _F:
    """Mark a constructor that only adds positional arguments, so that loading data may go past it.

    pydantic calls a custom ``__init__`` for each object it validates, which makes loading a long session several
    times slower; its own mark for "this is the plain constructor" avoids that.
    """
    init.__pydantic_base_init__ = True  # type: ignore[attr-defined]
    return init


class Value(BaseModel):
    """Base of frozen data: unknown fields are kept, read-only, and come back when it is saved."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    if TYPE_CHECKING:  # unknown fields are welcome, which pydantic's own signature does not say

        def __init__(self, **fields: Any) -> None: ...

    def model_post_init(self, _context: Any, /) -> None:
        """Make the unknown fields read-only too."""
        extra = self.__pydantic_extra__
        if extra:
            object.__setattr__(self, "__pydantic_extra__", freeze(extra))


class Memo:
    """Holds something that lives in memory only: it is never saved, never compared, and not copied in depth."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memo)

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Memo:
        return Memo()

    def __deepcopy__(self, memo: dict[int, Any]) -> Memo:
        return Memo()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Memo, ())
