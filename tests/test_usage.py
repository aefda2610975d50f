"""Usage: sums that are either all there or None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from strategies import moderate, runs, usages

from cyclops_nb.runs import Run
from cyclops_nb.session import Session
from cyclops_nb.usage import Usage, total

FIELDS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def run(usage, cost=0.0, session_id="s"):
    return Run(session_id=session_id, model="m", usage=usage, cost=cost)


class TestUsage:
    @given(usages, usages)
    def test_adds_field_by_field(self, first, second):
        """Each field of a sum is the sum of that field."""
        both = first + second
        for name in FIELDS:
            assert getattr(both, name) == getattr(first, name) + getattr(second, name)

    @given(usages, usages, usages)
    def test_order_does_not_matter(self, first, second, third):
        """Sums are the same in any order and grouping, and nothing used adds nothing."""
        assert (first + second) + third == third + (second + first)
        assert first + Usage() == first

    @given(usages)
    def test_survives_dump_and_load(self, usage):
        """Usage is written with all its fields and comes back equal."""
        assert set(usage.model_dump()) == set(FIELDS)
        assert Usage.model_validate_json(usage.model_dump_json()) == usage

    def test_adding_anything_else_is_an_error(self):
        """Only usage can be added to usage, so that None is not taken for nothing."""
        with pytest.raises(TypeError):
            Usage() + None

    def test_cannot_be_negative(self):
        """A negative count is refused."""
        with pytest.raises(ValidationError):
            Usage(1, -1)

    def test_cannot_change(self):
        """A field cannot be assigned."""
        with pytest.raises(ValidationError):
            Usage().requests = 1

    def test_total_tokens_are_input_and_output(self):
        """Cached and reasoning tokens are parts of the others and not counted again."""
        assert Usage(1, 10, 5, 8, 3).total_tokens == 15


class TestTotal:
    def test_of_nothing_is_nothing_used(self):
        """The sum over nothing at all is zero and not None."""
        assert total([]) == Usage()

    @given(st.lists(usages, max_size=4), st.integers(0, 4))
    def test_is_none_once_anything_is_none(self, known, place):
        """One missing report makes the sum None, wherever it stands."""
        assert total([*known[:place], None, *known[place:]]) is None

    @given(st.lists(usages, max_size=4))
    def test_is_the_sum_of_what_is_known(self, known):
        """With all reports there, the sum is their sum."""
        assert getattr(total(known), "input_tokens") == sum(usage.input_tokens for usage in known)  # noqa: B009
        assert total(iter(known)) == total(known)


class TestSessionUsage:
    def test_of_a_session_without_runs(self):
        """A session that was never run used nothing and cost nothing."""
        assert (Session().usage, Session().cost) == (Usage(), 0.0)

    @moderate
    @given(st.lists(runs, max_size=4))
    def test_sums_every_run(self, records):
        """A session's usage is the sum over all its runs, failed and cancelled ones too; None once one has none."""
        session = Session("s", runs=records)
        assert session.usage == total(record.usage for record in records)
        own = [record.usage for record in records if record.session_id == "s"]
        assert session.own_usage == total(own)

    def test_stays_none(self):
        """Once a run reported no usage, later runs do not bring the sum back."""
        session = Session("s", runs=[run(Usage(1, 2, 3)), run(None), run(Usage(1, 2, 3))])
        assert session.usage is None

    def test_cost_has_the_same_rule(self):
        """A cost that is unknown makes the sum unknown, never a part of it and never 0."""
        session = Session("s", runs=[run(Usage(), 0.25), run(Usage(), 0.5)])
        assert session.cost == 0.75
        session.runs.append(run(Usage(), None))
        assert session.cost is None

    def test_usage_and_cost_are_known_apart(self):
        """Tokens may be known where the price is not, and a free run needs no tokens."""
        session = Session("s", runs=[run(Usage(1, 2, 3), None)])
        assert (session.usage, session.cost) == (Usage(1, 2, 3), None)
        session = Session("s", runs=[run(None, 0.0)])
        assert (session.usage, session.cost) == (None, 0.0)

    def test_own_leaves_out_what_a_fork_inherited(self):
        """A fork's usage has its origin's runs in it, its own usage has not."""
        session = Session("s", runs=[run(None, None)])
        fork = session.fork()
        fork.runs.append(run(Usage(1, 2, 3), 0.5, session_id=fork.id))
        assert (fork.usage, fork.cost) == (None, None)
        assert (fork.own_usage, fork.own_cost) == (Usage(1, 2, 3), 0.5)
        assert (fork.fork().own_usage, fork.fork().own_cost) == (Usage(), 0.0)

    def test_a_run_in_progress_counts(self):
        """The record of a run that has not ended counts with what it has used so far."""
        session = Session("s", runs=[run(Usage(1, 2, 3)), Run(session_id="s", model="m")])
        assert session.usage == Usage(1, 2, 3)

    def test_truncating_gives_nothing_back(self):
        """Tokens stay spent when messages are cut off."""
        session = Session("s", messages=[{"role": "user", "content": "a"}], runs=[run(Usage(1, 2, 3), 1.0)])
        session.truncate(0)
        assert (session.usage, session.cost) == (Usage(1, 2, 3), 1.0)
