"""`Agent.ask` where there is no notebook: what is printed, and when."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest
from pydantic import BaseModel
from scenarios import interrupt_when, shape

from cyclops_nb import Middleware, Session, TextPart
from cyclops_nb.errors import InputError, ModelError, SessionBusyError
from cyclops_nb.testing import error, gate, reply, text, tool_call


class Watched(io.StringIO):
    """A stdout that does something when a text was written to it."""

    def __init__(self, awaited, act):
        super().__init__()
        self._awaited = awaited
        self._act = act

    def write(self, written):
        count = super().write(written)
        if self._awaited in self.getvalue():
            self._act()
        return count


class City(BaseModel):
    """An answer."""

    name: str


class Shout(Middleware):
    """Changes answers, so that their deltas are void."""

    async def wrap_model_call(self, request, call_next):
        answer = await call_next(request)
        return answer.model_copy(update={"content": (TextPart(answer.text.upper()),)})


def weather(city: str) -> str:
    """Look."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"11 °C\nin {city}"


class TestPrinting:
    """What stdout gets."""

    def test_text_is_printed_as_it_comes(self, ask, monkeypatch):
        """The second half is not sent before the first was printed."""
        held = gate()
        screen = Watched("half", held.release)
        monkeypatch.setattr(sys, "stdout", screen)
        agent, session = ask(reply(text("half"), held, text(" whole"))), Session()
        response = agent.ask("q", session=session)
        assert screen.getvalue() == "half whole\n"
        assert (response.content, response.stop_reason, response.session) == ("half whole", "completed", session)

    def test_calls_and_results_have_lines_of_their_own(self, ask, capsys):
        """Short ones; a call that failed says so."""
        script = [
            reply(text("I look."), tool_call("weather", {"city": "Paris"}), tool_call("weather", {"city": "Atlantis"})),
            text("It is\n11 °C.\n"),
        ]
        ask(*script, tools=[weather]).ask("Weather?")
        lines = capsys.readouterr().out.splitlines()
        assert lines[:3] == ["I look.", '→ weather(city="Paris")', '→ weather(city="Atlantis")']
        assert "← 11 °C in Paris" in lines
        assert any(line.startswith("← (error, ") and line.endswith("LookupError: no such city") for line in lines)
        assert lines[-2:] == ["It is", "11 °C."]
        assert len(lines) == 7

    def test_a_terminal_gets_nothing_that_it_obeys(self, ask, capsys):
        """Control characters are shown by name, and characters that it does not have are replaced."""
        ask(text("\x1b]0;title\x07 red\x1b[31m")).ask("q")
        assert capsys.readouterr().out == "␛]0;title␇ red␛[31m\n"

    def test_characters_that_a_terminal_does_not_have_are_replaced(self, ask, monkeypatch):
        """The answer is not lost for them."""
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
        assert ask(text("11 °C")).ask("q").content == "11 °C"
        assert written.getvalue() == b"11 ?C\n"

    @pytest.mark.parametrize("case", ["type", "middleware"])
    def test_text_that_may_be_void_is_printed_when_it_is_final(self, ask, capsys, case):
        """Once, as `stream` gives it."""
        if case == "type":
            response = ask(text("no JSON"), text('{"name": "Rome"}')).ask("q", response_model=City)
            assert response.output == City(name="Rome")
            assert capsys.readouterr().out == 'no JSON\n{"name": "Rome"}\n'
        else:
            ask(text("hello"), middleware=[Shout()]).ask("q")
            assert capsys.readouterr().out == "HELLO\n"


class TestEnds:
    """How it ends."""

    def test_raises_what_the_run_failed_with(self, ask, capsys):
        """As `run` does; the session keeps the question."""
        session = Session()
        with pytest.raises(ModelError, match="it broke"):
            ask(error(500, "it broke")).ask("q", session=session)
        assert shape(session) == "u"
        assert capsys.readouterr().out == ""

    def test_raises_at_once_what_is_wrong_with_the_call(self, ask):
        """And asks nothing."""
        agent = ask()
        with pytest.raises(InputError):
            agent.ask("")
        with pytest.raises(InputError):
            agent.ask("q", session="study")
        assert agent.server.requests == []

    def test_ctrl_c_cancels_the_run(self, ask, capsys):
        """What is complete stays, the line ends, and the session can go on."""
        held, session = gate(), Session()
        agent = ask(reply(tool_call("weather", {"city": "Paris"})), reply(text("half"), held), tools=[weather])
        thread = interrupt_when(lambda: held.wait_reached(20))
        with pytest.raises(KeyboardInterrupt):
            agent.ask("q", session=session)
        thread.join()
        assert shape(session) == "uat"
        assert (session.runs[-1].stop_reason, session.busy) == ("cancelled", False)
        assert capsys.readouterr().out.endswith("\n")

    def test_a_stdout_that_breaks_cancels_the_run(self, ask, monkeypatch):
        """Nobody would see the rest, and pay for it."""

        def break_it():
            raise BrokenPipeError

        session = Session()
        monkeypatch.setattr(sys, "stdout", Watched("half", break_it))
        with pytest.raises(BrokenPipeError):
            ask(reply(text("half"), gate(), text("never"))).ask("q", session=session)
        assert (session.runs[-1].stop_reason, session.busy) == ("cancelled", False)

    def test_works_inside_event_loops_and_tools(self, ask, capsys):
        """As the other sync forms do."""

        async def delegate() -> str:
            return agent.replace().ask("inner").content

        agent = ask(tool_call("delegate"), text("inner answer"), text("outer answer"), tools=[delegate])

        async def main():
            return agent.ask("outer").content

        assert asyncio.run(main()) == "outer answer"
        assert "inner answer\n" in capsys.readouterr().out

    def test_a_session_that_is_in_a_run_is_refused(self, ask):
        """At once."""
        held, session = gate(), Session()
        agent = ask(reply(held, text("a")))
        handle = agent.start("q", session=session)
        with pytest.raises(SessionBusyError):
            agent.ask("q", session=session)
        held.release()
        handle.result()
