"""The last cell of a session's notebook: runs, tokens, cost and settings to read, and all but the messages as data.

Whatever changes with each addition stands here and nowhere else. Records of runs that were written before are taken
over as text, so a session with thousands of runs takes no longer to add to than one with a few.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cyclops_nb.render.text import cut, left_out, one_line
from cyclops_nb.render.words import UNKNOWN, count, error_words, moment, money, number, seconds, spent, tokens
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.stores.base import SessionInfo
from cyclops_nb.stores.notebooks.cells import fingerprint, own_cell
from cyclops_nb.stores.notebooks.document import VERSION
from cyclops_nb.stores.notebooks.markdown import fenced
from cyclops_nb.stores.notebooks.names import inert
from cyclops_nb.stores.notebooks.portable import portable, settled
from cyclops_nb.stores.notebooks.style import Style

__all__ = ["NEW_FOOT", "SUMMARY", "Foot", "RunTexts", "foot_cell", "foot_lines", "placed"]

SUMMARY = "summary"
"""The key under which stands what a list tells.

With it stands by what an edit by hand is noticed: at which byte it was written, and what `placed` is told of the front.
"""
NEW_FOOT = {"metadata": {"deletable": False, "editable": False}}
"""What is not ours in a last cell before anyone has put something there: it is not easily lost by mistake."""
_BEGIN, _PLACE, _RECORDS, _FRONT = "\0", "\1", "\2", "\3"  # JSON has no such characters
_RUNS = 40
_CONFIGS = 5
_PROMPT = 2_000
_SETTINGS = 2_000
_OF_THE_FILE = {"updated_at", "path", "backup"}
_SPECIAL = {"model", "host", "tools", "system_prompt"}
_COLUMNS = ("run", "model", "ended", "steps", "tokens in", "tokens out", "cost", "time", "started (UTC)")


class Foot(NamedTuple):
    """The text of a last cell, of which the larger part is kept apart."""

    text: str
    runs: bytes


@dataclass
class RunTexts:
    """The texts of the records that were written last."""

    runs: list[Run] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)

    def copy(self) -> RunTexts:
        """Return a copy, which may be written to while this one stays what the file holds."""
        return RunTexts(self.runs, self.texts)

    def of(self, runs: Sequence[Run], style: Style) -> bytes:
        """Return the array of `runs`; the texts of those that stand at their old places are taken over."""
        known = self.runs
        texts = [
            self.texts[place] if place < len(known) and known[place] is run else _run_text(run, style)
            for place, run in enumerate(runs)
        ]
        self.runs, self.texts = list(runs), texts
        if not texts:
            return b"[]"
        inner, outer = (style.break_at(depth).encode() for depth in (6, 5))
        return b"".join([b"[", inner, (style.comma.encode() + inner).join(texts), outer, b"]"])


def _run_text(run: Run, style: Style) -> bytes:
    return style.text(portable(run.model_dump(mode="json"), run), 6).encode()


def foot_cell(  # noqa: PLR0917 - what a cell is made of
    style: Style,
    session: Session,
    head: str,
    info: SessionInfo,
    runs: RunTexts,
    name: str,
    old: Mapping[str, Any],
) -> Foot:
    """Return the text of the last cell, to be `placed`.

    Parameters
    ----------
    style : Style
        How it is written.
    session : Session
        The session; its messages are not looked at.
    head : str
        The session without its lists, as JSON.
    info : SessionInfo
        What a list tells about it.
    runs : RunTexts
        What is known of the texts of its runs.
    name : str
        The id of the cell.
    old : mapping
        The cell that it takes the place of, of which all that is not ours is kept.
    """
    listed = settled(info.model_dump(mode="json", exclude=_OF_THE_FILE))
    told = {key: style.text(value, 6) for key, value in listed.items()}
    told |= {"at": _PLACE, "front": _FRONT}
    configs = session.model_dump(mode="json", include={"configs"})["configs"]
    rest = json.loads(head)
    unknown = {name: value for name, value in rest.items() if name not in Session.model_fields}
    lines = list(foot_lines(session, info))
    data = {
        "configs": style.text([{"key": key, "settings": portable(config)} for key, config in configs.items()], 5),
        "hash": style.text(fingerprint("\n".join(lines)), 5),
        "kind": style.text("foot", 5),
        "runs": _RECORDS,
        "session": style.text(portable(rest, rest["metadata"], unknown, session.parent), 5),
        SUMMARY: _BEGIN + style.object(dict(sorted(told.items())), 5),
        "version": style.text(VERSION, 5),
    }
    text = own_cell(style, name, lines, data, old)
    return Foot(text, runs.of(session.runs, style))


def placed(foot: Foot, start: int, front: str = "") -> list[bytes]:
    """Return the last cell as bytes that stand at the byte `start` of the file; its summary tells where it stands.

    Parameters
    ----------
    foot : Foot
        The last cell.
    start : int
        Bytes before it.
    front : str
        What its summary tells of the begin of the file.
    """
    before, _, behind = foot.text.partition(_RECORDS)
    between, _, behind = behind.partition(_BEGIN)
    pieces = [before.encode(), foot.runs, between.encode()]
    behind = behind.replace(_PLACE, str(start + sum(map(len, pieces))), 1).replace(_FRONT, f'"{front}"', 1)
    return [*pieces, behind.encode()]


def foot_lines(session: Session, info: SessionInfo) -> Iterator[str]:
    """Yield the source of the last cell, line by line; for the parameters see `foot_cell`."""
    runs = session.runs
    complete = all(run.usage_complete for run in runs)
    usage, cost = spent(info.usage, info.cost, complete=complete)
    yield "***"  # not "---", behind which pandoc looks for settings of its own
    yield ""
    if not runs:
        yield "*no runs yet*"
        return
    what = f"cost {UNKNOWN}" if cost is None else money(cost, complete=complete)
    yield f"**{count(len(runs), 'run')}: {tokens(usage, complete=complete)}, {what}**"
    yield ""
    yield "<details>"
    yield "<summary>runs and settings</summary>"
    yield ""
    shown = list(enumerate(runs))[-_RUNS:]
    if len(shown) < len(runs):
        yield from (f"… {count(len(runs) - len(shown), 'earlier run')} not listed here", "")
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    yield from (_row(place, run) for place, run in shown)
    yield ""
    for place, run in shown:
        yield from _remarks(place, run)
    for key, places in Counter(run.config for _, run in shown if run.config).most_common(_CONFIGS):
        if isinstance(config := session.configs.get(key), Mapping):
            yield from _settings(config, places)
    yield "</details>"


def _row(place: int, run: Run) -> str:
    usage, cost = spent(run.usage, run.cost, complete=run.usage_complete)
    is_whole = run.usage_complete
    cells = (
        f"\\[{place}]" + (" compaction" if run.kind == "compaction" else ""),
        inert(run.model, 60),
        run.stop_reason or "not ended",
        number(run.steps),
        number(usage.input_tokens if usage else None, complete=is_whole),
        number(usage.output_tokens if usage else None, complete=is_whole),
        inert(money(cost, complete=is_whole)),
        seconds(run.duration) if run.duration is not None else "",
        moment(run.started_at).removesuffix(" UTC"),
    )
    return f"| {' | '.join(cells)} |"


def _remarks(place: int, run: Run) -> Iterator[str]:
    said = [] if run.error is None else [f"error: {error_words(run.error.type, run.error.message)}"]
    said += [f"warning: {text}" for text in run.warnings[:5]]
    for text in said:
        yield f"run \\[{place}], {inert(text, 500)}"
        yield ""


def _settings(config: Mapping[str, Any], runs: int) -> Iterator[str]:
    where = f" at {inert(str(config['host']))}" if config.get("host") else ""
    yield f"settings of {count(runs, 'run')}: {inert(str(config.get('model', UNKNOWN)))}{where}"
    yield ""
    tools = config.get("tools") or ()
    names = [str(tool.get("name", "")) if isinstance(tool, Mapping) else str(tool) for tool in list(tools)[:20]]
    rest = {name: value for name, value in config.items() if name not in _SPECIAL}
    if names:
        yield f"{count(len(tools), 'tool')}: {inert(', '.join(names), 300)}"
        yield ""
    if prompt := config.get("system_prompt"):
        yield "system prompt"
        yield ""
        yield from (*_cut(str(prompt), _PROMPT, ""), "")
    if rest:
        yield "other settings"
        yield ""
        text = json.dumps(rest, ensure_ascii=False, indent=2, default=lambda value: one_line(str(value)))
        yield from (*_cut(text, _SETTINGS, "json"), "")


def _cut(text: str, limit: int, language: str) -> list[str]:
    begin, omitted, end = cut(text, limit)
    return fenced(f"{begin}\n{left_out(omitted)}\n{end}" if omitted else begin, language)
