"""Notebooks that several stores and programs write to: nothing is overwritten unseen, and no style is forced on a file."""

import asyncio
import json
import os
import shutil
import threading
import warnings

import nbformat
import pytest
from stored import add, load, names, save, say, talk

from cyclops_nb import NotebookSessionStore, export_notebook
from cyclops_nb.errors import SessionConflictError, SessionFormatError, SessionNotFoundError, TranscriptError
from cyclops_nb.messages import AssistantMessage, TextPart, UserMessage
from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.stores import notebook as store_module
from notebooks import (
    as_jupyterlab_saves,
    cell_of,
    changed_lines,
    check_valid,
    code,
    conversation,
    edit,
    kinds,
    note,
    put_in,
    read,
    source,
    take_out,
    write,
)

pytestmark = pytest.mark.filterwarnings("error")
STORE = NotebookSessionStore


class TestConflict:
    @pytest.mark.parametrize("how", ["add", "save", "edit", "take out", "title", "runs"])
    @pytest.mark.parametrize("mine", ["add", "save"])
    def test_our_part_was_changed(self, folder, store, path, how, mine):
        """Nothing is written when someone else changed the session in the file; a load makes it possible."""
        session = talk(2)
        save(store, session)
        other = NotebookSessionStore(folder)
        theirs = load(other)
        match how:
            case "add":
                add(other, theirs, say(theirs))
            case "save":
                theirs.truncate(2)
                save(other, theirs)
            case "edit":
                edit(path, 0, "question 0", "another question")
            case "take out":
                take_out(path, 2, 3)
            case "title":
                edit(path, "head", "# Session study-1", "# New")
            case "runs":
                theirs.runs.pop()
                add(other, theirs, [])
        before = path.read_bytes()
        new = say(session)
        with pytest.raises(SessionConflictError, match=r"'study-1' cannot be stored: .* was changed by someone else"):
            add(store, session, new) if mine == "add" else save(store, session)
        assert path.read_bytes() == before
        assert names(folder) == ["study-1.ipynb"]
        loaded = load(store)
        add(store, loaded, say(loaded))
        assert load(NotebookSessionStore(folder)) == loaded

    @pytest.mark.parametrize("mine", ["add", "save"])
    def test_other_cells_were_changed(self, store, path, mine):
        """Cells and outputs that someone put in meanwhile are taken over."""
        session = talk()
        save(store, session)
        output = {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
        put_in(path, 0, code("print(1)", output))
        notebook = read(path)
        notebook["metadata"]["language_info"]["version"] = "3.11"
        write(path, notebook)
        new = say(session)
        add(store, session, new) if mine == "add" else save(store, session)
        assert load(NotebookSessionStore(path.parent)) == session
        assert kinds(path) == ["head", 0, "print(1)", 1, 2, 3, "foot"]
        assert read(path)["cells"][2]["outputs"] == [output]
        assert read(path)["metadata"]["language_info"]["version"] == "3.11"
        add(store, session, say(session))
        check_valid(path)

    @pytest.mark.parametrize("how", ["touch", "copy", "other style"])
    def test_same_content(self, store, path, how):
        """A file that was touched, or written anew with the same content, is no conflict."""
        session = talk()
        save(store, session)
        for number in range(2):
            match how:
                case "touch":
                    os.utime(path, ns=(number, number))
                case "copy":
                    path.replace(path.with_name("old"))
                    shutil.copy(path.with_name("old"), path)
                case _:
                    path.write_text(json.dumps(read(path), indent=2 + number), "utf-8")
            add(store, session, say(session))
            os.utime(path, ns=(9, 9))
            save(store, session)
        assert load(NotebookSessionStore(path.parent)) == session

    def test_same_size(self, store, path):
        """A change that leaves size and time as they were is found by the new file it is in."""
        session = Session("study-1", title="aaa")
        save(store, session)
        times = path.stat()
        changed = path.with_name("new")
        changed.write_bytes(path.read_bytes().replace(b'"aaa"', b'"bbb"'))
        changed.replace(path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(SessionConflictError):
            save(store, session)

    def test_deleted_by_someone(self, store, path):
        """When someone deleted the file, a save writes it again, and an addition says that there is nothing."""
        session = talk()
        save(store, session)
        path.unlink()
        with pytest.raises(SessionNotFoundError):
            add(store, session, say(session))
        save(store, session)
        assert load(store) == session

    @pytest.mark.parametrize("first", ["load", "delete"])
    def test_appeared_since(self, folder, store, first):
        """A session that someone stored after this store found nothing there is not overwritten."""
        asyncio.run(getattr(store, first)("study-1"))
        theirs = talk()
        save(NotebookSessionStore(folder), theirs)
        for work in (lambda: save(store, talk()), lambda: add(store, talk(), [])):
            with pytest.raises(SessionConflictError):
                work()
        assert load(NotebookSessionStore(folder)) == theirs

    @pytest.mark.parametrize("how", ["add", "save"])
    def test_at_the_very_same_time(self, folder, store, path, monkeypatch, how):
        """When someone writes while this store does, what is there is left, and so nothing is lost."""
        session = talk()
        save(store, session)
        other = NotebookSessionStore(folder)
        theirs = load(other)
        real, calls = os.fsync, []

        def fsync(descriptor):
            if not calls:
                calls.append(descriptor)
                add(other, theirs, say(theirs))
            return real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        new = say(session)
        with pytest.raises(SessionConflictError):
            add(store, session, new) if how == "add" else save(store, session)
        assert load(NotebookSessionStore(folder)) == theirs
        assert names(folder) == ["study-1.ipynb"]


@pytest.mark.parametrize("how", ["add", "save"])
def test_between_the_last_look_and_the_write(folder, store, monkeypatch, how):
    """Nobody else comes in between: two stores that write at the same instant do so one after the other."""
    pytest.importorskip("fcntl", reason="only POSIX has such locks")
    session = talk()
    save(store, session)
    other = NotebookSessionStore(folder)
    theirs = load(other)
    outcome = []

    def write():
        try:
            add(other, theirs, say(theirs))
        except SessionConflictError as error:
            outcome.append(error)

    writer = threading.Thread(target=write)
    real = store_module._check

    def check(*given):
        real(*given)
        if not writer.ident:
            writer.start()
            writer.join(0.5)  # long enough for whoever does not wait

    monkeypatch.setattr(store_module, "_check", check)
    if how == "add":
        add(store, session, say(session))
    else:
        session.messages.pop(0)
        save(store, session)
    writer.join()
    assert [type(error) for error in outcome] == [SessionConflictError]
    assert load(NotebookSessionStore(folder)) == session


def test_the_notebook_that_one_works_in(store, path, folder, monkeypatch):
    """A kernel that writes to its own notebook is told so, once; to another one it says nothing."""
    monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "work.ipynb"))
    session = talk()
    save(store, session)
    monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "." / "study-1.ipynb"))
    new = say(session)
    with pytest.warns(UserWarning, match="the open tab and the store overwrite each other"):
        add(store, session, new)
    save(store, session)
    assert load(store) == session


