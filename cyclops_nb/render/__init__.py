"""The one place that turns text of models, tools and files into HTML.

What a notebook shows runs in the reader's browser with the reader's rights, and most of what this library
shows was written by a model. Nothing outside this package builds HTML by hand: `escape` makes fragments that
escape whatever is put into them, `markdown` makes a model's Markdown into HTML that has passed an allow-list.
"""

from __future__ import annotations

__all__: list[str] = []
