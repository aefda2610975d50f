"""The scripted server: its script, its records, and the rules it can be given."""

import json
import threading

import openai
import pytest
from scripted_client import ASK, ask, post, said

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing import ScriptedServer, gate, reply, text
from cyclops_nb.testing.answers import answer_to


class TestScript:
    def test_replies_are_used_in_order(self):
        """Each request takes the next reply of the list."""
        with ScriptedServer([text("one"), text("two")]) as server:
            assert [ask(server).choices[0].message.content for _ in range(2)] == ["one", "two"]

    def test_a_script_that_is_used_up_is_told_at_once(self):
        """The request after the last reply gets an error that counts them, and clients do not retry."""
        with ScriptedServer([text("one")]) as server:
            ask(server)
            with pytest.raises(openai.InternalServerError, match=r"has only 1 reply, and this is request 2"):
                ask(server, retries=2)
        assert [request.status for request in server.requests] == [200, 500]

    def test_replies_can_be_added_while_the_server_runs(self):
        """A reply that is added answers the next request, also after the script was used up."""
        with ScriptedServer() as server:
            with pytest.raises(openai.InternalServerError, match="has only 0 replies"):
                ask(server)
            server.add(text("one"), text("two"))
            assert [ask(server).choices[0].message.content for _ in range(2)] == ["one", "two"]

    def test_a_list_can_go_round(self):
        """With repeat=True the list starts again."""
        with ScriptedServer([text("a"), text("b")], repeat=True) as server:
            assert "".join(ask(server).choices[0].message.content for _ in range(5)) == "ababa"

    def test_one_reply_answers_all_requests(self):
        """A reply by itself is never used up."""
        with ScriptedServer(text("a")) as server:
            assert "".join(ask(server).choices[0].message.content for _ in range(3)) == "aaa"

    def test_a_function_decides_by_the_request(self):
        """A function sees the request and gives the reply, alone or as an entry of a list."""

        def echo(request):
            return text(request.messages[-1]["content"].upper())

        with ScriptedServer([text("a"), echo]) as listed, ScriptedServer(echo) as alone:
            assert ask(listed).choices[0].message.content == "a"
            assert ask(listed).choices[0].message.content == "HOW WARM IS IT?"
            assert ask(alone).choices[0].message.content == "HOW WARM IS IT?"

    def test_a_function_that_fails_is_told(self):
        """What the function raises, or gives instead of a reply, is the server's error."""
        with ScriptedServer([lambda request: 1 / 0, lambda request: "text"]) as server:
            with pytest.raises(openai.InternalServerError, match="raised ZeroDivisionError: division by zero"):
                ask(server, retries=2)
            with pytest.raises(openai.InternalServerError, match="gave 'text', which is no reply"):
                ask(server, retries=2)

    @pytest.mark.parametrize("script", ["text", [text("a"), "b"], [gate()], 5, None])
    def test_what_is_no_reply_is_refused(self, script):
        """A script of other things is refused when the server is made."""
        with pytest.raises(ConfigError, match="no reply"):
            ScriptedServer(script)

    def test_only_a_list_repeats_and_grows(self):
        """One reply for all needs no repetition and takes no additions, and nothing cannot be repeated."""
        with pytest.raises(ConfigError, match="leave out repeat"):
            ScriptedServer(text("a"), repeat=True)
        with pytest.raises(ConfigError, match="at least one"):
            ScriptedServer([], repeat=True)
        with pytest.raises(ConfigError, match="nothing can be added"):
            ScriptedServer(text("a")).add(text("b"))

    def test_a_long_text_goes_out_in_one_piece(self):
        """Two thousand chunks are sent in one write, so that the time of a test is the client's."""
        answer = answer_to(text("word " * 2000, chunks=2000), {"stream": True}, 1)
        assert len(answer.actions) == 1