def _without_session(path):
    nbformat.write(nbformat.v4.new_notebook(cells=[note("my work")]), path)


def _version_3(path):
    notebook = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_text_cell("markdown", "x")])]
    )
    path.write_text(nbformat.v3.writes_json(notebook), "utf-8")


def _newer(path):
    notebook = read(path)
    notebook["metadata"]["cyclops_nb"]["version"] = 2
    write(path, notebook)


def _newer_session(path):
    notebook = read(path)
    cell_of(notebook, "foot")["metadata"]["cyclops_nb"]["session"]["version"] = 2
    write(path, notebook)


def _damaged(path):
    notebook = read(path)
    del cell_of(notebook, 0)["metadata"]["cyclops_nb"]["message"]["role"]
    write(path, notebook)


def _conflict_markers(path):
    path.write_text(path.read_text("utf-8").replace(' "metadata"', '<<<<<<< HEAD\n "metadata"', 1), "utf-8")


class TestNotOurs:
    @pytest.mark.parametrize(
        ("spoil", "says"),
        [
            (_without_session, "is a notebook, but holds no session"),
            (_version_3, "has version 3 of the notebook format"),
            (_newer, "format version 2, but this cyclops_nb reads version 1: a newer cyclops_nb wrote it"),
            (_newer_session, r"cells\[3\], the session has format version 2"),
            (_damaged, r"cells\[1\], is no part of a session"),
            (_conflict_markers, "is no JSON"),
            (lambda path: path.write_text("{}"), "has no version, or no list of cells"),
            (lambda path: path.write_text('{"cells": [], "nbformat": "4"}'), "has no version, or no list of cells"),
            (lambda path: path.write_text('{"cells": [], "nbformat": 4, "nbformat_minor": []}'), "has no version"),
            (lambda path: path.write_text("[1, 2]"), "is no JSON"),
            (lambda path: path.write_bytes(path.read_bytes()[:-20]), "is no JSON"),
            (lambda path: path.write_bytes(b"\xff\xfe"), "is no JSON"),
        ],
    )
    def test_is_left_alone(self, folder, path, spoil, says):
        """What holds no session, or one that cannot be read, says so in each method, and is never overwritten."""
        session = talk()
        save(NotebookSessionStore(folder), session)
        spoil(path)
        before = path.read_bytes()
        for work in (
            lambda store: load(store),
            lambda store: save(store, session),
            lambda store: save(store, talk()),
            lambda store: add(store, session, []),
        ):
            with pytest.raises(SessionFormatError, match=says) as caught:
                work(NotebookSessionStore(folder))
            assert "study-1.ipynb" in str(caught.value)
        assert path.read_bytes() == before
        assert names(folder) == ["study-1.ipynb"]

    def test_another_session(self, folder, store, path):
        """A notebook that was copied under another name says whose it is."""
        save(store, talk())
        shutil.copy(path, folder / "study-2.ipynb")
        with pytest.raises(SessionFormatError, match=r"study-2.ipynb'.* holds the session 'study-1', not 'study-2'"):
            load(store, "study-2")

    def test_an_empty_file(self, folder, path):
        """An empty file is no session, and nothing is lost when one takes its place."""
        folder.mkdir()
        path.touch()
        with pytest.raises(SessionFormatError, match="is no whole JSON"):
            load(NotebookSessionStore(folder))
        session = talk()
        save(NotebookSessionStore(folder), session)
        assert load(NotebookSessionStore(folder)) == session

    def test_a_lost_picture(self, store, path):
        """A picture that is not attached any more is not taken for another."""
        save(store, conversation())
        notebook = read(path)
        del cell_of(notebook, 0)["attachments"]
        write(path, notebook)
        with pytest.raises(SessionFormatError, match=r"cells\[1\], .*the image '1.png' is not attached"):
            load(store)

    def test_an_edit_that_tears(self, folder, store, path):
        """A store that has not read a torn conversation does not replace it either."""
        session = conversation()
        save(store, session)
        take_out(path, 3)
        before = path.read_bytes()
        for work in (lambda: save(NotebookSessionStore(folder), session), lambda: save(store, session)):
            with pytest.raises((TranscriptError, SessionConflictError)):
                work()
        assert path.read_bytes() == before


