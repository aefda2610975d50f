"""Text that can be encoded, and mappings that cannot change."""

import json

import pytest
from hypothesis import given
from strategies import json_objects, moderate, texts

from cyclops_nb.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from cyclops_nb.values import FrozenDict, clean_json, clean_text, freeze


def written(message):
    """Return a message as the JSON data that a session keeps."""
    return json.loads(message.model_dump_json())


class TestText:
    @moderate
    @given(texts)
    def test_can_be_encoded(self, text):
        """Whatever text comes in, what a message holds can be encoded."""
        UserMessage(text).text.encode()
        ToolMessage(text, text, text).model_dump_json()
        AssistantMessage(ToolCall(text, text, text), model=text).model_dump_json()

    @moderate
    @given(texts)
    def test_is_kept_if_it_can_be_encoded(self, text):
        """Text that can be encoded is kept exactly, with all its line ends and separators."""
        try:
            text.encode()
        except UnicodeEncodeError:
            return
        assert UserMessage(text).text == text

    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ("ok \ud83d\ude00", "ok 😀"),
            ("\ud83d", "\ufffd"),
            ("x\udc9dy", "x\ufffdy"),
            ("\ude00\ud83d", "\ufffd\ufffd"),
            ("a\u2028b\u0085c\r\n\x00", "a\u2028b\u0085c\r\n\x00"),
        ],
    )
    def test_pairs_are_joined_and_halves_replaced(self, text, kept):
        """A surrogate pair becomes its character, a lone half becomes U+FFFD, all else stays."""
        assert clean_text(text) == kept

    def test_keys_are_mended_too(self):
        """Lone surrogates in the keys and values of metadata are replaced as well."""
        message = UserMessage("a", metadata={"k\ud800": ["v\ud800"]}, provider_metadata={"\ud800": {"\ud800": 1}})
        assert message.metadata == {"k\ufffd": ("v\ufffd",)}
        assert written(message)["provider_metadata"] == {"\ufffd": {"\ufffd": 1}}


class TestReadOnlyMappings:
    @pytest.mark.parametrize(
        "change",
        [
            lambda mapping: mapping.__setitem__("a", 2),
            lambda mapping: mapping.__delitem__("a"),
            lambda mapping: mapping.update(a=2),
            lambda mapping: mapping.setdefault("b", 2),
            lambda mapping: mapping.pop("a"),
            lambda mapping: mapping.popitem(),
            lambda mapping: mapping.clear(),
            lambda mapping: mapping.__ior__({"a": 2}),
        ],
    )
    def test_refuse_every_change(self, change):
        """No way to change a dict changes the metadata of a message."""
        metadata = UserMessage("a", metadata={"a": {"b": [1]}}).metadata
        with pytest.raises(TypeError, match="read-only"):
            change(metadata)
        with pytest.raises(TypeError, match="read-only"):
            change(FrozenDict(a=metadata["a"]))
        assert metadata == {"a": {"b": (1,)}}

    def test_do_not_hold_on_to_what_they_were_made_of(self):
        """Changing the dict that metadata was given as does not change the message."""
        given_metadata = {"a": [1]}
        message = UserMessage("a", metadata=given_metadata)
        given_metadata["a"].append(2)
        assert message.metadata == {"a": (1,)}

    def test_can_be_copied_into_a_dict(self):
        """A plain dict with changes is made as from any mapping."""
        metadata = UserMessage("a", metadata={"a": 1}).metadata
        assert {**metadata, "b": 2} == metadata | {"b": 2} == {"a": 1, "b": 2}

    @moderate
    @given(json_objects())
    def test_freezing_and_thawing_keep_the_data(self, value):
        """Frozen data and its plain form are the same JSON, and freezing twice changes nothing."""
        frozen = freeze(value)
        assert freeze(frozen) == frozen
        assert json.dumps(clean_json(frozen)) == json.dumps(clean_json(value))

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    def test_what_is_not_a_number_becomes_null(self, number):
        """Not-a-number and infinity, which JSON does not know, become null."""
        assert UserMessage("a", metadata={"x": [number]}).metadata == {"x": (None,)}

    def test_name_what_json_cannot_hold(self):
        """Metadata that is no JSON data is refused with the place and the type."""
        with pytest.raises(ValueError, match=r"a\.b\[0\] is a set"):
            UserMessage("a", metadata={"a": {"b": [{1}]}})
