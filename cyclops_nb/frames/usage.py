"""What runs have cost, summed by what they have in common.

A sum says what it lacks. Runs of unknown cost are counted beside it, and a sum with such runs, or with a completion
that was stopped before its report, is a lower bound and is shown as one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cyclops_nb.displayable import Displayable
from cyclops_nb.frames.columns import Columns, make_frame, tokens
from cyclops_nb.frames.ratings import mean
from cyclops_nb.frames.tables import Table, latex_table, markdown_table
from cyclops_nb.render.words import UNKNOWN, money, number, seconds, spent
from cyclops_nb.runs import Run
from cyclops_nb.usage import Usage, total

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["OF_SESSION", "UsageRow", "UsageTable"]

OF_SESSION = ("session", "branch")
"""What rows of sessions are summed by."""
_COLUMNS: Columns = {
    "runs": "Int64",
    "steps": "Int64",
    "requests": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "without_usage": "Int64",
    "without_cost": "Int64",
    "incomplete": "Int64",
    "rating": "Float64",
}


@dataclass(frozen=True)
class UsageRow:
    """What some runs have cost together."""

    name: str | None
    """What they have in common; None if it is unknown."""
    runs: tuple[Run, ...] = field(repr=False)
    ratings: tuple[float, ...] = field(default=(), repr=False)
    """Those of the messages that the runs made."""
    session_id: str | None = None
    """The session that the row is of, if it is of one."""

    @property
    def steps(self) -> int:
        """Completed steps."""
        return sum(run.steps for run in self.runs)

    @property
    def usage(self) -> Usage | None:
        """Tokens of the runs that reported any; None if none of them did."""
        known = [usage for run in self.runs if (usage := _spent(run)[0]) is not None]
        return total(known) if known or not self.runs else None

    @property
    def cost(self) -> float | None:
        """Dollars of the runs whose cost is known; None if it is known of none of them."""
        known = [cost for run in self.runs if (cost := _spent(run)[1]) is not None]
        return float(sum(known)) if known or not self.runs else None

    @property
    def duration(self) -> float | None:
        """Seconds of the runs whose duration is known; None if it is known of none of them."""
        known = [run.duration for run in self.runs if run.duration is not None]
        return float(sum(known)) if known or not self.runs else None

    @property
    def without_usage(self) -> int:
        """How many of the runs reported no usage."""
        return sum(_spent(run)[0] is None for run in self.runs)

    @property
    def without_cost(self) -> int:
        """Of how many of the runs the cost is unknown."""
        return sum(_spent(run)[1] is None for run in self.runs)

    @property
    def incomplete(self) -> int:
        """How many of the runs used more than they could report."""
        return sum(not run.usage_complete for run in self.runs)

    @property
    def rating(self) -> float | None:
        """The mean of the ratings; None if there are none."""
        return mean(self.ratings)


@dataclass(frozen=True)
class UsageTable(Displayable):
    """What runs have cost, summed by something; made by `usage_table`, shown by a notebook.

    Examples
    --------
    >>> table = usage_table(Session(runs=[Run(session_id="s", model="m", usage=Usage(1, 10, 5), cost=None)]))
    >>> table.rows[0].name, table.total.without_cost
    ('m', 1)
    """

    by: str
    """What the rows are of."""
    rows: tuple[UsageRow, ...]
    total: UsageRow
    """Of all runs, each counted once: where rows have runs in common, it is less than their sum."""
    session_count: int
    """How many sessions the runs are from."""

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])

    def to_frame(self) -> pd.DataFrame:
        """Return the rows, without the total, as a DataFrame.

        Returns
        -------
        pandas.DataFrame
            ================  =======  ====================================================================
            ``<by>``          string   what the runs have in common, under the name of it; ``<NA>`` if unknown
            session_id        string   only if by ``session`` or ``branch``
            runs              Int64    how many
            steps             Int64
            requests          Int64    completions that reported their usage
            input_tokens      Int64    of the runs that reported any, as the next three; the cached ones included
            output_tokens     Int64    the reasoning included
            cached_tokens     Int64
            reasoning_tokens  Int64
            cost              Float64  dollars of the runs whose cost is known
            duration          Float64  seconds of the runs whose duration is known
            without_usage     Int64    how many runs reported no usage
            without_cost      Int64    of how many runs the cost is unknown
            incomplete        Int64    how many runs used more than they could report
            rating            Float64  mean of those of the runs' messages, from ``session.annotate``
            ================  =======  ====================================================================

            What is known of none of the runs is ``<NA>``.

        Examples
        --------
        >>> list(usage_table(Session(), by="model").to_frame().columns)[:3]
        ['model', 'runs', 'steps']
        """
        columns: dict[str, Any] = {self.by: "string"}
        if self.by in OF_SESSION:
            columns["session_id"] = "string"
        return make_frame([{self.by: row.name, **_cells(row)} for row in self.rows], {**columns, **_COLUMNS})

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return, or write, what `to_frame` has as CSV.

        Parameters
        ----------
        path : str or path, optional
            Where to write it.

        Returns
        -------
        str or None
            The text; None if it was written.

        Examples
        --------
        >>> print(usage_table(Session()).to_csv()[:16])
        model,runs,steps
        """
        return self.to_frame().to_csv(path, index=False)

    def to_markdown(self) -> str:
        """Return the table as it is shown, in Markdown.

        Examples
        --------
        >>> print(usage_table(Session(runs=[Run(session_id="s", model="m", cost=None)])).to_markdown())
        | model | runs | steps | tokens in | tokens out | cost | time |
        | :--- | ---: | ---: | ---: | ---: | ---: | ---: |
        | m | 1 | 0 | 0 | 0 | unknown | unknown |
        """
        return markdown_table(self.words())

    def to_latex(self) -> str:
        r"""Return the table as it is shown, in LaTeX, for the package booktabs.

        Examples
        --------
        >>> print(usage_table(Session()).to_latex())
        \begin{tabular}{lrrrrrr}
        \toprule
        model & runs & steps & tokens in & tokens out & cost & time \\
        \midrule
        \bottomrule
        \end{tabular}
        """
        return latex_table(self.words())

    def words(self, limit: int | None = None) -> Table:
        """Return the table in words, with no more than `limit` rows."""
        everything = [*self.rows, self.total]
        optional = {
            "cached": any(row.usage and row.usage.cached_tokens for row in everything),
            "reasoning": any(row.usage and row.usage.reasoning_tokens for row in everything),
            "rating": any(row.ratings for row in everything),
        }
        lines = [_line(row) for row in [*self.rows[:limit], *([self.total] if len(self.rows) > 1 else [])]]
        names = [name for name in _line(self.total) if optional.get(name, True)]
        cells = [[line[name] for name in names] for line in lines]
        rows, footer = (cells[:-1], cells[-1:]) if len(self.rows) > 1 else (cells, [])
        return Table([self.by.removeprefix("config.").replace("_", " "), *names[1:]], rows, footer)


