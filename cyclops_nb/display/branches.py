"""Conversations side by side: what they have in common, where they part, and what each branch cost.

Branches are compared by what was said, so two sessions that were never forked from one another can be compared as
well. Numbers are those of the branch alone: the messages after the common part, and the runs that made them. A run
counts whole, also where its first messages are common ones, since that is what the answer in the branch cost.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cyclops_nb.display.branch import Branch
from cyclops_nb.display.content_keys import common_prefix, content_keys
from cyclops_nb.displayable import Displayable, comparison_widget
from cyclops_nb.errors import InputError
from cyclops_nb.messages import Message
from cyclops_nb.render.labels import session_labels, unique_labels
from cyclops_nb.render.text import one_line
from cyclops_nb.response import AgentResponse
from cyclops_nb.session import Session

if TYPE_CHECKING:
    import pandas as pd

    from cyclops_nb.display.comparison_widget import ComparisonWidget

__all__ = ["Comparison", "compare"]

_NO_SETTINGS = {"cyclops_nb"}


@dataclass(frozen=True)
class Comparison(Displayable):
    """Conversations side by side; made by `compare`, shown by a notebook.

    Examples
    --------
    >>> a = Session(title="A")
    >>> comparison = compare(a, a.fork(title="B"))
    >>> comparison.labels, comparison.shared
    (['A', 'B'], 0)
    """

    branches: tuple[Branch, ...]
    """What is compared, in the order it was given."""

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])

    @property
    def labels(self) -> list[str]:
        """The names of the branches."""
        return [branch.label for branch in self.branches]

    @property
    def shared(self) -> int:
        """How many messages, from the first, all branches have in common."""
        return self.branches[0].shared

    @property
    def differing_settings(self) -> list[str]:
        """The names of the settings that are not the same for all branches, in alphabetical order."""
        names = {name for branch in self.branches for name in branch.settings} - _NO_SETTINGS
        first = self.branches[0].settings
        return sorted(
            name for name in names if any(branch.settings.get(name) != first.get(name) for branch in self.branches)
        )

    def pick(self, *branches: str | int) -> Comparison:
        """Return a comparison of some of the branches, in the order given; what they have in common is found anew.

        Parameters
        ----------
        *branches : str or int
            Two or more labels or indices.

        Returns
        -------
        Comparison
            Of the same moment as this one.

        Raises
        ------
        InputError
            A ValueError too: if there are fewer than two, one is not there, or one comes twice.

        Examples
        --------
        >>> a = Session(title="A")
        >>> compare(a, a.fork(title="B"), a.fork(title="C")).pick("C", 0).labels
        ['C', 'A']
        """
        places = [self._place(branch) for branch in branches]
        if len(places) < 2 or len(set(places)) < len(places):  # noqa: PLR2004 - one alone has nothing to be compared with
            raise InputError(
                f"pick takes two or more branches, each once, got {branches!r}: give some of {self.labels!r}"
            )
        picked = [self.branches[place] for place in places]
        shared = common_prefix([branch.keys for branch in picked])
        return Comparison(tuple(_parted(branch, shared) for branch in picked))

    def _place(self, branch: str | int) -> int:
        labels = self.labels
        if isinstance(branch, str) and branch in labels:
            return labels.index(branch)
        if type(branch) is int and -len(labels) <= branch < len(labels):
            return range(len(labels))[branch]
        raise InputError(f"there is no branch {branch!r}: give one of {labels!r}, or an index up to {len(labels) - 1}")

    def widget(self) -> ComparisonWidget:
        """Return a widget in which one picks branches, swaps two, and hides what is equal.

        Returns
        -------
        ComparisonWidget
            It has a method for each of its buttons; ``.freeze()`` leaves in the notebook what it shows.

        Examples
        --------
        >>> a = Session(title="A")
        >>> widget = compare(a, a.fork(title="B")).widget()
        >>> widget.swap("A", "B")
        >>> widget.comparison.labels
        ['B', 'A']
        """
        widget: ComparisonWidget = comparison_widget(self)
        return widget

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers of the comparison as a table, a row per branch.

        Returns
        -------
        pandas.DataFrame
            ====================  =========  ==================================================================
            label                 string
            session_id            string
            shared                Int64      messages that all branches have in common
            messages              Int64      messages after these, as all down to `stop_reason`
            steps                 Int64      completions
            tool_calls            Int64
            requests              Int64      completions that reported their usage
            input_tokens          Int64      the cached ones included
            output_tokens         Int64      the reasoning included
            cached_tokens         Int64
            reasoning_tokens      Int64
            usage_complete        boolean    False: more was used than was reported
            cost                  Float64    dollars
            duration              Float64    seconds that the runs took
            tokens_per_second     Float64    of output, while the model answered
            model                 string     several are joined by ``", "``
            stop_reason           string     of the last run
            session_messages      Int64      messages of the whole session
            session_runs          Int64      all its runs, inherited ones included
            session_cost          Float64    dollars of all its runs
            ``config.<setting>``  as it is   for each setting that differs; lists and objects as JSON text
            ====================  =========  ==================================================================

            What is unknown is ``<NA>``.

        Examples
        --------
        >>> a = Session(title="A")
        >>> list(compare(a, a.fork(title="B")).to_frame()["label"])
        ['A', 'B']
        """
        import pandas as pd

        names = self.differing_settings
        rows = [_row(branch) for branch in self.branches]
        columns = {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in _DTYPES.items()}
        settings = {
            f"config.{name}": pd.Series(pd.array([_plain(branch.settings.get(name)) for branch in self.branches]))
            for name in names
        }
        return pd.DataFrame(columns | settings)


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping | list | tuple) else value


