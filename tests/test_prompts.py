"""Variables in prompts: what is filled in, and what is left as the user has written it."""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image
from strategies import moderate

from cyclops_nb.agent import Agent
from cyclops_nb.display.prompts import filled
from cyclops_nb.errors import InputError
from cyclops_nb.messages import AssistantMessage, ImagePart, TextPart
from cyclops_nb.response import AgentResponse
from cyclops_nb.runs import Run
from cyclops_nb.session import Session

TABLE = pd.DataFrame({"city": ["Paris", "Rome"], "people": [2, 3]})
VALUES = {
    "name": "Ann",
    "n": 5,
    "i": 2,
    "price": 3.456,
    "words": ["one", "two"],
    "row": {"key": "value"},
    "text": "braces {n} and {{n}}",
    "table": TABLE,
    "名前": "Kenji",
}


def fill(template, **more):
    return filled(template, VALUES | more)


class TestFields:
    """What is replaced."""

    @pytest.mark.parametrize(
        ("template", "prompt"),
        [
            ("{name}", "Ann"),
            ('Translate "{name}" for {name}\'s friend', 'Translate "Ann" for Ann\'s friend'),
            ("{words[0]}, {row['key']}, {name.upper()}, {len(words)}", "one, value, ANN, 2"),
            ('{", ".join(words)}', "one, two"),
            ("{n + i} {-n} {n if i else name} {max(n, i)}", "7 -5 5 5"),
            ("{price:.2f} {price!r:>8} {n:03d} {name!r} {n:,}", "3.46    3.456 005 'Ann' 5"),
            ("{words} {row}", "['one', 'two'] {'key': 'value'}"),
            ("{name}{n}{i}", "Ann52"),
            ("数据{name}分析 und{name}", "数据Ann分析 und{name}"),
            ("{名前}", "Kenji"),
            ("für {name}: {n}%", "für Ann: 5%"),
        ],
    )
    def test_are_expressions_with_a_name_in_them(self, template, prompt):
        """Variables, expressions, conversions and formats are what they are in an f-string."""
        assert fill(template) == prompt

    @pytest.mark.parametrize(
        ("template", "prompt"),
        [
            ("{{name}}", "{name}"),
            ("{{{name}}}", "{Ann}"),
            ("{{{{name}}}}", "{{name}}"),
            ("{{nobody}}", "{nobody}"),
            ('{"a": {n}}', '{"a": 5}'),
        ],
    )
    def test_doubled_braces_are_single_ones_of_the_text(self, template, prompt):
        """As in an f-string; a brace that has no partner is text."""
        assert fill(template) == prompt

    def test_what_is_filled_in_is_not_filled_again(self):
        """Braces in data are data."""
        assert fill("{text}") == "braces {n} and {{n}}"

    def test_are_filled_in_by_the_names_of_the_notebook_alone(self):
        """A name of Python that is called is known, one that stands alone is a placeholder of somebody's."""
        assert fill("{len(name)}") == "3"
        with pytest.raises(InputError, match="no variable 'id'"):
            fill("{id}")


