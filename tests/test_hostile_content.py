"""Nothing that a model, a tool or a file says does anything in a real JupyterLab, wherever it is shown."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import pytest
from hostile_fields import FIRST, PAYLOADS, PLACES, numbered, some_outputs_of
from hostile_page import hostile_page
from nbconvert.filters import markdown2html

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

AT_ONCE = 8


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of JupyterLab that notices everything."""
    with hostile_page(tmp_path_factory.mktemp("lab")) as page:
        yield page


class TestHarness:
    """A watch that sees nothing would find nothing."""

    @pytest.mark.parametrize("kind", FIRST)
    def test_notices_what_is_obeyed(self, page, kind):
        """Each kind of payload does something where it is obeyed, and that is noticed."""
        media_type = "text/markdown" if "Markdown" in kind else "text/html"
        findings = page.look([(media_type, numbered(FIRST[kind], 1_234_567))], is_obeyed=True)
        assert findings.deeds

    def test_notices_nothing_where_there_is_nothing(self, page):
        """Harmless HTML is neither a deed nor a suspect."""
        findings = page.look(
            [("text/html", "<p>1,234,567 &lt;script&gt; $x$</p>"), ("text/markdown", "*x* [y](http://a.example)")]
        )
        assert not findings.deeds
        assert not findings.suspects


class TestLinks:
    """What happens when one clicks."""

    def test_a_script_in_a_link_that_jupyterlab_makes_runs_nowhere(self, page):
        """JupyterLab makes links of addresses in plain text, whatever they are; a click on one runs nothing."""
        _, noticed = page.follow(["text/plain", "javascript://x.example/%0astruck(1)"])
        assert noticed == ["opens about:blank"]


LIVE = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
LIVE += """
import hostile_fields as fields
from IPython.display import display
from cyclops_nb.display.live_state import LiveState
from cyclops_nb.display.live_widgets import LiveWidgets

first = {kind: index for index, (kind, _) in reversed(list(enumerate(fields.PAYLOADS)))}
for index in first.values():
    outputs = {}
    state, widgets = LiveState(outputs), LiveWidgets(lambda: None, lambda: None)
    display(widgets.mimebundle(), raw=True)
    write = fields.Writer(index)
    for event in fields.live_events(write):
        state.add(event)
        if event.type == "tool_call_ready":
            outputs[1, event.call.id] = fields.tool_output(write)
        widgets.show(state, 1.0)
print("all", "shown")
"""


class TestLiveView:
    """The widgets of a run that goes on, in a real kernel."""

    def test_nothing_does_anything(self, page):
        """What is seen while a run goes on does nothing, whatever stands in what events."""
        findings, count = page.look_at_cell(LIVE, "all shown", ".widget-html, .widget-htmlmath")
        assert count > 100
        assert not findings.deeds
        assert not findings.suspects, ascii(findings.suspects[:5])


class TestEveryField:
    """Every kind of payload in every field, in every place that shows it."""

    def test_nothing_does_anything(self, page, capsys):
        """No script runs, no request leaves, nothing outside the output changes, and nothing is there that could."""
        pairs, shown, wrong, looked = {}, set(), [], 0
        begin = time.monotonic()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            made = pool.map(some_outputs_of, range(len(PAYLOADS)), chunksize=AT_ONCE)
            while group := list(islice(made, AT_ONCE)):
                outputs = [output for some, _ in group for output in some]
                new = {number: pair for _, more in group for number, pair in more.items()}
                pairs |= new
                for output in outputs:
                    shown.update(output.shown)
                looked += len(outputs)
                findings = page.look([(output.media_type, output.source) for output in outputs])
                wrong += findings.of(pairs)
                cells = [output.source for output in outputs if output.media_type == "text/markdown"]
                findings = page.look([("text/html", markdown2html(cell)) for cell in cells])
                wrong += [f"nbconvert: {said}" for said in findings.of(new)]
        with capsys.disabled():
            words = f"{len(shown):,} pairs of payload and field ({len(PAYLOADS)} payloads, {looked:,} outputs)"
            print(f"\n{words}: {len(wrong)} did something, in {time.monotonic() - begin:.0f} s")
        assert not wrong, "\n".join(ascii(said) for said in wrong[:50])
        assert {pairs[number].place for number in shown} == set(PLACES)
