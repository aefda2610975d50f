"""Small tables of words as Markdown, as LaTeX, and as plain text.

What stands in a cell may come from anywhere; in each of the three it is nothing but text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cyclops_nb.render.text import one_line
from cyclops_nb.stores.notebooks.names import inert

__all__ = ["Table", "latex_table", "latex_text", "markdown_table", "text_table"]

_LIMIT = 120
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": r"\textasciigrave{}",
        '"': r"\char34{}",  # some languages make a command of it
        # at the beginning of a row these would belong to the line break before it
        "[": "{[}",
        "*": "{*}",
        "≥": r"\ensuremath{\geq}",
        "…": r"\ldots{}",
    }
)
_LIGATURE = re.compile(r"([-,'])(?=\1)")
"""What LaTeX would draw as another sign."""


class Table(NamedTuple):
    """A table of words: the first column holds names, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    footer: Sequence[Sequence[str]] = ()
    """Sums."""


def markdown_table(table: Table) -> str:
    """Return a table in Markdown, as GitHub and Jupyter know it.

    Examples
    --------
    >>> print(markdown_table(Table(["model", "runs"], [["m|*x*", "2"]])))
    | model | runs |
    | :--- | ---: |
    | m&#124;&#42;x&#42; | 2 |
    """
    marks = [":---", *["---:"] * (len(table.header) - 1)]
    lines = [[inert(cell, _LIMIT) for cell in line] for line in (table.header, *table.rows)]
    sums = [[f"**{inert(cell, _LIMIT)}**" if cell else "" for cell in line] for line in table.footer]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], marks, *lines[1:], *sums])


def latex_table(table: Table) -> str:
    r"""Return a table in LaTeX; it needs the package booktabs.

    Examples
    --------
    >>> print(latex_table(Table(["model", "runs"], [["a_b", "≥2"]])))
    \begin{tabular}{lr}
    \toprule
    model & runs \\
    \midrule
    a\_b & \ensuremath{\geq}2 \\
    \bottomrule
    \end{tabular}
    """

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(latex_text, cells)) + r" \\"

    columns = "l" + "r" * (len(table.header) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(table.header), r"\midrule", *map(line, table.rows)]
    if table.footer:
        lines += [r"\midrule", *map(line, table.footer)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def latex_text(text: str) -> str:
    r"""Return a short text such that LaTeX prints it as it is.

    Examples
    --------
    >>> print(latex_text(r"50% of \input{x}"))
    50\% of \textbackslash{}input\{x\}
    """
    return _LIGATURE.sub(r"\1{}", one_line(text, _LIMIT).translate(_LATEX))


def text_table(table: Table) -> str:
    """Return a table in columns of letters of the same width.

    Examples
    --------
    >>> print(text_table(Table(["model", "runs"], [["m", "12"]])))
    model  runs
    m        12
    """
    lines = [[one_line(cell, _LIMIT) for cell in line] for line in (table.header, *table.rows, *table.footer)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        ).rstrip()
        for name, *rest in lines
    )