def restyled(notebook, *, newline="\n", end="\n", **style):
    return (json.dumps(notebook, **style) + end).replace("\n", newline).encode()


def in_order(notebook, keys):
    """Return a notebook whose cells have their keys in another order."""
    cells = [{key: cell[key] for key in (*keys, *cell) if key in cell} for cell in notebook["cells"]]
    return {**notebook, "cells": cells}


STYLES = {
    "two blanks": {"indent": 2},
    "tabs": {"indent": "\t", "ensure_ascii": False},
    "ascii": {"indent": 1},
    "no end": {"indent": 1, "ensure_ascii": False, "end": ""},
    "windows": {"indent": 1, "ensure_ascii": False, "newline": "\r\n"},
    "one line": {"ensure_ascii": False},
    "compact": {"ensure_ascii": False, "separators": (",", ":")},
}


class TestStyle:
    @pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
    @pytest.mark.parametrize("keys", [(), ("cell_type", "source", "metadata", "id")], ids=["sorted", "other order"])
    def test_is_kept(self, store, path, style, keys):
        """A file that came in another style keeps it: what was not changed stays the same bytes."""
        session = talk()
        session.messages.append(UserMessage("é 😀"))
        save(store, session)
        put_in(path, 1, code("x = 1"))
        notebook = in_order(read(path), keys)
        path.write_bytes(restyled(notebook, **style))
        before = path.read_bytes()
        loaded = load(store)
        assert loaded == session
        new = say(loaded)
        add(store, loaded, new)
        after = path.read_bytes()
        assert after == restyled(in_order(json.loads(after), keys), **style)
        assert after.startswith(before[: len(before) // 3])
        save(store, loaded)
        assert path.read_bytes() == after
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_sources_as_texts(self, store, path):
        """A file in which sources are texts and not lists of lines keeps them so."""
        session = talk()
        save(store, session)
        notebook = read(path)
        for cell in notebook["cells"]:
            cell["source"] = source(cell)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False), "utf-8")
        loaded = load(store)
        add(store, loaded, say(loaded))
        assert {type(cell["source"]) for cell in read(path)["cells"]} == {str}
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_an_older_minor_version(self, store, path):
        """A notebook that was saved in version 4.4, which knows no ids of cells, stays valid."""
        session = talk()
        save(store, session)
        notebook = read(path)
        notebook["nbformat_minor"] = 4
        for cell in notebook["cells"]:
            del cell["id"]
        path.write_text(json.dumps(notebook, indent=1), "utf-8")
        loaded = load(store)
        assert loaded == session
        add(store, loaded, say(loaded))
        save(store, loaded)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nbformat.validate(nbformat.read(path, nbformat.NO_CONVERT))
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_odd_spacing(self, store, path, tmp_path):
        """Where someone has written by hand, the space between cells that stay is left as it is."""
        session = talk(2)
        save(store, session)
        path.write_bytes(path.read_bytes().replace(b"\n  },\n  {", b"\n  }\n,\n\n  {"))
        before = path.read_bytes()
        loaded = load(store)
        save(store, loaded)
        added, removed = changed_lines(before, path.read_bytes(), tmp_path)
        assert len(added) == len(removed) <= 2  # where the summary stands, and how the file begins
        add(store, loaded, say(loaded))
        assert path.read_bytes().count(b"\n  }\n,\n\n  {") == 5

    @pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
    def test_a_byte_order_mark(self, store, path, style):
        """A mark before the file, as some editors write it, stays, and so does the style of what stands behind it."""
        mark = b"\xef\xbb\xbf"
        session = talk()
        save(store, session)
        path.write_bytes(mark + restyled(read(path), **style))
        loaded = load(store)
        add(store, loaded, say(loaded))
        after = path.read_bytes()
        assert after == mark + restyled(json.loads(after.decode("utf-8-sig")), **style)
        save(store, loaded)
        assert path.read_bytes() == after
        assert [info.message_count for info in asyncio.run(store.list())] == [4]
        assert load(NotebookSessionStore(path.parent)) == loaded

    def test_nbformat_gives_no_noise(self, store, path):
        """A notebook that was opened and saved by nbformat, as JupyterLab's server does, is the same file."""
        session = conversation()
        session.messages.append(UserMessage("\u2028\x0b\x0c\x1c\x85\r\n\x00 é\n\n"))
        save(store, session)
        before = path.read_bytes()
        nbformat.write(nbformat.read(path, nbformat.NO_CONVERT), path)
        assert path.read_bytes() == before
        add(store, session, say(session))
        check_valid(path)

    @pytest.mark.parametrize("how", ["add", "save"])
    def test_keys_in_another_order(self, store, path, how):
        """A program in JavaScript puts keys that are numbers first; the session is the same, and nobody has changed it."""

        def reordered(value):
            if isinstance(value, dict):
                keys = sorted(filter(str.isdigit, value), key=int) + sorted(
                    (key for key in value if not key.isdigit()), reverse=True
                )
                return {key: reordered(value[key]) for key in keys}
            return [reordered(item) for item in value] if isinstance(value, list) else value

        data = {"10": "a", "9": {"b": 1, "10": 2, "9": [{"10": 3, "9": 4}]}, "9a": 5}
        data = {key: data[key] for key in sorted(data)}
        data["9"] = dict(sorted(data["9"].items()))
        session = talk()
        session.metadata.update(data)
        session.configs["c"] = {"model": "m", **data}
        config = session.configs["c"]
        session.messages += [
            UserMessage("q", metadata=data),
            AssistantMessage(TextPart("a", provider_metadata={"p": data}), metadata={"z": 1, "y": data}),
        ]
        session.runs.append(Run(session_id="study-1", model="m", config="c", extra_of_later={"10": 1, "9": 2}))
        save(store, session)
        path.write_text(json.dumps(reordered(read(path)), indent=1, ensure_ascii=False) + "\n", "utf-8")
        loaded = load(NotebookSessionStore(path.parent))
        assert loaded.model_dump_json() == session.model_dump_json()
        assert list(loaded.configs["c"]) == list(config)
        new = say(session)
        add(store, session, new) if how == "add" else save(store, session)
        assert load(NotebookSessionStore(path.parent)).model_dump_json() == session.model_dump_json()

    def test_numbers_give_no_noise(self, store, path):
        """Numbers are written as a browser writes them, 0 for 0.0, and come back as what they were."""
        session = talk()
        session.configs["c"] = {"temperature": 1.0, "seed": 1}
        session.metadata.update({"a": 2.0, "b": [-0.0, 1e22, 0.5]})
        session.messages.append(AssistantMessage("x", cost=0.0, duration=3.0, metadata={"score": 1.0}))
        session.runs.append(Run(session_id="study-1", model="m", cost=1e16, duration=2.0, stop_reason="completed"))
        save(store, session)
        assert as_jupyterlab_saves(read(path)) == path.read_bytes()
        assert load(NotebookSessionStore(path.parent)).model_dump_json() == session.model_dump_json()

    @pytest.mark.parametrize(
        "program",
        [
            lambda notebook: as_jupyterlab_saves(notebook),
            lambda notebook: as_jupyterlab_saves(notebook).rstrip(b"\n"),
            lambda notebook: f"{nbformat.writes(nbformat.from_dict(notebook))}\n".encode(),
        ],
        ids=["JupyterLab", "VS Code", "nbformat"],
    )
    def test_programs_load_alike(self, store, path, program):
        """A notebook that was saved by any of these programs is the same session, and so it is after an edit there."""
        session = conversation()
        session.messages.append(UserMessage("\u2028\u2029\x0b\x0c\x1c\x1d\x1e\x85\r\n\x00 é 😀\n\n"))
        save(store, session)
        path.write_bytes(program(read(path)))
        assert load(NotebookSessionStore(path.parent)) == session
        before = path.read_bytes()
        save(store, session)
        assert path.read_bytes() == before
        edit(path, 4, "11 °C", "12 °C")
        path.write_bytes(program(read(path)))
        loaded = load(store)
        assert loaded.messages[4].text == session.messages[4].text.replace("11 °C", "12 °C")
        add(store, loaded, say(loaded))
        assert path.read_bytes() == program(read(path))
        assert load(NotebookSessionStore(path.parent)) == loaded


