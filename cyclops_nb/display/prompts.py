r"""Fills variables of a notebook into the text of a prompt.

Prompts are full of braces that mean nothing to us: JSON, LaTeX, sets, templates, source code. So braces are a field
only where somebody who knows f-strings would say so, and all others stay as they were written:

- what is not one expression of Python with a name in it: ``{"a": 1}``, ``{2,3}``, ``{ x }``, ``{a, b}``, ``{x | y}``
- what belongs to the letter before it, as in LaTeX and shells: ``\frac{a}{b}``, ``x_{i}``, ``${HOME}``
- what is code: between backticks, in fences, in an f-string; but for a field that is all of the code, or of its line

A field whose name nobody knows is an error and no text: a misspelt name would otherwise be asked about, and paid for.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import types
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from cyclops_nb.agent import Agent
from cyclops_nb.content import special_part
from cyclops_nb.errors import InputError, error_text
from cyclops_nb.handle import RunHandle
from cyclops_nb.messages import InputPart, Message, TextPart
from cyclops_nb.response import AgentResponse
from cyclops_nb.session import Session

__all__ = ["filled"]

_LONGEST = 300
_BRACES = re.compile(rf"(?<!\{{)(\{{++)([^{{}}\n]{{1,{_LONGEST}}})(\}}++)")
_BELONGS_TO = re.compile(r"[A-Za-z0-9_^$\\}\])]")
"""Characters before braces that are then no field. Letters of scripts that part no words by blanks are none of them."""
_SPEC = re.compile(r"(?:.?[<>=^])?[-+]?#?0?\d*[,_]?(?:\.\d+)?[bcdeEfFgGnosxX%]?|.*%[A-Za-z].*")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)([^`\n](?:[^\n]*?[^`\n])?)\1(?!`)")
_F_STRING = re.compile(r"\b(?:[rR]?[fF]|[fF][rR])(['\"])(?:(?!\1).)*$")
_KINDS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.UnaryOp, ast.IfExp)
_SETS = (ast.BitOr, ast.BitAnd)
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda value: value, "!r": repr, "!s": str, "!a": ascii}
_HAVE_NO_TEXT = (
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type),
    *(Agent, RunHandle, Session),
)


def filled(template: str, namespace: Mapping[str, Any]) -> str | list[str | InputPart]:
    """Return a prompt with the values of its fields.

    Parameters
    ----------
    template : str
        What the user has written. ``{name}`` is replaced by the value of that variable, and so are expressions, with
        conversions and formats as in an f-string. Doubled braces around a field are single ones of the text.
    namespace : mapping
        The variables.

    Returns
    -------
    str or list
        Text; where a value is a figure, an image or a part that is no text, a list in which that stands at its place.

    Raises
    ------
    InputError
        If a name is unknown, or a value cannot be had or put into words.

    Examples
    --------
    >>> filled('Reply as {"sum": …} in {words[0]}: 1 + {n:.1f}', {"words": ["French"], "n": 2})
    'Reply as {"sum": …} in French: 1 + 2.0'
    """
    code = _Code(template)
    prompt = _Prompt()
    place, end_of_field = 0, -1
    for found in _BRACES.finditer(template):
        depth = min(len(found[1]), len(found[3]))
        first, last = found.end(1) - depth, found.start(3) + depth
        if first != end_of_field and _BELONGS_TO.match(template[max(first - 1, 0) : first]):
            continue
        field = _field(found[2])
        if field is None or code.has(first, last):
            continue
        prompt.add(template[place:first] + "{" * (depth // 2))
        for piece in _values(field, namespace) if depth % 2 else [found[2]]:
            prompt.add(piece)
        place = end_of_field = last
        prompt.add("}" * (depth // 2))
    prompt.add(template[place:])
    return prompt.whole()


class _Prompt:
    """Texts and parts one behind the other, neighbouring texts as one."""

    def __init__(self) -> None:
        self._pieces: list[str | InputPart] = []
        self._is_below_table = False

    def add(self, piece: str | InputPart) -> None:
        """Put something behind what there is; a table on lines of its own, or its columns would be none."""
        is_table = isinstance(piece, TextPart)
        text = piece.text if isinstance(piece, TextPart) else piece
        if not text:
            return
        last = self._pieces[-1] if self._pieces else None
        if not isinstance(text, str):
            self._pieces.append(text)
        elif isinstance(last, str):
            is_in_line = (is_table and not last.endswith("\n")) or (self._is_below_table and not text.startswith("\n"))
            self._pieces[-1] = f"{last}\n{text}" if is_in_line else last + text
        else:
            self._pieces.append(text)
        self._is_below_table = is_table

    def whole(self) -> str | list[str | InputPart]:
        """Return text if there is nothing else."""
        if all(isinstance(piece, str) for piece in self._pieces):
            return "".join(piece for piece in self._pieces if isinstance(piece, str))
        return [piece for piece in self._pieces if not isinstance(piece, str) or piece.strip()]


class _Code:
    """Where a prompt has code."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._fences = [found.span() for found in _FENCE.finditer(template)]
        self._spans = [(found.start(), found.end(), found[2].strip()) for found in _CODE_SPAN.finditer(template)]

    def has(self, first: int, last: int) -> bool:
        """Say whether braces are a part of code, and not all of a code span or of a line in a fence."""
        template = self._template
        place = bisect_right(self._fences, (first, first)) - 1
        if place >= 0 and first < self._fences[place][1]:
            start, end = template.rfind("\n", 0, first) + 1, template.find("\n", last)
            return bool(template[start:first].strip() or template[last : end if end >= 0 else None].strip())
        place = bisect_right(self._spans, (first, first, "")) - 1
        if place >= 0 and first < self._spans[place][1]:
            return self._spans[place][2] != template[first:last]
        start = max(template.rfind("\n", 0, first) + 1, first - _LONGEST)
        return bool(_F_STRING.search(template[start:first]))


