"""Which reply comes next: a list in order, the same one each time, or what a function says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing.pieces import Failure, Raw, Reply
from cyclops_nb.testing.recorded import RecordedRequest

__all__ = ["Answering", "Script", "ScriptLike"]

Answering = Reply | Failure | Raw
"""What answers a request."""

_Entry = Answering | Callable[[RecordedRequest], Answering]

ScriptLike = _Entry | Sequence[_Entry]
"""What a script may be."""

# the openai client would try a 500 again, and hide what is wrong with the script behind its waits
_NO_RETRY = (("x-should-retry", "false"),)


class Script:
    """The replies of a server, and how far it has come; used in the server's thread, extended from any.

    Parameters
    ----------
    script
        A list of replies, one for each request; or one reply, or a function, for all of them.
    repeat : bool
        Whether a list starts again when it is used up.

    Raises
    ------
    ConfigError
        If the script, or an entry of it, is none of these.
    """

    def __init__(self, script: ScriptLike, *, repeat: bool = False) -> None:
        self._always = None if isinstance(script, Sequence) else _checked(script, "the script")
        self._entries: list[_Entry] = []
        self._repeat = repeat
        self._asked = 0
        self._position = 0
        if isinstance(script, Sequence):
            self._entries += [_checked(entry, f"script[{index}]") for index, entry in enumerate(script)]
            if repeat and not self._entries:
                raise ConfigError("repeat=True needs a script with at least one reply")
        elif repeat:
            raise ConfigError("one reply or function answers every request already: leave out repeat=True")

    def add(self, entries: Sequence[_Entry]) -> None:
        """Append replies to a list."""
        if self._always is not None:
            raise ConfigError("this script is one reply or function for all requests: nothing can be added to it")
        self._entries += [_checked(entry, f"reply {index}") for index, entry in enumerate(entries)]

    def next(self, request: RecordedRequest) -> tuple[Answering, int]:
        """Give the reply to a request, and its number from 1."""
        entry = self._always or self._listed()
        self._asked += 1
        if isinstance(entry, Answering):
            return entry, self._asked
        try:
            reply: object = entry(request)
        except Exception as error:  # noqa: BLE001 - whatever a test's function raises is shown to the client
            return _failure(f"The script's function raised {type(error).__name__}: {error}"), self._asked
        if not isinstance(reply, Answering):
            return _failure(f"The script's function gave {reply!r}, which is no reply."), self._asked
        return reply, self._asked

    def _listed(self) -> _Entry:
        index = self._position
        count = len(self._entries)
        if self._repeat or index < count:
            self._position += 1
            return self._entries[index % count]
        return _failure(
            f"The script has only {count} {'reply' if count == 1 else 'replies'}, and this is request "
            f"{self._asked + 1}. Add a reply to it, or use repeat=True."
        )


def _failure(message: str) -> Failure:
    return Failure(500, message, "server_error", "script_failed", headers=_NO_RETRY)


def _checked(entry: object, where: str) -> _Entry:
    if isinstance(entry, Answering) or callable(entry):
        return entry
    raise ConfigError(
        f"{where} is {entry!r}, no reply; a script is made of text(), tool_call(), reply(), error(), "
        "replay() and the like, and pieces such as gate() go inside a reply()"
    )
