"""What tools say of the machine that they need, and what an engine says of the one that it leads to.

>>> read_resources({"cpu": 2, "memory": "4GiB"}).beyond(Resources(cpu=4))
'memory: 4294967296'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.items import is_item_id
from rye_mcp.metadata._forms import Form, Problem, expected, flag, list_of, mapping, one_of, text

__all__ = [
    "PLACEMENT_FORM",
    "RESOURCES_FORM",
    "SHARED",
    "SHARED_NAME",
    "VIAS",
    "WORKSPACE_FORM",
    "Cluster",
    "Engine",
    "Placement",
    "Resources",
    "placing_problems",
    "read_engine",
    "read_placement",
    "read_resources",
]

MAX_CPU: Final = 1024
MAX_GPU: Final = 64
MAX_NODES: Final = 256
MAX_PATTERNS: Final = 100
MAX_WIDTH: Final = 64
MAX_SLOTS: Final = 1000
MAX_WAIT_S: Final = 86_400

VIAS: Final = ("loopback", "ssh", "ray")
"""How a worker of an engine is started."""

_UNITS: Final = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_MEMORY: Final = r"^[1-9][0-9]{0,5}(?:KiB|MiB|GiB|TiB)$"
_HOST: Final = r"^(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9_.:-]{0,252}$"
_PROGRAM: Final = r"^(?:/|~/)?[A-Za-z0-9_][A-Za-z0-9_./-]{0,252}$"
_ADDRESS: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}:[0-9]{1,5}$"
_IP: Final = r"^[0-9a-f.:]{3,45}$"
_PATH: Final = r"^/[^\x00-\x1f]{1,4095}$"
_KEY_ID: Final = r"^[0-9a-f]{64}$"


@dataclass(frozen=True, slots=True)
class Resources:
    """How much of a machine: processors, bytes of memory, graphics processors; None where nothing is said."""

    cpu: float | None = None
    memory: int | None = None
    gpu: int | None = None

    def beyond(self, offered: Resources) -> str | None:
        """The first of these that is not offered; None if all are."""
        for each in fields(self):
            wanted, found = getattr(self, each.name), getattr(offered, each.name)
            if wanted is not None and (found is None or wanted > found):
                return f"{each.name}: {wanted:g}" if isinstance(wanted, float) else f"{each.name}: {wanted}"
        return None


@dataclass(frozen=True, slots=True)
class Placement:
    """Which machines will do: those with all of these labels. `required` says that this one won't."""

    labels: frozenset[tuple[str, str]] = frozenset()
    required: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster: its address, how this machine joins in, and how many calls share a worker there."""

    address: str
    python: str | None = None
    token_file: str | None = None
    here: str | None = None
    width: int = 4
    most: int = 64
    idle_s: float = 30.0
    patience_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Engine:
    """Where calls run: through which program, on which nodes by their key ids, and for which tools."""

    via: str
    nodes: frozenset[str]
    takes: tuple[str, ...]
    host: str | None = None
    program: str = "rye"
    offers: Resources = Resources()
    labels: frozenset[tuple[str, str]] = frozenset()
    cluster: Cluster | None = None


def read_resources(value: Any) -> Resources:
    """What a value says in which `RESOURCES_FORM` finds nothing wrong."""
    memory = value.get("memory")
    return Resources(value.get("cpu"), None if memory is None else _bytes(memory), value.get("gpu"))


def read_placement(value: Any) -> Placement:
    """What a value says in which `PLACEMENT_FORM` finds nothing wrong."""
    return Placement(_labels(value), value.get("required", False))


def read_engine(value: Mapping[str, Any]) -> Engine:
    """What the `config` of an engine says in which `ENGINE_FORM` finds nothing wrong."""
    return Engine(
        value["via"],
        frozenset(value["nodes"]),
        tuple(value["takes"]),
        value.get("host"),
        value.get("program", "rye"),
        read_resources(value.get("offers", {})),
        _labels(value),
        Cluster(**value["cluster"]) if "cluster" in value else None,
    )


def placing_problems(values: Mapping[str, Any], checked: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each invalid field of an engine, and each demand of a tool on machines that has no effect."""
    if values.get("tool_type") == "engine":
        if "executor_id" in values:
            yield "executor_id", "executor_id: expected none for an engine, which runs nothing, found one"
        for way, problem in ENGINE_FORM.check(checked.get("config", {})):
            yield "config", f"{'.'.join(map(str, ('config', *way)))}: {problem}"
    for name in ("resources", "placement", "idempotent"):
        if name in checked and "workspace" not in checked:
            yield name, f"workspace: expected none beside {name}, or it runs here alone; found no workspace"


