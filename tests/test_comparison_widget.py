"""A comparison with buttons."""

import ipywidgets
import pytest
from branching import ask, origin, two
from frontend import WIDGET, FrontEnd
from kernels import KERNELS, kernel_of
from pages import HOSTILE, Page, read, shown

from cyclops_nb import InputError, compare
from cyclops_nb.messages import AssistantMessage
from cyclops_nb.session import Session


def three():
    """Return a comparison of three branches, of which the first two have more in common."""
    first, second = two()
    other = ask(Session("c", title="C"), "Good day", AssistantMessage("Hi."), run_id="rc")
    return compare(first, second, other)


def controls(widget):
    """Return the controls that a front end shows, by what stands on them."""

    def walk(one):
        yield one
        for inner in getattr(one, "children", ()):
            yield from walk(inner)

    return {one.description: one for one in walk(widget._root) if getattr(one, "description", "")}


def page_of(widget):
    """Return what the widget shows."""
    return read(widget._shown.value)


class TestPick:
    """Some branches of a comparison."""

    def test_takes_labels_and_indices_in_any_order(self):
        """What they have in common is found anew, and so are their numbers."""
        comparison = three()
        assert comparison.shared == 0
        picked = comparison.pick("B", 0)
        assert (picked.labels, picked.shared) == (["B", "A"], 2)
        assert shown(picked) and str(picked) == str(compare(*reversed(two())))
        assert picked.to_frame()["cost"].tolist() == [0.0034, 0.001]
        assert comparison.pick(-1, "A").labels == ["C", "A"]

    def test_keeps_the_settings_that_differ(self):
        """Those of the last run of each branch that is picked."""
        sessions = [origin(), origin(), origin()]
        for number, session in enumerate(sessions):
            session.configs["k"] = {"temperature": number}
            ask(session, f"Q{number}", AssistantMessage("A"), run_id=f"x{number}", config="k")
        assert compare(*sessions).pick(2, 0).to_frame()["config.temperature"].tolist() == [2, 0]

    @pytest.mark.parametrize("names", [(), ("A",), ("A", "A"), ("A", 0), ("A", "D"), ("A", 3), ("A", True), (None, 1)])
    def test_refuses_what_cannot_be_compared(self, names):
        """One alone, one twice, and what is not there."""
        with pytest.raises(InputError, match="'A', 'B', 'C'"):
            three().pick(*names)


class TestControls:
    """What each control does, and the method that does the same."""

    def test_boxes_pick_branches(self):
        """What the rest has in common is found anew."""
        widget = three().widget()
        controls(widget)["C"].value = False
        assert widget.comparison.labels == ["A", "B"]
        assert "2 messages in common" in page_of(widget).text
        widget.pick("C", "B")
        assert [name for name in "ABC" if controls(widget)[name].value] == ["B", "C"]
        assert widget.comparison.labels == ["C", "B"]

    def test_one_branch_alone_is_refused_in_words(self):
        """What was shown stays."""
        widget = compare(*two()).widget()
        before = widget._shown.value
        controls(widget)["A"].value = False
        assert "two branches at least" in read(widget._said.value).text
        assert widget._shown.value == before
        controls(widget)["A"].value = True
        assert widget._said.value == ""

    def test_swap_lets_two_change_places(self):
        """The two that are chosen."""
        widget = three().widget()
        widget._other.value = "C"
        controls(widget)["Swap"].click()
        assert widget.comparison.labels == ["C", "B", "A"]
        widget._other.value = "A"
        controls(widget)["Swap"].click()
        assert "two different branches" in read(widget._said.value).text
        with pytest.raises(InputError):
            widget.swap("A", "D")

    def test_hide_what_is_equal_leaves_out_rows_and_numbers(self):
        """And says how many."""
        first, second = two()
        for session in (first, second):
            ask(session, "Thank you.", AssistantMessage("Welcome."), run_id=f"t{session.id}")
        widget = compare(first, second).widget()
        assert "Welcome." in page_of(widget).text
        controls(widget)["Hide what is equal"].value = True
        assert "Welcome." not in page_of(widget).text
        assert "2 rows of messages that are the same in all not shown" in page_of(widget).text
        assert "stop reason" not in page_of(widget).text
        assert "tokens in" in page_of(widget).text
        widget.hide_equal(False)
        assert not controls(widget)["Hide what is equal"].value

    def test_fold_opens_and_folds_the_common_part(self):
        """It is folded at first."""
        widget = compare(*two()).widget()
        for is_folded in (True, False, True):
            widget.fold(is_folded)
            assert ["open" in fold for fold in page_of(widget).has_class("cy-middle")] == [not is_folded]
            assert controls(widget)["Fold common part"].value == is_folded

    def test_an_error_is_shown_in_the_widget(self):
        """An exception in a callback is seen nowhere else."""
        widget = three().widget()
        widget._draw = lambda: 1 / 0
        controls(widget)["Swap"].click()
        assert "ZeroDivisionError: division by zero" in read(widget._said.value).text

    def test_nothing_is_left_of_a_frozen_widget(self):
        """And its methods and late clicks do no harm."""
        before = set(ipywidgets.widgets.widget._instances)
        widget = three().widget()
        swap = controls(widget)["Swap"]
        widget.freeze()
        swap.click()
        widget.freeze()
        widget.swap("A", "B")
        assert set(ipywidgets.widgets.widget._instances) - before == set()
        assert widget.comparison.labels == ["B", "A", "C"]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_labels_stay_text(self, text):
        """On the controls, in complaints and in what is shown."""
        widget = compare(Session("a", title=text), Session("b", title=text), Session("c")).widget()
        page_of(widget)
        widget._complain(InputError(text))
        read(widget._said.value)
        assert not any(
            box.description_allow_html for box in controls(widget).values() if hasattr(box, "description_allow_html")
        )


