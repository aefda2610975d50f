"""Messages and parts: what they accept, what they keep, and that nothing in them can change."""

import base64
import copy
import json
import pickle

import pytest
from hypothesis import given
from pydantic import TypeAdapter, ValidationError
from strategies import json_objects, messages, moderate

from cyclops_nb.errors import InputError
from cyclops_nb.messages import (
    AnyMessage,
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
from cyclops_nb.values import FrozenDict

ANY = TypeAdapter(AnyMessage)


def written(message):
    """Return a message as the JSON data that a session keeps."""
    return json.loads(message.model_dump_json())


class TestAnyMessage:
    @moderate
    @given(messages)
    def test_survives_dump_and_load(self, message):
        """Any message, whatever text it was made of, can be written and comes back equal."""
        loaded = ANY.validate_json(message.model_dump_json())
        assert loaded == message
        assert type(loaded) is type(message)

    @moderate
    @given(messages)
    def test_is_written_the_same_again(self, message):
        """A loaded message is written byte for byte as the original."""
        data = message.model_dump_json()
        assert ANY.validate_json(data).model_dump_json() == data

    @moderate
    @given(messages)
    def test_survives_pickling_and_copying(self, message):
        """A pickled or copied message equals the original."""
        assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - written in the line itself
        assert copy.copy(message) == copy.deepcopy(message) == message

    @moderate
    @given(messages)
    def test_text_is_that_of_the_text_parts(self, message):
        """The text of a message is its text parts put together, of any role."""
        assert message.text == "".join(part.text for part in message.content if isinstance(part, TextPart))

    @moderate
    @given(messages)
    def test_refuses_assignment(self, message):
        """No field of a message or of its parts can be assigned."""
        for value in (message, *message.content):
            for name in type(value).model_fields:
                with pytest.raises(ValidationError):
                    setattr(value, name, getattr(value, name))

    @moderate
    @given(messages)
    def test_holds_nothing_that_can_change(self, message):
        """Whatever is reachable in a message is a value, a tuple or a read-only mapping."""

        def walk(value):
            if isinstance(value, dict):
                assert type(value) is FrozenDict
                assert all(walk(item) for item in value.values())
            elif isinstance(value, tuple):
                assert all(walk(item) for item in value)
            else:
                assert not isinstance(value, list | set | bytearray)
            return True

        for value in (message, *message.content):
            assert all(walk(item) for _, item in value)

    def test_has_an_id_and_a_time_of_its_own(self):
        """Two messages of the same content have different ids, and times with a zone."""
        first, second = UserMessage("a"), UserMessage("a")
        assert first.id != second.id
        assert first.created_at.tzinfo is not None

    def test_a_time_without_zone_is_refused(self):
        """A moment without a time zone is refused, since nobody could say when it was."""
        with pytest.raises(ValidationError, match="timezone"):
            UserMessage("a", created_at="2025-03-01T09:00:00")

    def test_the_role_decides_how_it_is_read(self):
        """Data with a bad field gives one error about that field, not one for each role."""
        with pytest.raises(ValidationError) as caught:
            ANY.validate_python({"role": "tool", "call_id": "a", "name": "b", "content": "c", "status": "great"})
        assert [problem["loc"] for problem in caught.value.errors()] == [("tool", "status")]


class TestUnknownFields:
    DATA = {
        "role": "assistant",
        "id": "m",
        "created_at": "2025-03-01T09:00:00Z",
        "rating": {"stars": [1, 2]},
        "text": "not the text",
        "content": [{"type": "text", "text": "Hi", "schema": 1, "copy": None}],
        "usage": {"requests": 1, "input_tokens": 2, "output_tokens": 3, "audio_tokens": 4},
    }

    def test_come_back(self):
        """Unknown fields of a message, a part and a usage are written as they were read."""
        data = written(ANY.validate_python(self.DATA))
        assert data["rating"] == {"stars": [1, 2]}
        assert data["text"] == "not the text"
        assert data["content"][0] == self.DATA["content"][0]
        assert data["usage"]["audio_tokens"] == 4

    def test_do_not_replace_what_the_library_says(self):
        """An unknown field that is named like a property does not take its place."""
        assert ANY.validate_python(self.DATA).text == "Hi"

    def test_are_read_only(self):
        """Unknown fields cannot be changed either."""
        message = ANY.validate_python(self.DATA)
        with pytest.raises(TypeError, match="read-only"):
            message.rating["stars"] = []
        with pytest.raises(ValidationError):
            message.rating = 1

    @moderate
    @given(json_objects())
    def test_may_be_any_json(self, value):
        """Any JSON data in an unknown field survives dump and load."""
        message = UserMessage("a", future=value)
        assert ANY.validate_json(message.model_dump_json()) == message

    def test_that_are_no_json_are_refused(self):
        """An unknown field that JSON cannot hold is refused when the message is made, not when it is saved."""
        with pytest.raises(ValueError, match=r"future.*object"):
            UserMessage("a", future=object())


class TestContent:
    @pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, SummaryMessage])
    def test_text_becomes_a_part(self, kind):
        """Content that is given as text becomes one text part."""
        assert kind("Hello").content == (TextPart("Hello"),)

    def test_one_part_becomes_a_tuple(self):
        """Content that is given as one part becomes a tuple of it."""
        assert AssistantMessage(ToolCall("a", "now")).content == (ToolCall("a", "now"),)

    def test_keeps_the_order(self):
        """Parts stay in the order in which they came."""
        parts = [TextPart("a"), ReasoningPart("b"), ToolCall("c", "now"), TextPart("d"), ToolCall("e", "now")]
        message = AssistantMessage(parts)
        assert message.content == tuple(parts)
        assert message.text == "ad"
        assert message.reasoning == "b"
        assert [call.id for call in message.tool_calls] == ["c", "e"]

    def test_a_list_of_parts_is_not_held_on_to(self):
        """Changing the list that a message was made of does not change the message."""
        parts = [TextPart("a")]
        message = UserMessage(parts)
        parts.append(TextPart("b"))
        assert message.text == "a"

    @pytest.mark.parametrize("part", [ToolCall("a", "now"), ReasoningPart("a")])
    def test_a_user_calls_no_tools(self, part):
        """A user message takes neither tool calls nor reasoning."""
        with pytest.raises(ValidationError):
            UserMessage([part])

    def test_an_answer_has_no_pictures(self):
        """An assistant message takes no images."""
        with pytest.raises(ValidationError):
            AssistantMessage([ImagePart(b"a", media_type="image/png")])

    def test_a_str_subclass_becomes_plain_text(self):
        """Text of a subclass of str is kept as plain text."""

        class Loud(str):
            __slots__ = ()

            def __str__(self):
                return self.upper()

        part = TextPart(Loud("hello"))
        assert part.text == "hello"
        assert type(part.text) is str


