"""How the scripted server waits at gates, and how it starts and stops."""

import asyncio
import contextlib
import queue
import socket
import subprocess
import sys
import threading

import openai
import pytest
from scripted_client import ASK, ask, said

from cyclops_nb.errors import ConfigError
from cyclops_nb.testing import ScriptedServer, gate, reply, text
from cyclops_nb.testing.connection import Connection
from cyclops_nb.testing.ledger import Ledger


class TestGate:
    def test_what_stands_before_a_gate_has_been_sent(self):
        """The client reads the first part while the server waits, and the rest after the release."""
        door = gate()
        with ScriptedServer([reply(text("one"), door, text(" two"))]) as server:
            with openai.OpenAI(base_url=server.base_url, api_key="k") as client:
                chunks = iter(client.chat.completions.create(model="m", messages=ASK, stream=True))
                door.wait_reached()
                assert [next(chunks).choices[0].delta.content for _ in range(2)] == ["", "one"]
                door.release()
                assert said(chunks) == " two"

    def test_a_coroutine_can_wait_for_a_gate(self):
        """Gates work from any event loop, also where a wait was given up before."""
        door = gate()

        async def main(server):
            with pytest.raises(TimeoutError, match="did not come to the gate within"):
                await door.reached(timeout=0.001)
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k") as client:
                request = client.chat.completions.create(model="m", messages=ASK)
                task = asyncio.create_task(request)
                await door.reached()
                assert not task.done()
                door.release()
                return (await task).choices[0].message.content

        with ScriptedServer([reply(door, text("Hello"))]) as server:
            assert asyncio.run(main(server)) == "Hello"

    def test_a_gate_that_nobody_comes_to_is_told(self):
        """Waiting in vain ends with an error that says for what."""
        with pytest.raises(TimeoutError, match=r"did not come to the gate within 0\.001 s"):
            gate().wait_reached(timeout=0.001)

    def test_the_departure_of_the_client_is_noticed(self):
        """A client that closes its connection at a gate is made known to the test."""
        door = gate()

        async def main(server):
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k") as client:
                answer = await client.chat.completions.create(model="m", messages=ASK, stream=True)
                await door.reached()
                with pytest.raises(TimeoutError, match="did not close its connection"):
                    door.wait_client_gone(timeout=0.001)
                await answer.close()
                await door.client_gone()

        with ScriptedServer([reply(text("one"), door, text("two"))]) as server:
            asyncio.run(main(server))
            server.wait_idle()
            server.wait_disconnected()

    def test_a_connection_that_is_forgotten_is_closed(self):
        """Whoever waits until no connection is open can count the process's sockets: none of the server's is left."""
        here, there = socket.socketpair()
        descriptors = queue.Queue()

        class Owner(Ledger):
            def closed(self, connection):
                descriptors.put(here.fileno())

        async def main():
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: Connection(Owner(None)), here)
            there.close()
            return await loop.run_in_executor(None, descriptors.get)

        assert asyncio.run(main()) == -1

    def test_a_cancelled_request_is_noticed(self):
        """A task that is cancelled before the answer begins leaves the gate too."""
        door = gate()

        async def main(server):
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k") as client:
                request = client.chat.completions.create(model="m", messages=ASK)
                task = asyncio.create_task(request)
                await door.reached()
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                await door.client_gone()

        with ScriptedServer([reply(door, text("one"))]) as server:
            asyncio.run(main(server))

    def test_a_server_stops_while_a_gate_is_held(self, caplog):
        """Stopping breaks off what is held, and is not taken for the client's departure."""
        door = gate()
        failures = []

        def client(url):
            with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as connection:
                try:
                    connection.chat.completions.create(model="m", messages=ASK)
                except openai.APIConnectionError as problem:
                    failures.append(problem)

        with ScriptedServer([reply(door, text("one"))]) as server:
            thread = threading.Thread(target=client, args=(server.base_url,))
            thread.start()
            door.wait_reached()
        thread.join(10)
        assert len(failures) == 1
        with pytest.raises(TimeoutError):
            door.wait_client_gone(timeout=0.001)
        door.release()
        assert caplog.records == []

    def test_a_released_gate_stays_open(self):
        """A gate released before it is reached holds nobody up, however often it is passed."""
        door = gate()
        door.release()
        door.release()
        with ScriptedServer(reply(door, text("one"))) as server:
            assert [ask(server).choices[0].message.content for _ in range(2)] == ["one", "one"]
        door.wait_reached(timeout=0)