def _spent(run: Run) -> tuple[Usage | None, float | None]:
    return spent(run.usage, run.cost, complete=run.usage_complete)


def _cells(row: UsageRow) -> dict[str, Any]:
    usage = row.usage
    return {
        "session_id": row.session_id,
        "runs": len(row.runs),
        "steps": row.steps,
        "requests": None if usage is None else usage.requests,
        **tokens(usage),
        "cost": row.cost,
        "duration": row.duration,
        "without_usage": row.without_usage,
        "without_cost": row.without_cost,
        "incomplete": row.incomplete,
        "rating": row.rating,
    }


def _line(row: UsageRow) -> dict[str, str]:
    usage = row.usage
    complete = not (row.without_usage or row.incomplete)

    def amount(name: str) -> str:
        return UNKNOWN if usage is None else number(getattr(usage, name), complete=complete)

    return {
        "name": UNKNOWN if row.name is None else row.name,
        "runs": number(len(row.runs)),
        "steps": number(row.steps),
        "tokens in": amount("input_tokens"),
        "cached": amount("cached_tokens"),
        "tokens out": amount("output_tokens"),
        "reasoning": amount("reasoning_tokens"),
        "cost": _cost_words(row),
        "time": seconds(row.duration),
        "rating": "" if row.rating is None else f"{row.rating:.2f}",
    }


def _cost_words(row: UsageRow) -> str:
    if row.cost is None:
        return UNKNOWN
    lacking = f" and {row.without_cost:,} {UNKNOWN}" if row.without_cost else ""
    return money(row.cost, complete=not (row.without_cost or row.incomplete)) + lacking
