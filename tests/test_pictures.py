"""What notebook objects show: figures, images and tables, as they are sent to a model."""

import io
import os
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from IPython import display
from IPython.display import Image as NotebookImage
from pictures import GIF, HTML, JPEG, PDF, PICTURES, PNG, SVG, WEBP, encoded, holds, only
from PIL import Image

from cyclops_nb.content import MAX_TABLE_ROWS, input_messages, input_parts, result_parts
from cyclops_nb.errors import InputError
from cyclops_nb.messages import FilePart, ImagePart


@pytest.fixture(autouse=True)
def _no_windows():
    """Draw without a screen, and close what the test has opened."""
    backend = mpl.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


def pixels(part):
    """Return the picture that is sent, as PIL reads it."""
    return Image.open(io.BytesIO(holds(part)[1]))


def refusal(value):
    """Return what is said of input that cannot be sent."""
    with pytest.raises(InputError) as caught:
        input_messages(["Look:", value])
    return str(caught.value)


class Shown:
    """An object that shows itself in a notebook as a test says."""

    def __init__(self, **methods):
        for name, result in methods.items():
            setattr(self, f"_repr_{name}_", self._method(result))

    @staticmethod
    def _method(result):
        def method(*_args, **_kwargs):
            if isinstance(result, BaseException):
                raise result
            return result

        return method


def curve(title="A curve"):
    """Return a figure of pyplot."""
    figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
    axes.plot([1, 4, 9])
    axes.set_title(title)
    return figure


class TestFigures:
    def test_of_pyplot(self):
        """A figure of pyplot is sent as the PNG that a cell shows."""
        figure = curve()
        media_type, data = holds(only(input_parts(figure)))
        assert (media_type, data[:8]) == ("image/png", PNG[:8])
        shown = io.BytesIO()
        figure.savefig(shown, format="png", bbox_inches="tight")
        assert np.array_equal(np.array(Image.open(io.BytesIO(data))), np.array(Image.open(shown)))

    def test_axes_stand_for_their_figure(self):
        """Axes, which plotting functions of pandas give, are sent as the figure that they are in."""
        figure = curve()
        assert input_parts(figure.axes[0]) == input_parts(figure)
        axes = pd.DataFrame({"n": [1, 2]}).plot(figsize=(2, 1))
        assert input_parts(axes) == input_parts(axes.figure)
        solid = plt.figure(figsize=(2, 2)).add_subplot(projection="3d")
        assert input_parts(solid) == input_parts(solid.figure)

    def test_parts_of_a_figure_stand_for_it(self):
        """A figure inside a figure, and axes in it, are sent as the whole."""
        figure = plt.figure(figsize=(2, 1))
        inner = figure.subfigures(1, 2)[0]
        axes = inner.subplots()
        assert input_parts(inner) == input_parts(axes) == input_parts(figure)

    def test_axes_that_were_removed(self):
        """Axes that are in no figure any more cannot be drawn."""
        axes = curve().axes[0]
        axes.remove()
        assert "Axes cannot be drawn" in refusal(axes)

    @pytest.mark.parametrize("title", ["A curve", r"$\frac{$"])
    def test_stay_as_they_are(self, title):
        """Drawing neither closes a figure nor changes it nor makes it the current one, also when it fails."""
        figure = curve(title)
        other = plt.figure()

        def state():
            engine, renderer = figure.get_layout_engine(), figure.canvas
            looks = (figure.dpi, tuple(figure.get_size_inches()), figure.get_facecolor(), figure.bbox.bounds)
            return plt.get_fignums(), plt.gcf() is other, engine, renderer, looks, figure.axes[0].get_position().bounds

        before = state()
        if title == "A curve":
            assert input_parts(figure) == input_parts(figure)
        else:
            refusal(figure)
        assert state() == before

    def test_with_a_text_that_cannot_be_drawn(self):
        """A figure that fails to draw is refused with its type and the reason, which is the cause."""
        with pytest.raises(InputError, match=r"a Figure cannot be drawn: ValueError:\s+.frac") as caught:
            input_parts(curve(r"$\frac{$"))
        assert isinstance(caught.value.__cause__, ValueError)

    def test_pyplot_itself_is_no_figure(self):
        """The module of pyplot is refused, and no empty figure is made."""
        assert "a module cannot be sent" in refusal(plt)
        assert plt.get_fignums() == []

    def test_what_saves_itself_like_one(self):
        """Grids of figures, as seaborn has them, have the one method that counts."""

        class Grid:
            def savefig(self, file, **settings):
                figure.savefig(file, **settings)

        figure = curve()
        assert input_parts(Grid()) == input_parts(figure)

    def test_that_draws_nothing(self):
        """A figure that draws nothing is refused."""

        class Lazy:
            def savefig(self, file, **settings):
                pass

        assert "a Lazy cannot be drawn: it gives no data" in refusal(Lazy())


