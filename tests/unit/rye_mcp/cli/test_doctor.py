"""What `rye doctor` says of what a machine can enforce, for machines that are not at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lilux.primitives.subprocess import Facts, Groups
from rye_mcp.cli.doctor import judge_isolation

CELLS = Facts(
    landlock=7,
    seccomp=True,
    cell="user_namespace",
    no_cell=None,
    proc="private",
    broker=True,
    no_broker=None,
    groups=Groups("/sys/fs/cgroup/user.slice", ("processes", "memory")),
)
WALLS = replace(CELLS, cell=None, no_cell="the namespaces could not be made: EPERM")


def test_where_cells_can_be_made_there_is_nothing_to_do(tmp_path: Path) -> None:
    found = judge_isolation(CELLS, tmp_path)
    assert (found.state, found.hint) == ("ok", None)
    assert "cells, made by user namespaces" in found.message
    assert (
        "command lines of other programs" in judge_isolation(replace(CELLS, proc="shared"), tmp_path).message
    )


def test_limits_that_nothing_enforces_are_told_with_the_reason(tmp_path: Path) -> None:
    without = replace(CELLS, groups=None, no_groups="control groups of version 2 are not mounted here")
    message = judge_isolation(without, tmp_path).message
    assert message.endswith("limits their memory: control groups of version 2 are not mounted here")
    by_root = judge_isolation(replace(without, cell="administrator"), tmp_path).message
    assert "limits their processes, memory: control groups" in by_root
    walls = judge_isolation(replace(without, cell=None, no_cell="EPERM"), tmp_path).message
    assert "cmdlines, processes, memory, temp" in walls


def test_walls_are_told_with_what_they_do_not_enforce_and_why(tmp_path: Path) -> None:
    found = judge_isolation(WALLS, tmp_path)
    assert found.state == "warning"
    assert "in walls, since no cell can be made: the namespaces could not be made: EPERM" in found.message
    assert "do not enforce protected_paths, masked_paths" in found.message
    assert "hosts" not in found.message


def test_without_a_broker_walls_do_not_enforce_hosts_and_it_is_said_why(tmp_path: Path) -> None:
    without = replace(WALLS, broker=False, no_broker="pidfd_getfd: EPERM")
    message = judge_isolation(without, tmp_path).message
    assert "do not enforce hosts, protected_paths, masked_paths" in message
    assert "hosts are not told apart: pidfd_getfd: EPERM" in message


@pytest.mark.parametrize("facts", [replace(WALLS, landlock=0), replace(WALLS, seccomp=False)])
def test_nothing_is_told_as_nothing(tmp_path: Path, facts: Facts) -> None:
    found = judge_isolation(facts, tmp_path)
    assert (found.state, found.message[:22]) == ("warning", "nothing confines tools")


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces="),
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel/apparmor_restrict_unprivileged_userns", "0", "unshare --user"),
    ],
)
def test_the_setting_that_forbids_cells_is_named(tmp_path: Path, name: str, text: str, hint: str) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{text}\n")
    assert hint in (judge_isolation(WALLS, tmp_path).hint or "")


def test_a_kernel_without_landlock_is_looked_at_for_it(tmp_path: Path) -> None:
    assert judge_isolation(replace(WALLS, landlock=0), tmp_path).hint == "cat /sys/kernel/security/lsm"
