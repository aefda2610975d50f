"""Notebooks of sessions that their users edit: texts, whole turns, and cells of their own."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import add, load, save, say, talk
from strategies import moderate

from cyclops_nb import NotebookSessionStore
from cyclops_nb.errors import TranscriptError
from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.session import Parent, Session
from notebooks import (
    MARKDOWN,
    PNG,
    cell_of,
    check_valid,
    code,
    conversation,
    edit,
    kinds,
    note,
    put_in,
    read,
    source,
    take_out,
    write,
)

pytestmark = pytest.mark.filterwarnings("error")
STORE = NotebookSessionStore


@pytest.fixture
def session(store):
    """A session with tools and a picture, stored."""
    session = conversation()
    save(store, session)
    return session


def texts(session):
    return [message.text for message in session.messages]


def with_text(store, path, text, edit_source, make=AssistantMessage):
    """Store a message, edit the source of its cell, and return it as it is loaded."""
    session = Session("study-1")
    session.messages.append(make(text))
    save(store, session)
    notebook = read(path)
    cell = cell_of(notebook, 0)
    cell["source"] = edit_source(source(cell))
    write(path, notebook)
    (message,) = load(NotebookSessionStore(path.parent)).messages
    return message


class TestEditedText:
    @pytest.mark.parametrize(
        ("index", "old", "new"), [(0, "here", "there"), (4, "11 °C", "12 °C"), (5, "Thanks.", "Why?")]
    )
    def test_comes_back(self, store, path, session, index, old, new):
        """An edited question or answer has the new text, an id of its own, and names the message that it was."""
        edit(path, index, old, new)
        loaded = load(store)
        before, after = session.messages[index], loaded.messages[index]
        assert after.text == before.text.replace(old, new)
        assert after.id != before.id
        assert after.metadata["edited_from"] == before.id
        assert after.created_at == before.created_at
        others = [place for place in range(7) if place != index]
        assert [loaded.messages[place] for place in others] == [session.messages[place] for place in others]
        assert loaded.runs == session.runs

    def test_what_was_measured_is_not_claimed(self, store, path, session):
        """Usage and time of the answer that was edited are not those of the edited one; other parts stay."""
        edit(path, 1, "I look.", "I shall look.")
        message = load(store).messages[1]
        assert (message.usage, message.duration, message.cost) == (None, None, None)
        assert message.model == "m"
        assert [part.type for part in message.content] == ["reasoning", "text", "tool_call", "tool_call"]
        assert message.text == "I shall look."

    def test_is_the_same_each_time(self, store, path, session):
        """Every store reads the same edit as the same message."""
        edit(path, 0, "here", "there")
        assert load(store) == load(NotebookSessionStore(path.parent))

    def test_goes_on_from_the_edit(self, store, path, session):
        """The session that was loaded can be saved and added to; what is edited then is what stands there."""
        edit(path, 6, "You are welcome.", "Not at all.")
        loaded = load(store)
        add(store, loaded, say(loaded, "And now?"))
        assert load(NotebookSessionStore(path.parent)) == loaded
        assert texts(loaded)[6:8] == ["Not at all.", "And now?"]
        save(store, loaded)
        assert load(NotebookSessionStore(path.parent)) == loaded
        check_valid(path)

    def test_the_cell_stays(self, store, path, session):
        """The cell of an edited message is the same cell after the next save."""
        edit(path, 5, "Thanks.", "Thank you.")
        names = [cell["id"] for cell in read(path)["cells"]]
        save(store, load(store))
        assert [cell["id"] for cell in read(path)["cells"]] == names
        save(store, load(store))
        assert [cell["id"] for cell in read(path)["cells"]] == names

    def test_an_edit_that_is_none(self, store, path, session):
        """A source that says the same, with other ends of lines or without its head, is no edit."""
        notebook = read(path)
        cell_of(notebook, 5)["source"] = "Thanks.\n\n"
        cell_of(notebook, 6)["source"] = source(cell_of(notebook, 6)).replace("\n", "\r\n") + "\r\n"
        cell_of(notebook, 4)["source"] = source(cell_of(notebook, 4)).replace("### \\[4] assistant", "### \\[9] she")
        write(path, notebook)
        assert load(store) == session

    @pytest.mark.parametrize("header", ["## [5] user\n\n", "### \\[5] me\n\n", "# [7] user\n", ""])
    def test_the_line_that_says_who_speaks(self, store, path, session, header):
        """A cell that was written anew has no need of its first line, and no matter how it is written it is no text."""
        notebook = read(path)
        cell_of(notebook, 5)["source"] = f"{header}Why?"
        write(path, notebook)
        assert load(store).messages[5].text == "Why?"

    def test_what_is_told_about_an_answer(self, store, path, session):
        """A change of the line that tells of model, time and tokens is no edit of the answer."""
        edit(path, 1, "1.5 s", "2 s")
        assert load(store) == session
        edit(path, 1, "I look.", "I shall look.")
        assert load(store).messages[1].text == "I shall look."

    def test_summaries(self, store, path):
        """The text of a summary can be edited, too."""
        message = with_text(
            store, path, "They met.", lambda text: text.replace("met", "parted"), lambda text: SummaryMessage(text, 4)
        )
        assert (message.text, message.replaced) == ("They parted.", 4)

    def test_title(self, store, path, session):
        """A title that is edited in the first cell is the session's title."""
        edit(path, "head", "# Weather", "# Weather & *wind* for $5")
        loaded = load(store)
        assert loaded.title == "Weather & *wind* for $5"
        add(store, loaded, [])
        assert load(NotebookSessionStore(path.parent)).title == loaded.title

    @moderate
    @given(
        title=st.lists(
            st.sampled_from(
                [
                    *"a#*_[]:!&;\u200b\u200f\u2028\x1b\x85",
                    "x" * 300,
                    "&lt;",
                    "&amp;",
                    "<b>",
                    "$",
                    "⟨U+200B⟩",
                    "␛",
                    "![",
                    "é b",
                ]
            ),
            min_size=1,
        )
        .map("".join)
        .filter(str.strip)
    )
    def test_any_title(self, tmp_path_factory, title):
        """Whatever is in it, what was not edited comes back as it was, however long it is."""
        path = tmp_path_factory.mktemp("sessions") / "study-1.ipynb"
        store = NotebookSessionStore(path.parent)
        save(store, Session("study-1", title=title))
        notebook = read(path)
        first, _, rest = source(cell_of(notebook, "head")).partition("\n")
        cell_of(notebook, "head")["source"] = f"{first} EDIT\n{rest}"
        write(path, notebook)
        loaded = load(store)
        assert loaded.title == f"{title} EDIT"
        save(store, loaded)
        assert load(NotebookSessionStore(path.parent)) == loaded
        check_valid(path)

    @pytest.mark.parametrize("blank", ["# \n\n", "#\n\n", "#   \n\n", ""])
    def test_a_title_that_was_taken_out(self, store, path, session, blank):
        """A session whose title was blanked has none, and its first cell names it by its id."""
        edit(path, "head", "# Weather\n\n", blank)
        loaded = load(store)
        assert loaded.title is None
        add(store, loaded, say(loaded))
        save(store, loaded)
        assert source(cell_of(read(path), "head")).startswith("# Session study-1\n\nSession study-1, begun")
        assert load(NotebookSessionStore(path.parent)) == loaded
        edit(path, "head", "# Session study-1", "# A &lt; B")
        assert load(store).title == "A < B"

    def test_notes_in_the_first_cell(self, store, path, session):
        """What is written into the first cell stays there as long as what it says is true."""
        edit(path, "head", "# Weather", "# Weather\n\nmy note")
        loaded = load(store)
        assert loaded == session
        save(store, loaded)
        add(store, loaded, say(loaded))
        assert "my note" in source(cell_of(read(path), "head"))