class TestBraces:
    """What stays as it was written."""

    @pytest.mark.parametrize(
        "template",
        [
            '{"name": 1, "b": {"n": []}}',
            "{'name'} {} {0} {1 + 2} {3,4} {name, n} {name | n} {name & n} {name and n} {name in words}",
            "{ name } {name!z} {name:red} {n: 1} {name",
            "body {color:red} and a { return name; }",
            "{{ user.name }} and {% if name %}",
            r"\frac{n}{i} \mathbf{n} x_{i} e^{n} \sum_{i=1}^{n} {n \choose i} \{n\} \left\{n\right\}",
            "${HOME} ${name} a{n} f(n){i} x[0]{n}",
            "```python\nprint(f'{name}: {words[i]}')\nfor {n} in x\n```",
            "~~~\na {name}\n~~~",
            "unclosed ```\n```\na {name}",
            "say `x{name}` and `d['{name}']` and ``a ` {name}``",
            "print(f'{name}', f\"{n} and {i}\", rf'{n}')",
            "line {name\n} break",
        ],
    )
    def test_of_code_formulas_and_data(self, template):
        """Nobody would take these for fields of a prompt."""
        assert fill(template) == template

    def test_but_a_field_that_is_all_of_the_code_is_filled_in(self):
        """A variable in a code span, or on a line of its own in a fence, is how one quotes code."""
        assert fill("`{name}` and ``{n}``") == "`Ann` and ``5``"
        assert fill("Explain:\n```python\n  {name}\nx{name}\n```\n{n}") == "Explain:\n```python\n  Ann\nx{name}\n```\n5"

    @moderate
    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{")))
    def test_text_without_fields_is_as_it_was(self, template):
        """Any text, to the last blank."""
        assert fill(template) == template

    @moderate
    @given(st.text(st.sampled_from("{}n i\"'`:!,.\n_$\\1[](f~"), max_size=60))
    def test_any_braces_are_filled_left_or_refused(self, template):
        """Nothing else is raised, nothing is said aside, and what is no brace and no field stays."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                prompt = fill(template, n="n", i="i", f="f")
            except InputError:
                return
        assert set(prompt) <= set(template)

    @pytest.mark.parametrize(
        "template",
        [
            '{"a": 1, "b": {"n": [1]}} ' * 20_000,
            "{n} " * 5_000,
            "`{n}` " * 5_000,
            "{" * 100_000,
            "`" * 50_000,
            "f'" * 50_000,
        ],
        ids=["JSON", "fields", "spans", "braces", "backticks", "quotes"],
    )
    def test_long_prompts_take_little_time(self, template):
        """Data of half a megabyte is put into prompts."""
        began = time.perf_counter()
        fill(template)
        assert time.perf_counter() - began < 5


class TestObjects:
    """Values that are no text."""

    def test_tables_stand_on_lines_of_their_own(self):
        """As text, and their columns below each other."""
        lines = "    city  people\n0  Paris       2\n1   Rome       3"
        assert fill("{table}") == lines
        assert fill("Which of {table} is larger?") == f"Which of \n{lines}\n is larger?"
        assert fill("Here:\n{table}\nWhich?") == f"Here:\n{lines}\nWhich?"
        assert fill("{table}{table}") == f"{lines}\n{lines}"

    def test_pictures_stand_where_they_were_written(self):
        """A figure, an image, and those in a list."""
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([1, 4])
        image = Image.new("RGB", (2, 2))
        before, drawn, between, one, two = fill("See {figure} and {images}", figure=figure, images=[image, image])
        assert (before, between) == ("See ", " and ")
        assert all(isinstance(part, ImagePart) for part in (drawn, one, two))
        assert fill("{image} ", image=image) == [one]

    def test_parts_and_answers_are_what_they_say(self):
        """A part goes along as it is; of a response or a message it is the text."""
        part = ImagePart(url="https://example.org/a.png")
        assert fill("{part}!", part=part) == [part, "!"]
        assert fill("{part}", part=TextPart("said")) == "said"
        assert fill("{answer}", answer=AssistantMessage("Yes.")) == "Yes."
        run = Run(session_id="s", model="m")
        assert fill("{response}", response=AgentResponse(run, content="No.")) == "No."

    def test_a_path_is_its_name(self):
        """Writing about a file does not send it."""
        assert fill("Read {path}", path=Path("secret.txt")) == "Read secret.txt"

    @pytest.mark.parametrize(
        "value",
        [len, re, Path, object(), lambda: 1, "".join, Session("study-1"), Agent("m", base_url="http://127.0.0.1:1")],
        ids=lambda value: type(value).__name__,
    )
    def test_what_has_no_text_is_refused(self, value):
        """An address in memory says nothing to a model, and neither do the fields of a session."""
        with pytest.raises(InputError, match="has no text of its own, and nothing was asked"):
            fill("{value}", value=value)


class TestErrors:
    """What is refused, in words that help."""

    def test_an_unknown_name(self):
        """With the name that may be meant, and what to write if none is."""
        with pytest.raises(
            InputError, match=r"\{nmae\} cannot .* no variable 'nmae' \(is it 'name'\?\).* \{\{nmae\}\}"
        ):
            fill("Hello {nmae}")
        with pytest.raises(InputError, match="no variable 'unheard_of'"):
            fill("{len(unheard_of)}")

    @pytest.mark.parametrize(
        ("template", "said"),
        [
            ("{words[7]}", "IndexError: list index out of range"),
            ("{row['x']}", "KeyError: 'x'"),
            ("{name.x}", "AttributeError"),
            ("{name:.2f}", "ValueError: Unknown format code"),
            ("{1 / (n - n)}", "ZeroDivisionError"),
        ],
    )
    def test_an_expression_that_fails(self, template, said):
        """The field, and what was wrong with it."""
        with pytest.raises(
            InputError, match=rf"^{re.escape(template)} cannot be filled in, and nothing was asked: {said}"
        ):
            fill(template)

    def test_an_object_that_fails(self):
        """Whatever it raises, and a picture that cannot be drawn is no text either."""

        class Silent:
            def __str__(self):
                raise RuntimeError("no words")

        class Undrawn:
            def _repr_png_(self):
                raise OSError("no ink")

        with pytest.raises(InputError, match="RuntimeError: no words"):
            fill("{it}", it=Silent())
        with pytest.raises(InputError, match="no ink"):
            fill("{it}", it=Undrawn())
