"""What a run warns of: that a server has cut the prompt, above all, which nothing else would show."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from scenarios import note
from strategies import moderate, sessions

from cyclops_nb import (
    AgentConfig,
    AssistantMessage,
    Compaction,
    Middleware,
    ReasoningPart,
    Run,
    Session,
    SummaryMessage,
    Usage,
    UserMessage,
    runs_frame,
)
from cyclops_nb.engine.oddities import Asked, input_limit, is_same_model, oddities
from cyclops_nb.models.base import Completion, Endpoint
from cyclops_nb.testing import reasoning, reply, text, tool_call

CUT = "the prompt seems to have been cut by the server"
OWN = "http://127.0.0.1:11434/v1"
SERVICE = "https://api.openai.com/v1"


def answer(tokens, words="Fine.", **settings):
    """Return a reply whose prompt had so many tokens."""
    return text(words, usage=(tokens, 5), **settings)


def talk(agent, *, session=None, turns=2):
    """Run some turns on one session and return the warnings of the last run."""
    session = Session() if session is None else session
    for _ in range(turns):
        agent.run("go on", session=session)
    return session.runs[-1].warnings


def warnings_for(tokens, *texts, base_url=OWN, limit=None, cached=0, prices=0, **settings):
    """Return what is warned of after one answer to a transcript of these user's texts."""
    completion = Completion()
    completion.usage, completion.model, completion.finished = Usage(1, tokens, 5, cached), "m", True
    run = Run(session_id="s", model="m", input_limit=limit)
    asked = Asked(
        endpoint=Endpoint(base_url, "m"),
        config=AgentConfig("m", prices=prices, **settings),
        run=run,
        runs=(run,),
        messages=tuple(UserMessage(item, run_id=run.id) for item in texts),
        is_as_it_stands=True,
    )
    return oddities(completion, 0.0, asked)


