"""Sums of what runs have cost: by what they have in common, with what is not known said, for the eye and for papers."""

import csv
import html
import io
import re
from datetime import datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pages import read
from strategies import moderate, sessions, texts

from cyclops_nb import InputError, Run, Session, Usage, UsageTable, runs_frame, usage_table
from cyclops_nb.display.register import mimebundle
from cyclops_nb.frames.tables import latex_text
from cyclops_nb.render.text import one_line

DTYPES = {
    "runs": "Int64",
    "steps": "Int64",
    "requests": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "cached_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost": "Float64",
    "duration": "Float64",
    "without_usage": "Int64",
    "without_cost": "Int64",
    "incomplete": "Int64",
    "rating": "Float64",
}
BY = ["model", "session", "branch", "kind", "day", "stop_reason", "config.temperature"]
HOSTILE = [
    "a|b",
    "<script>alert(1)</script>",
    "*x* [y](javascript:z) `|`",
    r"\input{x} & 5% $y_1$ # ^~",
    '"[2em]',
    "=1+1",
    "\n| a | b |",
]


def run(session_id="s", **fields):
    fields = {"usage": Usage(1, 10, 5), "cost": 0.5, "steps": 1, "duration": 1.0, **fields}
    return Run(session_id=session_id, **{"model": "m", **fields})


def session(*runs, **fields):
    return Session("s", runs=runs, **fields)


def sums(table, *names):
    """Return some numbers of each row, by its name."""
    return {row.name: tuple(getattr(row, name) for name in names) for row in table.rows}


def costs(table):
    """Return the cells for costs as the table shows them, the total last."""
    words = table.words()
    place = words.header.index("cost")
    return [line[place] for line in (*words.rows, *words.footer)]