def _bytes(memory: str) -> int:
    return int(memory[:-3]) << _UNITS[memory[-3:]]


def _labels(value: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset(value.get("labels", {}).items())


def _number(most: int, *, whole: bool) -> Form:
    what = f"a {'whole ' if whole else ''}number from {1 if whole else 'more than 0'} to {most}"

    def check(value: Any) -> Iterator[Problem]:
        right = type(value) is int or (not whole and isinstance(value, float))
        if not right:
            yield expected(what, value)
        elif not (1 if whole else 0) <= value <= most or not value > 0:
            yield (), f"expected {what}, found {value}"

    limit = {"minimum": 1} if whole else {"exclusiveMinimum": 0}
    return Form(check, {"type": "integer" if whole else "number", "maximum": most, **limit})


def _engine(value: Any) -> Iterator[Problem]:
    yield from _FIELDS_OF_ENGINE.check(value)
    if not isinstance(value, dict):
        return
    for name in ("nodes", "takes"):
        if name not in value:
            yield (), f"expected {name}, found none"
    for name, via in (("host", "ssh"), ("cluster", "ray")):
        if value.get("via") == via and name not in value:
            yield (), f"expected a {name} for {via}, found none"
        if value.get("via") in VIAS and value["via"] != via and name in value:
            yield (name,), f"expected none for {value['via']}, found one"
    if value.get("via") == "ray" and "offers" in value:
        yield ("offers",), "expected none for ray, whose nodes say themselves what they have, found some"


def _is_pattern(value: str) -> bool:
    return value == "*" or is_item_id(value.removesuffix("/*"))


_LABELS: Final = mapping(each=text("a word", r"^[A-Za-z0-9_.-]{1,63}$"))

RESOURCES_FORM: Final = mapping(
    {
        "cpu": _number(MAX_CPU, whole=False).about("Processors."),
        "memory": text("an amount such as 4GiB", _MEMORY).about("Memory, with its unit."),
        "gpu": _number(MAX_GPU, whole=True).about("Graphics processors."),
    },
    closed=True,
)
"""The form of `resources`."""

PLACEMENT_FORM: Final = mapping(
    {
        "labels": _LABELS.about("Labels that the engine has to have, such as accel: a100."),
        "required": flag().about("Whether it runs on an engine or not at all."),
    },
    closed=True,
)
"""The form of `placement`."""

SHARED: Final = "shared:"
"""How the workspace of a tool begins that is a directory of the node; its name follows."""

SHARED_NAME: Final = "[a-z0-9][a-z0-9_-]{0,62}"
"""The names of such directories."""

WORKSPACE_FORM: Final = text("none, tree or shared:NAME", rf"^(?:none|tree|{SHARED}{SHARED_NAME})$")
"""The form of `workspace`."""

_CLUSTER: Final = mapping(
    {
        "address": text("HOST:PORT", _ADDRESS).about("The head of the cluster."),
        "here": text("an address", _IP).about(
            "The address of this machine in the cluster, if it has several."
        ),
        "python": text("an absolute path", _PATH).about("A Python that has ray; that of rye by default."),
        "token_file": text("an absolute path", _PATH).about("The token of the cluster."),
        "width": _number(MAX_WIDTH, whole=True).about("How many calls share a worker; 4 by default."),
        "most": _number(MAX_SLOTS, whole=True).about("How many workers there are at most; 64 by default."),
        "idle_s": _number(MAX_WAIT_S, whole=False).about("How long a worker is kept that nobody uses; 30."),
        "patience_s": _number(MAX_WAIT_S, whole=False).about("How long a call waits for a place; 60."),
    },
    needs="address",
    closed=True,
)

_FIELDS_OF_ENGINE: Final = mapping(
    {
        "via": one_of(*VIAS).about("How its workers are started: on this machine, over SSH, or by Ray."),
        "cluster": _CLUSTER.about("The Ray cluster."),
        "host": text("a host, or user@host", _HOST).about("The machine, as ssh knows it."),
        "program": text("the path of a program", _PROGRAM).about("The rye of that machine; rye by default."),
        "nodes": list_of(text("a whole key id", _KEY_ID), "key ids", most=MAX_NODES).about("Its nodes."),
        "takes": list_of(
            text("an id, or a pattern such as sim/*", is_right=_is_pattern), "patterns", most=MAX_PATTERNS
        ).about("The tools that run there."),
        "offers": RESOURCES_FORM.about("What one call may ask for."),
        "labels": _LABELS.about("Labels for placement."),
    },
    needs="via",
    closed=True,
)

ENGINE_FORM: Final = Form(_engine, _FIELDS_OF_ENGINE.schema)
"""The form of the `config` of an engine."""