class TestPromptThatShrank:
    """A prompt that has fewer tokens than a shorter one before it."""

    def test_is_told_of(self, ask):
        """A conversation grows, and the tokens of its prompts with it; where they fall, something was left out."""
        warnings = talk(ask(answer(3900), answer(3400), prices=0))
        assert len(warnings) == 1
        assert warnings[0].startswith(f"{CUT}: fewer tokens were counted than for a shorter one before")

    def test_is_told_of_within_a_run(self, ask):
        """The steps of a run are held against each other, and the warning is given once."""
        agent = ask(
            tool_call("note", {"n": 1}, usage=(4000, 5)),
            tool_call("note", {"n": 2}, usage=(2600, 5)),
            answer(2900),
            tools=[note],
            prices=0,
        )
        assert [CUT in warning for warning in agent.run_with_response("go").warnings] == [True]

    def test_is_told_of_as_long_as_it_is_shorter(self, ask):
        """A prompt that grows again is still cut while it is shorter than the one that was whole."""
        agent = ask(answer(3900), answer(3000), answer(3200), answer(3950), prices=0)
        session = Session()
        warned = [bool(talk(agent, session=session, turns=1)) for _ in range(4)]
        assert warned == [False, True, True, False]

    @pytest.mark.parametrize("tokens", [(600, 600), (600, 601), (100, 90), (600, 9000)])
    def test_is_not_seen_where_none_is(self, ask, tokens):
        """A prompt that is as long, or longer, or too short for any window, is none."""
        assert talk(ask(*map(answer, tokens), prices=0)) == ()

    def test_after_other_settings(self, ask):
        """Other settings make other prompts: without a long system prompt, or tools, there are fewer tokens."""
        agent = ask(answer(3900), answer(900), system_prompt="Be brief.", prices=0)
        session = Session()
        agent.run("go", session=session)
        assert talk(agent.replace(system_prompt=None), session=session, turns=1) == ()

    def test_after_another_model(self, ask):
        """Another model counts other tokens."""
        agent = ask(answer(3900), answer(3000), prices=0)
        session = Session()
        agent.run("go", session=session)
        assert talk(agent.replace(model="n"), session=session, turns=1) == ()

    def test_by_another_model(self, ask):
        """Where another model answers than before, its tokens are others, too."""
        agent = ask(answer(3900, model="m-q8"), answer(3000, model="m-q4"), prices=0)
        assert talk(agent) == ()

    def test_after_a_structured_answer(self, ask):
        """The schema of an answer may have been a part of its prompt."""

        class Answer(BaseModel):
            word: str

        agent = ask(answer(900, '{"word": "a"}'), answer(600), prices=0)
        session = Session()
        agent.run("go", session=session, response_model=Answer)
        assert talk(agent, session=session, turns=1) == ()

    @pytest.mark.parametrize(("length", "counted"), [(40, 600), (2000, None)])
    def test_after_reasoning(self, ask, length, counted):
        """Reasoning is in the prompts of its own turn, and is left out after it, counted or not."""
        thought = reply(
            reasoning("x" * length), tool_call("note", {"n": 1}), usage=(1000, 700), reasoning_tokens=counted
        )
        agent = ask(thought, answer(1700), answer(1200), tools=[note], prices=0)
        assert talk(agent) == ()

    def test_after_truncation(self, ask):
        """What the user has taken back is not missed."""
        agent = ask(answer(3000), answer(3900), answer(3100), prices=0)
        session = Session()
        talk(agent, session=session)
        session.truncate(2)
        assert talk(agent, session=session, turns=1) == ()

    def test_after_an_edit(self, ask):
        """A message that the user has made shorter is not missed."""
        agent = ask(answer(3000), answer(3900), answer(3100), prices=0)
        session = Session()
        talk(agent, session=session)
        assert agent.run_with_response(session=session.edit(2, "x")).warnings == ()

    def test_after_the_user_has_cut_off_the_beginning(self, ask):
        """Messages that were taken out of the list are not missed."""
        agent = ask(answer(3000), answer(3900), answer(2000), prices=0)
        session = Session()
        talk(agent, session=session)
        del session.messages[:2]
        assert talk(agent, session=session, turns=1) == ()

    def test_after_compaction(self, ask):
        """A summary is shorter than what it stands for."""
        long = "word " * 400
        agent = ask(
            answer(3000, long), answer(3900, long), text("Short.", usage=(3900, 3)), answer(900), answer(950), prices=0
        )
        session = Session()
        talk(agent, session=session)
        agent.replace(compaction=Compaction(keep_last=2)).compact(session)
        assert session.runs[-1].kind == "compaction"
        assert talk(agent, session=session) == ()

    def test_in_a_session_that_was_compacted(self, ask):
        """After a compaction prompts grow again, and where they fall they are told of."""
        agent = ask(answer(3000), answer(2000), prices=0)
        session = Session()
        session.messages.append(SummaryMessage("They spoke.", 4))
        assert CUT in talk(agent, session=session)[0]

    def test_of_a_compaction(self, ask):
        """The request for a summary is no part of the conversation."""
        long = "word " * 800
        agent = ask(answer(3000, long), answer(3900, long), text("Short.", usage=(700, 3)), prices=0)
        session = Session()
        talk(agent, session=session)
        agent.replace(compaction=Compaction(keep_last=2)).compact(session)
        assert (session.runs[-1].kind, session.runs[-1].warnings) == ("compaction", ())

    def test_behind_middleware(self, ask):
        """Middleware may send less than the transcript, and knows why."""

        class Window(Middleware):
            async def wrap_model_call(self, request, call_next):
                return await call_next(request.replace(messages=request.messages[-1:]))

        agent = ask(answer(3900), answer(600), prices=0, middleware=[Window()])
        assert talk(agent) == ()

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (answer(1000), answer(1200, cached=1000)),
            (answer(5000), answer(300, cached=4900)),
            (answer(5000, cached=4000), answer(5200, cached=5000)),
        ],
        ids=["in the input", "beside the input", "both"],
    )
    def test_with_a_cache(self, ask, first, second):
        """Cached tokens are a part of the prompt, also where a server counts them beside it."""
        assert talk(ask(first, second, prices=0)) == ()

    def test_where_nothing_is_counted(self, ask):
        """A server that reports no tokens of the prompt has cut nothing that could be seen."""
        assert talk(ask(answer(3900), answer(0), prices=0)) == ()

    def test_in_a_fork(self, ask):
        """A fork goes on from the same prompts, and is held against them."""
        agent = ask(answer(3000), answer(3900), answer(2500), prices=0)
        session = Session()
        talk(agent, session=session)
        assert CUT in talk(agent, session=session.fork(), turns=1)[0]
        assert session.runs[-1].warnings == ()


