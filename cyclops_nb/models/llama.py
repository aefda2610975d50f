"""Runs llama.cpp's own server for one model file, in a process of its own.

llama.cpp could serve from a thread of the notebook's process. But then a failed assertion in it would end the
kernel, its loader would hold the interpreter lock for as long as a file takes to load, and some of its
versions take the interrupt signal for themselves. A process has none of this, keeps llama.cpp's log out of
the notebook, and can be ended at any moment, because it holds nothing that must be kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import IO

from cyclops_nb.errors import ModelError

__all__ = ["LlamaProcess"]

_PROGRAM = Path(__file__).with_name("llama_process.py")
_CONTEXT_WINDOW = 4096
# more threads than that wait for each other, most of all in containers that own a part of the cores they see
_MOST_THREADS = 4
# tokens of a prompt read at once: more are not faster on a CPU
_BATCH = 128
# threads that wait for each other must not spin: beside other programs that makes llama.cpp ten times slower
_PATIENT = {"OMP_WAIT_POLICY": "passive"}
_ENDING_SECONDS = 5.0
# keeps the prompts of the last few conversations, so that going back to a fork does not read it all again
_CACHE_MIB = 256


class LlamaProcess:
    """A running llama.cpp server.

    Parameters
    ----------
    path : Path
        The GGUF file to serve.

    Attributes
    ----------
    model : str
        The name under which the model answers: the file's name without its ending.
    api_key : str
        The key that the server asks for, made anew for each process.
    address : str
        ``http://127.0.0.1:<port>``.
    context_window : int
        Tokens that prompt and answer may have together.
    owner : int
        Id of the process that started it.

    Raises
    ------
    ModelError
        If llama.cpp cannot load the file.

    Examples
    --------
    >>> try:
    ...     LlamaProcess(Path("no-such-file.gguf"))
    ... except ModelError as error:
    ...     print("no-such-file.gguf" in str(error))
    True
    """

    def __init__(self, path: Path) -> None:
        import tempfile

        self.model = path.stem
        self.api_key = secrets.token_urlsafe(16)
        self.owner = os.getpid()
        # a file, not a pipe: llama.cpp would stop at a full pipe that no one reads
        with tempfile.TemporaryFile() as errors:
            self._process = self._spawn(path, errors)
            try:
                line = self._process.stdout.readline() if self._process.stdout else ""
            except BaseException:
                self.stop()
                raise
            if not line:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_ENDING_SECONDS)  # llama.cpp writes the last of its log when it ends
                self.stop()
                errors.seek(0)
                raise _start_error(path, errors.read().decode("utf-8", "replace"))
        ready = json.loads(line)
        self.address: str = ready["address"]
        self.context_window: int = ready["context_window"]

    def _spawn(self, path: Path, errors: IO[bytes]) -> subprocess.Popen[str]:
        settings = {
            "path": str(path),
            "model": self.model,
            "api_key": self.api_key,
            "context_window": _CONTEXT_WINDOW,
            "batch": _BATCH,
            "threads": _threads(),
            "cache_mib": _CACHE_MIB,
        }
        windows = sys.platform == "win32"
        return subprocess.Popen(  # noqa: S603 - this interpreter, with a program of this package
            [sys.executable, "-P", str(_PROGRAM)],
            env=_PATIENT | os.environ | {"CYCLOPS_NB_LLAMA": json.dumps(settings)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            # apart from the kernel's processes: a kernel interrupt is sent to all of their group
            start_new_session=not windows,
            creationflags=_WINDOWS_FLAGS if windows else 0,
        )

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process and wait until it is gone; a second call does nothing."""
        self._process.kill()
        # leaving the block closes the pipes and waits
        with self._process:
            pass


# CREATE_NEW_PROCESS_GROUP and CREATE_NO_WINDOW, which the standard library names on Windows alone
_WINDOWS_FLAGS = 0x0000_0200 | 0x0800_0000


def _threads() -> int:
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return min(cores, _MOST_THREADS)


def _start_error(path: Path, log: str) -> ModelError:
    """Tell why the start failed: llama.cpp's first error says it best, or Python's last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["it gave no reason"]
    marked = [line.partition(" E ")[2] for line in lines if " E " in line]
    reason = marked[0].partition(": ")[2] if marked else lines[-1].rstrip(".")
    return ModelError(
        f"llama.cpp cannot serve the model file {str(path)!r}: {reason}. Give a GGUF file that this version "
        f"of llama.cpp reads and that fits into memory, or upgrade it: pip install -U xllamacpp"
    )