class TestLines:
    def test_unchanged_lines_are_raw(self, store, path):
        """Lines that were not touched come back as they were, whatever they look like in the source."""
        text = "$5 to $6\r\n<b>\u2028\x0b\rkept `<i>`  \n\nlast"
        message = with_text(store, path, text, lambda text: text.replace("last", "more\nlines"))
        assert message.text == "$5 to $6\r\n<b>\u2028\x0b\rkept `<i>`  \n\nmore\nlines"

    @pytest.mark.parametrize(
        "unseen", [*"\u2066\u202b\u2028\u2029\x85\x0c\x1b\x00\x7f\u200f\ufeff", "⟨U+2066⟩", "␛", "⟨U+2066⟩\u2066␛\x1b"]
    )
    @pytest.mark.parametrize("around", ["{}", "```\n{}\n```", "`{}`", "- ```\n  {}\n  ```"])
    def test_what_is_not_seen_stays_in_a_changed_line(self, store, path, unseen, around):
        """The character is there again, and what only looks like what is shown for it stays what it is."""
        text = around.format(f"ab{unseen}cd typo here") + "\nsecond"
        message = with_text(store, path, text, lambda text: text.replace("typo", "edit"))
        assert message.text == text.replace("typo", "edit")

    def test_names_of_characters_that_are_written_anew(self, store, path):
        """What stands for a character of the text is that character in a line that is put in; any other is what it says."""
        message = with_text(store, path, "a\u2066b", lambda text: f"{text}\nc⟨U+2066⟩d ⟨U+2067⟩ ␛")
        assert message.text == "a\u2066b\nc\u2066d ⟨U+2067⟩ ␛"

    def test_changed_lines_are_read(self, store, path):
        """What was escaped in a changed line is what it stands for."""
        text = "from $5 to $6 with <b> and `<i>` ![x](y)"
        message = with_text(store, path, text, lambda text: text.replace("from", "from at least"))
        assert message.text == "from at least $5 to $6 with <b> and `<i>` ![x](y)"

    def test_code_is_not_read(self, store, path):
        """In a code block a changed line is taken as it is."""
        text = "$1 $2\n```html\n&lt;a>\n<b>\n```\n<i>"
        message = with_text(store, path, text, lambda text: text.replace("<b>", "<b>&lt;<span>&#36;</span>"))
        assert message.text == "$1 $2\n```html\n&lt;a>\n<b>&lt;<span>&#36;</span>\n```\n<i>"

    def test_code_in_lists(self, store, path):
        """Code that is written as an element is code in the text."""
        text = "1. x\n   ```sh\n   echo $A\n   echo $B\n   ```\n2. y"
        message = with_text(store, path, text, lambda text: text.replace("A", "HOME"))
        assert message.text == text.replace("A", "HOME")

    def test_new_lines_are_taken_as_written(self, store, path):
        """What the user writes is Markdown already."""
        message = with_text(store, path, "a", lambda text: f"{text}\n\nb **c** $x<y$ for $5\n\n- d")
        assert message.text == "a\n\nb **c** $x<y$ for $5\n\n- d"

    def test_lines_can_go(self, store, path):
        """Lines that were taken out are out."""
        message = with_text(store, path, "a\nb\nc\n", lambda text: text.replace("b\n", ""))
        assert message.text == "a\nc\n"

    def test_a_new_text(self, store, path):
        """A cell of which everything was replaced has the new text, also without its head."""
        assert with_text(store, path, "a\n\nb", lambda _: "x\ny", UserMessage).text == "x\ny"

    @pytest.mark.parametrize(
        ("put", "whole"), [("x\n\na", "x\n\na\n\nb"), ("x\na", "x\na\n\nb"), ("x\n\n\na", "x\n\n\na\n\nb")]
    )
    def test_a_new_begin(self, store, path, put, whole):
        """What is put before a text belongs to it, with the blank lines between."""
        assert with_text(store, path, "a\n\nb", lambda text: text.replace("a\n\nb", f"{put}\n\nb")).text == whole

    def test_a_text_for_an_empty_answer(self, store, path):
        """An answer without a text can get one."""
        assert with_text(store, path, "", lambda text: f"{text.replace('*(empty)*', '')}more").text.strip() == "more"

    def test_a_text_behind_a_call(self, store, path, session):
        """A text that is written behind a call stands there."""
        notebook = read(path)
        cell_of(notebook, 1)["source"] = source(cell_of(notebook, 1)) + "\n\nDone."
        write(path, notebook)
        message = load(store).messages[1]
        assert [part.type for part in message.content] == ["reasoning", "text", "tool_call", "tool_call", "text"]
        assert message.content[-1] == TextPart("Done.")

    def test_a_text_before_a_call(self, store, path, session):
        """A text that goes on before a call keeps its paragraphs, and the blank line before the call is no part of it."""
        edit(path, 1, "I look.\n", "I look.\n\nNow.\n\n")
        message = load(store).messages[1]
        assert message.text == "I look.\n\nNow."
        assert [part.type for part in message.content] == ["reasoning", "text", "tool_call", "tool_call"]

    def test_a_long_text(self, store, path):
        """An edit of a text of forty thousand lines is found in a moment."""
        places = (5, 8_000, 16_000)
        lines = [f"line {number} to ${number}{'' if number in places else chr(0)}\n\n" for number in range(20_000)]
        text = "".join(lines)

        def change(text):
            return text.replace("line 5 ", "LINE ").replace("line 16000 ", "LINE ").replace("line 8000 ", "LINE ")

        message = with_text(store, path, text, change)
        assert message.text == change(text)

    @moderate
    @given(text=MARKDOWN, place=st.integers(0, 30), new=st.sampled_from(["x", "", "x\ny"]))
    def test_any_edit_leaves_the_other_lines(self, tmp_path_factory, text, place, new):
        """Whatever the text and wherever a line is put in, what stood around it is as before."""
        folder = tmp_path_factory.mktemp("sessions")
        store, path = NotebookSessionStore(folder), folder / "study-1.ipynb"

        def put(text):
            lines = text.split("\n")
            at = min(3 + place, len(lines))
            lines[at:at] = [f"NEW{new}"]
            return "\n".join(lines)

        session = Session("study-1")
        session.messages.append(AssistantMessage(f"first\n{text}"))
        save(store, session)
        notebook = read(path)
        cell_of(notebook, 0)["source"] = put(source(cell_of(notebook, 0)))
        write(path, notebook)
        loaded = load(store)
        (message,) = loaded.messages
        assert "NEW" in message.text
        before, _, behind = message.text.partition("NEW" + new)
        kept = (before + behind.removeprefix("\n")).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
        assert kept == session.messages[0].text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
        save(store, loaded)
        assert load(NotebookSessionStore(folder)) == loaded