class TestLife:
    def test_a_server_can_be_started_and_stopped_by_hand(self):
        """Without a with statement start and stop do the same, and stopping twice does no harm."""
        server = ScriptedServer([text("a"), text("b")]).start()
        assert ask(server).choices[0].message.content == "a"
        server.stop()
        server.stop()
        with pytest.raises(openai.APIConnectionError):
            ask(server)

    def test_a_stopped_server_can_be_started_again(self):
        """The script goes on where it was."""
        server = ScriptedServer([text("a"), text("b")])
        for expected in "ab":
            with server:
                assert ask(server).choices[0].message.content == expected

    def test_it_starts_once(self):
        """A running server is not started a second time."""
        with ScriptedServer() as server, pytest.raises(ConfigError, match="runs already"):
            server.start()

    def test_there_is_no_address_before_the_start(self):
        """The address is known once the server runs."""
        with pytest.raises(ConfigError, match="no address yet"):
            _ = ScriptedServer().base_url

    def test_a_function_of_the_script_cannot_stop_the_server(self):
        """The server's own thread would wait for itself, so it is told."""
        with (
            ScriptedServer(lambda request: server.stop()) as server,
            pytest.raises(openai.InternalServerError, match="cannot stop the server"),
        ):
            ask(server)

    def test_it_can_be_used_where_a_loop_runs(self):
        """Inside a running event loop the server starts, answers and stops without touching the loop."""

        async def main():
            loop, tasks = asyncio.get_running_loop(), asyncio.all_tasks()
            with ScriptedServer(text("a")) as server:
                assert ask(server).choices[0].message.content == "a"
            assert asyncio.get_running_loop() is loop
            assert asyncio.all_tasks() == tasks

        asyncio.run(main())

    def test_many_clients_are_answered_at_once(self):
        """Requests that are held do not hold up others."""
        doors = [gate() for _ in range(20)]

        async def main(server):
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k") as client:
                requests = [client.chat.completions.create(model="m", messages=ASK) for _ in doors]
                answers = asyncio.gather(*requests)
                for door in doors:
                    await door.reached()
                for door in reversed(doors):
                    door.release()
                return {answer.choices[0].message.content for answer in await answers}

        with ScriptedServer([reply(door, text(str(n))) for n, door in enumerate(doors)]) as server:
            assert asyncio.run(main(server)) == {str(n) for n in range(20)}

    def test_a_patched_asyncio_does_no_harm(self):
        """Where nest_asyncio has patched the event loops, the server runs and stops as ever."""
        code = """if True:
            import asyncio, nest_asyncio, urllib.request
            from cyclops_nb.testing import ScriptedServer, text
            async def main():
                nest_asyncio.apply()
                with ScriptedServer(text("a"), strict=False) as server:
                    url = server.base_url + "/chat/completions"
                    assert b'"a"' in urllib.request.urlopen(url, data=b"{}").read()
            asyncio.run(main())
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class TestShutdown:
    def test_nothing_is_left_under_the_strictest_settings(self):
        """With all warnings on, held gates, clients that just connect and a forgotten server leave no trace."""
        code = """if True:
            import asyncio, gc, logging, socket, threading, openai
            from cyclops_nb.testing import ScriptedServer, gate, reply, text
            ASK = [{"role": "user", "content": "Hi"}]
            logging.getLogger("asyncio").setLevel(logging.ERROR)
            door = gate()
            async def main():
                script = [text("a"), reply(text("b"), door)]
                with ScriptedServer(script) as server:
                    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k") as client:
                        await client.chat.completions.create(model="m", messages=ASK)
                        stream = await client.chat.completions.create(model="m", messages=ASK, stream=True)
                        await door.reached()
                        await stream.close()
                assert len(asyncio.all_tasks()) == 1
            asyncio.run(main())
            for _ in range(20):
                with ScriptedServer(text("a")) as server:
                    port = int(server.base_url.split(":")[2].split("/")[0])
                    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
                for client in clients:
                    client.close()
            forgotten = ScriptedServer(text("never stopped")).start()
            gc.collect()
            assert threading.active_count() == 2, threading.enumerate()
        """
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
