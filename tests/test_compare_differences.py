"""What differs between conversations side by side, and how it is marked."""

import pytest
from branching import ask, origin, two
from pages import shown

from cyclops_nb import compare
from cyclops_nb.display.alignment import rows
from cyclops_nb.messages import AssistantMessage, ReasoningPart, SummaryMessage, ToolCall, ToolMessage, UserMessage
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage


def branches(*answers, question="Well?"):
    """Return a fork for each answer to the same question."""
    found = []
    for number, answer in enumerate(answers):
        fork = origin().fork(title="ABCDEFGH"[number])
        said = answer if isinstance(answer, list) else [AssistantMessage(answer)]
        found.append(ask(fork, question, *said, run_id=f"r{number}"))
    return found


def called(city, result, status="ok", name="look"):
    """Return a step that calls a tool, with its result."""
    return [AssistantMessage(ToolCall("c", name, f'{{"at": "{city}"}}')), ToolMessage("c", name, result, status=status)]


class TestRows:
    """Which messages stand beside one another."""

    def test_a_summary_stands_beside_what_it_replaced(self):
        """What was said after it stands in the same row in both, and is the same."""
        session = Session("long")
        for number in range(3):
            ask(session, f"Q{number}", AssistantMessage(f"A{number}"), run_id=f"r{number}")
        before = session.fork(title="before")
        session.messages[:4] = [SummaryMessage("They spoke.", 4)]
        comparison = compare(before, session, labels=["before", "compacted"])
        placed = [[unit and unit.index for unit in row] for row in rows(comparison.branches)]
        assert placed == [[0, 0], [1, None], [2, None], [3, None], [4, 1], [5, 2]]
        page, text = shown(comparison)
        assert "summary of 4 messages" in page.text
        assert "the same in all, at [4], [1]" in page.text
        assert "[1]–[2] the same as in before" in text

    def test_two_summaries_of_different_length(self):
        """What only one of them has replaced stands beside the other."""
        session = Session("long", messages=[UserMessage(str(number)) for number in range(6)])
        short, long = session.fork(), session.fork()
        short.messages[:2] = [SummaryMessage("s", 2)]
        long.messages[:4] = [SummaryMessage("l", 4)]
        placed = [[unit and unit.index for unit in row] for row in rows(compare(short, long).branches)]
        assert placed == [[0, 0], [1, None], [2, None], [3, 1], [4, 2]]

    def test_an_empty_branch_has_no_rows_of_its_own(self):
        """It has a column all the same."""
        page, _ = shown(compare(origin(), Session("empty")))
        assert len(page.has_class("cy-none")) == 2


class TestRepeats:
    """The same question, asked several times."""

    def test_an_answer_is_shown_once_with_its_count(self):
        """And with the names of those that gave it."""
        page, text = shown(compare(*branches("blue", "grey", "blue", "blue", "red")))
        assert page.text.count("blue") == 1
        assert "the same in 3 of 5: A, C, D" in page.text
        assert page.text.count("the same as in A") == 2
        assert text.count("blue") == 1
        assert text.count("the same as in A") == 2

    def test_an_answer_of_all_is_counted(self):
        """It stands once, over all columns."""
        page, _ = shown(compare(*branches("blue", "blue", "blue"), Session("x")))
        assert "the same in 3 of 4: A, B, C" in page.text
        other = ask(Session("o"), "Hi", AssistantMessage("Hi."), run_id="o")
        page, _ = shown(compare(other, *(origin() for _ in range(2))))
        assert "the same in all 3" in page.text

    def test_eight_branches_stand_side_by_side(self):
        """In a frame that scrolls, each with its column of numbers."""
        page, _ = shown(compare(*branches(*(f"answer {number}" for number in range(8)))))
        assert len([cell for cell in page.tags("th") if cell.get("scope") == "col"]) == 16
        assert len(page.has_class("cy-scroll")) == 2