class TestPromptAsLongAsAWindow:
    """A prompt that is exactly as long as a context window."""

    @pytest.mark.parametrize("tokens", [2048, 4096, 8192, 16384, 32768, 65536, 131072])
    def test_is_told_of(self, tokens):
        """Programs that run models cut a prompt to their window, which is a power of two by default."""
        assert warnings_for(tokens, "go")[0].startswith(f"{CUT}: it is exactly as long as a context window")

    @pytest.mark.parametrize("tokens", [512, 1024, 2047, 2049, 4000, 4095, 5000, 262145])
    def test_is_not_seen_in_others(self, tokens):
        """Any other length is an ordinary one."""
        assert warnings_for(tokens, "go") == []

    def test_is_told_of_at_half_a_window(self):
        """A prompt that is shifted out of its window keeps half of it and a little; its text shows that it was longer."""
        code = "x = [1]\n" * 8000
        assert CUT in warnings_for(4098, code)[0]
        assert warnings_for(4098, "x" * 16_000) == []

    @pytest.mark.parametrize(("tokens", "warned"), [(3000, True), (2999, True), (2998, False), (3001, False)])
    def test_that_is_known(self, tokens, warned):
        """Where the window is known, a prompt that fills it to the last token leaves no room for an answer."""
        assert bool(warnings_for(tokens, "go", limit=3000)) == warned

    def test_of_a_service_is_chance(self):
        """Services have other windows, and refuse what is too long."""
        assert warnings_for(4096, "go", base_url=SERVICE, limit=128_000) == []
        assert warnings_for(4096, "go", base_url="https://llm.example.org/v1", limit=128_000) != []

    def test_is_told_of_by_a_run(self, ask):
        """It is enough that the setting names the window."""
        assert CUT in ask(answer(3000), input_limit=3000, prices=0).run_with_response("go").warnings[0]


class TestPromptWithMoreWordsThanTokens:
    """A prompt for which fewer tokens are counted than it has words."""

    def test_is_told_of(self):
        """No tokenizer makes one token of two words, so that a first prompt is seen to be cut as well."""
        warnings = warnings_for(3000, "There were many words in it. " * 1000)
        assert warnings[0].startswith(f"{CUT}: fewer tokens were counted than it has words")

    def test_is_told_of_by_a_run(self, ask):
        """The system prompt, and what tools are asked and say, are a part of it."""
        many = "a word or two " * 1000

        def read(what: str) -> str:
            """Read."""
            return many if what == "all" else "read"

        for what in ("all", many):
            agent = ask(tool_call("read", {"what": what}, usage=(100, 5)), answer(1500), tools=[read], prices=0)
            assert CUT in agent.run_with_response("go").warnings[0]
        agent = ask(answer(1500), system_prompt=many, prices=0)
        assert CUT in agent.run_with_response("go").warnings[0]

    @pytest.mark.parametrize(
        ("tokens", "said"),
        [
            (5200, "There were many words in it. " * 900),
            (500, "x" * 20_000),
            (500, " \n" * 20_000),
            (900, "長い文章です。" * 1000),
            (10, "a few words " * 100),
        ],
        ids=["ordinary", "no words", "white space", "no spaces", "few"],
    )
    def test_is_not_seen_in_others(self, tokens, said):
        """Text that has as many tokens as words, or no words at all, or few, is an ordinary one."""
        assert warnings_for(tokens, said) == []

    def test_with_a_cache(self):
        """Cached tokens that a server counts beside the input are tokens of the prompt."""
        assert warnings_for(100, "There were many words in it. " * 1000, cached=6000) == []


class TestOthers:
    """What else is warned of."""

    def test_nothing_odd_is_nothing_to_say(self):
        """An ordinary answer has no warnings."""
        assert warnings_for(10, "go") == []

    def test_a_price_that_is_missing_is_named(self, ask):
        """Where the user's own prices lack one that is needed, the cost is unknown, and which one is said."""
        response = ask(text("d", usage=(10, 5)), prices={"input": 1}).run_with_response("go")
        assert (response.cost, response.warnings) == (None, ("the price is unknown: prices= has none for 'output'",))

    def test_all_at_once(self, ask):
        """Each oddity is a sentence of its own."""
        warnings = ask(answer(4096, finish_reason="length", model="other")).run_with_response("go").warnings
        assert [
            word for word in ("price", CUT, "length limit", "'other' answered") if any(word in w for w in warnings)
        ] == [
            "price",
            CUT,
            "length limit",
            "'other' answered",
        ]
        assert len(warnings) == 4

    @moderate
    @given(sessions(), st.integers(0, 10_000), st.booleans())
    def test_any_session_is_survived(self, session, tokens, is_as_it_stands):
        """Whatever stands in a session, looking at it raises nothing and changes nothing."""
        completion = Completion()
        completion.usage, completion.finished = Usage(1, tokens, 5), True
        run = session.runs[-1] if session.runs else Run(session_id="s", model="m")
        asked = Asked(
            Endpoint(OWN, "m"), AgentConfig("m"), run, session.runs, session.messages, is_as_it_stands=is_as_it_stands
        )
        before = session.model_dump_json()
        assert all(isinstance(item, str) for item in oddities(completion, None, asked))
        assert session.model_dump_json() == before

    def test_a_message_of_the_same_time_as_the_summary_answered_more(self):
        """An answer that was kept by a compaction had a longer prompt than stands there now."""
        summary = SummaryMessage("They spoke.", 4)
        run = Run(session_id="s", model="m", config="c")
        kept = AssistantMessage(
            [ReasoningPart("hm"), *AssistantMessage("Fine.").content],
            model="m", usage=Usage(1, 3900, 5), run_id=run.id, created_at=summary.created_at - timedelta(seconds=1),
        )  # fmt: skip
        completion = Completion()
        completion.usage, completion.model, completion.finished = Usage(1, 900, 5), "m", True
        asked = Asked(Endpoint(OWN, "m"), AgentConfig("m", prices=0), run, [run], [summary, kept], is_as_it_stands=True)
        assert oddities(completion, 0.0, asked) == []


