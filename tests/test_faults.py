"""A run can be stopped anywhere: a share of the stops of ``python -m faults``, which goes over all of them."""

import asyncio

import pytest
from faults.awaits import never_seen, written
from faults.campaign import KINDS, Report, fail_everywhere, stop_everywhere
from faults.lab import Lab
from faults.workloads import Workload, workloads
from scenarios import shape

from cyclops_nb.engine.tool_calls import ToolStep
from cyclops_nb.testing import text

WORKLOADS = {workload.name: workload for workload in workloads()}
PARALLEL = WORKLOADS["parallel tools"]

pytestmark = [
    # a Ctrl-C that strikes a task goes through the loop, and stays in the task as well
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def stops(lab, every, ways=KINDS):
    """Stop the runs of a lab in the given ways and return the report."""
    report = Report()
    for (form, counts), kinds in ways.items():
        if form == lab.form:
            stop_everywhere(lab, report, counts, kinds, every=every)
    assert report.stops
    return report


class TestStops:
    """Whatever stops a run, and wherever, its session is valid, complete and goes on."""

    @pytest.mark.parametrize("form", sorted({form for form, _ in KINDS}))
    @pytest.mark.parametrize("name", WORKLOADS)
    def test_leave_the_session_in_order(self, name, form):
        """Transcript, record, store and usage fit each other; no task, thread or socket is left; a next run works."""
        with Lab(WORKLOADS[name], form=form, store="memory") as lab:
            assert not stops(lab, every=23).violations

    @pytest.mark.parametrize("durability", ["async", "sync", "exit"])
    def test_leave_a_file_that_is_the_session(self, durability, tmp_path):
        """The same with each durability and files."""
        with Lab(PARALLEL, durability=durability, store="file", folder=tmp_path) as lab:
            assert not stops(lab, every=29).violations

    @pytest.mark.parametrize("name", WORKLOADS)
    def test_a_server_that_fails(self, name):
        """Answers that break off anywhere leave the steps before them and nothing else."""
        report = Report()
        with Lab(WORKLOADS[name], form="start", store="memory") as lab:
            fail_everywhere(lab, report)
        assert report.stops
        assert not report.violations


@pytest.mark.parametrize("name", ["compaction", "context full"])
def test_a_compaction_is_among_what_is_stopped(name):
    """Its summary takes the place of what was said before the last step."""
    with Lab(WORKLOADS[name]) as lab:
        assert shape(lab.baseline.session) == "satta"
        assert len(lab.whole) == lab.baseline.session.messages[0].replaced + 4


class TestFindings:
    """The search itself finds what is broken."""

    WAYS = {("arun_with_response", "awaits"): ("cancel", "interrupt")}

    def test_results_that_are_lost(self, monkeypatch):
        """Calls without results are found."""
        with Lab(PARALLEL) as lab:
            monkeypatch.setattr(ToolStep, "results", lambda self: [])
            assert any("has no result" in text for text in stops(lab, 5, self.WAYS).violations)

    def test_completions_that_run_on(self, monkeypatch):
        """Tasks that are left behind are found."""

        async def stop_nothing(*_):
            pass

        slow = Workload("slow", [text("It is done, at last.", delay=0.02)])  # else all of it may be there at the stop
        with Lab(slow) as lab:
            monkeypatch.setattr("cyclops_nb.engine.completions.stop_tasks", stop_nothing)
            assert any("tasks are left" in told for told in stops(lab, 5, self.WAYS).violations)

    def test_a_last_save_that_is_cut(self, monkeypatch):
        """A store that does not get the end of a run is found."""

        async def only_once(task, *, within=None):
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))

        with Lab(WORKLOADS["text"], store="memory") as lab:
            monkeypatch.setattr("cyclops_nb.engine.loop.uncancelled", only_once)
            assert any(
                "the store holds" in text or "not stored" in text for text in stops(lab, 1, self.WAYS).violations
            )

    def test_a_session_that_stays_busy(self, monkeypatch):
        """A mark that is not taken back is found."""
        with Lab(WORKLOADS["text"]) as lab:
            monkeypatch.setattr("cyclops_nb.engine.loop.release", lambda session, run_id: None)
            assert any("busy" in text for text in stops(lab, 1, self.WAYS).violations)


NEVER_SUSPENDED = {
    "await compact(state)": "a compaction on demand, which is one on the way but for the run around it",
    "await self._ask_for_window()": "the input limit is a setting",
    'await client.get("/models", cast_to=openai.AsyncAPIResponse[object], options=options)': "as above",
    "await response.read()": "as above",
    "await state.plan.model.context_window()": "the input limit is a setting, or asked for once",
    "await run.ended()": "a run that a tool has started in a sync form",
    "await asyncio.wait(nested, timeout=CLEANUP_SECONDS)": "as above",
    "await self._finish()": "of a stream, whose run has ended",
    "await self._task": "as above",
    "await self._events.aclose()": "of a stream of texts, which is one of events",
    "await anext(self._events)": "as above",
    "await _drain(chunks)": "what is left of an answer has come already",
    "await response.close()": "as above",
    "await _unwind(chunks)": "as above",
    "await _read_body(head, chunks, reader, emit)": "an answer that is no stream",
    "await self._clients.get(self._endpoint)": "the client of this loop is there",
}
"""Awaits that let nothing else run in these workloads, and why."""


@pytest.mark.slow
def test_every_await_is_a_place_where_runs_are_stopped():
    """No await of the engine is left out."""
    awaits = {place: text for place, text in written().items() if text not in NEVER_SUSPENDED}
    assert not {awaits[place] for place in never_seen(awaits)}
