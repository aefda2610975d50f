"""What holds for whatever a notebook shows: nothing that was said is missing, and the same thing looks the same."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import heat_pump
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import Page, shown
from strategies import broken_transcripts, moderate, sessions

import cyclops_nb
from cyclops_nb import Session, compare
from cyclops_nb.messages import AssistantMessage, ReasoningPart, TextPart, ToolMessage
from cyclops_nb.render.markdown import to_html
from cyclops_nb.render.text import one_line, visible


def letters(text):
    """Return the letters of a text: what no markup is made of."""
    return Counter(letter for letter in visible(text) if letter.isalpha())


def written(html):
    """Return the text of an output, and the addresses and titles of its links."""
    page = Page(str(html))
    return " ".join(
        [page.text, *(attributes.get(name, "") for attributes in page.tags("a") for name in ("href", "title"))]
    )


def squeezed(text):
    return " ".join(visible(text).split())


def short_texts(session):
    """Return what was said in few words: by users and models, in reasoning and in results."""
    parts = [part for message in session.messages for part in message.content]
    return [part.text for part in parts if isinstance(part, TextPart | ReasoningPart) and len(part.text) < 80]


class TestAnySession:
    """Whatever stands in a session."""

    @moderate
    @given(sessions() | sessions(broken_transcripts))
    def test_each_message_is_there_under_its_index(self, session):
        """Valid or not, each message has its index and who speaks in both forms."""
        page, text = shown(session)
        for index, message in enumerate(session.messages):
            for said in (page.text, text):
                assert f"[{index}]" in said
                assert not isinstance(message, ToolMessage) or one_line(message.name) in said

    @moderate
    @given(sessions() | sessions(broken_transcripts))
    def test_each_call_is_there_by_its_name(self, session):
        """No call of a tool is left out, with a result or without."""
        page, text = shown(session)
        for message in session.messages:
            for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
                assert f"{one_line(call.name)}(" in page.text
                assert f"→ {one_line(call.name)}(" in text

    @moderate
    @given(sessions() | sessions(broken_transcripts))
    def test_each_short_text_is_there(self, session):
        """What was said stands in plain text as it was said, and in HTML with all its letters."""
        page, text = shown(session)
        plain, drawn = squeezed(text), letters(page.text)
        for said in short_texts(session):
            assert squeezed(said) in plain
            assert not letters(said) - drawn

    @moderate
    @given(sessions())
    def test_each_run_is_there_with_its_warnings(self, session):
        """How each run ended, what it warned of, and its settings are in both forms."""
        page, text = shown(session)
        for run in session.runs:
            for said in (page.text, squeezed(text)):
                assert (run.stop_reason or "not ended") in said
                assert all(one_line(warning, 500) in said for warning in run.warnings if warning.strip())
        used = {run.config for run in session.runs} & set(session.configs)
        assert page.text.count("settings of run") == text.count("Settings of run") == len(used)


class TestAnyText:
    """Markdown of any kind, and texts that are no Markdown."""

    @moderate
    @given(st.text(st.sampled_from("aBç1 *_`~[]()<>!#|-+=\n:&;$\\\"'/.{}"), max_size=60))
    def test_no_letter_is_lost(self, text):
        """Whatever Markdown takes a text for, each of its letters is on the page, or in the address of a link."""
        assert not letters(text) - letters(written(to_html(text)))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[todo]: fix", "[todo]: fix"),
            ("See [1].\n\n[1]: https://a.example/b 'The \"b\"'", 'See 1. [1]: https://a.example/b "The "b""'),
            ("> [a]: http://b.example", "[a]: http://b.example"),
            ("[a]: javascript:alert(1)", "[a]: javascript:alert(1)"),
        ],
    )
    def test_a_definition_of_a_link_is_shown(self, text, said):
        """A line that says where a link leads does not vanish, whether there is such a link or not."""
        assert Page(str(to_html(text))).text == said

    def test_the_name_of_a_block_of_code_is_shown(self):
        """A file's name behind the fence is part of the answer; a language alone is seen by its colours."""
        page = Page(str(to_html("```python:app/main.py\nx = 1\n```\n\n```python\ny = 2\n```\n\n``` a <b>\nz\n```")))
        assert page.text == "python:app/main.py x = 1 y = 2 a <b> z"


DRAW = """
import sys
from cyclops_nb import Session, compare
session = Session.model_validate_json(sys.stdin.read())
fork = session.fork(1).model_copy(update={"id": "fork"})
for value in (session, fork, compare(session, fork), session.runs[0], session.usage, *session.messages):
    sys.stdout.buffer.write(repr(sorted(value._repr_mimebundle_().items())).encode())
"""


class TestSameBytes:
    """Notebooks are compared by machines."""

    def test_processes_draw_the_same(self):
        """The order of sets and hashes, which differs from process to process, is nowhere to be seen."""
        session = heat_pump.talk()
        session.metadata.update(study="pilot", tags=["a", "b"])
        drawn = {
            subprocess.run(
                [sys.executable, "-c", DRAW],
                input=session.model_dump_json().encode(),
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(cyclops_nb.__file__).parents[1])},
                capture_output=True,
                check=True,
                timeout=60,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(drawn) == 1
        assert b"Heat pump" in drawn.pop()

    def test_a_session_is_drawn_the_same_before_and_after_it_is_stored(self):
        """What a reader saw is what is seen after loading, byte by byte, also in comparisons."""
        session = heat_pump.talk()
        again = Session.model_validate_json(session.model_dump_json())
        for first, second in [(session, again), (compare(session, session), compare(again, again))]:
            assert first._repr_mimebundle_() == second._repr_mimebundle_()
