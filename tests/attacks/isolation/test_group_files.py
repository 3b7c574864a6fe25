"""A tool reads what its user may read in /etc and others may not: by a group, or because the user owns it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.isolation.world import World
from tests.users import ADA

GROUP = 4242
PLACE = "/etc/security"
"""Something that every system has, and that these tests cover with files of their own."""

FILES = (
    f"mount -t tmpfs none {PLACE}; cd {PLACE}; mkdir open shut; "
    "echo secret | tee open/ours open/mine shut/deep open/all > /dev/null; "
    f"chgrp {GROUP} open/ours shut; chmod 640 open/ours; chmod 710 shut; "
    f"chown {ADA} open/mine; chmod 600 open/mine"
)
READ = f"cat {PLACE}/open/all; cat {PLACE}/open/ours {PLACE}/open/mine {PLACE}/shut/deep"


@pytest.mark.parametrize("groups", [[GROUP], []], ids=["in the group", "in no group"])
@pytest.mark.parametrize("tier", ["none", "walls", "cell"])
def test_what_is_not_for_everybody_in_etc_is_for_no_confined_tool(
    world: World, tier: str, groups: list[int]
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files to a group")
    if world.uid == 0:
        pytest.skip("root's tools are tried with everything that is in /etc")
    answer = _run(world.binary, tier, groups)
    found = answer["stdout"].split()
    if tier == "none":
        assert len(found) == (4 if groups else 2), answer
    else:
        assert answer["enforced"]["level"] == tier
        assert found == (["secret"] if tier == "cell" else []), answer


def _run(binary: Path, tier: str, groups: list[int]) -> dict[str, Any]:
    """The answer to a tool of an ordinary user, in a mount namespace in which /etc has such files."""
    request: dict[str, Any] = {"command": "/bin/sh", "args": ["-c", READ], "env": {"PATH": "/usr/bin:/bin"}}
    if tier != "none":
        request["policy"] = {"tier": tier, "require": tier}
    named = ",".join(map(str, groups))
    supplementary = f"--groups={named}" if groups else "--clear-groups"
    become = f"setpriv --reuid={ADA} --regid={ADA} {supplementary}"
    script = f'{FILES}; cd /; exec {become} "$@"'
    surroundings = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh"]
    ran = subprocess.run(
        [*surroundings, str(binary), "exec", "--request", "-"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer
