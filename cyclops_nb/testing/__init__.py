"""Test a notebook or a program without a model: a scripted OpenAI-compatible server over real HTTP.

Nothing of the program under test is replaced: it talks over a real connection to a real server, which answers
what a script says, records what it was asked, and refuses what OpenAI would refuse. So a test also covers
timeouts, errors in the middle of a stream, and clients that leave.

Examples
--------
>>> import openai
>>> from cyclops_nb.testing import ScriptedServer, reasoning, reply, text, tool_call
>>> script = [
...     tool_call("get_weather", {"city": "Paris"}),
...     reply(reasoning("They will want degrees."), text("11 °C in Paris."), usage=(40, 12)),
... ]
>>> with ScriptedServer(script) as server:
...     with openai.OpenAI(base_url=server.base_url, api_key="any") as client:
...         answer = client.chat.completions.create(
...             model="any", messages=[{"role": "user", "content": "How warm is it in Paris?"}]
...         )
>>> answer.choices[0].message.tool_calls[0].function.arguments
'{"city":"Paris"}'
"""

from cyclops_nb.testing.bodies import error, raw, replay
from cyclops_nb.testing.gates import Gate, gate
from cyclops_nb.testing.pieces import Reply
from cyclops_nb.testing.recorded import RecordedRequest
from cyclops_nb.testing.replies import (
    cut,
    delay,
    end,
    error_in_stream,
    reasoning,
    reply,
    text,
    tool_call,
    tool_calls,
)
from cyclops_nb.testing.server import ScriptedServer

__all__ = [
    "Gate",
    "RecordedRequest",
    "Reply",
    "ScriptedServer",
    "cut",
    "delay",
    "end",
    "error",
    "error_in_stream",
    "gate",
    "raw",
    "reasoning",
    "replay",
    "reply",
    "text",
    "tool_call",
    "tool_calls",
]
