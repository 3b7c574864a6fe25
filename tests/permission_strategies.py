"""Any permissions at all, out of a small world in which they often have something in common."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rye_mcp.permissions import ANY_HOST, UNCONFINED, USES, Access, Host, Permissions, Requirement

__all__ = ["KEYS", "PATHS", "anything", "confined"]

HOSTS = [Host(name, port) for name in ("a.org", "*.a.org", "b.a.org", "*.b.a.org") for port in (443, 80)]
PATHS = ["/srv", "/srv/a", "/srv/ab", "/srv/a/b", "~/data", "~/data/x"]
ITEMS = ["demo/*", "demo/hello", "demo", "demo/deep/*", "demo/deep/er", "other"]


def some(values: list[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), max_size=3)


KEYS: dict[str, st.SearchStrategy[Any]] = {
    "project": st.sampled_from(Access),
    "net": st.frozensets(st.sampled_from([*HOSTS, ANY_HOST]), max_size=3),
    "env": some(["A", "B"]),
    "secrets": some(["C", "D"]),
    "uses": some([*USES]),
    "read": some(PATHS),
    "write": some(PATHS),
    "calls": some(ITEMS),
    "require": st.sampled_from(Requirement),
}
"""Every key of permissions, with values that it may have: a test compares them."""

confined = st.builds(Permissions, **KEYS)
anything = st.one_of(confined, confined, confined, st.just(UNCONFINED), st.just(Permissions()))