class TestToolCall:
    @pytest.mark.parametrize("sent", [None, "", "  \n", {}])
    def test_no_arguments_are_an_empty_object(self, sent):
        """Missing, null and blank arguments are stored as an empty object."""
        assert ToolCall("a", "now", sent).arguments == "{}"

    def test_arguments_left_out_are_an_empty_object(self):
        """A call without the field has an empty object too, also when it is loaded."""
        assert ToolCall("a", "now").arguments == "{}"
        assert ToolCall.model_validate({"id": "a", "name": "now"}).args == {}

    def test_arguments_stay_as_they_were_written(self):
        """The text of the arguments is kept letter for letter."""
        text = '{ "city":"Paris",\n"n": 1.0}'
        assert ToolCall("a", "now", text).arguments == text

    def test_an_object_becomes_its_json(self):
        """Arguments that come as an object are stored as its JSON text."""
        assert ToolCall("a", "now", {"city": "Köln"}).arguments == '{"city": "Köln"}'

    def test_an_object_becomes_valid_json_whatever_is_in_it(self):
        """Not-a-number and lone surrogates in an object do not spoil the stored arguments."""
        arguments = ToolCall("a", "now", {"x": float("nan"), "y": "\ud800"}).arguments
        assert json.loads(arguments) == {"x": None, "y": "\ufffd"}
        arguments.encode()

    def test_args_are_parsed(self):
        """The parsed arguments are a dict."""
        assert ToolCall("a", "now", '{"city": "Paris"}').args == {"city": "Paris"}

    @pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", '"text"', "3", "{a: 1}"])
    def test_broken_arguments_are_kept_and_named(self, arguments):
        """Arguments that are no JSON object are kept, and asking for them parsed names the call."""
        call = ToolCall("call_7", "now", arguments)
        assert call.arguments == arguments
        with pytest.raises(InputError, match=r"'call_7'.*'now'"):
            call.args


