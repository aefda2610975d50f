"""The program of the process in which llama.cpp serves one model file; started by `llama.py`, never imported.

The environment variable ``CYCLOPS_NB_LLAMA`` holds the settings as JSON: other users of the machine could
read a command line. The answer is one line of JSON on the standard output, with the address and the context
window; if none comes, the reason stands in the error output. The process lives as long as its standard input
is open: that pipe is closed by the operating system, too, when the parent is killed.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from typing import Any

import xllamacpp


def _serve(settings: dict[str, Any]) -> xllamacpp.Server:
    """Load the model and begin to listen on a free port of the loopback address."""
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = [settings["model"]]
    params.api_keys = [settings["api_key"]]
    params.n_ctx = settings["context_window"]
    # a request that was given up is noticed between two batches: with the default of 2048 that takes many seconds
    params.n_batch = settings["batch"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = settings["cache_mib"]
    params.use_jinja = True
    params.port = 0
    # 1 is errors alone: they are read when the start fails
    params.verbosity = 1
    return xllamacpp.Server(params)


def _context_window(netloc: str, api_key: str) -> int:
    """Ask the server, which lowers the window to what the model was trained for."""
    connection = http.client.HTTPConnection(netloc)
    connection.request("GET", "/props", headers={"Authorization": f"Bearer {api_key}"})
    answer = json.load(connection.getresponse())
    connection.close()
    return int(answer["default_generation_settings"]["n_ctx"])


def _main() -> None:
    # whatever llama.cpp may print must not stand between the parent and the one line it waits for
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    settings = json.loads(os.environ["CYCLOPS_NB_LLAMA"])
    try:
        server = _serve(settings)
    except RuntimeError as error:
        sys.exit(str(error))
    address: str = server.listening_address
    window = _context_window(address.removeprefix("http://"), settings["api_key"])
    channel.write(json.dumps({"address": address, "context_window": window}) + "\n")
    channel.close()
    sys.stdin.read()
    # the parent is gone: there is no one left to finish an answer for
    os._exit(0)


if __name__ == "__main__":
    _main()