class TestImagesOfPil:
    def test_is_sent_without_loss(self):
        """A PIL image becomes a PNG of the same pixels."""
        image = Image.effect_noise((8, 8), 50).convert("RGB")
        part = only(input_parts(image))
        assert part.media_type == "image/png"
        assert np.array_equal(np.array(pixels(part)), np.array(image))

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
    def test_of_any_mode_that_png_knows(self, mode):
        """Grey, transparent and indexed images are PNGs, too."""
        assert only(input_parts(Image.new(mode, (2, 2)))).media_type == "image/png"

    def test_of_a_mode_that_jpeg_knows(self):
        """What PNG cannot hold is sent as JPEG, as a cell shows it."""
        assert only(input_parts(Image.new("CMYK", (2, 2)))).media_type == "image/jpeg"

    @pytest.mark.parametrize("image", [Image.new("F", (2, 2)), Image.new("LAB", (2, 2)), Image.new("RGB", (0, 0))])
    def test_that_no_format_holds(self, image):
        """An image that cannot be shown is refused with its mode and size and what to do."""
        message = refusal(image)
        assert f"mode {image.mode!r}" in message
        assert f"{image.width} × {image.height}" in message
        assert 'convert("RGB")' in message

    def test_a_photo_is_not_blown_up(self, tmp_path):
        """An image that was read from a JPEG file is sent as JPEG, for a PNG of it would be many times larger."""
        path = tmp_path / "photo.jpg"
        Image.effect_noise((64, 64), 30).convert("RGB").save(path, quality=80)
        with Image.open(path) as photo:
            part = only(input_parts(photo))
        assert part.media_type == "image/jpeg"
        assert len(holds(part)[1]) < 1.1 * path.stat().st_size
        with Image.open(path) as photo:
            difference = np.array(pixels(part), int) - np.array(photo, int)
        assert np.abs(difference).mean() < 1

    def test_a_changed_photo_shows_its_changes(self):
        """What was painted into an opened JPEG is in what is sent."""
        photo = Image.open(io.BytesIO(JPEG))
        photo.paste((0, 0, 255), (0, 0, 2, 2))
        red, _, blue = pixels(only(input_parts(photo))).getpixel((0, 0))
        assert blue > red


