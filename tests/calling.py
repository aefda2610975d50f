"""Calls tools as a model would, with the text of the arguments."""

import enum
import json

import pytest
from pydantic import BaseModel, Field

from cyclops_nb.errors import InputError
from cyclops_nb.session import Session
from cyclops_nb.tools import RunContext, tool

CONTEXT = RunContext(session=Session("s"), run_id="r", step=1, call_id="c", agent=None)


def schema(function):
    return tool(function).parameters


def properties(function):
    return schema(function)["properties"]


def required(function):
    return schema(function).get("required", [])


def call(function, arguments="{}"):
    """Call a function as a model would, with the text of the arguments."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return tool(function).bind(text, CONTEXT)()


def refusal(function, arguments):
    """Return what the model is told of arguments that do not fit."""
    with pytest.raises(InputError) as caught:
        call(function, arguments)
    return str(caught.value)


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Place(BaseModel):
    city: str = Field(description="Its name.")
    title: str = "none"
    tags: dict[str, str] = {"title": "kept"}