class TestBy:
    def test_model(self):
        """By default there is a row for each model that was asked for, in the order of their first runs."""
        table = usage_table(session(run(model="b"), run(model="a", usage=Usage(2, 100, 50)), run(model="b", cost=0.25)))
        assert list(sums(table)) == ["b", "a"]
        assert {name: len(row.runs) for name, row in zip("ba", table.rows, strict=True)} == {"b": 2, "a": 1}
        assert sums(table, "cost", "steps", "duration") == {"b": (0.75, 2, 2.0), "a": (0.5, 1, 1.0)}
        assert table.rows[1].usage == Usage(2, 100, 50)
        assert table.total.usage == Usage(4, 120, 60)

    def test_kind_and_stop_reason(self):
        """What is a compaction, and what did not end well, can be told apart from the rest."""
        table = session(run(stop_reason="completed"), run(kind="compaction"), run(stop_reason="error"))
        assert list(sums(usage_table(table, by="kind"))) == ["run", "compaction"]
        assert list(sums(usage_table(table, by="stop_reason"))) == ["completed", "not ended", "error"]

    def test_day(self):
        """Days are those of UTC, the earliest first."""
        moments = ["2026-03-02T23:59:00-01:00", "2026-03-02T00:00:00Z", "2026-03-03T12:00:00Z"]
        table = usage_table(session(*(run(started_at=datetime.fromisoformat(moment)) for moment in moments)), by="day")
        assert {name: count for name, (count,) in sums(table, "steps").items()} == {"2026-03-02": 1, "2026-03-03": 2}

    def test_a_setting(self):
        """A row for each value of a setting, where 0 and 0.0 are one, a default is said, and unknown settings too."""
        configs = {"a": {"temperature": 0}, "b": {"temperature": 0.0}, "c": {"temperature": 1}, "d": {}}
        keys = ["a", "b", "c", "d", "lost", None]
        table = usage_table(session(*(run(config=key) for key in keys), configs=configs), by="config.temperature")
        assert sums(table, "steps") == {"0": (2,), "1": (1,), "(default)": (1,), None: (2,)}
        assert table.words().header[0] == "temperature"
        assert [line[0] for line in table.words().rows] == ["0", "1", "(default)", "unknown"]
        assert table.to_frame()["config.temperature"].tolist() == ["0", "1", "(default)", pd.NA]

    def test_a_setting_that_is_no_text(self):
        """Lists and objects are named by their JSON."""
        configs = {"a": {"stop": ["x"]}, "b": {"stop": "x"}}
        table = usage_table(session(run(config="a"), run(config="b"), configs=configs), by="config.stop")
        assert list(sums(table)) == ['["x"]', "x"]

    @pytest.mark.parametrize("by", ["modl", "", "temperature", "config.temprature", "config.", None, 3, ["model"]])
    def test_anything_else_is_refused(self, by):
        """What there is not is refused, saying what there is."""
        with pytest.raises(InputError, match=r"cannot be summed by .*'model', .*'branch', or a setting such as"):
            usage_table(session(run()), by=by)

    def test_what_forks_share(self):
        """By session each run is in one row; by branch it is in each that has it; the total has it once."""
        origin = Session("origin", title="first", runs=[run("origin")])
        fork = origin.fork(title="second")
        fork.runs.append(run(fork.id, cost=0.25))
        for sources in ((origin, fork), (fork, origin)):
            by_session = usage_table(*sources, by="session")
            assert sums(by_session, "cost") == {"first": (0.5,), "second": (0.25,)}
            by_branch = usage_table(*sources, by="branch")
            assert sums(by_branch, "cost") == {"first": (0.5,), "second": (0.75,)}
            assert by_branch.total.cost == by_session.total.cost == 0.75
            assert {row.session_id for row in by_branch.rows} == {"origin", fork.id}

    def test_sessions_without_runs(self):
        """A branch in which nothing was asked yet has a row of zeros, which are known."""
        table = usage_table(Session("a"), Session("b", runs=[run("b")]), by="branch")
        assert sums(table, "cost", "usage") == {"a": (0.0, Usage()), "b": (0.5, Usage(1, 10, 5))}

    def test_sessions_of_one_title_are_told_apart(self):
        """Forks have their origin's title, so the id stands behind it."""
        origin = Session("origin", title="Capitals", runs=[run("origin")])
        fork = origin.fork()
        assert list(sums(usage_table(origin, fork, by="branch"))) == [
            "Capitals (origin)",
            f"Capitals ({fork.id[:8]})",
        ]

    def test_a_loaded_copy_is_the_same_session(self):
        """A session that is given beside a loaded copy of itself is one branch, counted once."""
        one = session(run())
        copy = Session.model_validate_json(one.model_dump_json())
        for by in BY:
            table = usage_table(one, [copy], one, by=by)
            assert [len(row.runs) for row in table.rows] == [1]
            assert table.session_count == 1


class TestUnknown:
    def test_costs_are_counted(self):
        """A sum that lacks some costs is a lower bound, and says how many."""
        table = usage_table(session(run(cost=0.05), run(cost=None), run(cost=None)))
        assert costs(table) == ["≥$0.0500 and 2 unknown"]
        row = table.to_frame().iloc[0]
        assert (row["cost"], row["without_cost"], row["runs"]) == (0.05, 2, 3)

    def test_nothing_known_is_unknown(self):
        """Where no cost and no tokens are known the sum is not 0 but unknown."""
        table = usage_table(
            session(run(cost=None, usage=None, duration=None)), Session("t", runs=[run("t")]), by="session"
        )
        assert table.words().rows[0][1:] == ["1", "1", "unknown", "unknown", "unknown", "unknown"]
        assert table.to_frame().loc[0, ["cost", "input_tokens", "requests", "duration"]].isna().all()
        assert table.words().footer == [["all", "2", "2", "≥10", "≥5", "≥$0.5000 and 1 unknown", "1.0 s"]]

    def test_stopped_completions_make_it_a_lower_bound(self):
        """A run that used more than it could report makes its sums lower bounds, and one with nothing is unknown."""
        table = usage_table(session(run(), run(usage_complete=False)))
        assert table.words().rows[0][3:6] == ["≥20", "≥10", "≥$1.00"]
        nothing = run(usage=Usage(), cost=0.0, usage_complete=False)
        table = usage_table(session(run(), nothing))
        assert costs(table) == ["≥$0.5000 and 1 unknown"]
        assert table.to_frame().loc[0, ["without_usage", "without_cost", "incomplete"]].tolist() == [1, 1, 1]

    def test_what_costs_nothing_is_known(self):
        """A local model costs 0, which is no unknown."""
        assert costs(usage_table(session(run(cost=0.0)))) == ["$0"]

    @moderate
    @given(st.lists(sessions(), min_size=1, max_size=3), st.sampled_from(BY))
    def test_sums_are_what_was_spent(self, items, by):
        """Whatever it is by, the total is over all distinct runs; rows add up to it, but for branches."""
        for number, one in enumerate(items):
            one.id = f"s{number}"
        family = [*items, items[0].fork()]
        table = usage_table(family, by=by)
        frame = runs_frame(family)
        assert len(table.total.runs) == len(frame)
        assert (table.total.usage or Usage()).input_tokens == int(frame["input_tokens"].sum())
        assert (table.total.cost or 0) == pytest.approx(float(frame["cost"].sum()))
        assert table.total.steps == int(frame["steps"].sum())
        if by == "branch":
            assert [row.steps for row in table.rows] == [sum(run.steps for run in one.runs) for one in family]
        else:
            found = table.to_frame()
            assert int(found["runs"].sum()) == len(frame)
            assert float(found["cost"].sum()) == pytest.approx(float(frame["cost"].sum()))


