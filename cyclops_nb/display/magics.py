"""The magics of a notebook: ``%%ask``, a cell that is a prompt, and ``%sessions``.

A cell of ``%%ask`` runs to its end and raises what its run failed with, so that Restart and Run All does what it does
with cells of code. Whatever is wrong with a cell is found before anything is changed: no variable is made, and nothing
is asked.
"""

from __future__ import annotations

import builtins
import keyword
import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from cyclops_nb.agent import Agent
from cyclops_nb.display.html import notice, page
from cyclops_nb.display.live import show_live
from cyclops_nb.display.overview import Overview, overview
from cyclops_nb.display.printing import write
from cyclops_nb.display.prompts import filled
from cyclops_nb.displayable import has_kernel
from cyclops_nb.errors import CyclopsError, InputError
from cyclops_nb.handle import RunHandle
from cyclops_nb.readings import raise_failure
from cyclops_nb.render.escape import fragment
from cyclops_nb.render.text import visible
from cyclops_nb.session import Session

__all__ = ["AgentMagics", "load_ipython_extension", "unload_ipython_extension"]

_RESPONSE = "_response"
_HANDLE = "_handle"
_NUMBERED = re.compile(r"(.+?)_\d+")
_USAGE = (
    "A cell begins with %%ask [name of a session] [--agent NAME] [--fork] [--at INDEX] [--bg], and the prompt stands "
    "below that line"
)
_NAMES = {"cell": "ask", "line": "sessions"}


class _Target:
    """The session that a cell asks in, and the variable that it stands in or will stand in."""

    def __init__(self, name: str, session: Session, origin: str = "") -> None:
        self.name = name
        self.session = session
        self.origin = origin
        """How the session came about, as code, if it is a fork."""


@magics_class
class AgentMagics(Magics):
    """``%%ask`` and ``%sessions``."""

    shell: Any

    @magic_arguments("%ask")
    @argument("name", nargs="?", default="session", help="variable of the session to go on with; made if missing")
    @argument("--agent", metavar="NAME", help="variable of the agent (default: agent, or the only one there is)")
    @argument(
        "--fork", action="store_true", help="ask in a fork, which is put into the first free of NAME_2, NAME_3, …"
    )
    @argument("--at", type=int, metavar="INDEX", help="fork before the message with that index; -2 is the last but one")
    @argument("--bg", action="store_true", help="return at once; the answer goes on coming in this cell")
    @cell_magic
    def ask(self, line: str, cell: str) -> None:
        """Ask an agent what stands in the cell, and show the run as it goes on.

        {variable} and other expressions of Python are filled in; figures, images and tables go along as such. Braces
        in code, LaTeX and JSON stay as they are; {{doubled}} ones around a name become single. Then _response has all
        that came of the run; with --bg it is _handle.result() that waits for that.
        """
        try:
            arguments = self._arguments(line)
            variables = self._variables()
            target = _target(arguments, variables)
            agent = _agent(arguments.agent, variables)
            prompt = filled(_written(cell, target.name), variables)
        except CyclopsError as error:
            raise _in_short(error) from error.__cause__
        if arguments.bg:
            self._start(agent, prompt, target)
        else:
            self._ask(agent, prompt, target)

    def _ask(self, agent: Agent, prompt: Any, target: _Target) -> None:
        handles: list[RunHandle] = []

        def begun(handle: RunHandle) -> None:
            handles.append(handle)
            self._keep(target)

        plan = {"input": prompt, "session": target.session, "response_model": None, "durability": None}
        try:
            response = agent._shown(plan, begun)  # noqa: SLF001 - the other user of it beside Agent.ask
            raise_failure(response)
        except CyclopsError as error:
            raise _in_short(error) from error.__cause__
        finally:
            if handles:
                self._push({_RESPONSE: handles[0].response, _HANDLE: handles[0]})

    def _start(self, agent: Agent, prompt: Any, target: _Target) -> None:
        try:
            handle = agent.start(prompt, session=target.session)
        except CyclopsError as error:
            raise _in_short(error) from error.__cause__
        self._keep(target)
        self._push({_HANDLE: handle})
        self.shell.user_ns.pop(_RESPONSE, None)  # that of an earlier run is not to be taken for this one's
        if has_kernel():
            show_live(handle)
        else:
            write(f"{handle!r}: {_HANDLE}.result() waits for it\n")

    @line_magic
    def sessions(self, line: str) -> Overview:
        """Show the sessions that there are: in variables, and in the stores of agents and of variables."""
        if line.strip():
            raise _in_short(InputError(f"%sessions takes no arguments, not {line.strip()!r}"))
        return overview(self._variables())

    def _arguments(self, line: str) -> Namespace:
        """Return what stands behind ``%%ask``."""
        try:
            arguments: Namespace = parse_argstring(self.ask, line)
        except (UsageError, ValueError) as error:  # a quotation mark without another one is a ValueError
            raise InputError(f"{error}. {_USAGE}") from None
        return arguments

    def _variables(self) -> dict[str, Any]:
        """Return what the user has named, and not what IPython has."""
        hidden = self.shell.user_ns_hidden
        names = self.shell.user_ns
        return {name: value for name, value in names.items() if name not in hidden or hidden[name] is not value}

    def _push(self, names: Mapping[str, Any]) -> None:
        self.shell.push(dict(names))

    def _keep(self, target: _Target) -> None:
        """Put the session into its variable, and say where a fork has gone."""
        self._push({target.name: target.session})
        if not target.origin:
            return
        said = f"{target.name} = {target.origin}"
        if has_kernel():
            html = page(notice(fragment("<code>{}</code>", said), kind="info"), kind="asked")
            display({"text/html": str(html), "text/plain": said}, raw=True)
        else:
            write(f"{said}\n")


