"""The data of images and files: what is found wrong with it before anything is sent, and what is said of it."""

import base64
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import GIF, HTML, JPEG, PDF, PICTURES, PNG, SVG, WEBP, encoded

from cyclops_nb import media
from cyclops_nb.content import input_messages, input_parts, result_parts
from cyclops_nb.errors import InputError
from cyclops_nb.media import checked, file_text, media_type_of
from cyclops_nb.messages import FilePart, ImagePart, SummaryMessage, TextPart, ToolMessage, UserMessage
from cyclops_nb.session import Session


def image(data=PNG, media_type="image/png"):
    """Return an image part."""
    return ImagePart(data, media_type=media_type)


def refusal(part):
    """Return what is said of a part that cannot be sent."""
    with pytest.raises(InputError) as caught:
        checked(part)
    return str(caught.value)


class TestGoodData:
    @pytest.mark.parametrize("media_type", PICTURES)
    def test_pictures_that_models_take(self, media_type):
        """PNG, JPEG, GIF and WEBP are taken, as bytes and as base64, and are the same part after the check."""
        for data in (PICTURES[media_type], encoded(PICTURES[media_type])):
            part = image(data, media_type)
            assert checked(part) is part

    @pytest.mark.parametrize(
        "part",
        [
            FilePart("a.pdf", PDF, "application/pdf"),
            FilePart("a.pdf", b"\r\n\xff" + PDF, "application/pdf"),
            FilePart("a.csv", b"a,b\n1,2\n", "text/csv"),
            FilePart("a.json", "{}".encode("utf-8-sig"), "application/json"),
            FilePart("a.txt", "Unicode text of Excel".encode("utf-16"), "text/plain; charset=utf-16"),
            FilePart("a.zip", b"PK\x03\x04\x00\xff", "application/zip"),
            FilePart("a.pdf", PDF, "application/octet-stream"),
            FilePart("a", b"\x00", "application/octet-stream"),
        ],
        ids=lambda part: f"{part.name} {part.media_type}",
    )
    def test_files(self, part):
        """PDFs, text files and others are taken."""
        assert checked(part) is part

    @settings(deadline=None)
    @given(st.binary(max_size=100), st.sampled_from(["\n", "\r\n", " ", "\n\t"]), st.integers(1, 76))
    def test_any_base64_in_lines(self, data, line_break, width):
        """Base64 may be broken into lines anywhere, as in mails; it is kept as it was sent."""
        text = line_break.join(textwrap.wrap(encoded(PNG + data), width)) + line_break
        part = image(text)
        assert checked(part).data == text

    @settings(deadline=None)
    @given(st.binary(max_size=100))
    def test_any_bytes_after_the_beginning(self, data):
        """What comes after the first bytes of a picture is for the model to read."""
        assert checked(image(PNG + data))

    @pytest.mark.parametrize(
        "url",
        [
            "https://example.org/cat.png?width=10",
            "http://localhost:8000/cat",
            f"data:image/png;base64,{encoded(PNG)}",
            f"data:image/webp;base64,{encoded(WEBP)}",
        ],
        ids=lambda url: url[:15],
    )
    def test_addresses(self, url):
        """Pictures may be given by an address on the web, or in an address that holds them."""
        assert checked(ImagePart(url=url)).url == url


