"""The examples in docstrings, run as they stand."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import cyclops_nb
from cyclops_nb.testing import ScriptedServer, text

PACKAGE = Path(cyclops_nb.__file__).parent
# the program of the child process is started by its path; the command line has tests of its own, in a real kernel
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.stem not in {"__main__", "cli", "llama_process"}
)
ANSWERS = {
    "My name is Alice.": "Hello, Alice!",
    "What is my name?": "Alice",
    "What is the capital of Japan?": "Tokyo",
}


def answer(request):
    """Answer as the examples say."""
    return text(ANSWERS.get(request.messages[-1]["content"], "Hello! How can I help?"))


@pytest.mark.parametrize("module", MODULES)
def test_examples_do_what_they_show(module, monkeypatch):
    """Each example gives what stands below it; all public names are there, and an agent."""
    loaded = importlib.import_module(module)
    with ScriptedServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        names = {name: getattr(cyclops_nb, name) for name in cyclops_nb.__all__}
        names["agent"] = cyclops_nb.Agent("gpt-4o-mini")
        found = doctest.DocTestFinder(exclude_empty=True).find(loaded, globs={**names, **vars(loaded)})
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        for example in found:
            runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