class TestPartsOfCells:
    def test_reasoning_can_be_taken_out(self, store, path, session):
        """Reasoning goes when its block goes."""
        edit(path, 1, "<details>\n<summary>reasoning, 4 words</summary>\n\nI need the weather.\n\n</details>\n\n", "")
        assert [part.type for part in load(store).messages[1].content] == ["text", "tool_call", "tool_call"]

    def test_reasoning_cannot_be_changed(self, store, path, session):
        """Reasoning that was changed is refused: a provider may have signed it."""
        edit(path, 1, "I need the weather.", "I need nothing.")
        before = path.read_bytes()
        with pytest.raises(
            TranscriptError, match=r"cells\[2\] \(message 1, assistant\): 'reasoning, 4 words' was changed"
        ):
            load(store)
        assert path.read_bytes() == before

    def test_pictures_can_be_taken_out(self, store, path, session):
        """A picture goes when the line that shows it goes."""
        edit(path, 0, "![image](attachment:1.png)", "")
        message = load(store).messages[0]
        assert message.content == (TextPart("How warm is it here?\nAnd there?"),)

    def test_attachments_that_go_with_their_line(self, store, path, session):
        """Where a program takes a picture out with the line that shows it, as VS Code does, it is gone all the same."""
        edit(path, 0, "![image](attachment:1.png)", "")
        notebook = read(path)
        del cell_of(notebook, 0)["attachments"]
        write(path, notebook)
        loaded = load(store)
        assert loaded.messages[0].content == (TextPart("How warm is it here?\nAnd there?"),)
        add(store, loaded, say(loaded))
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_pictures_can_be_moved(self, store, path, session):
        """A picture is where its line is."""
        edit(path, 0, "How warm", "![my view](attachment:1.png)\n\nHow warm")
        edit(path, 0, "\n\n![image](attachment:1.png)", "")
        message = load(store).messages[0]
        assert message.content == (
            ImagePart(PNG, media_type="image/png"),
            TextPart("How warm is it here?\nAnd there?"),
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("a.pdf", "b.pdf"),
            ("x.png", "y.png"),
            ("1.png)", "1.png) look"),
            ("![image]", "Look: ![image]"),
        ],
    )
    def test_files_and_images_cannot_be_changed(self, store, path, old, new):
        """What stands for a file or an image is not taken for a text when it is changed: that part would be lost."""
        session = Session("study-1")
        image = ImagePart(PNG, media_type="image/png")
        remote = ImagePart(url="https://a.test/x.png")
        file = FilePart("a.pdf", b"x", "application/pdf")
        session.messages.append(UserMessage([TextPart("*file this*"), image, remote, file]))
        save(store, session)
        edit(path, 0, old, new)
        with pytest.raises(TranscriptError, match=r"cells\[1\] \(message 0, user\): .* was changed in the cell"):
            load(store)
        edit(path, 0, new, old)
        edit(path, 0, "*file this*", "*file that*")
        assert load(store).messages[0].content == (TextPart("*file that*"), *session.messages[0].content[1:])

    @pytest.mark.parametrize(
        "message",
        [
            UserMessage([FilePart(f"{name}.txt", name.encode(), "text/plain") for name in "abc"]),
            UserMessage(
                [FilePart("a.txt", b"a", "text/plain"), TextPart("one\n\ntwo"), FilePart("b.txt", b"b", "text/plain")]
            ),
            UserMessage([ImagePart(url="https://a.test/1.png"), TextPart("or"), ImagePart(url="https://a.test/2.png")]),
            UserMessage(
                [
                    ImagePart(url="https://a.test/1.png"),
                    FilePart("a.txt", b"a", "text/plain"),
                    ImagePart(PNG, media_type="image/png"),
                ]
            ),
            AssistantMessage([ReasoningPart("first"), TextPart("one"), ReasoningPart("second"), TextPart("two")]),
            AssistantMessage([ReasoningPart("first"), ReasoningPart("second"), TextPart("one")]),
        ],
        ids=lambda message: " ".join(part.type for part in message.content),
    )
    def test_parts_are_where_they_were_moved_to(self, store, path, message):
        """In whatever order the blocks of a cell stand, each is the part that it was."""
        session = Session("study-1")
        session.messages.append(message)
        save(store, session)
        notebook = read(path)
        first, *blocks = re.findall(r"(?s)<details>.*?</details>|[^\n]+", source(cell_of(notebook, 0)))
        others = (part for part in message.content if not isinstance(part, TextPart))
        shown = {block: block if block in {"one", "two", "or"} else next(others) for block in blocks}
        for order in itertools.permutations(blocks):
            cell_of(notebook, 0)["source"] = "\n\n".join([first, *order])
            write(path, notebook)
            (loaded,) = load(NotebookSessionStore(path.parent)).messages
            found = [
                piece
                for part in loaded.content
                for piece in (filter(None, part.text.split("\n")) if isinstance(part, TextPart) else [part])
            ]
            assert found == [shown[block] for block in order]

    def test_what_a_text_says_in_the_words_of_a_block_is_text(self, store, path):
        """A file can be taken out though a text quotes its line, in code."""
        session = Session("study-1")
        line = "*file a.txt, text/plain, 1 byte*"
        session.messages.append(UserMessage([TextPart(f"```\n{line}\n```"), FilePart("a.txt", b"a", "text/plain")]))
        save(store, session)
        notebook = read(path)
        cell = cell_of(notebook, 0)
        assert source(cell).count(line) == 2
        cell["source"] = source(cell).rpartition("\n\n")[0]
        write(path, notebook)
        (message,) = load(store).messages
        assert message.content == (TextPart(f"```\n{line}\n```"),)

    def test_pictures_can_be_put_in(self, store, path, session):
        """A picture that is dragged into a question is part of it."""
        notebook = read(path)
        cell = cell_of(notebook, 5)
        cell["attachments"] = {"my plot.png": {"image/png": PNG}}
        cell["source"] = source(cell) + "\nLook:\n![my plot.png](attachment:my%20plot.png)"
        write(path, notebook)
        loaded = load(store)
        assert loaded.messages[5].content == (TextPart("Thanks.\nLook:"), ImagePart(PNG, media_type="image/png"))
        save(store, loaded)
        assert load(NotebookSessionStore(path.parent)) == loaded
        check_valid(path)

    def test_results_cannot_be_edited(self, store, path, session):
        """What a tool returned is not to be invented."""
        edit(path, 2, "11 °C", "12 °C")
        with pytest.raises(
            TranscriptError, match=r"cells\[3\] \(message 2, tool 'get_weather'\): what a tool returned"
        ):
            load(store)

    def test_a_question_cannot_be_emptied(self, store, path, session):
        """A question without a text is none."""
        edit(path, 5, "Thanks.", "")
        with pytest.raises(TranscriptError, match=r"cells\[6\] \(message 5, user\): an empty question"):
            load(store)


