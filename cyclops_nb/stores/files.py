"""Files that are never half-written, and that tell when someone else changed them.

A file is replaced by one that was written whole and flushed to the disk beside it; an addition is flushed before it
counts, and taken back if it fails. No lock files are used, they outlive crashes and do not work on every network
disk; a lock of the system is held for the instant of a replacement, where there is one. What a file held is
remembered instead, by size, time and inode, and by a digest for the many cases in which those change while the content
does not (a synchronised folder, a checkout, the clock of a file server).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

__all__ = [
    "TEMPORARY",
    "Content",
    "Piece",
    "Section",
    "Stamp",
    "alone",
    "append",
    "backed_up",
    "names_in",
    "read",
    "replacement",
    "stamp_of",
    "stands",
]

TEMPORARY = ".tmp"
_CHUNK = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends


@dataclass(frozen=True)
class Section:
    """A part of an open file, to be copied into another one without ever being in memory as a whole."""

    file: BinaryIO
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def read(self) -> bytes:
        """Return what it holds."""
        self.file.seek(self.start)
        return self.file.read(len(self))

    def copy_to(self, target: BinaryIO) -> None:
        """Write it to another file. If someone cuts the file off meanwhile, less is written."""
        buffer = memoryview(bytearray(min(len(self), _CHUNK)))
        self.file.seek(self.start)
        left = len(self)
        while left and (count := self.file.readinto(buffer[:left])):  # type: ignore[attr-defined]
            target.write(buffer[:count])
            left -= count


Piece: TypeAlias = bytes | Section


class Stamp(NamedTuple):
    """What tells at a glance that a file was not changed."""

    size: int
    mtime_ns: int
    inode: int


def stamp_of(info: os.stat_result) -> Stamp:
    """Return the stamp of a file with the status `info`."""
    return Stamp(info.st_size, info.st_mtime_ns, info.st_ino)


@dataclass(frozen=True)
class Content:
    """What a file held when it was last read or written."""

    stamp: Stamp
    digest: hashlib.blake2b
    """A running digest of all bytes."""

    @classmethod
    def of(cls, data: bytes, info: os.stat_result) -> Content:
        """Return the content `data` of the file with the status `info`."""
        return cls(Stamp(len(data), info.st_mtime_ns, info.st_ino), hashlib.blake2b(data))

    def followed_by(self, data: bytes, info: os.stat_result) -> Content:
        """Return this content with `data` added to its end."""
        digest = self.digest.copy()
        digest.update(data)
        return Content(Stamp(self.stamp.size + len(data), info.st_mtime_ns, info.st_ino), digest)

    def still_in(self, path: Path, info: os.stat_result) -> bool:
        """Whether the file, of which `info` is the present status, holds this content."""
        if stamp_of(info) == self.stamp:
            return True
        if info.st_size != self.stamp.size:
            return False
        return bool(hashlib.blake2b(path.read_bytes()).digest() == self.digest.digest())


def names_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder, in no order; with thousands of files faster than paths."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def stands(path: Path) -> bool:
    """Whether a file of exactly this name exists. A disk that ignores case would find others by it, too.

    Raises
    ------
    OSError
        If that cannot be said: no access, or what should be the folder is none.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
    except FileNotFoundError:
        return False
    try:
        same = path.samefile(path.with_name(path.name.swapcase()))
    except OSError:
        return True
    return not same or path.name in names_in(path.parent)


def read(path: Path) -> tuple[bytes, os.stat_result] | None:
    """Return what the file holds and its status, or None if there is no file of exactly this name."""
    if not stands(path):
        return None
    try:
        with path.open("rb") as file:
            return file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def replacement(
    path: Path, data: bytes | Iterable[Piece], mode: int | None = None
) -> Iterator[Callable[[], os.stat_result]]:
    """Write `data` to a file beside `path`; the function that this yields moves it into place and returns its status.

    Large data that stand in several places need not be put together first.

    What has to be looked at before the old content goes is looked at in between, when the slow part is over. If the
    function is not called, or anything fails, `path` is as before and nothing is left beside it. A file that is there
    keeps its mode, and one that must not be written to is not replaced either; `mode` is for a new one.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    old = _mode_of_writable(target)
    mode = mode if old is None else old
    first_mode = 0o666 if mode is None else mode
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        # nobody who cannot read the file may read this one, not even for an instant
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, first_mode)) as file:
            for piece in (data,) if isinstance(data, bytes) else data:
                if isinstance(piece, Section):
                    piece.copy_to(file)
                else:
                    file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            info = os.fstat(file.fileno())
        if mode is not None:
            with contextlib.suppress(OSError):  # a disk without modes
                temporary.chmod(mode)

        def move() -> os.stat_result:
            temporary.replace(target)
            _sync_folder(target.parent)
            return info

        yield move
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Let no other writer in the same folder who asks for this come between a look at the file and its replacement.

    On a system or a disk without such locks nothing is locked.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl  # POSIX alone has it

            descriptor = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # to close it would not do if a process was forked meanwhile
            stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


def append(path: Path, data: bytes, end: int, check: Callable[[os.stat_result], None]) -> os.stat_result | None:
    """Add `data` to the file at the byte `end`, where its sound part ends.

    Parameters
    ----------
    path : Path
        A file that exists.
    data : bytes
        What to add.
    end : int
        What stands behind it, which must be a torn line, is cut off first.
    check : callable
        Gets the status of the opened file and raises if nothing must be written to it.

    Returns
    -------
    os.stat_result or None
        The status of the file written to; None if someone else wrote in the very instant between the check and the
        write: then the addition was taken back.

    Raises
    ------
    OSError
        If it cannot be written whole; then the file is as before, but for the torn line.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _BINARY)
    try:
        info = os.fstat(descriptor)
        check(info)
        _cut(descriptor, end)
        written = 0
        try:
            while written < len(data):  # once, unless the disk is full: then the next write says so
                written += os.write(descriptor, memoryview(data)[written:])
            start = os.lseek(descriptor, 0, os.SEEK_CUR) - written
            if start != end:
                _cut(descriptor, start)
                return None
            os.fsync(descriptor)
        except BaseException:
            if written:
                _cut(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR) - written)
            raise
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def backed_up(path: Path, backup: Path) -> Iterator[None]:
    """Keep the file at `path` under the name `backup` too; drop that again if the block fails.

    Raises
    ------
    FileExistsError
        If the name is taken.
    """
    try:
        os.link(path, backup, follow_symlinks=True)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):  # a disk without hard links
        info = path.stat()
        with replacement(backup, path.read_bytes(), stat.S_IMODE(info.st_mode)) as move:
            move()
        os.utime(backup, ns=(info.st_atime_ns, info.st_mtime_ns))
    try:
        yield
    except BaseException:
        backup.unlink(missing_ok=True)
        raise


def _cut(descriptor: int, end: int) -> None:
    """Cut a file off at `end`. One that is shorter by now, because someone else cut it, must not grow."""
    if os.fstat(descriptor).st_size > end:
        os.ftruncate(descriptor, end)


def _mode_of_writable(path: Path) -> int | None:
    """Return the mode of a file, or None if there is none; raise what writing to it would raise."""
    try:
        descriptor = os.open(path, os.O_RDWR | _BINARY)
    except FileNotFoundError:
        return None
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a rename last. Windows cannot open folders, some network disks cannot flush them."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