class TestDelete:
    """What `delete` removes."""

    @pytest.mark.parametrize(
        "text", ['{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "{", '{"nbformat": 3}']
    )
    def test_leaves_what_is_no_session(self, store, path, text):
        """Somebody else's notebook, or one that is broken."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        with pytest.raises(SessionFormatError):
            asyncio.run(store.delete("study-1"))
        assert path.read_text() == text

    def test_leaves_what_is_another_stores(self, store, path, tmp_path):
        """A notebook that was handed out, and a session under another name, can be deleted by whoever put them there."""
        session = Session("other")
        session.messages += [UserMessage("q"), AssistantMessage("a")]
        asyncio.run(store.save(session))
        export_notebook(session, tmp_path / "handout.ipynb")
        for foreign in (path.with_name("other.ipynb"), tmp_path / "handout.ipynb"):
            path.write_bytes(foreign.read_bytes())
            with pytest.raises(SessionFormatError):
                asyncio.run(store.delete("study-1"))
            assert path.read_bytes() == foreign.read_bytes()

    def test_removes_a_session_that_was_torn(self, store, path):
        """What cannot be loaded any more, though it is this session, can be given up."""
        asyncio.run(store.save(talk()))
        notebook = json.loads(path.read_text())
        notebook["cells"].append(notebook["cells"][-1])
        path.write_text(json.dumps(notebook))
        asyncio.run(store.delete("study-1"))
        assert not path.exists()
