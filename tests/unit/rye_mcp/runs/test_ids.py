"""Run ids sort by time, are told apart, and have one form."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.runs.ids import check_run_id, first_id_at, handle_of, new_run_id, parse_handle, time_of

moments = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


def test_ids_are_different_and_sort_by_the_time_at_which_they_were_made() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    ids = [new_run_id() for _ in range(1000)]
    assert len({*ids}) == 1000
    assert all(before <= time_of(run_id) <= datetime.now(UTC) for run_id in ids)
    assert sorted(ids, key=lambda run_id: run_id[:10]) == ids
    assert all(check_run_id(run_id) == run_id for run_id in ids)


def test_80_bits_of_an_id_are_chance() -> None:
    """Each of the last 16 digits takes every value."""
    ids = [new_run_id() for _ in range(1000)]
    assert all(len({run_id[place] for run_id in ids}) == 32 for place in range(10, 26))


@given(moments)
def test_the_time_of_an_id_is_that_at_which_it_was_made(moment: datetime) -> None:
    assert abs(time_of(first_id_at(moment)) - moment) <= timedelta(milliseconds=1)


@given(moments, moments)
def test_earlier_ids_sort_before_later_ones(one: datetime, other: datetime) -> None:
    if one > other:
        one, other = other, one
    assert first_id_at(one) <= first_id_at(other)


@pytest.mark.parametrize("run_id", ["7" + "z" * 25, "0" * 26])
def test_every_id_has_a_time(run_id: str) -> None:
    assert 1970 <= time_of(run_id).year <= 9999


def test_a_handle_is_an_id_and_a_stream() -> None:
    run_id = new_run_id()
    assert handle_of(run_id, "stderr") == f"rye://runs/{run_id}/stderr"
    assert parse_handle(handle_of(run_id, "stderr")) == (run_id, "stderr")
    assert parse_handle(run_id) == (run_id, None)
    for text in ("stdin", f"rye://runs/{run_id}", f"rye://run/{run_id}/stdout"):
        with pytest.raises(RyeError):
            parse_handle(text)
