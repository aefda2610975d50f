"""Functions in threads of their own."""

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest

from cyclops_nb.threads import run_in_thread, start_in_thread

name = contextvars.ContextVar("name", default="nobody")


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("cyclops_nb ")]


def wait_until_gone():
    for thread in own_threads():
        thread.join(10)


class TestRunInThread:
    def test_result(self):
        """The function runs in another thread with its arguments, and its result comes back."""

        def function(a, *, b):
            return a, b, threading.get_ident()

        a, b, thread = asyncio.run(run_in_thread(function, 1, b=2))
        assert (a, b) == (1, 2)
        assert thread != threading.get_ident()

    @pytest.mark.parametrize("error", [ValueError, StopIteration, KeyboardInterrupt, SystemExit])
    def test_error(self, error):
        """What the function raises is raised where it is awaited, whatever it is."""

        def function():
            raise error("no")

        async def main():
            try:
                await run_in_thread(function)
            except BaseException as raised:
                return raised

        raised = asyncio.run(main())
        # a coroutine cannot raise StopIteration: Python itself turns it into a RuntimeError
        assert type(raised) is (RuntimeError if error is StopIteration else error)

    def test_cancelled_error_of_its_own(self):
        """A CancelledError that the function raises does not cancel the task that awaits it."""

        def function():
            raise asyncio.CancelledError

        async def main():
            try:
                await run_in_thread(function)
            except asyncio.CancelledError:
                return asyncio.current_task().cancelling()

        assert asyncio.run(main()) == 0

    def test_context(self):
        """The function sees the caller's context variables, and its changes to them stay in its thread."""

        def function():
            seen = name.get()
            name.set("thread")
            return seen

        async def main():
            name.set("caller")
            return await run_in_thread(function), name.get()

        assert asyncio.run(main()) == ("caller", "caller")

    def test_many_at_once(self):
        """As many functions run at once as are asked for; none waits for another's thread."""
        count = 60
        barrier = threading.Barrier(count)

        async def main():
            return await asyncio.gather(*(run_in_thread(barrier.wait, 20) for _ in range(count)))

        assert sorted(asyncio.run(main())) == list(range(count))

    def test_nothing_is_left(self):
        """No thread is left when the result is there, and the result is not held on to."""

        class Result:
            pass

        def check(result):
            wait_until_gone()
            return weakref.ref(result)

        async def main():
            return check(await run_in_thread(Result))

        reference = asyncio.run(main())
        assert not own_threads()
        gc.collect()
        assert reference() is None

    def test_error_leaves_no_cycle(self):
        """A raised exception is freed without the help of the garbage collector."""

        class OddError(Exception):
            pass

        def function():
            raise OddError

        async def main():
            try:
                await run_in_thread(function)
            except OddError as error:
                return weakref.ref(error)

        gc.disable()
        try:
            reference = asyncio.run(main())
            wait_until_gone()
            assert reference() is None
        finally:
            gc.enable()

    @pytest.mark.parametrize("fails", [False, True])
    def test_cancelled(self, fails):
        """The function goes on when its task is cancelled, and its late end is dropped without a word."""
        started, may_end, ended = threading.Event(), threading.Event(), threading.Event()
        complaints = []

        def function():
            started.set()
            may_end.wait(20)
            ended.set()
            if fails:
                raise ValueError("late")

        async def main():
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            task = asyncio.create_task(run_in_thread(function))
            while not started.is_set():
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not ended.is_set()
            may_end.set()
            await run_in_thread(wait_for_others)

        def wait_for_others():
            for thread in own_threads():
                if thread is not threading.current_thread():
                    thread.join(20)

        asyncio.run(main(), debug=True)
        gc.collect()
        assert ended.is_set()
        assert complaints == []

    def test_loop_is_closed(self):
        """A function that ends after its loop was closed does so silently."""
        may_end = threading.Event()

        async def main():
            start_in_thread(may_end.wait, 20)

        asyncio.run(main())
        thread = own_threads()[0]
        may_end.set()
        thread.join(20)
        assert not thread.is_alive()  # an error in a thread would be a warning, and so an error here


class TestStartInThread:
    def test_no_thread_to_be_had(self, monkeypatch):
        """The error that the system has no more threads comes at once."""

        def start(self):
            raise RuntimeError("can't start new thread")

        async def main():
            monkeypatch.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                start_in_thread(int)
            monkeypatch.undo()

        asyncio.run(main())