@pytest.fixture(scope="module", params=KERNELS)
def running(request):
    """Give one kernel for all tests here."""
    kernel = kernel_of(request)
    yield kernel
    kernel.close()


@pytest.fixture
def front(running):
    """Give a front end whose kernel has a comparison."""
    front = FrontEnd(running)
    front.run("""
import threading
from ipywidgets.widgets.widget import _instances
from cyclops_nb import Session, UserMessage, compare
root = Session("root", title="Root")
root.messages.append(UserMessage("Hello"))
forks = [root.fork(title=name) for name in "ABC"]
for fork in forks:
    fork.messages.append(UserMessage(f"I am {fork.title}"))
known = set(_instances)
""")
    yield front
    assert front.errors == []


def control(front, name):
    """Return the id of a control by what stands on it."""
    return next(model for model, state in front.widgets.items() if state.get("description") == name)


def set_value(front, model, **state):
    """Change a control as a front end does."""
    content = {"comm_id": model, "data": {"method": "update", "state": state, "buffer_paths": []}}
    front._client.shell_channel.send(front._client.session.msg("comm_msg", content))


@pytest.mark.slow
class TestInAKernel:
    """What a front end gets."""

    def test_is_shown_with_static_html_beside_it_and_kept_by_its_button(self, front):
        """Clicks change what is shown; the button leaves it in the notebook and no widget in the kernel."""
        cell = front.run("widget = compare(*forks).widget()\nwidget")
        (bundle,) = front.outputs[cell]
        assert set(bundle) == {WIDGET, "text/html", "text/plain"}
        assert "Comparison of 3 conversations" in read(bundle["text/html"]).text
        assert "Comparison of 3 conversations" in front.shown(cell)
        set_value(front, control(front, "B"), value=False)
        front.wait_until(lambda: "Comparison of 2 conversations" in front.shown(cell))
        set_value(front, control(front, "C"), value=False)
        front.wait_until(lambda: "two branches at least" in front.shown(cell))
        set_value(front, control(front, "C"), value=True)
        front.wait_until(lambda: "two branches at least" not in front.shown(cell))
        front.click(control(front, "Keep in notebook"))
        front.wait_until(lambda: front.is_over(cell))
        (bundle,) = front.outputs[cell]
        page = read(bundle["text/html"])
        assert "Comparison of 2 conversations" in page.text
        assert "I am C" in page.text
        assert "I am B" not in page.text
        assert "I am B" not in bundle["text/plain"]
        assert front.outputs[front.run("print(len(set(_instances) - known))")] == ["0\n"]
        again = front.run("widget")
        assert set(front.outputs[again][0]) == {"text/html", "text/plain"}

    def test_is_frozen_by_its_method_wherever_it_is_shown(self, front):
        """From another thread too, while it is shown in two cells."""
        cells = [front.run("widget = compare(*forks).widget()\nwidget"), front.run("widget")]
        front.run("thread = threading.Thread(target=widget.freeze); thread.start(); thread.join()")
        for cell in cells:
            assert front.is_over(cell)
            assert "I am B" in Page(front.outputs[cell][0]["text/html"]).text

    def test_is_static_where_nobody_sits_before_it(self, front):
        """A notebook that is only executed keeps no widget in its file."""
        cell = front.send("compare(*forks).widget()", allow_stdin=False)
        front.wait_until(lambda: front.outputs[cell])
        assert set(front.outputs[cell][0]) == {"text/html", "text/plain"}