class _Field(NamedTuple):
    """What stands between braces, if that is a field."""

    source: str
    expression: ast.Expression
    conversion: str
    spec: str


def _field(source: str) -> _Field | None:
    """Return what stands between braces as a field, or None if it is none."""
    for end in (len(source), *(index for index, character in enumerate(source) if character in ":!")):
        text, rest = source[:end], source[end:]
        expression = _expression(text)
        if expression is None:
            continue
        conversion = rest[:2] if rest.startswith("!") else ""
        spec = rest.removeprefix(conversion)
        is_format = not spec or (spec.startswith(":") and _SPEC.fullmatch(spec[1:]) is not None)
        if not _is_fit(expression.body) or conversion not in _CONVERSIONS or not is_format:
            return None
        return _Field(source, expression, conversion, spec[1:])
    return None


def _expression(text: str) -> ast.Expression | None:
    if text != text.strip():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what looks odd as Python was not meant as Python
            return ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_fit(body: ast.expr) -> bool:
    if not isinstance(body, _KINDS) or (isinstance(body, ast.BinOp) and isinstance(body.op, _SETS)):
        return False
    return any(isinstance(node, ast.Name) for node in ast.walk(body))


def _values(field: _Field, namespace: Mapping[str, Any]) -> Iterator[str | InputPart]:
    """Yield what a field stands for."""
    value = _value(field, namespace)
    if not field.conversion and not field.spec:
        items = value if isinstance(value, list | tuple) else [value]
        parts = [special_part(item) for item in items]
        if any(part is not None for part in parts):
            yield from (_text(field, item) if part is None else part for item, part in zip(items, parts, strict=True))
            return
    yield _text(field, value)


def _value(field: _Field, namespace: Mapping[str, Any]) -> Any:
    body = field.expression.body
    if isinstance(body, ast.Name) and body.id not in namespace:  # the function id() is not what {id} stands for
        raise _unknown(field, body.id, namespace)
    try:
        # the user's own code, and the user's own names
        return eval(compile(field.expression, "<prompt>", "eval"), dict(namespace))  # noqa: S307
    except NameError as error:
        if not error.name or error.name in namespace or hasattr(builtins, error.name):
            raise _failed(field, error) from error
        raise _unknown(field, error.name, namespace) from None
    except Exception as error:
        raise _failed(field, error) from error


def _text(field: _Field, value: Any) -> str:
    """Return a value in words, as an f-string would."""
    if isinstance(value, AgentResponse):
        value = value.content
    elif isinstance(value, Message):
        value = value.text
    kind = type(value)
    names_nothing = all(getattr(kind, name) is getattr(object, name) for name in ("__str__", "__repr__"))
    if names_nothing or isinstance(value, _HAVE_NO_TEXT):
        said = "a class" if isinstance(value, type) else f"a {kind.__name__}"
        raise InputError(
            f"{{{field.source}}} is {said}, which has no text of its own, and nothing was asked: say what of it is to "
            "be read"
        )
    try:
        value = _CONVERSIONS[field.conversion](value)
        return format(value, field.spec) if field.spec else str(value)
    except Exception as error:
        raise _failed(field, error) from error


def _unknown(field: _Field, name: str, namespace: Mapping[str, Any]) -> InputError:
    near = difflib.get_close_matches(name, [known for known in namespace if not known.startswith("_")], 1)
    return InputError(
        f"{{{field.source}}} cannot be filled in, and nothing was asked: there is no variable {name!r}"
        + (f" (is it {near[0]!r}?)" if near else "")
        + f". Braces that are meant as they stand are doubled: {{{{{field.source}}}}}"
    )


def _failed(field: _Field, error: Exception) -> InputError:
    said = error_text(error)
    return InputError(
        f"{{{field.source}}} cannot be filled in, and nothing was asked: {type(error).__name__}"
        + (f": {said}" if said else "")
    )
