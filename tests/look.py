"""A notebook with all that this library shows, executed, and opened in all the ways in which people read notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

CELLS = [
    "from heat_pump import agent, bills\n\nfrom cyclops_nb import Session, compare, runs_frame",
    'session = Session("bergen-1", title="Heat pump in Bergen")\n'
    'question = "Our gas bill rose from $1,200 to $1,900 a year. Does a heat pump pay? We live in Bergen."\n'
    "agent.run([question, bills()], session=session)",
    'agent.run("Show me the calculation as Python.", session=session)\nsession',
    'other = session.fork(title="Solar panels")\n'
    'agent.run("And solar panels?", session=other)\n'
    'agent.run("And a wood stove?", session=session)\n'
    "other",
    'compare(session, other, labels=["stove", "solar"])',
    "session.usage",
]


def executed(folder, cells=CELLS, name="look.ipynb"):
    """Write a notebook of these cells, run them all in a fresh kernel, and return its path."""
    path = Path(folder) / name
    sources = [new_markdown_cell("# Heating in Bergen"), *map(new_code_cell, cells)]
    for number, cell in enumerate(sources):
        cell["id"] = f"cell-{number}"
    notebook = new_notebook(cells=sources, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    nbformat.write(notebook, path)
    script = "import sys; from cyclops_nb.cli import run_notebook; run_notebook"
    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(folder))
    nbformat.write(notebook, path)
    return path