def _target(arguments: Namespace, variables: Mapping[str, Any]) -> _Target:
    """Return where a cell asks; nothing is changed yet."""
    name = arguments.name
    session = variables.get(name)
    if name not in variables:
        _check_name(name)
    elif not isinstance(session, Session):
        raise InputError(
            f"the variable {name!r} is no Session but of type {type(session).__name__}: give the session another name, "
            "%%ask other_name"
        )
    is_fork = arguments.fork or arguments.at is not None
    if not is_fork:
        return _Target(name, Session(title=None if name == "session" else name) if session is None else session)
    if session is None:
        raise InputError(f"there is no session {name!r} to fork yet: ask in it first, %%ask {name}")
    count = len(session.messages)
    if arguments.at is not None and not -count <= arguments.at <= count:
        raise InputError(f"there is no place {arguments.at} in {name!r}, which has {count} messages")
    numbered = _NUMBERED.fullmatch(name)
    base = numbered[1] if numbered else name
    number = next(number for number in range(2, len(variables) + 3) if f"{base}_{number}" not in variables)
    fork = f"{base}_{number}"
    title = fork if session.title == name else None  # two of the same title would be hard to tell apart
    options = [] if arguments.at is None else [f"at={arguments.at}"]
    options += [] if title is None else [f"title={title!r}"]
    return _Target(fork, session.fork(arguments.at, title=title), f"{name}.fork({', '.join(options)})")


def _written(cell: str, name: str) -> str:
    """Return what stands in a cell."""
    if not cell.strip():
        raise InputError(
            "there is no prompt: write it below the line with %%ask. What stands at the end of a session is answered "
            f"by agent.ask(session={name})"
        )
    return cell.strip("\r\n").rstrip()


def _check_name(name: str) -> None:
    """Refuse what can be no variable of a session."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"{name!r} cannot be the name of a variable: %%ask my_session, and the prompt below that line")
    if hasattr(builtins, name) or name in {_RESPONSE, _HANDLE}:
        raise InputError(f"{name!r} is taken, by Python or by %%ask itself: give the session another name")


def _agent(name: str | None, variables: Mapping[str, Any]) -> Agent:
    """Return the agent that is meant."""
    if name is not None:
        if isinstance(found := variables.get(name), Agent):
            return found
        said = f"it is of type {type(found).__name__}" if name in variables else "there is no such variable"
        raise InputError(f"--agent {name} is to name a variable with an Agent, but {said}")
    agents = {name: value for name, value in variables.items() if isinstance(value, Agent) and not name.startswith("_")}
    if "agent" in agents:
        return agents["agent"]
    if len(set(map(id, agents.values()))) == 1:
        return next(iter(agents.values()))
    if agents:
        names = ", ".join(sorted(agents))
        raise InputError(f"there are several agents ({names}), and none is called 'agent': say which, --agent NAME")
    raise InputError('there is no agent yet: make one first, such as agent = Agent("gpt-4o-mini")')


def _in_short(error: CyclopsError) -> CyclopsError:
    """Have IPython show what an error says, without the lines of ours and its own that have led to it."""
    lines = [f"{type(error).__name__}: {visible(str(error))}"]
    vars(error)["_render_traceback_"] = lambda: lines
    return error


def load_ipython_extension(ipython: Any) -> None:
    """Add the magics to a shell; what ``%load_ext cyclops_nb`` calls."""
    ipython.register_magics(AgentMagics)


def unload_ipython_extension(ipython: Any) -> None:
    """Take them away again."""
    for kind, name in _NAMES.items():
        ipython.magics_manager.magics[kind].pop(name, None)
