"""One conversation of a comparison: its messages, and what those after the common part have cost."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cyclops_nb.messages import AssistantMessage, Message
from cyclops_nb.runs import Run
from cyclops_nb.usage import Usage, total

__all__ = ["Branch"]


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else float(sum(value for value in known if value is not None))


@dataclass(frozen=True)
class Branch:
    """One conversation of a comparison, as it was when it was compared."""

    label: str
    session_id: str
    messages: tuple[Message, ...] = field(repr=False)
    """All its messages, the common ones included."""
    keys: tuple[Hashable, ...] = field(repr=False)
    """What each message says, to be compared."""
    shared: int
    """How many messages, from the first, all branches have in common."""
    runs: tuple[Run, ...] = field(repr=False)
    """The runs that made the messages after the common ones."""
    session_runs: tuple[Run, ...] = field(repr=False)
    """All runs of the session, also inherited ones and those whose messages are gone."""
    configs: Mapping[str, Mapping[str, Any]] = field(repr=False)
    """The settings of its runs, by the names that these have for them."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the last run of the branch."""
        last = (run.config for run in reversed(self.runs or self.session_runs) if run.config is not None)
        return self.configs.get(next(last, ""), {})

    @property
    def own(self) -> tuple[Message, ...]:
        """The messages after the common ones."""
        return self.messages[self.shared :]

    @property
    def answers(self) -> list[AssistantMessage]:
        """The completions among them."""
        return [message for message in self.own if isinstance(message, AssistantMessage)]

    @property
    def tool_calls(self) -> int:
        """How often they call a tool."""
        return sum(len(message.tool_calls) for message in self.answers)

    @property
    def usage(self) -> Usage | None:
        """Tokens of the branch; None if unknown."""
        return total([*(run.usage for run in self.runs), *(message.usage for message in self._without_run())])

    @property
    def cost(self) -> float | None:
        """Dollars of the branch; None if unknown."""
        return _sum([*(run.cost for run in self.runs), *(message.cost for message in self._without_run())])

    @property
    def duration(self) -> float | None:
        """Seconds that its runs took; None if unknown."""
        return _sum([*(run.duration for run in self.runs), *(message.duration for message in self._without_run())])

    @property
    def tokens_per_second(self) -> float | None:
        """Output tokens per second while the model answered; None if no answer tells both."""
        told = [(each.usage.output_tokens, each.duration) for each in self.answers if each.usage and each.duration]
        seconds = sum(duration for _, duration in told)
        try:
            speed = sum(tokens for tokens, _ in told) / seconds if seconds > 0 else math.nan
        except OverflowError:  # more than any server counts: a damaged file
            return None
        return speed if math.isfinite(speed) else None

    @property
    def usage_complete(self) -> bool:
        """False if more tokens were used than were reported."""
        return all(run.usage_complete for run in self.runs)

    @property
    def models(self) -> list[str]:
        """The models that answered, in the order of their first answer."""
        named = [message.model for message in self.answers if message.model]
        return list(dict.fromkeys(named or [run.model for run in self.runs]))

    @property
    def stop_reason(self) -> str | None:
        """How the last run of the branch ended; None if there is none, or it has no end."""
        return self.runs[-1].stop_reason if self.runs else None

    @property
    def session_cost(self) -> float | None:
        """Dollars of all runs of the session; None if unknown."""
        return _sum(run.cost for run in self.session_runs)

    def _without_run(self) -> list[AssistantMessage]:
        """Return completions that no run of the session accounts for, as in imported conversations."""
        known = {run.id for run in self.runs}
        return [message for message in self.answers if message.run_id not in known]