class TestDamagedBase64:
    @settings(deadline=None)
    @given(st.text(max_size=40))
    def test_any_text_that_is_no_base64(self, text):
        """Any text as data is an `InputError`, unless it is base64 of the picture that it is said to be."""
        try:
            real = base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            real = b""
        if not real.startswith(b"\x89PNG"):
            with pytest.raises(InputError):
                checked(image(text))

    @pytest.mark.parametrize("cut", [1, 2, 3])
    def test_cut_off(self, cut):
        """Base64 whose end is missing is told from other damage."""
        text = encoded(PNG + b"\x00" * (-len(PNG) % 3))
        assert "not a multiple of 4" in refusal(image(text[:-cut]))
        assert "cut off" in refusal(image(text[:-cut]))

    def test_padding_that_is_missing(self):
        """Base64 without its padding is refused with the way to mend it."""
        text = encoded(b"%PDF-1.7")
        assert text.endswith("=")
        message = refusal(FilePart("a.pdf", text.rstrip("="), "application/pdf"))
        assert "the file 'a.pdf'" in message
        assert "'=' at its end" in message
        assert "give the bytes" in message

    def test_the_alphabet_of_addresses(self):
        """The alphabet of url-safe base64 is refused with the function that makes the usual one."""
        data = PNG + b"\xfb\xff\xfe"
        text = base64.urlsafe_b64encode(data).decode()
        assert set("-_") & set(text)
        for written in (text, text.rstrip("=")):
            message = refusal(image(written))
            assert "url-safe" in message
            assert "base64.b64encode" in message

    @pytest.mark.parametrize("place", [0, 7, -1])
    @pytest.mark.parametrize("wrong", ["!", "é", "=", "\x00", "%3D", "\ud800"])
    def test_a_letter_that_does_not_belong(self, place, wrong):
        """A foreign letter anywhere is damage."""
        text = encoded(PNG)
        message = refusal(image(text[:place] + wrong + text[place:]))
        assert message.startswith("the data of the image (image/png) is ")
        assert "base64" in message

    def test_base64_after_its_end(self):
        """Two pieces of base64 one after the other are damage: servers would read the first one alone."""
        assert "base64" in refusal(image(encoded(PNG + b"\x00" * ((1 - len(PNG)) % 3)) + encoded(PNG)))

    def test_an_address_as_data(self):
        """An address that was given as data is refused with the argument for it."""
        inline = f"data:image/png;base64,{encoded(PNG)}"
        message = refusal(image(inline))
        assert "url=" in message
        assert "after the comma" in message
        assert "url=" in refusal(image("https://example.org/cat.png"))
        assert "after the comma" in refusal(FilePart("a.pdf", "data:application/pdf;base64,AAAA", "application/pdf"))

    @pytest.mark.parametrize("name", ["cat.png", "/home/me/cat.png", "./figures/cat.png"])
    def test_the_name_of_a_file_as_data(self, name):
        """The name of a file that was given as data is refused with the way to give a file."""
        assert "Path" in refusal(image(name))

    def test_text_as_data_of_a_file(self):
        """Text that was not encoded is refused with the way to encode it."""
        assert ".encode()" in refusal(FilePart("a.txt", "some words", "text/plain"))

    def test_bytes_that_are_base64_already(self):
        """Base64 as bytes would be encoded twice, which is said."""
        message = refusal(image(base64.b64encode(PNG)))
        assert "base64 already" in message
        assert ".decode()" in message

    @pytest.mark.parametrize("data", [b"", "", " \n"])
    def test_no_data(self, data):
        """Data that is empty, or holds blanks alone, is empty input."""
        assert "input is empty" in refusal(image(data))
        assert "'a.txt'" in refusal(FilePart("a.txt", data, "text/plain"))

    def test_the_data_is_not_repeated(self):
        """An error does not print the data."""
        text = encoded(PNG + bytes(5000))[:-1]
        assert len(refusal(image(text))) < 400