class TestFrame:
    @pytest.mark.parametrize("by", BY)
    def test_columns_are_the_same_for_no_rows(self, by):
        """Columns and dtypes are the same for no runs at all, and as the docstring tells."""
        expected = {by: "string", **({"session_id": "string"} if by in {"session", "branch"} else {}), **DTYPES}
        full = session(run(), run(usage=None, cost=None))
        for frame in (usage_table(by=by).to_frame(), usage_table(full, by=by).to_frame()):
            assert {name: dtype.name for name, dtype in frame.dtypes.items()} == expected
        told = dict(line.split()[:2] for line in UsageTable.to_frame.__doc__.splitlines() if len(line.split()) > 1)
        assert {name: told[name] for name in DTYPES} == DTYPES

    def test_as_csv(self, tmp_path):
        """CSV has the plain numbers of the frame, as a text or in a file."""
        table = usage_table(session(run(model='a,"b"\n'), run(cost=None)))
        (first, second) = csv.DictReader(io.StringIO(table.to_csv()))
        assert (first["model"], first["cost"], second["cost"], second["without_cost"]) == ('a,"b"\n', "0.5", "", "1")
        assert table.to_csv(tmp_path / "usage.csv") is None
        assert (tmp_path / "usage.csv").read_text("utf-8") == table.to_csv()


