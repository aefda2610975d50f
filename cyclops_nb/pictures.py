"""Finds the picture that an object shows in a notebook: figures, images, and whatever has a PNG or JPEG form.

Objects are recognised by what they can do, without importing their packages. Drawing leaves them as they were.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from cyclops_nb.errors import InputError
from cyclops_nb.files import read_file
from cyclops_nb.media import PICTURE_TYPES, checked, media_type_of
from cyclops_nb.parts import ImagePart

__all__ = ["comes_from", "other_looks", "picture_of"]

_OTHER_LOOKS = ("html", "markdown", "latex", "javascript", "json", "mimebundle")


def comes_from(value: Any, package: str, *names: str) -> bool:
    """Say whether a value is of a class of that package with one of these names."""
    return any(kind.__name__ in names and kind.__module__.partition(".")[0] == package for kind in type(value).__mro__)


def picture_of(value: Any) -> ImagePart | None:
    """Return the picture that an object shows in a notebook.

    Parameters
    ----------
    value : object
        A figure or axes of matplotlib, an image of PIL or IPython, or what has ``_repr_png_``, ``_repr_jpeg_`` or
        ``_repr_mimebundle_``.

    Returns
    -------
    ImagePart or None
        None if it shows no picture.

    Raises
    ------
    InputError
        If drawing fails, or what is drawn cannot be sent.
    """
    what = f"a {type(value).__name__}"
    try:
        part = None if _is_no_object(value) else _drawn(value)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what} cannot be drawn: {type(error).__name__}: {error}; does it show in a cell?") from error
    return None if part is None else checked(part, f"the picture of {what}")


def other_looks(value: Any) -> str | None:
    """Return what to do with an object that a notebook shows, though not as a picture; None if it shows nothing."""
    with contextlib.suppress(Exception):  # it was drawn before, or is no picture: this only words an error
        if _is_no_object(value):
            return None
        svg = _asked(value, "_repr_svg_") is not None or "image/svg+xml" in _bundle(value)
        if svg:
            return "models do not take SVG: draw it as a PNG, or give its source as text"
        if any(callable(getattr(value, f"_repr_{name}_", None)) for name in _OTHER_LOOKS):
            return (
                "a notebook shows it, but not as PNG or JPEG: export it as a PNG and give that, such as "
                'ImagePart(data, media_type="image/png")'
            )
    return None


def _is_no_object(value: Any) -> bool:
    """Say whether a value has no look of its own: modules, classes, and what answers to any name one asks for."""
    strange = "_ipython_canary_method_should_not_exist_"  # the name by which IPython finds these
    return isinstance(value, ModuleType | type) or getattr(value, strange, None) is not None


def _drawn(value: Any) -> ImagePart | None:
    if comes_from(value, "matplotlib", "Axes", "SubFigure"):
        # of a figure inside a figure, the figure is the outer one
        inner = value.figure
        return _of_figure(inner if hasattr(inner, "savefig") else inner.figure)
    if callable(getattr(value, "savefig", None)):
        return _of_figure(value)
    if comes_from(value, "IPython", "Image"):
        return _of_notebook_image(value)
    if comes_from(value, "PIL", "Image"):
        return _of_pil_image(value)
    return _of_its_own(value)


def _of_figure(figure: Any) -> ImagePart:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    data = buffer.getvalue()
    if not data:
        raise InputError(f"a {type(figure).__name__} cannot be drawn: it gives no data")
    return _part(data, "image/png")


def _of_notebook_image(image: Any) -> ImagePart:
    if isinstance(image.data, str):  # neither an address nor a file that is there
        raise InputError(f"an Image cannot be drawn: there is no file {image.data!r}")
    if image.data is not None:
        return _part(image.data, f"image/{image.format}")
    if image.filename is not None:
        return _part(read_file(Path(image.filename)), f"image/{image.format}")
    return ImagePart(url=image.url)


def _of_pil_image(image: Any) -> ImagePart:
    image.load()  # what is wrong with its file shows here, and not as a format that cannot be had
    if image.format == "JPEG":
        buffer = io.BytesIO()
        image.save(buffer, format="JPEG", quality="keep")  # a PNG of a photo is many times larger
        return _part(buffer.getvalue(), "image/jpeg")
    part = _of_its_own(image)
    if part is None:
        raise InputError(
            f"an image of mode {image.mode!r} and {image.width} × {image.height} pixels has no PNG or JPEG form: "
            'give it in another mode, such as image.convert("RGB")'
        )
    return part


def _of_its_own(value: Any) -> ImagePart | None:
    for name, media_type in (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg")):
        data = _asked(value, name)
        if isinstance(data, bytes | str) and data:
            return _part(data, media_type)
    bundle = _bundle(value)
    for media_type in PICTURE_TYPES:
        data = bundle.get(media_type)
        if isinstance(data, bytes | str) and data:
            return _part(data, media_type)
    return None


def _asked(value: Any, name: str, **settings: Any) -> Any:
    """Return what a method for notebooks gives, or None if there is none, or none in this case."""
    method: Callable[..., Any] | None = getattr(value, name, None)
    if not callable(method):
        return None
    try:
        found = method(**settings)
    except NotImplementedError:
        return None
    return found[0] if isinstance(found, tuple) and found else found  # IPython allows (data, metadata)


def _bundle(value: Any) -> Mapping[str, Any]:
    found = _asked(value, "_repr_mimebundle_", include=None, exclude=None)
    return found if isinstance(found, Mapping) else {}


def _part(data: bytes | str, media_type: str) -> ImagePart:
    """Return a picture of the type that its data has, or, where that is not known, of the one that it should have."""
    return ImagePart(data, media_type=media_type_of(data) or media_type)
