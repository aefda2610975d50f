"""Sessions as DataFrames: one row a message, a run, a step, or a tool call; and what was spent, as a table.

Every column has a documented dtype which is the same for no rows at all, so that frames of different days can be put
together. Unknown is ``<NA>`` and never 0. What forks share is counted once: the sum of a column is then what was
really spent, however often a conversation was forked.

pandas is loaded on first use, since a script that only asks a model should not wait for it.
"""

from __future__ import annotations

from cyclops_nb.frames.grouping import usage_table
from cyclops_nb.frames.messages import messages_frame
from cyclops_nb.frames.runs import runs_frame
from cyclops_nb.frames.steps import steps_frame
from cyclops_nb.frames.tool_calls import tool_calls_frame
from cyclops_nb.frames.usage import UsageTable

__all__ = ["UsageTable", "messages_frame", "runs_frame", "steps_frame", "tool_calls_frame", "usage_table"]