class TestShown:
    table = usage_table(
        Session("a", title="first", runs=[run("a", usage=Usage(1, 1200, 34, 1000, 5))]),
        Session("b", title="second", runs=[run("b", cost=None)]),
        by="session",
    )

    def test_as_text(self):
        """As text it is a table with the total last; columns that are all 0 are left out."""
        assert str(self.table) == (
            "Usage by session: 2 sessions, 2 runs\n"
            "\n"
            "session  runs  steps  tokens in  cached  tokens out  reasoning                    cost   time\n"
            "first       1      1      1,200   1,000          34          5                 $0.5000  1.0 s\n"
            "second      1      1         10       0           5          0                 unknown  1.0 s\n"
            "all         2      2      1,210   1,000          39          5  ≥$0.5000 and 1 unknown  2.0 s"
        )

    def test_as_html(self):
        """As HTML it is a table whose last row is its foot."""
        bundle = mimebundle(self.table)
        page = read(bundle["text/html"])
        assert "Usage by session 2 sessions, 2 runs" in page.text
        assert "≥$0.5000 and 1 unknown" in page.text
        assert len(page.tags("tfoot")) == 1
        assert bundle["text/plain"] == str(self.table)

    def test_one_row_has_no_total(self):
        """A total of one row would say the same again."""
        table = usage_table(session(run()))
        assert table.words().footer == []
        assert read(mimebundle(table)["text/html"]).tags("tfoot") == []

    def test_of_nothing(self):
        """Without runs it says so."""
        assert str(usage_table()) == "Usage by model: 0 sessions, 0 runs"
        assert "0 runs" in read(mimebundle(usage_table())["text/html"]).text

    def test_branches_say_what_they_share(self):
        """That rows have runs in common is said where they do."""
        origin = session(run())
        note = "Runs that branches have in common"
        assert note in str(usage_table(origin, origin.fork(), by="branch"))
        assert note in read(mimebundle(usage_table(origin, origin.fork(), by="branch"))["text/html"]).text
        assert note not in str(usage_table(origin, by="branch"))

    def test_many_rows_are_bounded(self):
        """Of a thousand branches some are shown, the rest is a number; Markdown has all that was asked for."""
        table = usage_table([Session(runs=[]) for _ in range(1000)], by="branch")
        for shown in mimebundle(table).values():
            assert "900 more rows in to_frame()" in html.unescape(shown)
            assert len(shown) < 60_000
        assert table.to_markdown().count("\n") == 1002

    @pytest.mark.parametrize("name", HOSTILE)
    def test_hostile_names_are_text(self, name):
        """A name is text in HTML, in Markdown and in LaTeX, whatever it looks like."""
        table = usage_table(session(run(model=name), run()))
        page = read(mimebundle(table)["text/html"])
        assert one_line(name) in page.text or " ".join(one_line(name).split()) in page.text
        assert cells(table.to_markdown())[1][0] == " ".join(one_line(name).split())
        assert unlatex(table.to_latex().splitlines()[4].partition(" & 1")[0]) == one_line(name)

    @moderate
    @given(st.lists(texts, min_size=1, max_size=3, unique=True))
    def test_any_names(self, names):
        """In Markdown and LaTeX any names stay in their cells and are read as they are."""
        table = usage_table(session(*(run(model=name) for name in names)))
        shown = [row.name for row in table.rows]
        found = cells(table.to_markdown())
        assert {len(line) for line in found} == {7}
        assert [line[0] for line in found[1 : len(shown) + 1]] == [" ".join(one_line(name).split()) for name in shown]
        assert len(table.to_latex().splitlines()) == len(shown) + (8 if len(shown) > 1 else 6)


def cells(markdown):
    """Return the texts of the cells of a table in Markdown, as a reader sees them."""
    page = MarkdownIt().enable("table").render(markdown)
    assert page.startswith("<table>")
    assert page.count("<table>") == 1
    assert set(re.findall(r"<(\w+)", page)) <= {"table", "thead", "tbody", "tr", "th", "td", "strong", "span"}
    lines = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [
        [
            " ".join(html.unescape(re.sub(r"<[^>]*>", "", cell)).split())
            for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line, re.DOTALL)
        ]
        for line in lines
    ]


_COMMANDS = {
    "textbackslash": "\\",
    "textasciicircum": "^",
    "textasciitilde": "~",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textasciigrave": "`",
    "char34": '"',
    "ldots": "…",
    "ensuremath{\\geq}": "≥",
}
_LATEX = re.compile(
    r"(?P<plain>[^\\{}$&#%_^~<>|`\"\[*≥…])"
    r"|\\(?P<mark>[{}$&#%_])"
    r"|\{(?P<held>[\[*])\}"
    r"|(?P<nothing>\{\})"
    r"|\\(?P<command>\w+)\{\}"
    r"|\\(?P<math>ensuremath\{\\geq\})"
)


def unlatex(source):
    """Return the text that LaTeX prints; anything in it that is no text fails."""
    found, place = [], 0
    while place < len(source):
        match = _LATEX.match(source, place)
        assert match, source[place:]
        place = match.end()
        command = match["command"] or match["math"]
        found.append(_COMMANDS[command] if command else match["plain"] or match["mark"] or match["held"] or "")
    return "".join(found)


class TestLatex:
    @given(st.text(max_size=20) | st.text("\\{}$&#%_^~<>|`\"[]*-',?!≥…\n a", max_size=12))
    def test_any_text_is_printed(self, text):
        """Any text is written such that LaTeX prints it, and takes nothing in it for a command."""
        assert unlatex(latex_text(text)) == one_line(text, 120)
        assert not re.search(r"--|,,|''", latex_text(text))
