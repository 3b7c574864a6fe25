"""Questions that wait for a person: asked once, answered once, for what was shown, and not for ever."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.runs.questions import LIFETIME_S, MAX_WAITING, Questions


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def questions(tmp_path: Path, clock: Clock) -> Questions:
    return Questions(tmp_path / "state", clock=clock)


def ask(questions: Questions, mark: str = "a mark") -> int:
    return questions.ask(mark, "execute", "demo/hello", f"Run {mark}?", "rye run demo/hello")


def refused(code: str, act: object) -> None:
    with pytest.raises(RyeError) as found:
        act()  # type: ignore[operator]
    assert found.value.code == code


@pytest.mark.parametrize("agreed", [True, False])
def test_an_answer_counts_once(questions: Questions, agreed: bool) -> None:
    number = ask(questions)
    assert questions.take("a mark") is None
    questions.answer(number, "a mark", agreed=agreed)
    assert questions.waiting() == ()
    assert questions.take("another mark") is None
    assert questions.take("a mark") is agreed
    assert questions.take("a mark") is None


def test_the_same_question_is_asked_once_while_it_waits(questions: Questions) -> None:
    number = ask(questions)
    assert ask(questions) == number
    assert ask(questions, "another") == number + 1
    assert [each.mark for each in questions.waiting()] == ["a mark", "another"]
    assert questions.get(number).text == "Run a mark?"


def test_nothing_is_answered_that_was_not_shown(questions: Questions) -> None:
    number = ask(questions)
    refused("question_not_found", lambda: questions.answer(number, "another mark", agreed=True))
    refused("question_not_found", lambda: questions.answer(number + 1, "a mark", agreed=True))
    questions.answer(number, "a mark", agreed=False)
    refused("question_not_found", lambda: questions.answer(number, "a mark", agreed=True))
    assert questions.take("a mark") is False


def test_neither_a_question_nor_its_answer_counts_for_ever(questions: Questions, clock: Clock) -> None:
    number = ask(questions)
    questions.answer(number, "a mark", agreed=True)
    second = ask(questions, "another")
    clock.now += LIFETIME_S + 1
    assert questions.take("a mark") is None
    refused("question_not_found", lambda: questions.get(second))
    assert questions.waiting() == ()


def test_questions_without_end_push_none_out(questions: Questions) -> None:
    for number in range(MAX_WAITING):
        ask(questions, str(number))
    refused("confirmation_required", lambda: ask(questions))
    assert questions.waiting()[0].mark == "0"


def test_several_that_ask_at_once_get_numbers_of_their_own(questions: Questions) -> None:
    numbers: list[int] = []
    threads = [
        threading.Thread(target=lambda mark=mark: numbers.append(ask(questions, str(mark))))
        for mark in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(numbers) == list(range(1, 9))


def test_only_this_user_sees_them(questions: Questions, tmp_path: Path) -> None:
    ask(questions)
    directory = tmp_path / "state/questions"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "1.json").stat().st_mode & 0o777 == 0o600
    (directory / "1.json").chmod(0o644)
    assert questions.waiting() == ()
    directory.chmod(0o777)
    refused("unsafe_permissions", questions.waiting)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"number": "1"}'])
def test_what_is_no_question_is_passed_over(questions: Questions, tmp_path: Path, data: bytes) -> None:
    ask(questions)
    path = tmp_path / "state/questions/2.json"
    path.write_bytes(data)
    path.chmod(0o600)
    (tmp_path / "state/questions/3.json").symlink_to(path)
    assert [each.number for each in questions.waiting()] == [1]


def test_servers_wait_only_while_somebody_looks(questions: Questions, tmp_path: Path) -> None:
    assert not questions.is_watched()
    with questions.watched():
        assert questions.is_watched()
    assert not questions.is_watched()
    gone = tmp_path / "state/questions/watcher-1"
    gone.write_text(f"{os.getpid()} 1 x y")
    assert not questions.is_watched()


def test_without_a_state_directory_nothing_waits(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    questions = Questions(tmp_path / "file" / "state")
    assert questions.waiting() == ()
    assert questions.take("a mark") is None
    refused("write_failed", lambda: ask(questions))
    with questions.watched():
        assert not questions.is_watched()
