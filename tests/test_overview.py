"""Which sessions there are, as HTML and as text."""

from __future__ import annotations

import pytest
from pages import HOSTILE, read, shown

from cyclops_nb import Agent, FileSessionStore, InMemorySessionStore, Session, UserMessage
from cyclops_nb.display.overview import overview
from cyclops_nb.portal import portal
from cyclops_nb.render.text import visible


class Strange:
    """Answers to whatever it is asked for, but not to everything."""

    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_is_named_in_it_can_act(text):
    """Titles, names, the look of a store, and what it raises."""

    class Hostile(InMemorySessionStore):
        def __repr__(self):
            return text

        async def list(self):
            raise OSError(text)

    session = Session(title=text)
    page, words = shown(overview({"session": session, "by_name": {text: session}, "store": Hostile()}))
    assert "Warning" in page.text
    assert visible(words) == words


def test_variables_of_any_kind_are_passed_over(tmp_path):
    """Modules, classes, and objects that answer strangely."""
    variables = {
        "store": FileSessionStore,
        "strange": Strange(),
        "pytest": pytest,
        "none": None,
        "list": [1, Strange()],
    }
    assert shown(overview(variables))[1] == "Sessions in variables:\nnone"


def test_long_lists_are_cut():
    """The newest of a store, and a bounded number of a list."""
    store = InMemorySessionStore()
    for number in range(25):
        portal().run(store.save(Session(f"study-{number:02}")))
    many = [Session() for _ in range(60)]
    page, words = shown(overview({"agent": Agent("m", session_store=store), "many": many}))
    assert words.count("many[") == 50
    assert words.count("study-") == 20
    assert words.endswith("… 5 more sessions: await store.list() has all of them")
    assert "5 more sessions" in page.text


def test_a_session_is_listed_once_with_all_its_names():
    """Its title is its first question, unless it has one; a stored one says in which variable it is."""
    session, store = Session("study-1"), InMemorySessionStore()
    session.messages.append(UserMessage("Why?"))
    portal().run(store.save(session))
    lines = shown(overview({"a": session, "b": session, "c": [session], "store": store}))[1].splitlines()
    assert lines[1].startswith("a, b, c[0]: Why?, 1 message, 0 runs")
    assert lines[3].startswith("a, b, c[0]: Why?, 1 message")
    assert len(lines) == 4


def test_a_session_may_have_any_name_in_a_mapping():
    """Also one that has no words."""

    class Key:
        def __repr__(self):
            raise RuntimeError

    page = read(overview({"found": {Key(): Session(title="Kept")}})._repr_html_())
    assert "Kept" in page.text