class TestImagePart:
    def test_bytes_become_base64(self):
        """An image given as bytes is kept in base64."""
        part = ImagePart(b"\x89PNG", media_type="image/png")
        assert base64.b64decode(part.data) == b"\x89PNG"

    def test_base64_stays_as_it_was_sent(self):
        """Base64 is not decoded and encoded anew: line breaks and missing padding stay."""
        part = ImagePart("iVBO\nRw", media_type="image/png")
        assert written(UserMessage(part))["content"] == [
            {"type": "image", "media_type": "image/png", "data": "iVBO\nRw"}
        ]

    def test_an_address_stands_alone(self):
        """An image by its address is written without data and media type."""
        part = ImagePart(url="https://example.org/cat.png")
        assert json.loads(part.model_dump_json()) == {"type": "image", "url": "https://example.org/cat.png"}

    def test_needs_one_source(self):
        """An image with neither data nor address, or with both, is refused."""
        with pytest.raises(ValidationError, match="either data= or url="):
            ImagePart()
        with pytest.raises(ValidationError, match="either data= or url="):
            ImagePart(b"a", "https://example.org/a.png", "image/png")

    def test_data_needs_a_media_type(self):
        """Image data without its type is refused with an example of one."""
        with pytest.raises(ValidationError, match="image/png"):
            ImagePart(b"a")

    def test_its_repr_hides_the_data(self):
        """The repr of an image or file shows no base64."""
        assert "QUFB" not in repr(
            UserMessage([ImagePart("QUFB", media_type="image/png"), FilePart("a", "QUFB", "b/c")])
        )


class TestFilePart:
    def test_bytes_become_base64(self):
        """A file given as bytes is kept in base64, with its name and type."""
        assert json.loads(FilePart("a.txt", b"hello", "text/plain").model_dump_json()) == {
            "type": "file",
            "name": "a.txt",
            "media_type": "text/plain",
            "data": "aGVsbG8=",
        }


class TestToolMessage:
    def test_its_value_lives_in_memory_only(self):
        """The object that a tool returned is at hand, but neither saved nor compared."""
        message = ToolMessage("a", "now", "12:00", id="m", created_at="2025-03-01T09:00:00Z")
        value = object()
        message.remember(value)
        assert message.value is value
        loaded = ANY.validate_json(message.model_dump_json())
        assert loaded.value is None
        assert loaded == message

    def test_pickling_leaves_the_value_behind(self):
        """A message whose tool returned something that cannot be pickled can be pickled."""
        message = ToolMessage("a", "now", "12:00")
        message.remember(lambda: None)
        assert pickle.loads(pickle.dumps(message)).value is None  # noqa: S301 - written in the line itself

    def test_values_of_two_messages_are_their_own(self):
        """What one message remembers is not seen in another."""
        first, second = ToolMessage("a", "now", "1"), ToolMessage("b", "now", "2")
        first.remember(1)
        assert second.value is None

    def test_its_status_is_one_of_three(self):
        """A status that does not exist is refused."""
        assert [ToolMessage("a", "n", "t", status).status for status in ("ok", "error", "cancelled")]
        with pytest.raises(ValidationError):
            ToolMessage("a", "n", "t", "failed")
