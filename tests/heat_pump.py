"""A conversation that has everything in it, on a scripted server: for pictures, and for tests of what a reader sees."""

from __future__ import annotations

import time

import matplotlib.figure

from cyclops_nb import Agent, Session, tool
from cyclops_nb.testing import ScriptedServer, reasoning, reply, text, tool_call, tool_calls

CALCULATION = r"""A heat pump pays, if the house keeps its radiators.

| | gas | heat pump |
|---|---:|---:|
| heat needed | 14,600 kWh | 14,600 kWh |
| efficiency | 0.92 | 3.1 |
| **cost a year** | **$1,900** | **$980** |

The bill falls from $1,900 to about $980. What is bought is the heat divided by the efficiency:

\[ E = \frac{Q}{\eta} = \frac{14600}{3.1} \approx 4710\ \text{kWh} \]

- At $0.21 per kWh, $E$ costs about $980.
- A pump for $9,500 has paid for itself after **ten years**.
"""
PROGRAM = '''# The calculation

## In Python

```python
def years(price: float, gas: float, pump: float) -> float:
    """Return after how many years a heat pump has paid for itself."""
    return price / (gas - pump)  # without interest


print(years(9_500, 1_900, 980))
```

With interest, see [the rule of 72](https://en.wikipedia.org/wiki/Rule_of_72).
'''


@tool
def get_climate(city: str) -> dict[str, object]:
    """Return the heating degree days of a city."""
    time.sleep(0.05)
    return {"city": city, "heating_degree_days": 3950, "coldest_month": "January"}


@tool
def get_price(fuel: str, source: str = "market") -> dict[str, object]:
    """Return the price of a fuel in dollars per kWh."""
    time.sleep(0.02)
    if source == "market":
        raise TimeoutError("no answer from the market within 5 s")
    return {"fuel": fuel, "dollars_per_kwh": 0.21, "as_of": "2026-11"}


def bills():
    """Return a figure of what gas has cost."""
    figure = matplotlib.figure.Figure(figsize=(4, 2.2), dpi=80, layout="constrained")
    axes = figure.subplots()
    axes.bar(["2023", "2024", "2025", "2026"], [1200, 1350, 1640, 1900], color="#5b8cc0")
    axes.set_ylabel("$ a year")
    return figure


def _script():
    look_up = tool_calls(
        tool_call("get_climate", {"city": "Bergen"}), tool_call("get_price", {"fuel": "electricity"}), usage=(412, 64)
    )
    return [
        reply(
            reasoning("They heat with gas. I need how cold Bergen is, and what a kWh of electricity costs there."),
            text("I look up the climate and the price."),
            look_up,
            reasoning_tokens=31,
        ),
        tool_call("get_price", {"fuel": "electricity", "source": "last month"}, usage=(530, 28), cached=384),
        text(CALCULATION, usage=(588, 214), cached=512),
        text(PROGRAM, usage=(822, 120), cached=768),
        text("Solar panels for $7,000 give 3,200 kWh a year in Bergen, worth **$670** a year.", usage=(954, 30)),
        text("A wood stove costs $3,000, but needs 5 m³ of birch a year: about $750. Over ten years", usage=(956, 24),
             finish_reason="length"),
        text("About as loud as a fridge: 45 dB at one metre.", usage=(980, 16)),
        reply(reasoning("Only the price of gas is asked for."), tool_call("get_price", {"fuel": "gas"}, usage=(990, 18))),
        text("The market does not answer. The bill says $0.12.", usage=(1020, 20)),
        text("About 20 years.", usage=(990, 8)),
    ]  # fmt: skip


QUESTION = "Our gas bill rose from $1,200 to $1,900 a year. Does a heat pump pay? We live in Bergen."


def agent_at(address):
    """Return the agent that talks to a server."""
    return Agent(
        "gpt-4o-mini",
        [get_climate, get_price],
        base_url=address,
        system_prompt="You advise house owners. Be brief, and show how you come to your numbers.",
        temperature=0,
        prices={"input": 0.15, "output": 0.6, "cached": 0.075},
    )


def server():
    """Return a server that is not started."""
    return ScriptedServer(_script())


def start_agent():
    """Return the agent on a server that runs until the process ends."""
    return agent_at(server().__enter__().base_url)


def talk():
    """Return a session of two questions: one with a picture, reasoning, tools, a table and a formula, one with code."""
    session = Session("bergen-1", title="Heat pump in Bergen")
    with server() as running:
        agent = agent_at(running.base_url)
        agent.run([QUESTION, bills()], session=session)
        agent.run("Show me the calculation as Python.", session=session)
    return session