class TestModelNames:
    """When two names mean one model."""

    @pytest.mark.parametrize(
        ("asked", "answered"),
        [
            ("gpt-4", "gpt-4-0613"),
            ("gpt-5-chat-latest", "gpt-5-chat"),
            ("grok-4", "grok-4-0709"),
            ("claude-sonnet-4", "claude-sonnet-4@20250514"),
            ("anthropic/claude-sonnet-4.6", "anthropic/claude-4.6-sonnet-20260217"),
            ("mistral-small-latest", "mistral-small-2506"),
            ("minimax/minimax-m2:free", "minimax/minimax-m2"),
            ("openai/gpt-oss-120b:cerebras", "gpt-oss-120b"),
            ("gpt-4o-2024-11-20", "gpt-4o"),
            ("gemini-2.5-flash", "models/gemini-2.5-flash"),
            ("qwen3:8b", "qwen3:8b"),
            ("Qwen3-8B", r"C:\models\qwen3-8b-UD-Q4_K_XL.gguf"),
            ("unsloth/Qwen3-8B-GGUF:Q4_K_M", "qwen3-8b"),
            ("ft:gpt-4o-mini:org::id", "ft:gpt-4o-mini:org::id"),
        ],
    )
    def test_one_model(self, asked, answered):
        """Paths, dates, tags, choices of a router, the order of words and the ending of a file are no other model."""
        assert is_same_model(asked, answered)

    @pytest.mark.parametrize(
        ("asked", "answered"),
        [
            ("gpt-4o", "gpt-4o-mini"),
            ("gpt-4o-2024-05-13", "gpt-4o-2024-11-20"),
            ("qwen3:8b", "qwen3:30b"),
            ("claude-sonnet-4.5", "claude-sonnet-4.6"),
            ("kimi-k2", "kimi-k2-thinking"),
            ("llama3", "llama3.1"),
        ],
    )
    def test_another_model(self, asked, answered):
        """Another size, version, date or kind is another model."""
        assert not is_same_model(asked, answered)


class TestInputLimit:
    """What is known of a context window without asking the server."""

    def test_the_setting_counts_first(self):
        """The user's own number wins over all others."""
        endpoint = Endpoint(SERVICE, "gpt-4o-mini", context_window=9)
        assert input_limit(AgentConfig("gpt-4o-mini", input_limit=7), endpoint) == 7

    def test_then_what_is_known_of_the_server(self):
        """What this library has started itself it knows the window of."""
        assert input_limit(AgentConfig("gpt-4o-mini"), Endpoint(SERVICE, "gpt-4o-mini", context_window=9)) == 9

    def test_then_the_price_list(self):
        """The price list has windows too, by host and model."""
        assert input_limit(AgentConfig("gpt-4o-mini"), Endpoint(SERVICE, "gpt-4o-mini")) == 128_000
        assert input_limit(AgentConfig("gpt-4o-mini"), Endpoint(OWN, "gpt-4o-mini")) is None


class TestWhereTheyAreShown:
    """Warnings are seen where the answer is."""

    @pytest.fixture
    def session(self, ask):
        """A session whose second run has warnings."""
        session = Session()
        talk(ask(answer(3900), answer(3000, finish_reason="length"), prices=0), session=session)
        return session

    def test_in_text_and_html(self, session):
        """Sessions and runs name them, in both forms of their view."""
        for value in [session, session.runs[1]]:
            bundle = value._repr_mimebundle_()
            for shown in [bundle["text/plain"], bundle["text/html"], value._repr_html_()]:
                assert CUT in shown
                assert "cut off by its length limit" in shown
        assert CUT not in session.runs[0]._repr_html_()

    def test_in_a_response(self, ask):
        """A response names them as its own and in its view."""
        response = ask(answer(4096), prices=0).run_with_response("go")
        assert response.warnings == response.run.warnings
        bundle = response._repr_mimebundle_()
        assert CUT in bundle["text/plain"]
        assert CUT in bundle["text/html"]

    def test_in_the_frame_of_runs(self, session):
        """The frame has them in one column, in the order they came, and nothing where there are none."""
        column = runs_frame(session)["warnings"]
        assert column.isna().tolist() == [True, False]
        assert column[1] == "; ".join(session.runs[1].warnings)
