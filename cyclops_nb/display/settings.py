"""The settings that made the runs of a session: model, host, prompt, tools and the rest, as HTML and as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cyclops_nb.display.html import Cell, fold, table
from cyclops_nb.render.escape import fragment, json_block, label, text_block
from cyclops_nb.render.text import cut, json_text, left_out, one_line
from cyclops_nb.render.words import UNKNOWN, count
from cyclops_nb.session import Session

__all__ = ["settings_blocks", "settings_text"]

_CONFIGS = 5
_SETTINGS = 60
_NAMED_RUNS = 8
_SPECIAL = {"model", "host", "api", "tools", "system_prompt", "cyclops_nb"}
_PROMPT = 1_000  # characters of a system prompt in plain text


def settings_blocks(session: Session) -> list[Markup]:
    """Return the settings of a session's runs as HTML, the latest first."""
    used = _used(session)
    shown = [_block(session.configs[key], numbers) for key, numbers in used[:_CONFIGS]]
    if len(used) > _CONFIGS:
        shown.append(fragment('<div class="cy-note">{}</div>', _rest(used)))
    return shown


def settings_text(session: Session) -> str:
    """Return the settings of a session's runs in words, the latest first; nothing if there are none."""
    used = _used(session)
    lines = [line for key, numbers in used[:_CONFIGS] for line in _lines(session.configs[key], numbers)]
    return "\n".join([*lines, *([_rest(used)] if len(used) > _CONFIGS else [])])


def _used(session: Session) -> list[tuple[str, list[int]]]:
    """Return the keys of the settings, each with the runs that had them."""
    used: dict[str, list[int]] = {}
    for index, run in reversed(list(enumerate(session.runs))):
        if run.config is not None and run.config in session.configs:
            used.setdefault(run.config, []).insert(0, index)
    return list(used.items())


def _rest(used: Sequence[object]) -> str:
    return f"… {count(len(used) - _CONFIGS, 'earlier set')} of settings in session.configs"


def _which(runs: Sequence[int]) -> str:
    some = ", ".join(f"[{index}]" for index in runs[:_NAMED_RUNS]) + (" …" if len(runs) > _NAMED_RUNS else "")
    return f"{'run' if len(runs) == 1 else 'runs'} {some}"


def _block(config: Mapping[str, Any], runs: Sequence[int]) -> Markup:
    where = fragment(" at {}", label(str(config["host"]))) if config.get("host") else ""
    summary = fragment("settings of {}: {}{}", _which(runs), label(str(config.get("model", UNKNOWN))), where)
    prompt = config.get("system_prompt")
    rows = [
        (one_line(name, 60), _cell(value)) for name, value in list(config.items())[:_SETTINGS] if name not in _SPECIAL
    ]
    rows += [(name, label(str(config[name]))) for name in ("api", "cyclops_nb") if config.get(name)]
    tools = config.get("tools") or ()
    return fold(
        summary,
        fragment('<div class="cy-label">{}</div>{}', "system prompt", text_block(str(prompt), 6_000)) if prompt else "",
        table((), rows, label="settings") if rows else "",
        fold(label(_tool_names(tools)), json_block(tools, 6_000), kind="settings") if tools else "",
        kind="settings",
    )


def _lines(config: Mapping[str, Any], runs: Sequence[int]) -> list[str]:
    where = f" at {one_line(str(config['host']))}" if config.get("host") else ""
    lines = [f"Settings of {_which(runs)}: {one_line(str(config.get('model', UNKNOWN)))}{where}"]
    if prompt := config.get("system_prompt"):
        begin, omitted, end = cut(str(prompt), _PROMPT)
        shown = f"{begin} {left_out(omitted)} {end}" if omitted else begin
        lines.append(f"    system prompt: {one_line(shown, 2 * _PROMPT)}")
    lines += [
        f"    {one_line(name, 60)}: {_words(value)}"
        for name, value in list(config.items())[:_SETTINGS]
        if name not in _SPECIAL
    ]
    lines += [f"    {name}: {one_line(str(config[name]))}" for name in ("api", "cyclops_nb") if config.get(name)]
    if tools := config.get("tools"):
        lines.append(f"    {_tool_names(tools)}")
    return lines


def _tool_names(tools: Sequence[Any]) -> str:
    names = [str(tool.get("name", "")) if isinstance(tool, Mapping) else str(tool) for tool in tools[:20]]
    return f"{count(len(tools), 'tool')}: {one_line(', '.join(names))}"


def _cell(value: Any) -> Cell:
    return json_block(value, 2_000) if isinstance(value, Mapping | list | tuple) else _words(value)


def _words(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json_text(value), 500)
