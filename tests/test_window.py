"""How much of the context window a transcript fills, and where it may be cut."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import moderate, valid_transcripts

from cyclops_nb import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ReasoningPart,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    transcript,
)
from cyclops_nb.engine.digest import digest
from cyclops_nb.engine.window import (
    cut_point,
    estimated_tokens,
    limit_told_in,
    scale_of_estimates,
    tokens_beside,
    tokens_of_request,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def talk(letters, size=1):
    """Return messages for letters: u, s, a, and c for an answer with a call and its result."""
    made = []
    for number, letter in enumerate(letters):
        words = f"{letter}{number} " * size
        if letter == "c":
            made.append(AssistantMessage(ToolCall(f"c{number}", "look", "{}")))
            made.append(ToolMessage(f"c{number}", "look", words))
        else:
            kind = {"u": UserMessage, "a": AssistantMessage, "s": SummaryMessage}[letter]
            made.append(kind(words))
    return made


def answered(text, usage, minutes=0):
    return AssistantMessage(text, usage=usage, created_at=NOW + timedelta(minutes=minutes))


class TestCutPoint:
    """All but the last messages, and no turn torn."""

    @pytest.mark.parametrize(
        ("letters", "keep_last", "cut"),
        [
            ("uauaua", 2, 4),
            ("uauaua", 4, 2),
            ("uauaua", 3, 2),  # begins with the user message before
            ("uauaua", 1, 4),
            ("uauaua", 0, 6),
            ("uauaua", 6, 0),
            ("uauaua", 99, 0),
            ("uaucca", 2, 2),  # u a u (call result) (call result) a: the whole turn is kept
            ("ucccca", 2, 7),  # one turn alone: between two steps
            ("ucccca", 1, 9),
            ("ucccc", 0, 7),  # the last results wait for an answer
            ("uauau", 0, 4),  # the question waits
            ("uauau", 2, 2),
            ("sua", 2, 0),  # a summary alone does not get shorter
            ("sua", 0, 3),
            ("suaua", 2, 3),
            ("", 0, 0),
            ("u", 0, 0),
            ("a", 0, 1),
        ],
    )
    def test_places(self, letters, keep_last, cut):
        """The kept part begins with a user message where it can."""
        assert cut_point(talk(letters), keep_last) == cut

    def test_a_turn_so_long_that_nothing_would_be_left_to_summarise(self):
        """It is cut between two of its steps."""
        messages = talk("ua" + "u" + "c" * 40 + "a", size=9)
        cut = cut_point(messages, 4)
        assert len(messages) - cut in (4, 5)
        assert isinstance(messages[cut], AssistantMessage)

    def test_less_is_kept_where_there_is_no_room(self):
        """Fewer messages than asked for, at the beginning of a turn or a step."""
        messages = talk("uauauaua", size=100)
        one = estimated_tokens(messages[-1:])
        assert cut_point(messages, 4, room=4 * one + 20) == 4
        assert cut_point(messages, 4, room=3 * one + 20) == 5
        assert cut_point(messages, 4, room=0) == 8

    def test_what_is_open_is_kept_even_without_room(self):
        """The model is to answer it."""
        assert cut_point(talk("uauau", size=100), 4, room=0) == 4
        assert cut_point(talk("uaucc", size=100), 4, room=0) == 5

    @moderate
    @given(valid_transcripts, st.integers(0, 12), st.none() | st.integers(0, 2000))
    def test_any_transcript(self, messages, keep_last, room):
        """What is kept is valid with a summary before it, and so is what is summarised."""
        cut = cut_point(messages, keep_last, room=room)
        transcript.check([SummaryMessage("so far"), *messages[cut:]])
        transcript.check(messages[:cut])
        if room is None:
            assert len(messages) - cut >= min(keep_last, len(messages))
        if messages and isinstance(messages[-1], UserMessage):
            assert cut < len(messages)


class TestCount:
    """What the server counted, and an estimate of what is new."""

    def test_text_by_its_length(self):
        """Four bytes to a token, and a little for each message."""
        assert estimated_tokens([UserMessage("abcd" * 100)]) == 104
        assert estimated_tokens([UserMessage("日本語" * 100)]) > estimated_tokens([UserMessage("abc" * 100)])

    def test_pictures_not_as_text(self):
        """However large the file."""
        small, large = (ImagePart(b"x" * size, media_type="image/png") for size in (10, 3_000_000))
        assert estimated_tokens([UserMessage(small)]) == estimated_tokens([UserMessage(large)]) < 2000

    def test_files_by_what_they_are(self):
        """Text files as text; others grow slowly with their size."""
        text = FilePart("a.txt", b"abcd" * 1000, "text/plain")
        assert estimated_tokens([UserMessage(text)]) == pytest.approx(1000, abs=10)
        assert estimated_tokens([UserMessage(FilePart("a.pdf", b"x" * 1_000_000, "application/pdf"))]) < 50_000

    def test_calls_and_results(self):
        """Names and arguments count; reasoning does not, most of it is not sent again."""
        call = AssistantMessage([ReasoningPart("x" * 4000), ToolCall("c", "look", '{"a": "' + "y" * 400 + '"}')])
        assert 100 < estimated_tokens([call]) < 130

    def test_the_last_report_counts(self):
        """With what has been added since."""
        messages = [UserMessage("a"), answered("b", Usage(1, 500, 20, 0, 5)), UserMessage("x" * 400)]
        assert tokens_of_request(messages, 0) == 515 + 104
        assert tokens_of_request(messages[:2], 1000) == 515

    def test_without_a_report_all_is_estimated(self):
        """System prompt and tools too."""
        beside = tokens_beside("x" * 400, [{"name": "look", "description": "y" * 400, "parameters": {}}])
        assert beside > 200
        assert tokens_of_request([UserMessage("abcd")], beside) == beside + 5

    def test_a_report_from_before_a_summary_does_not_count(self):
        """It counted messages that are gone."""
        old = answered("b", Usage(1, 9000, 20))
        summary = SummaryMessage("so far", 8, created_at=NOW + timedelta(minutes=1))
        assert tokens_of_request([summary, UserMessage("a"), old], 0) < 50
        newer = answered("c", Usage(1, 300, 20), minutes=2)
        assert tokens_of_request([summary, UserMessage("a"), old, UserMessage("d"), newer], 0) == 320

    def test_estimates_learn_from_reports(self):
        """A language with more tokens to the byte has its estimates scaled, within limits."""
        messages = [UserMessage("x" * 400), answered("y" * 400, Usage(1, 200, 212))]
        assert scale_of_estimates(messages, 0) == pytest.approx(412 / 208)
        assert scale_of_estimates(messages, 10_000) == 1
        assert scale_of_estimates([UserMessage("x"), answered("y", Usage(1, 90_000, 1))], 0) == 4


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        (
            "This model's maximum context length is 4097 tokens, you requested 4200 (3200 in the messages, 1000 more)",
            4097,
        ),
        ("context size (100 tokens) exceeded: 9999 tokens", 100),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072),
        ("Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)", 8192),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("This model's maximum context length is 8192 tokens. However, you requested 9,001 tokens", 8192),
        ("prompt is too long: 208310 tokens > 200000 maximum", 200_000),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Your input exceeds the context window of this model.", None),
        ("gpt-4o-2024 says: context full (code 413)", None),
    ],
)
def test_the_limit_that_a_server_names(said, limit):
    """Found in the words of its refusal."""
    assert limit_told_in(said) == limit


class TestDigest:
    """A transcript as a text for the model that summarises it."""

    def test_says_who_said_called_and_found_what(self):
        """In order, with statuses, and pictures by what they are."""
        messages = [
            SummaryMessage("They met.", 3),
            UserMessage([ImagePart(b"x", media_type="image/png"), FilePart("a.pdf", b"x", "application/pdf")]),
            AssistantMessage([ReasoningPart("hm"), ToolCall("c", "look", '{"a": 1}')]),
            ToolMessage("c", "look", "It broke.", status="error"),
            AssistantMessage("I could not look."),
        ]
        assert digest(messages).split("\n\n") == [
            "[Summary of what came before]\nThey met.",
            "[User]\n(an image) (a file, a.pdf)",
            '[Assistant calls look]\n{"a": 1}',
            "[Result of look, error]\nIt broke.",
            "[Assistant]\nI could not look.",
        ]

    def test_the_longest_texts_are_cut_first(self):
        """Short ones stay whole."""
        messages = [UserMessage("What is it?"), AssistantMessage("x" * 40_000), UserMessage("And that?")]
        text = digest(messages, tokens=1000)
        assert "What is it?" in text
        assert "And that?" in text
        assert "x […] x" in text
        assert 3600 < len(text) <= 4000

    @moderate
    @given(valid_transcripts, st.integers(40, 400))
    def test_fits_any_size(self, messages, tokens):
        """However many messages there are."""
        text = digest(messages * 30, tokens=tokens)
        assert estimated_tokens([UserMessage(text)]) <= tokens
