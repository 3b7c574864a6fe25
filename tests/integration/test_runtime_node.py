"""What the runtime for Node.js promises beyond what all runtimes do: modules, TypeScript, several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

HEAD = "// /// rye\n// version: 1.0.0\n// executor_id: node_runtime\n// ///\n"

TSX = """\
import fs from "node:fs";
export async function tsImport(specifier, { parentURL, tsconfig }) {
  const source = fs.readFileSync(new URL(specifier), "utf8").replace(": Given", "");
  const settings = [tsconfig, process.env.TSX_DISABLE_CACHE, parentURL.startsWith("file:")];
  const { execute } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  return { execute: (params) => [execute(params), settings] };
}
"""
"""What stands where tsx would: it knows one type, and tells how it was called."""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    needs("node", monkeypatch)
    return Workshop(World(tmp_path))


EXPORTS = {
    "common": ("tool.cjs", "module.exports = { execute: (params) => params.x };\n"),
    "property": ("tool.js", "exports.execute = async (params) => params.x;\n"),
    "hidden": ("tool.js", "module.exports = ((name) => ({ [name]: (params) => params.x }))('execute');\n"),
    "module": ("tool.mjs", "export const execute = ({ x }) => x;\n"),
    "default": ("tool.mjs", "export default { execute: ({ x }) => x };\n"),
    "late": (
        "tool.mjs",
        "const y = await Promise.resolve(0);\nexport const execute = ({ x }) => x + y;\n",
    ),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "body"), EXPORTS.values(), ids=EXPORTS)
async def test_an_exported_function_is_called(workshop: Workshop, name: str, body: str) -> None:
    assert await workshop.data(workshop.sign(f"demo/{name}", HEAD + body), {"x": 42}) == 42


RETURNS = {
    "undefined": None,
    "null": None,
    "'text'": "text",
    "[1.5, true]": [1.5, True],
    "new Date(0)": "1970-01-01T00:00:00.000Z",
}


@pytest.mark.first_case
@pytest.mark.parametrize(("returned", "data"), RETURNS.items(), ids=RETURNS)
async def test_what_a_function_returns_is_the_result(workshop: Workshop, returned: str, data: Any) -> None:
    body = f"{HEAD}exports.execute = () => {returned};\n"
    assert await workshop.data(workshop.sign("demo/tool.js", body)) == data


@pytest.mark.first_case
@pytest.mark.parametrize("returned", ["10n", "() => 1", "Symbol('x')"])
async def test_a_result_that_json_cannot_hold_is_a_failure(workshop: Workshop, returned: str) -> None:
    body = f"{HEAD}exports.execute = () => ({returned});\n"
    result = await workshop.run(workshop.sign("demo/tool.js", body))
    assert (result.success, result.code) == (False, "tool_failed")
    assert "TypeError" in (result.stderr or "")


SCRIPTS = {
    "at once": ("tool.js", "const { x } = JSON.parse(require('fs').readFileSync(0));\nconsole.log(x);\n"),
    "as it comes": (
        "tool.js",
        "let s = '';\nprocess.stdin.on('data', (d) => { s += d; });\n"
        "process.stdin.on('end', () => console.log(JSON.parse(s).x));\n",
    ),
    "module": (
        "tool.mjs",
        "let s = '';\nfor await (const d of process.stdin) s += d;\nconsole.log(JSON.parse(s).x);\n",
    ),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "body"), SCRIPTS.values(), ids=SCRIPTS)
async def test_a_file_without_the_function_is_a_script(workshop: Workshop, name: str, body: str) -> None:
    assert await workshop.data(workshop.sign(f"demo/{name}", HEAD + body), {"x": 42}) == 42


async def test_a_call_is_over_when_its_result_is_there(workshop: Workshop) -> None:
    body = f"{HEAD}exports.execute = async () => {{ setInterval(() => {{}}, 1000); return 42; }};\n"
    with anyio.fail_after(20):
        assert await workshop.data(workshop.sign("demo/tool.js", body)) == 42


async def test_a_context_names_the_project(workshop: Workshop) -> None:
    body = f"{HEAD}exports.execute = (params, context) => context;\n"
    found = await workshop.data(workshop.sign("demo/tool.js", body))
    assert found == {"projectPath": str(workshop.project)}


@pytest.mark.parametrize("name", ["tool.js", "tool.mjs"])
async def test_a_file_that_cannot_be_read_is_named(workshop: Workshop, name: str) -> None:
    result = await workshop.run(workshop.sign(f"demo/{name}", f"{HEAD}let x = (\n"))
    assert (result.success, result.code) == (False, "tool_failed")
    assert f"{workshop.project}/.ai/tools/demo/{name}" in (result.stderr or "")
    assert "SyntaxError" in (result.stderr or "")


async def test_a_tool_of_several_files_requires_what_was_signed(workshop: Workshop) -> None:
    """With a package.json, that makes modules of its files and is signed in the listing."""
    workshop.sign("multi/part.js", "export const double = (x) => 2 * x;\n")
    body = f"{HEAD}import {{ double }} from './part.js';\nexport const execute = ({{ x }}) => double(x);\n"
    item_id = workshop.sign("multi/tool.js", body)
    workshop.write("multi/package.json", '{"type": "module"}\n')
    workshop.sign_listing("multi", "package.json")
    assert await workshop.data(item_id, {"x": 21}) == 42


async def test_an_unsigned_package_json_stops_the_tool(workshop: Workshop) -> None:
    item_id = workshop.sign("multi/tool.js", f"{HEAD}exports.execute = () => 42;\n")
    workshop.write("multi/package.json", '{"type": "module"}\n')
    result = await workshop.run(item_id)
    assert (result.success, result.code) == (False, "unsigned")
    assert "package.json" in (result.error or "")


TYPED = f"{HEAD}export const execute = (params: Given) => params.x;\n"


async def test_typescript_is_refused_where_nothing_reads_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if await node_reads_typescript(workshop):
        pytest.skip("this Node.js reads TypeScript by itself")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/node").symlink_to(needs("node", monkeypatch))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    result = await workshop.run(workshop.sign("demo/tool.ts", TYPED), {"x": 42})
    assert (result.success, result.code) == (False, "tool_failed")
    stderr = result.stderr or ""
    assert stderr.startswith("expected tsx, or a Node.js that reads TypeScript (22.18), for ")
    assert stderr.endswith(": npm install --global tsx\n")


async def test_typescript_is_read_by_tsx_without_its_cache_and_settings(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if await node_reads_typescript(workshop):
        pytest.skip("this Node.js reads TypeScript by itself")
    api = tmp_path / "tsx/dist/esm/api"
    api.mkdir(parents=True)
    (api / "index.mjs").write_text(TSX, encoding="utf-8")
    (tmp_path / "tsx/dist/cli.mjs").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tsx").symlink_to(tmp_path / "tsx/dist/cli.mjs")
    (tmp_path / "bin/node").symlink_to(needs("node", monkeypatch))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    item_id = workshop.sign("demo/tool.ts", TYPED)
    assert await workshop.data(item_id, {"x": 42}) == [42, [False, "1", True]]


async def test_typescript_is_read_by_node_where_it_can(workshop: Workshop) -> None:
    if not await node_reads_typescript(workshop):
        pytest.skip("this Node.js does not read TypeScript: 22.18 does")
    text = f"{HEAD}export const execute = (params: {{ x: number }}): number => params.x;\n"
    assert await workshop.data(workshop.sign("demo/tool.ts", text), {"x": 42}) == 42


async def node_reads_typescript(workshop: Workshop) -> bool:
    script = f"{HEAD}exports.execute = () => Boolean(process.features.typescript);\n"
    answer: bool = await workshop.data(workshop.sign("demo/features.js", script))
    return answer


IMPORTS = {
    "script": (".js", "const load = async (name) => require(name);\nmodule.exports = { execute: tried };\n"),
    "module": (".mjs", "const load = (name) => import(name);\nexport const execute = tried;\n"),
    "import in a script": (
        ".cjs",
        "const load = (name) => import(name);\nmodule.exports = { execute: tried };\n",
    ),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("extension", "body"), IMPORTS.values(), ids=IMPORTS)
async def test_a_package_above_the_private_copy_is_not_found(
    workshop: Workshop, own_place: Path, monkeypatch: pytest.MonkeyPatch, extension: str, body: str
) -> None:
    """Node.js looks by itself in every directory above."""
    place = own_place / "run"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    package = place / "node_modules/planted"
    package.mkdir(parents=True)
    (package / "index.js").write_text(f"require('fs').writeFileSync('{own_place}/canary', '')\n", "utf-8")
    tried = "async function tried() { try { return await load('planted'); } catch (e) { return e.code; } }\n"
    found = await workshop.data(workshop.sign(f"demo/tool{extension}", HEAD + tried + body))
    assert found in {"MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"}
    assert not (own_place / "canary").exists()


async def test_a_package_json_above_the_private_copy_is_not_read(
    workshop: Workshop, own_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = own_place / "run"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    (place / "package.json").write_text('{"type": "module"}', "utf-8")
    tool = workshop.sign("demo/tool.js", HEAD + "exports.execute = () => typeof require;\n")
    assert await workshop.data(tool) == "function"


PACKAGED = {
    "script": (".js", "const load = async (name) => require(name);\nmodule.exports = { execute: tried };\n"),
    "module": (".mjs", "const load = (name) => import(name);\nexport const execute = tried;\n"),
}
TRIED = """\
async function tried() {
  try {
    const found = await load("outer");
    return found.default ?? found;
  } catch (error) {
    return error.code;
  }
}
"""


def _install(project: Path) -> None:
    """A package, and another one that it needs."""
    for name, text in {
        "outer": "module.exports = `outer ${require('inner')}`;\n",
        "inner": "module.exports = 'inner';\n",
    }.items():
        place = project / "node_modules" / name
        place.mkdir(parents=True)
        (place / "index.js").write_text(text, "utf-8")


@pytest.mark.first_case
@pytest.mark.parametrize("planted_above", [False, True], ids=["nothing above", "packages above"])
@pytest.mark.parametrize(("extension", "body"), PACKAGED.values(), ids=PACKAGED)
async def test_packages_of_an_approved_project_are_found_and_the_run_is_not_sealed(
    workshop: Workshop,
    own_place: Path,
    monkeypatch: pytest.MonkeyPatch,
    extension: str,
    body: str,
    planted_above: bool,
) -> None:
    place = own_place / "run"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    if planted_above:
        (place / "node_modules").mkdir()
    _install(workshop.project)
    approvals = workshop.world.trust().approvals
    assert approvals is not None
    approvals.approve_project()
    result = await workshop.run(workshop.sign(f"demo/tool{extension}", HEAD + TRIED + body))
    assert (result.data, result.sealed) == ("outer inner", False)
    assert "unsigned parts of the project" in result.metadata["why_not_sealed"]
    assert (workshop.project / "node_modules/outer/index.js").exists(), "the link was removed, and no more"
    assert not list(place.glob("rye/rye-*"))


@pytest.mark.parametrize(("extension", "body"), PACKAGED.values(), ids=PACKAGED)
async def test_packages_of_a_project_that_nobody_approved_are_not_there_and_that_is_said(
    workshop: Workshop, extension: str, body: str
) -> None:
    _install(workshop.project)
    result = await workshop.run(workshop.sign(f"demo/tool{extension}", HEAD + TRIED + body))
    assert result.data in {"MODULE_NOT_FOUND", "ERR_MODULE_NOT_FOUND"}
    assert result.sealed
    [notice] = [each for each in result.notices if each.code == "project_not_approved"]
    assert "node_modules" in notice.message


COMPILER = """\
exports.ModuleKind = { CommonJS: 1 };
exports.ScriptTarget = { ES2022: 9 };
exports.transpileModule = (text) => ({ outputText: text.replace(": Given", "") });
"""
"""What stands where the package typescript would: it knows one type."""


async def test_the_compiler_of_an_approved_project_reads_typescript(workshop: Workshop) -> None:
    place = workshop.project / "node_modules/typescript"
    place.mkdir(parents=True)
    (place / "index.js").write_text(COMPILER, "utf-8")
    approvals = workshop.world.trust().approvals
    assert approvals is not None
    approvals.approve_project()
    text = f"{HEAD}exports.execute = (params: Given) => params.x;\n"
    if await workshop.data(workshop.sign("demo/native.js", f"{HEAD}exports.execute = {READS_TYPES};\n")):
        pytest.skip("this Node.js reads TypeScript itself")
    assert await workshop.data(workshop.sign("demo/tool.ts", text), {"x": 42}) == 42


READS_TYPES = "() => Boolean(process.features.typescript)"

MAINS = {
    "common": ("tool.js", "if (require.main === module) console.log(process.argv.slice(2).join());\n"),
    "module": (
        "tool.mjs",
        'import { pathToFileURL } from "node:url";\n'
        "const isMain = import.meta.url === pathToFileURL(process.argv[1]).href;\n"
        "if (isMain) console.log(process.argv.slice(2).join());\n",
    ),
}


@pytest.mark.parametrize(("name", "body"), MAINS.values(), ids=MAINS)
async def test_a_program_that_is_called_with_flags_is_the_main_module(
    workshop: Workshop, name: str, body: str
) -> None:
    head = HEAD.replace(
        "// executor_id",
        "// config: {arguments: flags}\n"
        "// config_schema: {properties: {a: {}, b: {type: boolean}}}\n// executor_id",
    )
    result = await workshop.run(workshop.sign(f"demo/{name}", head + body), {"a": "x", "b": True})
    assert result.data == "-ax,-b\n"


async def test_a_package_that_is_missing_is_named_in_the_hint_and_no_trace_shows_a_data_url(
    workshop: Workshop,
) -> None:
    for name, body in {
        "tool.mjs": 'import "no-such-package";\n',
        "tool.cjs": 'require("no-such-package");\n',
    }.items():
        result = await workshop.run(workshop.sign(f"demo/{name.replace('.', '_')}{name[4:]}", HEAD + body))
        assert result.code == "tool_failed"
        assert "npm install no-such-package" in (result.hint or "")
        assert "data:" not in (result.stderr or "")
