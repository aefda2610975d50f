"""Hypothesis strategies: any text, any message, any valid or broken transcript, any session."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cyclops_nb.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SummaryMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.runs import Run, RunError
from cyclops_nb.session import Parent, Session
from cyclops_nb.usage import Usage

moderate = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests on whole sessions: enough examples to find what is wrong, few enough to run with every change."""

_ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "\r\n",
    "a\u2028b\u2029c\u0085d\x0be\x1cf\r\ng",
    "😀 👩‍👩‍👧 é",
    "\ud83d",
    "\ude00\ud83d",
    "\ud83d\ude00",
    "x\udc9d",
    "</script><b>",
    '{"a": 1}',
]
_FUTURE_NAMES = [
    "future",
    "x_rating",
    "text",
    "value",
    "schema",
    "copy",
    "model_name",
    "fork",
    "busy",
    "ünïcode",
    "a b",
]

texts = st.one_of(st.text(st.characters(exclude_categories=()), max_size=12), st.sampled_from(_ODD_TEXTS))
"""Any text, lone surrogates and line separators included."""
clean_texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from([text for text in _ODD_TEXTS if not any(0xD800 <= ord(letter) < 0xE000 for letter in text)]),
)
"""Any text that UTF-8 can hold."""
names = st.sampled_from(["get_weather", "now", "search", "read-file", ""])
call_ids = st.sampled_from(["call_1", "call_2", "0", "a", "call_1_2"])
"""Few, so that ids repeat over a conversation, as they do in real data."""
moments = st.datetimes(
    datetime(1970, 1, 2),
    datetime(2200, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))]),
)
seconds = st.none() | st.floats(0, 1e6, allow_nan=False)
dollars = st.none() | st.floats(0, 1e4, allow_nan=False)
_COUNTS = st.integers(0, 2**40)


def json_values(text: st.SearchStrategy[str] = texts) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON data."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
    )
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=4
    )