class TestStructure:
    def test_whole_turns_can_be_taken_out(self, store, path, session):
        """Turns that were taken out are gone, and the others have new indices after the next save."""
        take_out(path, 5, 6)
        loaded = load(store)
        assert loaded.messages == session.messages[:5]
        take_out(path, 1, 2, 3)
        loaded = load(store)
        assert loaded.messages == [session.messages[0], session.messages[4]]
        assert loaded.runs == session.runs
        save(store, loaded)
        assert kinds(path) == ["head", 0, 1, "foot"]
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_an_addition_after_it(self, store, path, session):
        """What is added after turns were taken out stands behind the rest."""
        take_out(path, 5, 6)
        loaded = load(store)
        add(store, loaded, say(loaded, "next"))
        assert load(NotebookSessionStore(path.parent)) == loaded
        assert len(loaded.messages) == 7

    @pytest.mark.parametrize(
        ("change", "shared"),
        [
            (lambda path: take_out(path, 2, 3), 2),
            (lambda path: edit(path, 1, "é", "e"), 1),
            (lambda path: edit(path, 4, "question 2", "why"), 4),
            (lambda path: edit(path, 1, "assistant", "she"), 4),
            (lambda path: take_out(path, 4, 5), 4),
        ],
    )
    def test_forks(self, store, path, change, shared):
        """A fork shares with its parent what stands before the first message that was edited or taken out."""
        session = talk(3)
        session.parent = Parent(session_id="origin", message_count=4)
        save(store, session)
        change(path)
        loaded = load(store)
        assert loaded.parent.message_count == shared
        save(store, loaded)
        assert source(cell_of(read(path), "head")).endswith(f"forked from origin after message \\[{shared - 1}]")
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_turns_can_be_moved(self, store, path, session):
        """Messages come in the order of their cells."""
        notebook = read(path)
        cells = notebook["cells"]
        cells[1:1] = [cells.pop(6), cells.pop(6)]
        write(path, notebook)
        assert load(store).messages == [*session.messages[5:], *session.messages[:5]]

    @pytest.mark.parametrize(
        ("indices", "named"),
        [
            ([2], r"cells\[2\] \(message 1, assistant\): tool call 'call_1' has no result"),
            ([3], r"cells\[2\] \(message 1, assistant\): tool call 'call_2' has no result"),
            ([1], r"cells\[2\] \(message 2, tool 'get_weather'\): tool result for 'call_1' belongs to no open call"),
        ],
    )
    def test_torn_calls(self, store, path, session, indices, named):
        """A call without its result, or the other way round, is refused; the cell is named and nothing is written."""
        take_out(path, *indices)
        before = path.read_bytes()
        with pytest.raises(TranscriptError, match=named):
            load(store)
        with pytest.raises(TranscriptError, match=named):
            save(NotebookSessionStore(path.parent), session)
        assert path.read_bytes() == before

    def test_a_call_taken_out_of_its_cell(self, store, path, session):
        """A call that is cut out of its cell leaves a result without a call."""
        notebook = read(path)
        cell = cell_of(notebook, 1)
        text = source(cell)
        cell["source"] = text[: text.rindex("<details>")]
        write(path, notebook)
        with pytest.raises(TranscriptError, match=r"cells\[4\] \(message 3, tool 'get_weather'\)"):
            load(store)

    def test_a_cell_pasted_twice(self, store, path, session):
        """A copy of a cell is refused; which one is meant cannot be known."""
        notebook = read(path)
        copy = {**cell_of(notebook, 5), "id": "pasted"}
        notebook["cells"].insert(4, copy)
        write(path, notebook)
        with pytest.raises(TranscriptError, match=r"cells\[7\], is a second copy of the message in cells\[4\]"):
            load(store)

    @pytest.mark.parametrize("kept", [0, 1])
    @pytest.mark.parametrize(("first", "second"), [("head", 0), (0, 1), (5, 6), (6, "foot")])
    def test_merged_cells(self, store, path, session, first, second, kept):
        """Cells that were merged are refused: what one has said is not put into another's mouth."""
        notebook = read(path)
        cells = [cell_of(notebook, first), cell_of(notebook, second)]
        cells[kept]["source"] = "\n\n".join(map(source, cells))
        notebook["cells"].remove(cells[1 - kept])
        write(path, notebook)
        before = path.read_bytes()
        with pytest.raises(TranscriptError, match=r"was merged into|lacks the last cell|what a tool returned"):
            load(store)
        with pytest.raises(TranscriptError):
            save(NotebookSessionStore(path.parent), session)
        assert path.read_bytes() == before

    def test_without_the_last_cell(self, store, path, session):
        """Runs and settings are not lost without a word."""
        take_out(path, "foot")
        with pytest.raises(TranscriptError, match="lacks the last cell"):
            load(store)

    def test_without_the_first_cell(self, store, path, session):
        """The first cell can be taken out; the next save puts it back."""
        take_out(path, "head")
        assert load(store) == session
        save(store, session)
        assert kinds(path)[0] == "head"
        check_valid(path)

    def test_what_was_invalid_before(self, store, path):
        """A transcript that was stored invalid loads, also when something else was edited, and can be repaired."""
        session = talk(2)
        session.messages += [AssistantMessage(ToolCall("c", "f")), UserMessage("q"), ToolMessage("x", "f", "y")]
        save(store, session)
        take_out(path, 0, 1)
        edit(path, 5, "q", "why")
        loaded = load(store)
        assert texts(loaded) == ["question 1", "é\u2028", "", "why", "y"]
        assert loaded.repair()