class TestImagesOfIPython:
    @pytest.mark.parametrize("media_type", PICTURES)
    def test_by_data(self, media_type):
        """An image by its data is sent as it is, in its own type."""
        data = PICTURES[media_type]
        assert holds(only(input_parts(NotebookImage(data=data)))) == (media_type, data)
        assert holds(only(input_parts(NotebookImage(data=data, width=10, embed=False)))) == (media_type, data)

    @pytest.mark.parametrize("embed", [True, False])
    @pytest.mark.parametrize("give", [lambda path: {"filename": path}, lambda path: {"data": path}])
    def test_by_file(self, tmp_path, embed, give):
        """An image by the name of its file is sent with the file's content, whether the notebook embeds it or not."""
        path = tmp_path / "cat.gif"
        path.write_bytes(GIF)
        assert holds(only(input_parts(NotebookImage(**give(str(path)), embed=embed)))) == ("image/gif", GIF)

    def test_by_address(self):
        """An image that the notebook only points to is sent by its address."""
        url = "https://example.org/cat.png"
        assert input_parts(NotebookImage(url=url)) == [ImagePart(url=url)]
        assert input_parts(NotebookImage(url, embed=False)) == [ImagePart(url=url)]

    def test_by_an_address_that_is_embedded(self, tmp_path):
        """An image that the notebook has loaded is sent with its data."""
        path = tmp_path / "cat.jpg"
        path.write_bytes(JPEG)
        loaded = NotebookImage(url=path.as_uri(), embed=True)
        assert holds(only(input_parts(loaded))) == ("image/jpeg", JPEG)

    def test_by_an_address_beside_the_notebook(self):
        """An address that only the reader's browser could load is refused."""
        assert "http" in refusal(NotebookImage(url="figures/cat.png"))

    def test_that_are_of_another_type_than_they_say(self, tmp_path):
        """The type is read from the data: a misnamed picture is a picture."""
        path = tmp_path / "cat.png"
        path.write_bytes(WEBP)
        assert only(input_parts(NotebookImage(filename=str(path)))).media_type == "image/webp"
        assert only(input_parts(NotebookImage(data=JPEG, format="png"))).media_type == "image/jpeg"

    @pytest.mark.parametrize("data", [HTML, b"", "no-such-file.png"])
    def test_that_are_none(self, data):
        """Something else, nothing, or a missing file in place of a picture is refused."""
        assert "Image" in refusal(NotebookImage(data=data))

    def test_that_are_gone(self, tmp_path):
        """A file that is not there any more is refused by name."""
        path = tmp_path / "cat.png"
        path.write_bytes(PNG)
        shown = NotebookImage(filename=str(path), embed=False)
        path.unlink()
        assert "cat.png" in refusal(shown)


class TestObjectsThatShowThemselves:
    @pytest.mark.parametrize("data", [PNG, encoded(PNG), encoded(PNG) + "\n", (PNG, {"width": 1})])
    @pytest.mark.parametrize("name", ["png", "jpeg"])
    def test_as_a_picture(self, name, data):
        """The picture may be bytes or base64, with or without facts about it, and its type is read from it."""
        part = only(input_parts(Shown(**{name: data})))
        assert holds(part) == ("image/png", PNG)

    @pytest.mark.parametrize("media_type", PICTURES)
    def test_as_a_bundle(self, media_type):
        """The picture may stand in a bundle of several forms."""
        data = PICTURES[media_type]
        bundle = {"text/plain": "A picture", "text/html": "<b>", media_type: encoded(data)}
        for given in (bundle, (bundle, {}), {**bundle, media_type: data}):
            assert holds(only(input_parts(Shown(mimebundle=given)))) == (media_type, data)

    def test_the_most_exact_form_is_taken(self):
        """PNG is taken rather than JPEG."""
        assert holds(only(input_parts(Shown(png=PNG, jpeg=JPEG)))) == ("image/png", PNG)
        bundle = {"image/jpeg": encoded(JPEG), "image/png": encoded(PNG)}
        assert holds(only(input_parts(Shown(mimebundle=bundle)))) == ("image/png", PNG)

    def test_in_a_form_that_is_not_there(self):
        """What says that it has no PNG is asked for the next form."""
        for nothing in (None, NotImplementedError(), b"", ""):
            shown = Shown(png=nothing, jpeg=JPEG)
            assert holds(only(input_parts(shown))) == ("image/jpeg", JPEG)
            shown = Shown(png=nothing, mimebundle={"image/png": encoded(PNG)})
            assert holds(only(input_parts(shown))) == ("image/png", PNG)

    @pytest.mark.parametrize("name", ["png", "jpeg", "mimebundle"])
    def test_that_fail(self, name):
        """What fails to draw itself is refused with the reason."""
        assert "a Shown cannot be drawn: RuntimeError: no renderer" in refusal(
            Shown(**{name: RuntimeError("no renderer")})
        )

    @pytest.mark.parametrize("data", [b"words", "words", HTML, encoded(HTML), PDF])
    def test_as_what_is_no_picture(self, data):
        """What gives something else in place of a picture is refused."""
        message = refusal(Shown(png=data))
        assert "a Shown" in message
        assert "base64" in message or "image/" in message

    @pytest.mark.parametrize(
        "shown",
        [
            Shown(mimebundle={"application/vnd.plotly.v1+json": {}, "text/html": "<div>"}),
            Shown(mimebundle=({"text/html": "<div>"}, {})),
            Shown(mimebundle=None, html="<div>"),
            Shown(html="<div>"),
            display.HTML("<b>bold</b>"),
            display.Markdown("**bold**"),
        ],
        ids=["plotly", "bundle", "none", "html", "HTML", "Markdown"],
    )
    def test_without_a_picture(self, shown):
        """What shows itself in other ways alone is refused with what is missing."""
        message = refusal(shown)
        assert "cannot be sent to a model" in message
        assert "not as PNG or JPEG" in message

    @pytest.mark.parametrize(
        "shown",
        [display.SVG(data=SVG), Shown(svg=SVG), Shown(mimebundle={"image/svg+xml": SVG})],
        ids=["of IPython", "method", "bundle"],
    )
    def test_as_svg(self, shown):
        """SVG is refused with the two ways there are, as input and as a result."""
        with pytest.raises(InputError) as caught:
            result_parts(shown)
        for message in (refusal(shown), str(caught.value)):
            assert "SVG" in message
            assert "PNG" in message
            assert "source as text" in message

    def test_charts_are_not_read_as_lists(self):
        """A chart without a picture is no list of the names of its fields, which Python makes of some."""

        class Chart(Shown):
            def __iter__(self):
                return iter(("data", "layout"))

        with pytest.raises(InputError, match="not as PNG or JPEG"):
            result_parts(Chart(mimebundle={"application/json": {}}))

    def test_that_answer_to_any_name(self):
        """An object that has any method one asks for has no picture."""

        class Proxy:
            def __getattr__(self, name):
                return lambda *_args, **_kwargs: b"anything"

        assert "a Proxy cannot be sent" in refusal(Proxy())

    def test_are_not_asked_as_classes(self):
        """A class is not asked for the picture of its objects."""
        assert "cannot be sent" in refusal(Shown)