def json_objects(text: st.SearchStrategy[str] = texts) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for JSON objects, mostly empty ones."""
    return st.just({}) | st.dictionaries(text, json_values(text), max_size=2)


unknown_fields = st.just({}) | st.dictionaries(st.sampled_from(_FUTURE_NAMES), json_values(), max_size=2)
"""Fields of a later version, some of them named like methods and properties."""

usages = st.builds(Usage, _COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS)

_text_parts = st.builds(TextPart, texts, provider_metadata=json_objects())
_reasoning_parts = st.builds(ReasoningPart, texts, provider_metadata=json_objects())
_images = st.builds(ImagePart, st.binary(max_size=8), media_type=st.just("image/png")) | st.builds(
    ImagePart, url=st.sampled_from(["https://example.org/a.png", "data:image/png;base64,AA=="])
)
_files = st.builds(FilePart, texts, st.binary(max_size=8), st.just("application/pdf"))
arguments = st.one_of(texts, st.none(), json_objects(), st.just('{"city": "Paris"}'))
"""What servers send as the arguments of a call, well formed or not."""
tool_calls = st.builds(ToolCall, call_ids, names, arguments, provider_metadata=json_objects())
input_parts = st.one_of(_text_parts, _images, _files)
input_content = texts | st.lists(input_parts, max_size=3)
_facts = {
    "created_at": moments,
    "run_id": st.none() | st.sampled_from(["run-1", "run-2"]),
    "metadata": json_objects(),
    "provider_metadata": json_objects(),
}


def _with_unknown(build: st.SearchStrategy[Message]) -> st.SearchStrategy[Message]:
    return st.builds(
        lambda message, unknown: (
            type(message).model_validate({**message.model_dump(), **unknown}) if unknown else message
        ),
        build,
        unknown_fields,
    )


user_messages = _with_unknown(st.builds(UserMessage, input_content, **_facts))
summary_messages = _with_unknown(st.builds(SummaryMessage, input_content, st.integers(0, 99), **_facts))
tool_messages = _with_unknown(
    st.builds(
        ToolMessage,
        call_ids,
        names,
        input_content,
        st.sampled_from(["ok", "error", "cancelled"]),
        duration=seconds,
        **_facts,
    )
)
assistant_messages = _with_unknown(
    st.builds(
        AssistantMessage,
        texts | st.lists(_text_parts | _reasoning_parts | tool_calls, max_size=4),
        model=st.none() | texts,
        finish_reason=st.none() | st.sampled_from(["stop", "tool_calls", "length"]),
        duration=seconds,
        usage=st.none() | usages,
        cost=dollars,
        **_facts,
    )
)
"""Answers with any parts; ids of calls may repeat, even within one."""

messages = st.one_of(user_messages, assistant_messages, tool_messages, summary_messages)
"""Any message of any role."""
any_transcripts = st.lists(messages, max_size=8)
"""Messages in any order: mostly no valid transcript."""


_distinct_ids = st.lists(call_ids, unique=True, max_size=4)
_orders = st.randoms(use_true_random=False)


@st.composite
def _turns(draw: st.DrawFn) -> list[Message]:
    """Return an answer with 0 to 4 calls among its parts, and their results in any order."""
    calls = [draw(tool_calls).model_copy(update={"id": call_id}) for call_id in draw(_distinct_ids)]
    answer = draw(assistant_messages)
    prose = [part for part in answer.content if not isinstance(part, ToolCall)]
    content = (*prose[:1], *calls, *prose[1:])
    results = [draw(tool_messages).model_copy(update={"call_id": call.id, "name": call.name}) for call in calls]
    draw(_orders).shuffle(results)
    return [answer.model_copy(update={"content": content}), *results]


valid_transcripts = st.lists(
    _turns() | user_messages.map(lambda message: [message]) | summary_messages.map(lambda message: [message]),
    max_size=4,
).map(lambda turns: [message for turn in turns for message in turn])
"""Messages in which every call is answered once, in its turn."""


_places = st.integers(0, 20)
_damages = st.lists(st.tuples(st.sampled_from(["lose", "double", "move"]), _places, _places), min_size=1, max_size=3)


@st.composite
def _damaged(draw: st.DrawFn) -> list[Message]:
    """Return a transcript that was valid before something was lost, doubled or moved."""
    transcript = list(draw(valid_transcripts))
    for damage, place, target in draw(_damages):
        if not transcript:
            break
        index = place % len(transcript)
        message = transcript[index] if damage == "double" else transcript.pop(index)
        if damage != "lose":
            transcript.insert(target % (len(transcript) + 1), message)
    return transcript


broken_transcripts = any_transcripts | _damaged()
"""Messages that may or may not be a valid transcript."""

run_errors = st.builds(RunError, type=st.sampled_from(["ValueError", "ModelError"]), message=texts)


runs = st.builds(
    lambda unknown, **fields: Run(**{**unknown, **fields}),
    unknown_fields,
    session_id=st.sampled_from(["s", "origin"]),
    kind=st.sampled_from(["run", "compaction"]),
    config=st.none() | st.sampled_from(["c1", "c2"]),
    model=texts,
    started_at=moments,
    duration=seconds,
    steps=st.integers(0, 9),
    usage=st.none() | usages,
    usage_complete=st.booleans(),
    cost=dollars,
    input_limit=st.none() | st.integers(1, 10**6),
    stop_reason=st.none() | st.sampled_from(["completed", "error", "cancelled", "max_iterations"]),
    error=st.none() | run_errors,
    warnings=st.lists(texts, max_size=2),
)
"""Records of runs made in the session ``s``, or in another."""


def sessions(transcripts: st.SearchStrategy[list[Message]] = valid_transcripts) -> st.SearchStrategy[Session]:
    """Return a strategy for sessions with any runs, settings, metadata, unknown fields and parent."""
    return st.builds(
        lambda unknown, **fields: Session(**{**unknown, **fields}),
        unknown_fields,
        id=st.just("s"),
        title=st.none() | clean_texts,
        created_at=moments,
        metadata=json_objects(clean_texts),
        parent=st.none() | st.builds(Parent, session_id=st.just("origin"), message_count=st.integers(0, 3)),
        messages=transcripts,
        configs=st.dictionaries(st.sampled_from(["c1", "c2"]), json_objects(), max_size=2),
        runs=st.lists(runs, max_size=3),
    )
