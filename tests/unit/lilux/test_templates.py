"""Templates are filled once, and values are inert."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lilux._templates import MAX_DEFAULT_DEPTH, parse, placeholders, render, render_shell, render_tree
from lilux.primitives.errors import ConfigurationError

ENV = {"HOME": "/home/me", "EMPTY": "", "TRAP": "${HOME} {name}"}
PARAMS: dict[str, Any] = {
    "name": "World",
    "trap": "{name} ${HOME}",
    "a.b-c": "dotted",
    "none": None,
    "yes": True,
    "number": 7,
    "half": 0.5,
    "list": [1, "é", None],
    "object": {"k": [True]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{name}", "World"),
        ("Hello, {name}!{name}", "Hello, World!World"),
        ("${HOME}/x", "/home/me/x"),
        ("${HOME}{name}", "/home/meWorld"),
        ("$${HOME}", "$/home/me"),
        ("{{name}}", "{World}"),
        # unset, empty and default
        ("[${UNSET}]", "[]"),
        ("[${EMPTY}]", "[]"),
        ("${UNSET:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${HOME:-d}", "/home/me"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a b:-c}", "a b:-c"),
        # a default is template text, up to its own brace
        ("${UNSET:-{name}}!", "World!"),
        ("${UNSET:-${HOME}/x}", "/home/me/x"),
        ("${UNSET:-${ALSO:-{name}}}", "World"),
        ('${UNSET:-{"a": {}}}', '{"a": {}}'),
        ("${UNSET:-}}", "}"),
        # values are never looked at again
        ("{trap}", "{name} ${HOME}"),
        ("${TRAP}", "${HOME} {name}"),
        ("${UNSET:-{trap}}", "{name} ${HOME}"),
        ("${UNSET:-${TRAP}}", "${HOME} {name}"),
        # other text in braces stays
        ("{unknown}", "{unknown}"),
        ("{ name }", "{ name }"),
        ("{1}", "{1}"),
        ("{}", "{}"),
        ("{print $1}", "{print $1}"),
        ('{"name": "{name}"}', '{"name": "World"}'),
        ("${name%suffix}", "${name%suffix}"),
        ("${1}", "${1}"),
        ("${", "${"),
        ("${HOME", "${HOME"),
        ("${HOME:-{name}", "${HOME:-World"),
        ("}{", "}{"),
        # names and values of other types
        ("{a.b-c}", "dotted"),
        ("[{none}]", "[]"),
        ("{yes} {number} {half}", "true 7 0.5"),
        ("{list}", '[1,"é",null]'),
        ("{object}", '{"k":[true]}'),
    ],
)
def test_a_template_is_filled_in_one_pass(text: str, expected: str) -> None:
    assert render(text, ENV, PARAMS) == expected


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), float("nan"), [float("inf")]])
def test_a_value_that_has_no_json_form_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"\{x\}") as caught:
        render("a {x}", {}, {"x": value})
    assert caught.value.field == "{x}"


def test_defaults_may_be_nested_only_so_deep() -> None:
    def nested(depth: int) -> str:
        return "${A:-" * depth + "x" + "}" * depth

    assert render(nested(MAX_DEFAULT_DEPTH), {}, {}) == "x"
    with pytest.raises(ConfigurationError, match="inside each other"):
        render(nested(MAX_DEFAULT_DEPTH + 1), {}, {})


def test_a_long_text_of_unclosed_placeholders_is_no_burden() -> None:
    text = "${A:-" * 100_000
    assert render(text, {}, {}) == text


@given(value=st.text(), env_value=st.text())
@example(value="{env} ${V}", env_value="{x}${V}")
def test_values_are_inert_whatever_they_hold(value: str, env_value: str) -> None:
    text = "<{x}|${V}|${UNSET:-{x}}|{x}>"
    params = {"x": value, "env": "WRONG"}
    assert render(text, {"V": env_value}, params) == f"<{value}|{env_value}|{value}|{value}>"


@given(text=st.text(alphabet="${}:-aB_ \"'\\"))
def test_the_pieces_of_a_template_are_its_text(text: str) -> None:
    def source(template: Any) -> str:
        return "".join(piece if isinstance(piece, str) else written(piece) for piece in template.segments)

    def written(piece: Any) -> str:
        default = getattr(piece, "default", None)
        return piece.source if default is None else f"{piece.source[:-1]}:-{source(default)}}}"

    assert source(parse(text)) == text


def test_a_structure_is_filled_throughout_and_a_lone_placeholder_keeps_its_type() -> None:
    tree = {
        "a": ["{list}", "n={number}", 5],
        "b": {"c": "{number}", "d": "${HOME}"},
        "e": None,
        "f": "{unknown}",
    }
    assert render_tree(tree, ENV, PARAMS) == {
        "a": [[1, "é", None], "n=7", 5],
        "b": {"c": 7, "d": "/home/me"},
        "e": None,
        "f": "{unknown}",
    }


def test_what_is_small_and_names_a_large_value_many_times_is_refused() -> None:
    large = {"x": "x" * (1 << 20)}
    for value in ("{x}" * 100, ["{x}."] * 100, {"a": [{"b": "{x}."}] * 100}):
        with pytest.raises(ConfigurationError, match="at most"):
            render_tree(value, {}, large)
    assert len(render("{x}" * 10, {}, large)) == 10 << 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a{name}b", [("a", None), ("World", "{name}"), ("b", None)]),
        ("${HOME}", [("/home/me", "${HOME}")]),
        ("${UNSET}", [("", "${UNSET}")]),
        ("${HOME:-{name}}", [("/home/me", "${HOME}")]),
        ("${UNSET:-a{name}}", [("a", None), ("World", "{name}")]),
        ("${EMPTY:-${UNSET:-a}}", [("a", None)]),
        ("{unknown}", [("{unknown}", None)]),
        ("{none}", [("", "{none}")]),
    ],
)
def test_a_value_is_told_apart_from_the_text_of_the_template(
    text: str, expected: list[tuple[str, str | None]]
) -> None:
    pieces = parse(text).pieces(ENV, PARAMS)
    assert [(piece, found and found.source) for piece, found in pieces] == expected


# --- in a shell command ---------------------------------------------------------


def words_of_shell(command: str) -> list[str]:
    """What a real shell makes of `show <command>`, a word an item."""
    script = f"show() {{ for word; do printf '%s\\0' \"$word\"; done; }}\n{command}"
    ran = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, check=True, env={}, stdin=subprocess.DEVNULL
    )
    return ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


TEXTS = st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
HOSTILE = st.text(alphabet="'\"\\$`(){}[]<>;&|#*?~! \n\tax0", max_size=20)


@given(value=TEXTS | HOSTILE)
@example(value="'; touch owned; '")
@example(value="$(id)`id`\\")
@example(value="")
@example(value="{x} ${V}")
def test_a_value_arrives_in_a_shell_as_one_word(value: str) -> None:
    command = render_shell("show {x} -n={x} ${V:-{x}} ${V}{x}", {}, {"x": value})
    assert words_of_shell(command) == [value, f"-n={value}", value, value]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("show {x}", ["V"]),
        ("show ${E}", ["a b"]),
        ("show ${UNSET:-two words}", ["two words"]),
        ("show 'quoted' {x}", ["quoted", "V"]),
        ('show "dou\\"ble" {x}', ['dou"ble', "V"]),
        ("show a\\'b {x}", ["a'b", "V"]),
        ("show \\\n{x}", ["V"]),
        ("# it's a comment\nshow {x}", ["V"]),
        ("show a#b {x} # it's", ["a#b", "V"]),
        ('show "#" {x}', ["#", "V"]),
        ("show $# {x}", ["0", "V"]),
        ("show $(printf %s {x})", ["V"]),
        ("(show {x})", ["V"]),
        ("show {x} | cat; show {x}", ["V", "V"]),
        ("case {x} in a) ;; *) show {x};; esac", ["V"]),
        ('A={x}; show "$A"', ["V"]),
        ("show '{unknown}' {x}", ["{unknown}", "V"]),
        ("[ {x} = V ] && show {x}", ["V"]),
        ("show {x} <<'E'\nit's {unknown}\nE\n", ["V"]),
        ('show {x} $((1 + 2)) "$(echo 4)" `echo 5`', ["V", "3", "4", "5"]),
    ],
)
def test_a_placeholder_may_stand_wherever_the_shell_reads_words(template: str, words: list[str]) -> None:
    assert words_of_shell(render_shell(template, {"E": "a b"}, {"x": "V"})) == words


@pytest.mark.parametrize(
    ("template", "where"),
    [
        ("echo '{x}'", "inside single quotes"),
        ('echo "{x}"', "inside double quotes"),
        ('echo "a \\" {x}"', "inside double quotes"),
        ('echo "it\'s {x}"', "inside double quotes"),
        ("echo \\{x}", "after a backslash"),
        ('echo "\\{x}"', "after a backslash"),
        ("echo ${x} $${E}", "after a dollar sign"),
        ("echo $(echo '{x}')", "inside single quotes"),
        ("echo # {x}", "inside a comment"),
        ("# don't\necho '{x}'", "inside single quotes"),
        ("echo a;# {x}", "inside a comment"),
        ("cat <<E\n{x}\nE", "after a here-document"),
        ("cat <\\\n<E\n{x}\nE", "after a here-document"),
        ("echo $(( {x} ))", "after arithmetic"),
        ("(( {x} ))", "after arithmetic"),
        ("echo $[ {x} ]", "after arithmetic"),
        ("[[ {x} -eq 1 ]]", r"after \[\["),
        ("a[{x}]=1", "after a subscript"),
        ("a=([{x}]=1)", "after an array"),
        ("a+=(\n[{x}]=1)", "after an array"),
        ("echo `echo {x}`", "after a backquote"),
        ('echo "`echo "{x}"`"', "after a backquote"),
        ("echo $'{x}'", r"after \$'"),
        ('echo "$(echo "{x}")"', "after a substitution inside double quotes"),
        ('echo "$\\\n(echo "{x}")"', "after a substitution inside double quotes"),
        ('echo "${1-"{x}"}"', r"after \$\{…\} inside double quotes"),
        ("echo ${1%'}'} {x}", r"after \$\{…\}"),
        ("echo $(case a in a)# don't\necho '{x}';; esac)", "after a # that may begin a comment"),
    ],
)
def test_a_placeholder_that_quoting_cannot_protect_is_refused(template: str, where: str) -> None:
    with pytest.raises(ConfigurationError, match=where) as caught:
        render_shell(template, {"E": "e"}, {"x": "V"})
    assert caught.value.field == "command"


def test_the_refusal_names_the_placeholder_and_says_what_to_do() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^\{x\} stands .* remove the quotes, the value is quoted for you$"
    ):
        render_shell("echo '{x}'", {}, {"x": "V"})


def test_a_placeholder_without_a_value_is_text_and_never_refused() -> None:
    assert render_shell("awk '{print}'", {}, {}) == "awk '{print}'"


SHELL_LONGER = [
    "{x}",
    "{x} ",
    "echo ",
    "&& ",
    "((",
    "$(",
    '"$(',
    "$'",
    "${1-",
    "<<E\n",
    "E\n",
    "case a in a) ",
    "esac ",
]
SHELL_FRAGMENTS = st.lists(st.sampled_from([*"'\"\\`$()#; \n}[]=|&<>~*a", *SHELL_LONGER]), max_size=14).map(
    "".join
)


@given(template=SHELL_FRAGMENTS)
def test_whatever_the_template_a_value_that_is_let_in_never_runs(template: str) -> None:
    """The value would create a file were it read as shell text, in whichever quoting it found itself."""
    attacks = [
        "$(:>owned)",
        "';:>owned;'",
        '";:>owned;"',
        "\n:>owned\n",
        ";:>owned #",
        "`:>owned`",
        "\\';:>owned;'",
    ]
    try:
        command = render_shell(template, {}, {"x": "".join(attacks)})
    except ConfigurationError:
        return
    assert not creates_a_file(command)


def test_every_placeholder_of_a_text_is_named_those_in_defaults_too() -> None:
    text = "{a} ${B} ${C:-{d} ${E:-{f}}} ${not-one} {a} {1}"
    assert {each.source for each in placeholders(text)} == {"{a}", "${B}", "${C}", "{d}", "${E}", "{f}"}
    assert not placeholders("nothing of the kind")


def creates_a_file(command: str) -> bool:
    """True when the command, run alone in a new directory, makes the file `owned` there."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
        )
        return (Path(directory) / "owned").exists()