class TestPaths:
    def given(self, folder, name, data):
        path = folder / name
        path.write_bytes(data)
        return path

    @pytest.mark.parametrize("media_type", PICTURES)
    @pytest.mark.parametrize("name", ["picture.png", "picture.JPG", "picture", "picture.dat", "picture.txt"])
    def test_of_pictures(self, tmp_path, name, media_type):
        """A picture is known by its content, whatever its name: many are misnamed."""
        path = self.given(tmp_path, name, PICTURES[media_type])
        assert holds(only(input_parts(path))) == (media_type, PICTURES[media_type])

    @pytest.mark.parametrize("name", ["paper.pdf", "paper", "paper.png"])
    def test_of_pdfs(self, tmp_path, name):
        """A PDF is known by its content as well."""
        path = self.given(tmp_path, name, PDF)
        assert input_parts(path) == [FilePart(name, PDF, "application/pdf")]

    @pytest.mark.parametrize(
        ("name", "media_type"),
        [
            ("a.csv", "text/csv"),
            ("a.tsv", "text/tab-separated-values"),
            ("a.json", "application/json"),
            ("a.md", "text/markdown"),
            ("a.py", "text/x-python"),
            ("a.html", "text/html"),
            ("a.txt", "text/plain"),
            ("a.log", "text/plain"),
            ("a.yaml", "text/plain"),
            ("a.jsonl", "text/plain"),
            ("a.ts", "text/plain"),
            ("a.rs", "text/plain"),
            ("Makefile", "text/plain"),
            ("a.unknown", "text/plain"),
        ],
    )
    def test_of_text(self, tmp_path, name, media_type):
        """Text files are known by name, or by being text; on all systems alike."""
        path = self.given(tmp_path, name, "Köln\n".encode())
        assert input_parts(path) == [FilePart(name, "Köln\n".encode(), media_type)]

    @pytest.mark.parametrize(
        ("name", "media_type"),
        [
            ("a.zip", "application/zip"),
            ("a.mp3", "audio/mpeg"),
            ("a.parquet", "application/octet-stream"),
            ("a.csv.gz", "application/gzip"),
            ("a.csv.xz", "application/octet-stream"),
            ("a", "application/octet-stream"),
        ],
    )
    def test_of_other_files(self, tmp_path, name, media_type):
        """Other files have the type of their name, or none; what is packed is not what is in it."""
        path = self.given(tmp_path, name, b"\x00\xff\x01")
        assert input_parts(path) == [FilePart(name, b"\x00\xff\x01", media_type)]

    def test_of_an_office_document(self, tmp_path):
        """The common documents of offices are known."""
        types = [
            only(input_parts(self.given(tmp_path, name, b"PK\x03\x04\x00\xff"))).media_type
            for name in ("a.docx", "a.xlsx", "a.pptx")
        ]
        assert all(kind.startswith("application/vnd.openxmlformats-officedocument.") for kind in types)
        assert len(set(types)) == 3

    @pytest.mark.parametrize("name", ["cat.png", "cat.jpg", "cat.webp", "paper.pdf"])
    def test_of_pages_that_were_saved_under_another_name(self, tmp_path, name):
        """A web page that was saved as a picture or PDF is refused by name."""
        message = refusal(self.given(tmp_path, name, HTML))
        assert name in message
        assert "web page" in message

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("a.svg", SVG.encode()),
            ("a.tif", b"II*\x00\xff"),
            ("a.bmp", b"BM\x00\xff"),
            ("a.heic", b"\x00\x00\x00\x18ftypheic"),
            ("a.avif", b"\x00\x00\x00\x18ftypavif"),
        ],
    )
    def test_of_pictures_that_models_do_not_take(self, tmp_path, name, data):
        """Pictures of other types are refused by name, with the way to turn them into one that is taken."""
        message = refusal(self.given(tmp_path, name, data))
        assert name in message
        assert "PNG" in message

    def test_of_text_in_another_encoding(self, tmp_path):
        """A table that is not in UTF-8 is refused by name, with the way to read it."""
        message = refusal(self.given(tmp_path, "städte.csv", "Köln".encode("latin-1")))
        assert "städte.csv" in message
        assert "encoding=" in message

    def test_that_cannot_be_read(self, tmp_path):
        """A path that leads nowhere, to a folder, or nowhere that a path could lead, is refused by name."""
        for path in (tmp_path / "missing.txt", tmp_path, tmp_path / "a\x00b", tmp_path / ("n" * 5000)):
            message = refusal(path)
            assert message.startswith("input[1]: cannot read ")
            assert len(message) < 6000
        assert "is a folder" in refusal(tmp_path)
        assert "No such file" in refusal(tmp_path / "missing.txt")
        assert "expanduser" in refusal(tmp_path.__class__("~/missing.txt"))

    def test_that_never_end(self, tmp_path):
        """A pipe, which has no end before someone writes to it, is refused and not waited for."""
        os.mkfifo(tmp_path / "pipe")
        assert "no regular file" in refusal(tmp_path / "pipe")

    def test_that_are_links(self, tmp_path):
        """A link is what it leads to, under its own name."""
        target = self.given(tmp_path, "target.csv", b"a\n")
        link = tmp_path / "link.csv"
        link.symlink_to(target)
        assert input_parts(link) == [FilePart("link.csv", b"a\n", "text/csv")]

    def test_of_tools_are_names(self, tmp_path):
        """A path that a tool returns is the name of a file: what the tool read it has to return itself."""
        path = self.given(tmp_path, "cat.png", PNG)
        assert only(result_parts(path)).text == f'"{path}"'


