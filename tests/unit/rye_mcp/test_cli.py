"""The commands that the package installs, started as a person or a client configuration starts them."""

import json
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from rye_mcp.cli.demo import Expectation, Step, Tell, present

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = Path(sysconfig.get_path("scripts"))


def run(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPTS / command, *arguments], capture_output=True, text=True, check=False)


def test_rye_says_its_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    answer = run("rye", "--version")
    assert (answer.returncode, answer.stdout) == (0, f"rye {cargo['workspace']['package']['version']}\n")


def test_rye_alone_shows_its_commands() -> None:
    answer = run("rye")
    assert "demo" in answer.stdout + answer.stderr


def test_an_unknown_command_is_an_error() -> None:
    answer = run("rye", "dmeo")
    assert answer.returncode == 2
    assert "dmeo" in answer.stderr


async def works(tell: Tell) -> list[Expectation]:
    tell("fact", "a fact")
    tell("fact", "another one")
    return [Expectation("this is so", met=True)]


async def fails(_: Tell) -> list[Expectation]:
    return [Expectation("this is so", met=True), Expectation("so is this", met=False)]


A_STEP_THAT_WORKS, A_STEP_THAT_FAILS = Step("It works", works), Step("It fails", fails)


def test_an_unmet_expectation_is_shown_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert not present([A_STEP_THAT_WORKS, A_STEP_THAT_FAILS])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["NOT", "MET", "so", "is", "this"] in lines
    assert lines[-1][:3] == ["1", "of", "3"]


def test_met_expectations_are_shown_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert present([A_STEP_THAT_WORKS, A_STEP_THAT_WORKS])
    out = capsys.readouterr().out
    assert "   fact         a fact\n                another one\n" in out
    assert out.endswith("All 2 expectations were met.\n")
    assert "NOT MET" not in out


def test_the_answer_in_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert not present([A_STEP_THAT_WORKS, A_STEP_THAT_FAILS], as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["met"] is False
    assert [step["met"] for step in answer["steps"]] == [True, False]
    assert answer["steps"][0]["facts"] == {"fact": "a fact\nanother one"}
    assert answer["steps"][1]["expectations"][1] == {"text": "so is this", "met": False}
