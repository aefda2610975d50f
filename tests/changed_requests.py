"""Requests with something changed in them, at any place."""

import copy

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """Give the paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(value, path, replacement):
    """Return a copy of a JSON value in which something else stands at a path, or nothing if that is None."""
    result = place = copy.deepcopy(value)
    for key in path[:-1]:
        place = place[key]
    if replacement is None:
        del place[path[-1]]
    else:
        place[path[-1]] = replacement
    return result