class TestWrongTypes:
    @pytest.mark.parametrize("said", PICTURES)
    @pytest.mark.parametrize("real", [*PICTURES, "application/pdf"])
    def test_a_picture_of_another_type(self, said, real):
        """A picture that is not of the type that is said is refused, naming both."""
        if said == real:
            return
        data = PICTURES.get(real, PDF)
        message = refusal(image(data, said))
        assert said in message
        assert f"holds {real}" in message
        assert f'media_type="{real}"' in message or "FilePart" in message

    @pytest.mark.parametrize("real", [PNG, JPEG, GIF, WEBP, HTML, b"words"])
    def test_a_pdf_that_is_none(self, real):
        """A PDF that is none is refused."""
        assert "application/pdf" in refusal(FilePart("a.pdf", real, "application/pdf"))

    @pytest.mark.parametrize("said", ["text/csv", "application/json", "application/zip", "audio/mpeg"])
    @pytest.mark.parametrize("real", [PNG, JPEG, GIF, WEBP, PDF])
    def test_a_file_of_another_type(self, said, real):
        """A file that is known to be something else is refused, naming both."""
        message = refusal(FilePart("a", real, said))
        assert said in message
        assert media_type_of(real) in message

    def test_a_picture_as_a_file(self):
        """A picture that was given as a file is refused with the part for it, since servers do not take it so."""
        assert "ImagePart" in refusal(FilePart("a.png", PNG, "image/png"))

    @pytest.mark.parametrize(
        ("media_type", "word"),
        [
            ("image/svg+xml", "PNG"),
            ("image/tiff", "PNG"),
            ("image/bmp", "PNG"),
            ("image/heic", "PNG"),
            ("image", "PNG"),
            ("png", "PNG"),
            ("text/plain", "FilePart"),
            ("application/pdf", "FilePart"),
        ],
    )
    def test_that_models_do_not_take(self, media_type, word):
        """Pictures of other types are refused with the way to turn them into one that is taken."""
        data = PDF if media_type == "application/pdf" else b"II*\x00rest"
        message = refusal(image(data, media_type))
        assert media_type in message
        assert word in message
        assert "image/webp" in message

    def test_an_svg_may_be_read_as_text(self):
        """The source of an SVG may be what the model should see."""
        assert "source as text" in refusal(image(SVG.encode(), "image/svg+xml"))

    @pytest.mark.parametrize(
        ("written", "right"),
        [
            ("image/jpg", "image/jpeg"),
            ("IMAGE/JPEG", "image/jpeg"),
            (" image/jpeg", "image/jpeg"),
            ("image/jpeg; charset=binary", "image/jpeg"),
            ("image/x-png", "image/png"),
            ("image/pjpeg", "image/jpeg"),
        ],
    )
    def test_written_in_another_way(self, written, right):
        """A type that servers would not know is refused with the way to write it."""
        assert f'media_type="{right}"' in refusal(image(PICTURES[right], written))

    def test_a_page_in_place_of_a_picture(self):
        """A web page that was saved as a picture is recognised."""
        for page in (HTML, b"\n  <html lang=de>", b"<!doctype HTML>"):
            assert "web page" in refusal(image(page))

    def test_something_else_in_place_of_a_picture(self):
        """What is no known picture is refused with its first bytes."""
        message = refusal(image(b"BM\x00\x00 and more of it"))
        assert r"b'BM\x00\x00" in message
        assert "more of it" not in message

    @pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
    @pytest.mark.parametrize("media_type", ["text/csv", "application/json", "text/x-python", "application/ld+json"])
    def test_text_in_another_encoding(self, encoding, media_type):
        """A text file that is not UTF-8 is refused with the way to read it."""
        message = refusal(FilePart("städte.csv", "Köln".encode(encoding), media_type))
        assert "'städte.csv'" in message
        assert "UTF-8" in message
        assert "encoding=" in message


class TestAddresses:
    @pytest.mark.parametrize(
        "url", ["", "cat.png", "/home/me/cat.png", "file:///home/me/cat.png", "www.example.org/cat.png", "s3://a/b.png"]
    )
    def test_of_no_place_on_the_web(self, url):
        """An address that a server cannot load is refused with the way to give a file."""
        message = refusal(ImagePart(url=url))
        assert "http" in message
        assert "Path" in message

    @pytest.mark.parametrize("url", ["https://", "http:///cat.png", "https://[::1/cat.png", "https://?a"])
    def test_without_a_host(self, url):
        """An address without a host is refused."""
        assert "host" in refusal(ImagePart(url=url))

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("data:image/png,abc", "base64"),
            ("data:image/png;base64", "comma"),
            ("data:image/png;base64,", "no data"),
            ("data:;base64,AAAA", "image/png"),
            ("data:image/svg+xml;base64,AAAA", "image/svg+xml"),
            (f"data:image/jpg;base64,{encoded(JPEG)}", "image/jpeg"),
            (f"data:image/png;base64,{encoded(JPEG)}", "holds image/jpeg"),
            (f"data:image/png;base64,{encoded(PNG)[:-1]}", "base64"),
            (f"data:image/png;base64,{encoded(HTML)}", "web page"),
        ],
        ids=lambda value: value[:40],
    )
    def test_that_hold_damaged_pictures(self, url, words):
        """The data in an address is checked as any other."""
        assert words in refusal(ImagePart(url=url))

    def test_secrets_in_them_are_not_repeated(self):
        """What follows the path of an address may be a key, and is not printed."""
        assert "hush" not in refusal(ImagePart(url="s3://bucket/cat.png?signature=hush"))
        assert "hush" not in refusal(ImagePart(url="s3://me:hush@bucket/cat.png"))