class TestOwnCells:
    def test_stay_where_they_stand(self, store, path, session):
        """Cells of the user's, with their outputs, survive each save and addition between the same messages."""
        output = {"name": "stdout", "output_type": "stream", "text": ["1\n", "2\n"]}
        put_in(path, "head", note("at the top"))
        put_in(path, 1, code("print(1)", output), note("in the middle"))
        put_in(path, 6, note("at the end"))
        put_in(path, "foot", note("behind it"))
        cells = [cell for cell in read(path)["cells"] if "cyclops_nb" not in cell["metadata"]]
        order = [
            "head",
            "at the top",
            0,
            1,
            "print(1)",
            "in the middle",
            2,
            3,
            4,
            5,
            6,
            "at the end",
            "foot",
            "behind it",
        ]
        loaded = load(store)
        assert loaded == session
        save(store, loaded)
        assert kinds(path) == order
        add(store, loaded, [])
        assert kinds(path) == order
        add(store, loaded, say(loaded))
        order = [*order[:-2], "behind it", 7, 8, "foot"]
        assert kinds(path) == order
        save(store, loaded)
        assert kinds(path) == order
        assert [cell for cell in read(path)["cells"] if "cyclops_nb" not in cell["metadata"]] == cells
        assert load(NotebookSessionStore(path.parent)) == loaded
        check_valid(path)

    def test_when_messages_go(self, store, path, session):
        """What stood behind a message that is gone stands behind the one before it."""
        put_in(path, 5, note("mine"))
        loaded = load(store)
        loaded.truncate(4)
        save(store, loaded)
        assert kinds(path) == ["head", 0, 1, 2, 3, "mine", "foot"]

    def test_before_everything(self, store, path, session):
        """A cell before the first one stays there."""
        notebook = read(path)
        notebook["cells"].insert(0, note("first"))
        write(path, notebook)
        loaded = load(store)
        loaded.messages.clear()
        save(store, loaded)
        assert kinds(path) == ["first", "head", "foot"]

    def test_other_metadata(self, store, path, session):
        """What others keep in the metadata of our cells and of the notebook is theirs, also where a cell is written anew."""
        notebook = read(path)
        notebook["metadata"]["mine"] = {"a": 1}
        for index in (0, 5, "head", "foot"):
            cell_of(notebook, index)["metadata"]["tags"] = ["keep"]
        write(path, notebook)
        edit(path, 5, "Thanks.", "Thank you.")
        loaded = load(store)
        loaded.title = "New"
        loaded.messages[:] = loaded.messages[4:]
        save(store, loaded)
        add(store, loaded, say(loaded))
        notebook = read(path)
        assert notebook["metadata"]["mine"] == {"a": 1}
        assert [cell_of(notebook, index)["metadata"].get("tags") for index in ("head", 0, 1, "foot")] == [
            ["keep"], None, ["keep"], ["keep"],
        ]  # fmt: skip
        check_valid(path)


