"""A tool is after what the server's environment, or a project's, holds; or changes what others load by it."""

from __future__ import annotations

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.trust.scope import SignerKind
from tests.call_world import SERVER, Call
from tests.trust_world import World, refused

pytestmark = pytest.mark.both_loops

SECRET = "s3cr3t-value"
SECRETS = ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "SSH_AUTH_SOCK", "MYSQL_PWD")
CODE = ("LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "BASH_FUNC_ls%%")
OWN = ("RYE_KEY_PASSPHRASE", "RYE_HTTP_TOKEN", "RYE_TRUSTED_KEYS", "RYE_PYTHON")
CHOOSE = (
    *("TAR_OPTIONS", "MAKEFLAGS", "NODE_COMPILE_CACHE", "TSX_TSCONFIG_PATH", "DOTNET_STARTUP_HOOKS"),
    *("DOCKER_HOST", "KUBECONFIG", "AWS_CONFIG_FILE"),
)
"""What programs run, and whom they speak to, is in files and addresses that these name."""
ASKS = f"permissions: {{env: [{', '.join((*SECRETS, *OWN))}]}}"


def served(call: Call, **more: str) -> Call:
    names = dict.fromkeys((*SECRETS, *CODE, *OWN), SECRET)
    call.server = {**SERVER, **names, "DATABASE_URL": f"postgres://me:{SECRET}@db/x", **more}
    return call


def test_a_tool_is_told_what_it_mentions_and_does_not_get(world: World) -> None:
    found = served(
        Call.begin(world, tool="description: Needs ${GITHUB_TOKEN}, and no XDB_PASSWORD")
    ).environment()
    [notice] = found.notices
    assert (notice.code, "GITHUB_TOKEN" in notice.message) == ("variables_withheld", True)
    assert "DB_PASSWORD" not in notice.message
    assert SECRET not in notice.message


def test_nothing_of_it_is_passed_on_and_all_of_it_is_named(world: World) -> None:
    found = served(Call.begin(world)).environment()
    assert SECRET not in str(dict(found.variables))
    assert set(found.withheld) == {*SECRETS, *CODE, "DATABASE_URL"}
    assert SECRET not in f"{found!r} {found.notices!r}"


async def test_a_real_program_sees_none(world: World) -> None:
    call = served(Call.begin(world, runtime="config: {command: /usr/bin/env}"))
    result = await SubprocessPrimitive().run(call.process().spec)
    assert "HOME=" in result.stdout
    assert SECRET not in result.stdout


def test_a_template_cannot_name_what_is_withheld(world: World) -> None:
    runtime = (
        "config: {command: x, args: ['<${GITHUB_TOKEN}>']}\nenv_config: {env: {A: '${GITHUB_TOKEN:-none}'}}"
    )
    call = served(Call.begin(world, runtime=runtime))
    assert call.process().spec.args == ["<>"]
    assert call.environment().variables["A"] == "none"


def test_a_person_grants_what_they_sign(world: World) -> None:
    found = served(Call.begin(world, tool="permissions: {env: [GITHUB_TOKEN, LD_PRELOAD]}")).environment()
    assert found.variables["GITHUB_TOKEN"] == found.variables["LD_PRELOAD"] == SECRET
    assert "GITHUB_TOKEN" not in found.withheld
    assert "DB_PASSWORD" in found.withheld


def test_an_agent_grants_itself_nothing(world: World) -> None:
    call = served(Call.begin(world, tool=ASKS, key=world.key(SignerKind.AGENT)))
    found = call.environment()
    assert SECRET not in str(dict(found.variables))
    assert "permissions_ignored" in [notice.code for notice in found.notices]
    assert any("rye sign demo/tool" in notice.message for notice in found.notices)


def test_what_was_granted_to_one_tool_is_not_kept_for_another(world: World) -> None:
    call = served(Call.begin(world, tool="permissions: {env: [GITHUB_TOKEN]}"))
    call.sign("tools/demo/other.yaml", "tool_type: script\nexecutor_id: base/runtime\n")
    assert call.environment().variables["GITHUB_TOKEN"] == SECRET
    assert "GITHUB_TOKEN" not in call.environment("demo/other").variables
    call.sign("tools/demo/tool.yaml", "tool_type: script\nexecutor_id: base/runtime\n")
    assert "GITHUB_TOKEN" not in call.environment().variables


def test_what_was_granted_to_a_person_is_not_kept_for_an_agent_who_signs_the_same_bytes(world: World) -> None:
    call = served(Call.begin(world, tool=ASKS))
    text = f"tool_type: script\nexecutor_id: base/runtime\n{ASKS}\n"
    assert SECRET in str(dict(call.environment().variables))
    call.sign("tools/demo/tool.yaml", text, world.key(SignerKind.AGENT))
    signed = (world.project / ".ai/tools/demo/tool.yaml").read_bytes()
    world.trust().accept_agents_work(world.file(signed, item_id="demo/tool", extension=".yaml"))
    assert SECRET not in str(dict(call.environment().variables))


def test_what_the_server_goes_by_is_granted_to_nobody(world: World) -> None:
    found = served(Call.begin(world, tool=ASKS)).environment()
    assert not set(OWN) & found.variables.keys()


def test_a_secret_that_was_granted_still_stands_in_no_command_line(world: World) -> None:
    for text in ("args: ['--token=${GITHUB_TOKEN}']", "args: ['${X:-${GITHUB_TOKEN}}']"):
        call = served(
            Call.begin(
                world, runtime=f"config: {{command: x, {text}}}", tool="permissions: {env: [GITHUB_TOKEN]}"
            )
        )
        error = refused("invalid_item", call.process)
        assert SECRET not in str(error.as_dict())
        assert "GITHUB_TOKEN" in error.message


def test_nor_does_a_password_in_an_address_that_was_granted(world: World) -> None:
    runtime = "config: {command: x, args: ['${DATABASE_URL}']}"
    call = Call.begin(world, runtime=runtime, tool="permissions: {env: [DATABASE_URL]}")
    call.server = {**call.server, "DATABASE_URL": f"postgres://ada:{SECRET}@db/x"}
    error = refused("invalid_item", call.process)
    assert SECRET not in str(error.as_dict())
    assert "DATABASE_URL" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "args: ['{params_json}']",
        "args: ['{word}']",
        "args: ['{params.word}']",
        "command: 'x {word}', shell: true",
    ],
)
def test_nor_does_a_parameter_that_is_one(world: World, text: str) -> None:
    runtime = f"config: {{{'' if 'command' in text else 'command: x, '}{text}}}"
    call = Call.begin(world, runtime=runtime, tool="config_schema: {properties: {word: {writeOnly: true}}}")
    assert call.process({}).spec.command
    error = refused("invalid_parameters", lambda: call.process({"word": SECRET}))
    assert SECRET not in str(error.as_dict())
    assert "standard input" in error.hint


def test_it_may_travel_on_standard_input(world: World) -> None:
    call = Call.begin(
        world,
        runtime="config: {command: x, input_data: '{params_json}', params_env: P_}",
        tool="config_schema: {properties: {word: {writeOnly: true}}}",
    )
    built = call.process({"word": SECRET})
    assert SECRET.encode() in (built.spec.input or b"")
    assert SECRET not in repr(built)
    assert SECRET not in str(dict(built.spec.env))


def test_a_dotenv_gives_out_no_secret_and_chooses_no_code(world: World) -> None:
    call = Call.begin(world)
    names = (
        *SECRETS,
        *OWN,
        *CHOOSE,
        "LD_PRELOAD",
        "PYTHONPATH",
        "PATH",
        "PYENV_ROOT",
        "NVM_DIR",
        "HTTPS_PROXY",
    )
    text = "".join(f"{name}={SECRET}\n" for name in names) + "PLAIN=fine\n"
    world.project.joinpath(".env").write_text(text, encoding="ascii")
    call.approve()
    found = call.environment()
    assert found.variables["PLAIN"] == "fine"
    assert SECRET not in str(dict(found.variables))
    assert {notice.code for notice in found.notices} == {"dotenv_refused"}
    assert found.project_used