class TestSize:
    def test_what_is_too_large(self, monkeypatch):
        """Data over the limit is refused, naming size and limit, before it is decoded."""
        monkeypatch.setattr(media, "MAX_BYTES", 1_500_000)
        message = refusal(image("!" * 4_000_000))
        assert "3.0 MB" in message
        assert "1.5 MB" in message
        assert checked(image(PNG + bytes(1_400_000)))

    def test_the_limit(self):
        """The limit is that of OpenAI."""
        assert media.MAX_BYTES == 50_000_000
        text = encoded(PNG + bytes(50_000_000 - len(PNG)))
        assert checked(image(text)).data is text
        assert "50 MB" in refusal(image(text + "AAAA"))

    def test_a_file_is_not_read_first(self, tmp_path):
        """A file over the limit is refused by its size on disk."""
        path = tmp_path / "huge.csv"
        with path.open("wb") as file:
            file.truncate(2**40)
        with pytest.raises(InputError, match=r"huge\.csv.*1099511\.6 MB.*50 MB"):
            input_parts(path)


class TestWhereItIsChecked:
    BAD = ImagePart("oops", media_type="image/png")

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda part: part,
            lambda part: ["Look:", part],
            UserMessage,
            lambda part: [UserMessage("Hi"), UserMessage([TextPart("Look:"), part])],
            lambda part: SummaryMessage([part], 3),
            lambda part: ToolMessage("c", "f", [part]),
        ],
    )
    def test_in_all_input(self, wrap):
        """Input is checked, parts and messages of any role alike."""
        with pytest.raises(InputError, match=r"the image \(image/png\)"):
            input_messages(wrap(self.BAD))

    def test_where_it_stands(self):
        """In a list the error says which item it is."""
        with pytest.raises(InputError, match=r"^input\[2\]: the image"):
            input_messages(["Compare", image(), self.BAD])
        with pytest.raises(InputError, match=r"^input\[1\]: a dict cannot be sent"):
            input_messages(["Compare", {}])

    def test_in_results(self):
        """What a tool returns is checked as well, alone and in a list."""
        for value in (self.BAD, ["A plot:", self.BAD]):
            with pytest.raises(InputError, match="the image"):
                result_parts(value)

    def test_not_in_what_is_stored(self):
        """Odd data that is in a session already can be loaded, and comes back as it was."""
        parts = [self.BAD, ImagePart(url="nowhere"), FilePart("a.pdf", "iVBO\nRw", "image/tiff")]
        session = Session(messages=[UserMessage(parts)])
        loaded = Session.model_validate_json(session.model_dump_json())
        assert loaded.messages[0].content == tuple(parts)


class TestTextOfFiles:
    @settings(deadline=None)
    @given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1))
    def test_any_text(self, text):
        """The text of a text file is that text."""
        assert file_text(FilePart("a.txt", text.encode(), "text/plain")) == text.removeprefix("\ufeff")

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_with_a_mark_at_its_beginning(self, encoding):
        """The mark of an encoding at the beginning is heeded, and is no part of the text."""
        assert file_text(FilePart("a.csv", "Köln,1".encode(encoding), "text/csv")) == "Köln,1"

    @pytest.mark.parametrize(
        "media_type",
        [
            "text/plain",
            "TEXT/Markdown",
            "text/csv; charset=utf-8",
            "application/json",
            "application/ld+json",
            "application/atom+xml",
            "application/xml",
            "application/x-ndjson",
            "application/yaml",
            "application/toml",
            "application/javascript",
            "application/sql",
            "application/x-sh",
        ],
    )
    def test_types_that_are_text(self, media_type):
        """Text is what its type says is text, with data formats and programs that are written as text."""
        assert file_text(FilePart("a", b"x", media_type)) == "x"

    @pytest.mark.parametrize("media_type", ["application/pdf", "application/octet-stream", "audio/mpeg", "a"])
    def test_types_that_are_not(self, media_type):
        """Other files have no text, whatever is in them."""
        assert file_text(FilePart("a", b"x", media_type)) is None

    @pytest.mark.parametrize("data", ["!", b"\xff", b"a\x00b", b"\xff\xfea"])
    def test_what_cannot_be_read(self, data):
        """A file that was stored damaged has no text, and is no error."""
        assert file_text(FilePart("a", data, "text/plain")) is None

    def test_lines_in_its_base64(self):
        """Base64 may be broken into lines."""
        assert file_text(FilePart("a", "aGVs\r\nbG8=\n", "text/plain")) == "hello"