class TestLostData:
    """Messages whose data are gone, though their text stands in the notebook."""

    def test_a_message_merged_into_a_cell_of_the_users_own(self, store, path):
        """The cell is named: else the message would be gone without a word."""
        save(store, conversation())
        put_in(path, 5, note("My own remark."))
        notebook = read(path)
        cells = notebook["cells"]
        place = next(number for number, cell in enumerate(cells) if source(cell) == "My own remark.")
        cells[place]["source"] = source(cells[place]) + "\n\n" + source(cells[place + 1])
        del cells[place + 1]
        write(path, notebook)
        with pytest.raises(TranscriptError, match=rf"cells\[{place}\]"):
            load(NotebookSessionStore(path.parent))

    def test_a_message_without_its_metadata(self, store, path):
        """As another program may leave it."""
        save(store, conversation())
        notebook = read(path)
        cell_of(notebook, 5)["metadata"] = {"cyclops_nb": "hey"}
        write(path, notebook)
        with pytest.raises(TranscriptError, match="has lost its metadata"):
            load(NotebookSessionStore(path.parent))

    def test_a_heading_without_the_backslash_is_the_heading(self, store, path):
        """As somebody types it who reads it."""
        save(store, conversation())
        edit(path, 5, "## \\[5] user\n\nThanks.", "## [5] user\n\nThank you.")
        assert load(NotebookSessionStore(path.parent)).messages[5].text == "Thank you."