_TOKENS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_DTYPES = {
    "label": "string",
    "session_id": "string",
    "shared": "Int64",
    "messages": "Int64",
    "steps": "Int64",
    "tool_calls": "Int64",
    **dict.fromkeys(_TOKENS, "Int64"),
    "usage_complete": "boolean",
    "cost": "Float64",
    "duration": "Float64",
    "tokens_per_second": "Float64",
    "model": "string",
    "stop_reason": "string",
    "session_messages": "Int64",
    "session_runs": "Int64",
    "session_cost": "Float64",
}


def _row(branch: Branch) -> dict[str, Any]:
    usage = branch.usage
    return {
        "label": branch.label,
        "session_id": branch.session_id,
        "shared": branch.shared,
        "messages": len(branch.own),
        "steps": len(branch.answers),
        "tool_calls": branch.tool_calls,
        **{name: None if usage is None else getattr(usage, name) for name in _TOKENS},
        "usage_complete": branch.usage_complete,
        "cost": branch.cost,
        "duration": branch.duration,
        "tokens_per_second": branch.tokens_per_second,
        "model": ", ".join(branch.models),
        "stop_reason": branch.stop_reason,
        "session_messages": len(branch.messages),
        "session_runs": len(branch.session_runs),
        "session_cost": branch.session_cost,
    }


def compare(*items: Session | AgentResponse, labels: Sequence[str] | None = None) -> Comparison:
    """Compare conversations: what they have in common, where they part, what each branch cost.

    Parameters
    ----------
    *items : Session or AgentResponse
        Two or more. A response stands for its session up to the last message of the run.
    labels : sequence of str, optional
        A name for each; by default its title, or the beginning of its id.

    Returns
    -------
    Comparison
        A picture of this moment, which a notebook shows side by side; ``.to_frame()`` has the numbers.

    Raises
    ------
    InputError
        A ValueError too: if there are fewer than two, one is no conversation, or `labels` does not fit.

    Examples
    --------
    >>> session = Session(title="first")
    >>> other = session.fork(title="second")
    >>> compare(session, other).labels
    ['first', 'second']
    """
    if len(items) < 2:  # noqa: PLR2004 - one alone has nothing to be compared with
        raise InputError(f"compare needs two or more sessions or responses, got {len(items)}: give compare(a, b)")
    given = [_given_messages(item) for item in items]
    sessions = [session for session, _ in given]
    names = session_labels(sessions) if labels is None else _given_labels(labels, len(given))
    keys = [tuple(content_keys(messages)) for _, messages in given]
    shared = common_prefix(keys)
    parts = zip(names, given, keys, strict=True)
    return Comparison(tuple(_branch(name, *pair, said, shared) for name, pair, said in parts))


def _given_messages(item: object) -> tuple[Session, tuple[Message, ...]]:
    """Return the session that an item belongs to, and the conversation that it stands for."""
    if isinstance(item, Session):
        return item, tuple(item.messages)
    if not isinstance(item, AgentResponse):
        raise InputError(
            f"compare takes sessions and responses, got a {type(item).__name__}: "
            "give each as an argument of its own, and load stored sessions first"
        )
    messages = item.session.messages
    last = item.messages[-1].id if item.messages else None
    end = next((index for index, message in enumerate(messages, 1) if message.id == last), None)
    if end is not None:
        return item.session, tuple(messages[:end])
    # truncated since: what stood before the run is what is older than it
    older = takewhile(lambda message: message.created_at <= item.run.started_at, messages)
    return item.session, (*older, *item.messages)


def _given_labels(labels: Sequence[str], wanted: int) -> list[str]:
    names = [labels] if isinstance(labels, str) else [one_line(str(name)) for name in labels]
    if len(names) != wanted:
        raise InputError(f"labels must have a name for each of the {wanted} conversations, got {len(names)}: {names!r}")
    return unique_labels(names)


def _branch(
    label: str, session: Session, messages: tuple[Message, ...], keys: tuple[Hashable, ...], shared: int
) -> Branch:
    return _parted(Branch(label, session.id, messages, keys, 0, (), tuple(session.runs), dict(session.configs)), shared)


def _parted(branch: Branch, shared: int) -> Branch:
    """Return a branch among others with which it has so many messages in common."""
    made = {message.run_id for message in branch.messages[shared:]}
    runs = tuple(run for run in branch.session_runs if run.id in made)
    return replace(branch, shared=shared, runs=runs)