class TestTables:
    WIDE = pd.DataFrame({f"column_{n}": [n, -n] for n in range(100)})
    LONG = "word " * 100 + "end"

    @pytest.mark.parametrize("table", [WIDE, WIDE.T], ids=["wide", "long"])
    def test_columns_are_never_cut(self, table):
        """A table has all its columns, each row in a line, whatever is set for display."""
        with pd.option_context("display.max_columns", 3, "display.width", 40, "display.max_rows", 5):
            lines = only(input_parts(table)).text.splitlines()
        assert len(lines) == 1 + len(table)
        assert [word for line in lines for word in line.split() if "..." in word] == []
        assert all(name in lines[0].split() for name in map(str, table.columns))

    @pytest.mark.parametrize("parts", [input_parts, result_parts])
    @pytest.mark.parametrize("make", [pd.DataFrame, pd.Series], ids=["frame", "series"])
    def test_long_texts_are_never_cut(self, make, parts):
        """What stands in a cell is whole, whatever is set for display."""
        with pd.option_context("display.max_colwidth", 10):
            assert self.LONG in only(parts(make([self.LONG], index=["row"]))).text

    @pytest.mark.parametrize("make", [pd.DataFrame, pd.Series], ids=["frame", "series"])
    @pytest.mark.parametrize("rows", [MAX_TABLE_ROWS, MAX_TABLE_ROWS + 1])
    def test_rows_are_cut_beyond_the_limit(self, make, rows):
        """One row more than allowed is a cut in the middle, whatever is set for display."""
        with pd.option_context("display.max_rows", 5, "display.min_rows", 2, "display.show_dimensions", False):
            text = only(input_parts(make(list(range(rows))))).text
        numbers = {word for line in text.splitlines() for word in line.split()[:1]}
        kept = {str(number) for number in range(rows)} & numbers
        assert len(kept) == MAX_TABLE_ROWS
        assert ("..." in text) == (str(rows) in text.split("\n")[-1]) == (rows > MAX_TABLE_ROWS)

    def test_settings_are_left_alone(self):
        """Making a text changes no setting of pandas."""
        before = pd.describe_option(_print_desc=False)
        input_parts(pd.Series([self.LONG]))
        assert pd.describe_option(_print_desc=False) == before

    @pytest.mark.parametrize(
        "table",
        [
            pd.DataFrame(),
            pd.DataFrame({"a": []}),
            pd.Series([], dtype=float),
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            pd.Series(["x"], dtype="category", name="kind"),
        ],
        ids=["empty", "no rows", "empty series", "doubles", "levels", "categories"],
    )
    def test_odd_tables_are_tables(self, table):
        """Empty tables, doubled names, levels and categories are written as pandas writes them."""
        text = only(input_parts(table)).text
        assert text.strip()
        assert only(result_parts(table)).text == text

    def test_columns_that_are_named_like_methods(self):
        """The names of columns are not taken for what an object can do."""
        table = pd.DataFrame({"savefig": [1], "_repr_png_": [2], "figure": [3]})
        assert "savefig" in only(input_parts(table)).text


class TestTogether:
    def test_all_of_them_in_one_list(self, tmp_path):
        """A list may mix everything, and is one message in that order."""
        path = tmp_path / "a.pdf"
        path.write_bytes(PDF)
        given = [
            "Compare",
            curve(),
            Image.new("RGB", (2, 2)),
            NotebookImage(data=JPEG),
            NotebookImage(url="https://example.org/a.png"),
            ImagePart(GIF, media_type="image/gif"),
            pd.DataFrame({"n": [1]}),
            path,
            FilePart("b.csv", b"1", "text/csv"),
            "in a word.",
        ]
        message = only(input_messages(given))
        kinds = [f"{part.type} {getattr(part, 'media_type', '')}".rstrip() for part in message.content]
        assert kinds == [
            "text",
            "image image/png",
            "image image/png",
            "image image/jpeg",
            "image None",
            "image image/gif",
            "text",
            "file application/pdf",
            "file text/csv",
            "text",
        ]

    def test_nothing_is_printed_or_warned_of(self, capsys):
        """Drawing is silent."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            input_parts(curve())
            input_parts(NotebookImage(data=PNG))
        assert capsys.readouterr() == ("", "")
