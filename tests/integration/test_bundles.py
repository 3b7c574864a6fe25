"""A call that was decided for one user is done for another one, if that user trusts who signed it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lilux import _footprints
from rye_mcp.errors import RyeError
from rye_mcp.executor.bundle import Bundle
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import SpaceName
from rye_mcp.permissions import Permissions
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog
from rye_mcp.trust.trust_document import TrustDocument
from tests.git_world import git
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

SCRIPT = """\
import json, os
from helper import WORD
# A tool of two files, which prints what it was given.
print(json.dumps({"word": WORD, "name": os.environ["RYE_PARAM_name"], "token": os.environ.get("API_TOKEN")}))
"""
TOOL = f"""\
# /// rye
# executor_id: python_script_runtime
# permissions: {{env: [API_TOKEN]}}
# config: {{params_env: RYE_PARAM_}}
# config_schema: {{properties: {{name: {{type: string}}}}}}
# ///
{SCRIPT}"""


@pytest.fixture
def ada(tmp_path: Path) -> Workshop:
    workshop = Workshop(World(tmp_path.resolve() / "ada"))
    (workshop.project / ".ai").mkdir(parents=True)
    workshop.sign("demo/hello.py", TOOL)
    workshop.write("demo/helper.py", 'WORD = "hello"\n')
    workshop.write("demo/__init__.py", "")
    workshop.sign_listing("demo", "helper.py", "__init__.py")
    return workshop


@pytest.fixture
def ben(tmp_path: Path) -> Workshop:
    """Another user, on what might be another machine: nothing but the package is shared."""
    workshop = Workshop(World(tmp_path.resolve() / "ben"))
    (workshop.project / ".ai").mkdir(parents=True)
    workshop.world.key()
    return workshop


@asynccontextmanager
async def executor_of(workshop: Workshop, **variables: str) -> AsyncIterator[PrimitiveExecutor]:
    world = workshop.world
    environment = {"PATH": os.environ["PATH"], "HOME": str(world.root), **variables}
    executor = PrimitiveExecutor(
        world.project, user_space=world.user_space.parent, state=world.state, environment=environment
    )
    try:
        yield executor
    finally:
        await executor.close()


async def bundle_of(workshop: Workshop, item_id: str, values: Any = None, **options: Any) -> Bundle:
    """The bundle of a call, as it arrives elsewhere."""
    async with executor_of(workshop) as executor:
        return Bundle.from_bytes((await executor.bundle(item_id, values, **options)).to_bytes())


async def done(workshop: Workshop, bundle: Bundle, **variables: str) -> ExecutionResult:
    async with executor_of(workshop, **variables) as executor:
        return await executor.run_bundle(bundle)


async def refusal(workshop: Workshop, bundle: Bundle) -> RyeError:
    with pytest.raises(RyeError) as caught:
        await done(workshop, bundle)
    return caught.value


def trusts(workshop: Workshop, other: Workshop) -> None:
    """Have a user trust the key of another one."""
    workshop.world.trust_key(TrustDocument.create(other.world.key().public, "ada"))


async def test_another_user_who_trusts_the_signer_runs_it(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    result = await done(ben, bundle, API_TOKEN="ben's")
    assert result.data == {"word": "hello", "name": "Ada", "token": "ben's"}
    assert result.chain[0]["path"] == str(ben.project / ".ai/tools/demo/hello.py"), "nothing is written there"
    assert not (ben.project / ".ai/tools").exists()


async def test_nothing_of_the_machine_that_decided_is_in_it(ada: Workshop) -> None:
    async with executor_of(ada, API_TOKEN="secret") as executor:
        data = (await executor.bundle("demo/hello", {"name": "Ada"})).to_bytes()
    assert str(ada.world.root).encode() not in data
    assert b"secret" not in data


async def test_a_user_who_does_not_know_the_signer_refuses_it(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    assert (await refusal(ben, bundle)).code == "untrusted_key"


async def test_every_file_is_verified_again(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    for source in bundle.files:
        changed = replace(source, content=source.content.replace(b"e", b"E", 1))
        if changed == source:
            continue
        files = tuple(changed if each is source else each for each in bundle.files)
        error = await refusal(ben, replace(bundle, files=files))
        assert error.code in ("content_changed", "bad_signature", "not_in_manifest", "unsigned"), source


async def test_a_file_that_is_missing_or_added_is_refused_or_left_out(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    helper = next(each for each in bundle.files if each.relative.endswith("helper.py"))
    without = tuple(each for each in bundle.files if each is not helper)
    assert (await refusal(ben, replace(bundle, files=without))).code == "content_changed"
    more = replace(helper, relative="tools/demo/other.py")
    assert (await refusal(ben, replace(bundle, files=(*bundle.files, more)))).code == "unsigned"
    more = replace(helper, relative="tools/other/data.txt")
    assert (await done(ben, replace(bundle, files=(*bundle.files, more)))).success


@pytest.mark.parametrize("part", ["a file that the call does not use", "the lockfile"])
async def test_what_is_remembered_of_bundles_takes_little_memory(
    ada: Workshop, ben: Workshop, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    monkeypatch.setattr(_footprints, "SETTLED_NS", -(10**12))  # what has just changed is remembered, too
    large = replace(bundle, lock=bundle.lock + b" " * (1 << 20))
    if part != "the lockfile":
        unused = replace(bundle.files[-1], relative="tools/zzz/data.txt", content=b" " * (1 << 20))
        large = replace(bundle, files=(*bundle.files, unused))
    async with executor_of(ben) as executor:
        decider = executor._decider
        await decider.accept(bundle)  # which is agreed to
        assert decider._judged_again(bundle) is decider._judged_again(bundle)
        assert decider._judged_again(large) is not decider._judged_again(large)


async def test_the_chain_is_what_was_pinned(ada: Workshop, ben: Workshop) -> None:
    trusts(ben, ada)
    old = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    ada.sign("demo/hello.py", TOOL.replace("A tool of", "The tool of"))
    new = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    assert (await refusal(ben, replace(new, lock=old.lock))).code == "lock_mismatch"
    assert (await refusal(ben, replace(new, lock=b"{}"))).code == "malformed_lockfile"
    assert (await done(ben, new)).success


async def test_parameters_are_checked_again(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    assert (await refusal(ben, replace(bundle, parameters={"name": 1}))).code == "invalid_parameters"


async def test_it_may_do_no_more_than_where_it_was_decided(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    assert bundle.permissions == Permissions(env=frozenset({"API_TOKEN"}))
    result = await done(ben, replace(bundle, permissions=Permissions()), API_TOKEN="ben's")
    assert result.data["token"] is None


async def test_it_is_granted_nothing_that_its_permissions_alone_ask_for(ada: Workshop, ben: Workshop) -> None:
    ada.sign("demo/hello.py", TOOL.replace("# permissions: {env: [API_TOKEN]}\n", ""))
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    wider = replace(bundle, permissions=Permissions(env=frozenset({"API_TOKEN"})))
    assert (await done(ben, wider, API_TOKEN="ben's")).data["token"] is None


async def test_a_runtime_of_the_system_is_that_of_this_machine(ada: Workshop, ben: Workshop) -> None:
    """A name without a slash means what it means here, whatever a bundle brings along."""
    trusts(ben, ada)
    own = "tool_type: runtime\nexecutor_id: subprocess\nconfig: {command: echo, args: [own]}\n"
    ada.sign("demo/python_script_runtime.yaml", own)
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    content = (ada.project / ".ai/tools/demo/python_script_runtime.yaml").read_bytes()
    place = (SpaceName.PROJECT, "tools/demo/python_script_runtime.yaml")
    mine = type(bundle.files[0])(*place, content)
    chain = (bundle.chain[0], place, bundle.chain[2])
    other = replace(
        bundle, chain=chain, files=tuple(sorted((*bundle.files, mine), key=lambda each: each.relative))
    )
    assert (await refusal(ben, other)).code == "executor_not_found"


async def test_another_version_of_the_package_is_named(ada: Workshop, ben: Workshop) -> None:
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"})
    trusts(ben, ada)
    files = tuple(
        replace(each, content=each.content + b"#") if each.space is SpaceName.SYSTEM else each
        for each in bundle.files
    )
    error = await refusal(ben, replace(bundle, files=files, package="0.0.1"))
    assert error.hint is not None
    assert "made by rye-mcp 0.0.1" in error.hint


async def test_a_tool_that_takes_code_from_all_of_a_project_stays_here(ada: Workshop) -> None:
    ada.sign(
        "demo/whole.py",
        TOOL.replace("# config:", "# anchor: {mode: always, root: project_path}\n# config:"),
    )
    approvals = ada.world.trust().approvals
    assert approvals is not None
    approvals.approve_project()
    with pytest.raises(RyeError) as caught:
        await bundle_of(ada, "demo/whole", {"name": "Ada"})
    assert caught.value.code == "not_runnable"


async def test_the_log_has_the_caller(ada: Workshop, ben: Workshop) -> None:
    parent = new_run_id()
    caller = Caller("agent", "inspector", parent, 1)
    bundle = await bundle_of(ada, "demo/hello", {"name": "Ada"}, caller=caller)
    trusts(ben, ada)
    result = await done(ben, bundle)
    with RunLog(ben.world.state) as log:
        row = log.get(result.run_id or "")
    assert (row.caller, row.client, row.parent) == ("agent", "inspector", parent)


# --- the same, from files and from a bundle ---

CALLS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "rye/file-system/read": st.sampled_from([{"path": "notes.txt"}, {"path": "gone.txt"}]),
    "rye/file-system/ls": st.fixed_dictionaries({}, optional={"path": st.sampled_from([".", "gone"])}),
    "rye/file-system/glob": st.builds(lambda name: {"pattern": name}, st.sampled_from(["*", "*.txt", "["])),
    "rye/file-system/grep": st.builds(lambda text: {"pattern": text}, st.sampled_from(["a", "[a-z]+", "("])),
    "rye/file-system/write": st.builds(lambda text: {"path": "new.txt", "content": text}, st.text("ab\n")),
    "rye/git/status": st.just({}),
    "rye/git/log": st.builds(lambda count: {"limit": count}, st.integers(1, 3)),
    "rye/bash/bash": st.builds(lambda text: {"command": f"echo {text}"}, st.sampled_from("abc")),
    "rye/python/run": st.builds(lambda number: {"code": f"print({number})"}, st.integers(-3, 3)),
    "rye/core/explain": st.just({"item_id": "rye/git/status"}),
    "rye/core/verify": st.just({"item_id": "rye/git/status"}),
    "rye/process/status": st.just({}),
    "rye/core/primitives/subprocess": st.builds(
        lambda text: {"config": {"command": "echo", "args": ["{word}"]}, "params": {"word": text}},
        st.text("ab{}$"),
    ),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A project with a few files, in a repository; one for all examples."""
    root = tmp_path_factory.mktemp("desk").resolve()
    workshop = Workshop(World(root))
    (workshop.project / ".ai").mkdir(parents=True)
    (workshop.project / "notes.txt").write_text("a\nb\n")
    git(workshop.project, "init", "--quiet")
    return workshop


@pytest.mark.first_case
@pytest.mark.parametrize("item_id", CALLS)
@settings(max_examples=max(1, settings().max_examples // 30), deadline=None, phases=[Phase.generate])
@given(data=st.data())
async def test_a_run_from_a_bundle_is_a_run_from_files(
    desk: Workshop, item_id: str, data: st.DataObject
) -> None:
    values = data.draw(CALLS[item_id])
    async with executor_of(desk) as executor:
        bundle = await executor.bundle(item_id, values)
        await executor.execute(item_id, values)  # what one changes, the next one finds
        direct = await executor.execute(item_id, values)
        again = await executor.run_bundle(Bundle.from_bytes(bundle.to_bytes()))
    assert compared(again) == compared(direct)


def compared(result: ExecutionResult) -> dict[str, Any]:
    """All of a result but what no two runs have in common."""
    told = result.as_dict(detail=True)
    for name in ("run_id", "receipt", "duration_ms", "usage", "metadata", "runtime", "why_cold"):
        told.pop(name, None)
    return told
