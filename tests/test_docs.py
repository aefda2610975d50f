"""Every Python block of the README and the documentation runs, and every link in them leads somewhere."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from cyclops_nb.testing import ScriptedServer, text, tool_call

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
NOT_RUN = "<!-- not run -->"


def blocks(page):
    """Return the Python blocks of a page that are run, each padded so that its lines have the page's numbers."""
    found, before = [], ""
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.type == "fence" and token.info.strip() == "python" and before != NOT_RUN:
            found.append("\n" * (token.map[0] + 1) + token.content)
        if token.type in {"fence", "html_block", "inline"}:
            before = token.content.strip()
    return found


def sample(schema, definitions):
    """Return something that fits a JSON schema."""
    schema = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type") or sample(schema["anyOf"][0], definitions)
    if kind == "object":
        return {name: sample(item, definitions) for name, item in schema.get("properties", {}).items()}
    simple = {"string": "Paris", "integer": 2, "number": 2.5, "boolean": True, "array": [], "null": None}
    return simple.get(kind, kind)


def answer(request):
    """Answer anything: with an object where one is asked for, with a tool call where there is a tool, or with words."""
    wanted = request.body.get("response_format")
    if wanted is not None:
        schema = wanted["json_schema"]["schema"]
        return text(json_of(sample(schema, schema.get("$defs", {}))))
    tools = request.body.get("tools")
    if tools and request.messages[-1]["role"] == "user":
        function = tools[0]["function"]
        return tool_call(function["name"], sample(function["parameters"], function["parameters"].get("$defs", {})))
    return text("An answer.")


def json_of(value):
    """Return a value as JSON."""
    return json.dumps(value)


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """An empty working folder, and a server that answers anything in place of OpenAI's."""
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
class TestPages:
    """What holds for each page."""

    def test_blocks_run(self, page, surroundings):
        """The Python blocks of a page run one after the other in one namespace, as cells of a notebook would."""
        names = {"__name__": "page"}

        async def run(block):
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            result = eval(compile(block, str(page), "exec", flags=flags, dont_inherit=True), names)  # noqa: S307
            if inspect.isawaitable(result):
                await result

        with asyncio.Runner() as runner:
            for block in blocks(page):
                runner.run(run(block))

    def test_links_lead_somewhere(self, page):
        """Links to files and headings of this project exist."""
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            if "://" in target:
                continue
            name, _, heading = target.partition("#")
            file = page.parent / name if name else page
            assert file.exists(), target
            if heading:
                assert heading in anchors(file), target


def anchors(page):
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TestAll:
    """What holds for the pages together."""

    def test_there_are_pages(self):
        """The documentation has its pages, with code in them."""
        assert len(PAGES) > 5
        assert sum(len(blocks(page)) for page in PAGES) > 20

    def test_few_blocks_are_left_out(self):
        """Blocks that are not run are the exception."""
        left_out = sum(page.read_text("utf-8").count(NOT_RUN) for page in PAGES)
        assert left_out <= 5