class TestRecords:
    def test_a_request_is_kept_as_it_came(self):
        """Body, messages, headers, path, query and bytes of a request can be looked at."""
        with (
            ScriptedServer([text("Hello")]) as server,
            openai.OpenAI(
                base_url=server.base_url,
                api_key="k",
                default_headers={"X-Team": "Blue"},
                default_query={"version": "7"},
            ) as client,
        ):
            client.chat.completions.create(model="m", messages=ASK, temperature=0)
        (request,) = server.requests
        assert request.body == {"messages": ASK, "model": "m", "temperature": 0}
        assert request.messages == ASK
        assert (request.headers["x-team"], request.headers["authorization"]) == ("Blue", "Bearer k")
        assert (request.method, request.path, request.query) == ("POST", "/v1/chat/completions", {"version": "7"})
        assert json.loads(request.raw) == request.body
        assert request.status == 200

    def test_completions_are_told_from_other_requests(self):
        """All requests are recorded; those for completions can be had alone."""
        with ScriptedServer(text("Hello")) as server:
            with openai.OpenAI(base_url=server.base_url, api_key="k") as client:
                client.models.list()
            ask(server)
        assert [request.path for request in server.requests] == ["/v1/models", "/v1/chat/completions"]
        assert [request.path for request in server.completions] == ["/v1/chat/completions"]

    def test_a_request_is_there_while_it_is_answered(self):
        """What was asked can be looked at as soon as a gate is reached, and has a status once an answer begins."""
        before, within = gate(), gate()
        with ScriptedServer([reply(before, text("a"), within)]) as server:
            thread = threading.Thread(target=ask, args=(server,), kwargs={"stream": True})
            thread.start()
            before.wait_reached()
            assert server.requests[0].messages == ASK
            assert server.requests[0].status is None
            with pytest.raises(TimeoutError, match=r"still being answered after 0\.001 s: 1"):
                server.wait_idle(timeout=0.001)
            before.release()
            within.wait_reached()
            assert server.requests[0].status == 200
            within.release()
            thread.join(10)
            server.wait_idle()

    def test_open_connections_are_counted(self):
        """A client keeps its connection between requests, and the server knows when it is closed."""
        with ScriptedServer(text("Hello")) as server:
            with openai.OpenAI(base_url=server.base_url, api_key="k") as client:
                for _ in range(3):
                    client.chat.completions.create(model="m", messages=ASK)
                assert server.open_connections == 1
                with pytest.raises(TimeoutError, match=r"still open after 0\.001 s: 1"):
                    server.wait_disconnected(timeout=0.001)
            server.wait_disconnected()
            assert server.open_connections == 0


class TestRules:
    def test_models_are_listed(self):
        """The server names its models, and how many tokens they take."""
        with (
            ScriptedServer(models=["a", "b"], context_window=4096) as server,
            openai.OpenAI(base_url=server.base_url, api_key="k") as client,
        ):
            assert [(model.id, model.meta["n_ctx"]) for model in client.models.list()] == [("a", 4096), ("b", 4096)]
            assert client.models.retrieve("b").id == "b"
            with pytest.raises(openai.NotFoundError, match="`c` does not exist"):
                client.models.retrieve("c")

    def test_a_server_without_models_takes_all(self):
        """Without a list there is one model to be listed, and any is answered."""
        with ScriptedServer(text("a")) as server, openai.OpenAI(base_url=server.base_url, api_key="k") as client:
            (model,) = client.models.list()
            assert (model.id, hasattr(model, "meta")) == ("scripted", False)
            assert ask(server, model="whatever").model == "whatever"

    def test_an_unknown_model_is_refused(self):
        """A model that is not on the list is a 404 in OpenAI's words."""
        with ScriptedServer([text("a")], models=["m"]) as server:
            with pytest.raises(openai.NotFoundError, match="The model `x` does not exist or you do not have access"):
                ask(server, model="x")
            assert ask(server, model="m").choices[0].message.content == "a"

    def test_a_wrong_key_is_refused(self):
        """Without the right key nothing is answered, and the refusal does not repeat the key."""
        with ScriptedServer([text("a")], require_key="sk-right-0123456789") as server:
            with pytest.raises(openai.AuthenticationError, match="Incorrect API key provided") as caught:
                ask(server, key="sk-wrong-0123456789")
            response, body = post(server)
            assert ask(server, key="sk-right-0123456789").choices[0].message.content == "a"
        assert "sk-w***********6789" in str(caught.value)
        assert (response.status, b"didn't provide an API key" in body) == (401, True)

    @pytest.mark.parametrize("strict", [True, False])
    def test_parameters_can_be_refused(self, strict):
        """A server can be one that does not know a parameter."""
        with ScriptedServer(text("a"), strict=strict, refuse_parameters=["stream_options"]) as server:
            with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'stream_options'"):
                ask(server, stream=True, stream_options={"include_usage": True})
            assert said(ask(server, stream=True)) == "a"

    @pytest.mark.parametrize("option", ["models", "refuse_parameters"])
    def test_one_string_is_no_list_of_names(self, option):
        """A string where names are wanted is refused, as its letters would be taken for them."""
        with pytest.raises(ConfigError, match=r"\['gpt'\]"):
            ScriptedServer(text("a"), **{option: "gpt"})

    def test_other_addresses_are_not_found(self):
        """A path that the server does not speak is a 404, the wrong method a 405; no reply is used up."""
        with ScriptedServer([text("a")]) as server:
            response, body = post(server, path="/embeddings")
            assert (response.status, b"Invalid URL (POST /v1/embeddings)" in body) == (404, True)
            assert post(server, path="/models")[0].status == 405
            assert post(server)[0].status == 200