class TestMarks:
    """Differences are said in words, so that they are heard, and seen without a style sheet."""

    def test_name_changed_words_of_answers(self):
        """The fold is open, and says what it compares with."""
        page, _ = shown(compare(*branches("It is a warm day in May.", "It is a cold day in May.")))
        assert "changed words, against A It is a [removed: warm] [added: cold] day in May." in page.text
        assert all("open" in fold for fold in page.has_class("cy-changed"))

    def test_name_arguments_that_differ(self):
        """A call of the same tool shows which argument is another one."""
        first, second = called("sky", "blue"), called("sea", "blue")
        page, _ = shown(compare(*branches([*first, AssistantMessage("a")], [*second, AssistantMessage("b")])))
        assert 'tool calls differ from A call: look(at="[removed: sky] [added: sea]")' in page.text

    def test_name_another_tool(self):
        """Two calls that have nothing in common are both named."""
        page, _ = shown(compare(*branches(called("sky", "1"), called("x y z", "1", name="count"))))
        assert 'call: count(at="x y z") instead of look(at="sky")' in page.text

    def test_name_results_that_differ(self):
        """The call was the same, what came of it was not."""
        forks = [origin().fork(title=name) for name in "AB"]
        for fork, result, status in zip(forks, ("it is very blue", "it is very grey"), ("ok", "error"), strict=True):
            ask(fork, f"Well, {fork.title}?", *called("sky", result, status), run_id=fork.id)
        page, _ = shown(compare(*forks))
        assert "result of look (error instead of ok): it is very [removed: blue] [added: grey]" in page.text

    def test_name_calls_that_only_one_has(self):
        """Whichever of them."""
        one = AssistantMessage(ToolCall("1", "look"))
        both = AssistantMessage([ToolCall("1", "look"), ToolCall("2", "count")])
        page, _ = shown(compare(*branches([one], [both])))
        assert "only here: count()" in page.text
        page, _ = shown(compare(*branches([both], [one])))
        assert "not here: count()" in page.text

    def test_name_reasoning_that_differs(self):
        """Though the answer is the same."""
        answers = [[AssistantMessage([ReasoningPart(words), AssistantMessage("x").content[0]])] for words in "ab"]
        page, _ = shown(compare(*branches(*answers)))
        assert "the reasoning differs from A" in page.text

    def test_an_edited_message_is_a_difference_though_all_else_is_equal(self):
        """Nobody said it, whatever its words; what follows is the same."""
        session = ask(origin(), "Is it cold?", AssistantMessage("Yes."), run_id="r2")
        tail = session.messages[2:]
        for words, said in (("Hi.", "says the same, but one of them was edited"), ("Hi?", "changed words")):
            edited = session.edit(1, words)
            edited.messages += tail
            comparison = compare(session, edited, labels=["was", "edited"])
            page, _ = shown(comparison)
            assert comparison.shared == 1
            assert said in page.text
            assert page.text.count("the same in all") == 2


class TestNumbers:
    """The table below the branches."""

    def test_has_all_rows(self):
        """Also where they are zero in all."""
        page, text = shown(compare(*branches("a", "b")))
        names = ["messages", "steps", "tool calls", "tokens in", "of them cached", "tokens out", "of them reasoning"]
        names += ["cost", "time", "tokens per second", "model", "stop reason"]
        for said in (page.text, text):
            places = [said.index(name, said.index("after the common part")) for name in names]
            assert places == sorted(places)

    def test_has_the_speed_of_the_model(self):
        """Output tokens by the seconds of the answers that tell both, without the time of tools."""
        fast = AssistantMessage("a", usage=Usage(1, 10, 40), duration=2.0)
        slow = AssistantMessage("b", usage=Usage(1, 10, 40), duration=4.0)
        untold = AssistantMessage("c", usage=Usage(1, 10, 40))
        comparison = compare(*branches([fast], [slow, untold], [untold]))
        page, _ = shown(comparison)
        assert "tokens per second 20.0 10.0 (−10.0) unknown" in page.text
        frame = comparison.to_frame()
        assert frame["tokens_per_second"].tolist()[:2] == [20.0, 10.0]
        assert frame["tokens_per_second"].isna().tolist() == [False, False, True]

    @pytest.mark.parametrize("usage", [Usage(1, 1, 10**400), Usage(1, 1, 1)])
    def test_hold_numbers_of_a_damaged_file(self, usage):
        """Whatever they are, the comparison is shown."""
        damaged = AssistantMessage("a", usage=usage, duration=1e-320)
        page, _ = shown(compare(*branches([damaged], "b")))
        assert "cannot be drawn" not in page.text

    def test_is_not_made_of_two_forks_with_nothing_new(self):
        """They say the same, and the numbers are there."""
        page, _ = shown(compare(*two()[:1] * 2))
        assert "they say the same" in page.text
