"""Server-sent events, and surrogate pairs that a server tore apart."""

import pytest
from chunks import answer, call, calls, cut, delta
from hypothesis import given
from hypothesis import strategies as st

from cyclops_nb.models.sse import Frame, SSEDecoder
from cyclops_nb.models.surrogates import SurrogateJoiner


class TestDecoder:
    @staticmethod
    def frames(data):
        decoder = SSEDecoder()
        return decoder.feed(data) + decoder.close()

    @given(
        st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1, max_size=6), max_size=4),
        st.sampled_from(["\n", "\r\n", "\r"]),
        st.data(),
    )
    def test_any_data_comes_back(self, payloads, end, data):
        """Any frames, with any line ends, in any split, come back; U+2028 and the like end no line."""
        body = "".join(f"data: {payload}{end}{end}" for payload in payloads).encode()
        decoder = SSEDecoder()
        frames = [frame for piece in data.draw(cut(body)) for frame in decoder.feed(piece)]
        assert [frame.data.decode() for frame in [*frames, *decoder.close()]] == payloads

    def test_data_lines_of_one_frame_are_joined(self):
        """Several data lines are one piece of data with line ends between."""
        assert self.frames(b"data: a\ndata: b\n\n") == [Frame("", b"a\nb")]

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    def test_a_line_end_in_two_pieces_is_one(self, end):
        """A line end that the network cut in two does not end a frame too early."""
        body = b"event: error\ndata: a\ndata: b\n\ndata: c\n\n".replace(b"\n", end)
        decoder = SSEDecoder()
        frames = [frame for byte in body for frame in decoder.feed(bytes([byte]))]
        assert [*frames, *decoder.close()] == [Frame("error", b"a\nb"), Frame("", b"c")]

    def test_only_one_space_after_the_colon_is_cut(self):
        """The first space after the colon does not count, a second does."""
        assert self.frames(b"data:  a\n\ndata:b\n\n") == [Frame("", b" a"), Frame("", b"b")]

    def test_the_event_belongs_to_its_frame(self):
        """The name of an event does not leak into the next frame, even without data."""
        assert self.frames(b"event: error\ndata: a\n\ndata: b\n\nevent: x\n\ndata: c\n\n") == [
            Frame("error", b"a"),
            Frame("", b"b"),
            Frame("", b"c"),
        ]

    def test_comments_and_unknown_fields_are_nothing(self):
        """Comments, ids, retry times and unknown fields make no frame."""
        assert self.frames(b": ping\n\nid: 1\nretry: 5\nother: x\nnothing\n\ndata: a\n\n") == [Frame("", b"a")]

    def test_the_end_of_the_stream_ends_a_frame(self):
        """A frame whose blank line never came is handed on at the end."""
        assert self.frames(b"data: a\n\ndata: b") == [Frame("", b"a"), Frame("", b"b")]

    def test_a_mark_of_byte_order_counts_at_the_start_only(self):
        """U+FEFF later in the stream is text."""
        assert self.frames(b"\xef\xbb\xbfdata: \xef\xbb\xbfa\n\n") == [Frame("", b"\xef\xbb\xbfa")]

    def test_frames_come_as_soon_as_they_are_complete(self):
        """A frame is not held back until more bytes come, with LF as well as CRLF line ends."""
        assert SSEDecoder().feed(b"data: a\n\n") == [Frame("", b"a")]
        assert SSEDecoder().feed(b"data: a\r\n\r\n") == [Frame("", b"a")]


class TestSurrogates:
    def test_a_half_waits_for_its_other_half(self):
        """The first half of a pair is held back, and handed on as a character."""
        joiner = SurrogateJoiner()
        assert (joiner.push("a\ud83d"), joiner.push(""), joiner.push("\ude00b")) == ("a", "", "😀b")

    def test_a_half_that_stays_alone_is_replaced(self):
        """A half whose other half never comes becomes U+FFFD, at once or at the end."""
        joiner = SurrogateJoiner()
        assert joiner.push("\ud83d") + joiner.push("x") == "\ufffdx"
        assert joiner.push("\ude00") == "\ufffd"
        assert joiner.push("\ud83d") + joiner.flush() == "\ufffd"
        assert joiner.flush() == ""

    def test_a_half_at_the_end_of_an_answer_is_replaced(self):
        """An answer that ends in the middle of a character can be stored."""
        completion = answer(delta(content="a\ud83d"), delta("stop"))
        assert completion.text == "a\ufffd"
        assert answer(delta(reasoning="a\ud83d"), delta("stop")).message().reasoning == "a\ufffd"
        assert calls(call(index=0, id="a", name="f", args='{"\ud83d')) == [("a", "f", '{"\ufffd')]
