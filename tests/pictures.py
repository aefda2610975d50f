"""Small pictures and files of the kinds that models take, for tests."""

import base64
import io

from PIL import Image


def drawn(kind, size=(2, 2)):
    """Return the bytes of a red picture, small unless another size in pixels is given, in a format of PIL."""
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return buffer.getvalue()


PNG, JPEG, GIF, WEBP = (drawn(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP"))
PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n\xff"
PICTURES = {"image/png": PNG, "image/jpeg": JPEG, "image/gif": GIF, "image/webp": WEBP}
HTML = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="2" height="2"><rect width="2" height="2"/></svg>'


def encoded(data):
    """Return bytes as base64 text."""
    return base64.b64encode(data).decode()


def only(parts):
    """Return the one part that there is."""
    (part,) = parts
    return part


def holds(part):
    """Return the media type and the bytes of an image or file part."""
    return part.media_type, base64.b64decode(part.data)
