"""Clients for tests of the scripted server: the openai client as its users have it, and a plain one."""

import contextlib
import http.client

import openai

ASK = [{"role": "user", "content": "How warm is it?"}]


def ask(server, messages=ASK, *, key="any", retries=0, model="m", **parameters):
    """Send one request with a client of its own."""
    with openai.OpenAI(base_url=server.base_url, api_key=key, max_retries=retries) as client:
        answer = client.chat.completions.create(model=model, messages=messages, **parameters)
        return list(answer) if parameters.get("stream") else answer


def stream(server, messages=ASK, **parameters):
    """Send one streamed request that asks for usage, and give all chunks."""
    return ask(server, messages, stream=True, stream_options={"include_usage": True}, **parameters)


def address(server):
    """Give host and port of a server."""
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    return host, int(port)


def post(server, body=b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}', path="/chat/completions"):
    """Send a request with the standard library's client, which shows the answer as it is."""
    with contextlib.closing(http.client.HTTPConnection(*address(server), timeout=10)) as connection:
        connection.request("POST", f"/v1{path}", body)
        response = connection.getresponse()
        return response, response.read()


def said(chunks):
    """Put the text of a stream together."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
