"""The shape of the code base: who may import whom, and how long things may get."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import cyclops_nb

PACKAGE = Path(cyclops_nb.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "__pycache__" not in path.parts
}
# An import goes from a lower row to a higher one, or stays in its row; never back.
ROWS = [
    {
        "_version", "errors", "values", "displayable", "usage", "parts", "messages", "annotations", "runs", "pricing", "events", "accumulator",
        "transcript", "session", "family", "tools", "config", "media", "files", "pictures", "content", "response", "threads",
        "progress",
    },
    {"render"},
    {"stores"},
    {"models"},
    {"engine"},
    {"portal", "ticker", "handle", "readings", "setup", "agent"},
    {"middleware"},
    {"frames", "interop"},
    {"display"},
    {"testing"},
    {"cli", "__main__"},
]  # fmt: skip
# The two places that load lower rows at their first use: the display hook, and the package's own names.
LAZY = {"cyclops_nb.displayable", "cyclops_nb"}
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


def row_of(module: str) -> int:
    """Return the row a module stands in."""
    top = module.removeprefix("cyclops_nb").lstrip(".").partition(".")[0]
    for number, names in enumerate(ROWS):
        if top in names:
            return number
    raise AssertionError(f"{module} stands in no row of the layout")


def own_imports(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    """Return the nodes that import modules of the package, with the modules."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "cyclops_nb":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node, name if name in MODULES else node.module) for name in names]
        elif isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names if alias.name.partition(".")[0] == "cyclops_nb"]
    return found


def typing_only(tree: ast.AST) -> set[int]:
    """Return the ids of nodes that only type checkers see."""
    blocks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    return {id(inner) for block in blocks for statement in block.body for inner in ast.walk(statement)}


def parse(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(MODULES[module].read_text("utf-8"))


@pytest.mark.parametrize("module", [name for name in MODULES if name != "cyclops_nb"])
class TestEveryModule:
    """Rules that each module keeps."""

    def test_imports_only_what_stands_above_it(self, module):
        """An import of our own goes to the same row of the layout or a higher one."""
        tree = parse(module)
        ignored = typing_only(tree)
        for node, target in own_imports(tree):
            if id(node) in ignored or target in LAZY or module in LAZY:
                continue
            assert row_of(target) <= row_of(module), f"{module} imports {target}, which stands below it"

    def test_imports_our_own_modules_at_the_top_only(self, module):
        """No function imports a module of ours, but for the display hook."""
        if module in LAZY:
            return
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        inside = [
            target
            for function in ast.walk(parse(module))
            if isinstance(function, functions)
            for _, target in own_imports(function)
        ]
        assert inside == []

    def test_is_short_enough_to_be_read(self, module):
        """No file is longer than 400 lines."""
        assert len(MODULES[module].read_text("utf-8").splitlines()) <= MAX_FILE_LINES

    def test_has_short_functions(self, module):
        """No function is longer than 60 lines, its docstring not counted."""
        for node in ast.walk(parse(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                length = (node.end_lineno or 0) - first[0].lineno + 1
                assert length <= MAX_FUNCTION_LINES, f"{module}.{node.name} has {length} lines"

    def test_says_why_it_is_as_it_is(self, module):
        """Every module has a docstring."""
        assert ast.get_docstring(parse(module)) or not MODULES[module].read_text("utf-8").strip()

    def test_lists_its_public_names(self, module):
        """``__all__`` is sorted as ruff sorts it, has no doubles, and each name exists."""
        loaded = importlib.import_module(module)
        names = getattr(loaded, "__all__", [])
        assert len(set(names)) == len(names)
        assert all(hasattr(loaded, name) for name in names)


class TestImportGraph:
    """Rules of the whole."""

    def test_has_no_cycles(self):
        """No module reaches itself through imports that run."""
        edges = {}
        for module in MODULES:
            tree = parse(module)
            ignored = typing_only(tree)
            edges[module] = {
                target
                for node, target in own_imports(tree)
                if id(node) not in ignored and module not in LAZY and target != module and target in MODULES
            }
        done: set[str] = set()

        def visit(module, path):
            assert module not in path, f"import cycle: {' -> '.join([*path, module])}"
            if module not in done:
                for target in edges[module]:
                    visit(target, [*path, module])
                done.add(module)

        for module in MODULES:
            visit(module, [])


class TestPublicNames:
    """What can be imported from the package itself."""

    def test_all_of_them_can_be_had(self):
        """Each name in ``__all__`` is there."""
        assert all(getattr(cyclops_nb, name) is not None for name in cyclops_nb.__all__)

    def test_all_of_them_are_told_to_type_checkers(self):
        """What is loaded at first use also stands in the stub for type checkers, at the same place, and nothing else does."""
        tree = ast.parse((PACKAGE / "__init__.pyi").read_text("utf-8"))
        typed = {
            alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        loaded = {name: f"cyclops_nb.{module}" for name, module in cyclops_nb._MODULE_OF.items()}
        assert typed == {**loaded, "__version__": "cyclops_nb._version"}

    def test_an_unknown_name_is_an_attribute_error(self):
        """A misspelt name says so."""
        with pytest.raises(AttributeError, match="Agnt"):
            _ = cyclops_nb.Agnt
