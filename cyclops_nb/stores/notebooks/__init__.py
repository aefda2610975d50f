"""How a session is laid out in a notebook, and how it is read from one; the store itself is beside this package."""

from __future__ import annotations
