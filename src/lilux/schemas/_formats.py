"""The formats of JSON Schema 2020-12, checked without further packages and in time proportional to the text.

The `format` extra of `jsonschema` needs a dozen packages, 1.7 s to import. Internationalised names are
checked for their shape only. A format without a check accepts everything.
"""

from __future__ import annotations

import calendar
import ipaddress
import re
from collections.abc import Callable
from typing import Final

from lilux.schemas._patterns import PatternError, compile_pattern

__all__ = ["FORMATS", "fits"]

_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])(\d\d):(\d\d))", re.ASCII)
_DURATION: Final = re.compile(
    r"P(?:\d+W|(?=\d|T\d)(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)?"
    r"(?:T(?=\d)(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)",
    re.ASCII,
)
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_POINTER: Final = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_RELATIVE_POINTER: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)")

_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_IDN_DOTS: Final = re.compile("[.\u3002\uff0e\uff61]")
_IDN_LABEL: Final = re.compile(r"(?!-)(?:[A-Za-z0-9-]|[^\x00-\x7f\s])+(?<!-)")

_ATEXT: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_IDN_ATEXT: Final = rf"(?:{_ATEXT}|[^\x00-\x7f\s])"
_ATOM: Final = re.compile(rf"{_ATEXT}+(?:\.{_ATEXT}+)*")
_IDN_ATOM: Final = re.compile(rf"{_IDN_ATEXT}+(?:\.{_IDN_ATEXT}+)*")
_QUOTED: Final = re.compile(r'"(?:[ !#-\[\]-~]|\\[ -~])*"')
_IDN_QUOTED: Final = re.compile(r'"(?:[ !#-\[\]-~]|[^\x00-\x7f]|\\[ -~])*"')

_ESCAPED: Final = r"%[0-9A-Fa-f]{2}"
_PLAIN: Final = r"A-Za-z0-9\-._~!$&'()*+,;="
_BEYOND: Final = (
    "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    "\U00010000-\U0001fffd\U00020000-\U0002fffd\U00030000-\U0003fffd\U000e1000-\U000efffd"
)
_PRIVATE: Final = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FUTURE: Final = re.compile(rf"[vV][0-9A-Fa-f]+\.[{_PLAIN}:]+")
_PORT: Final = re.compile(r"[0-9]*")
_VARIABLE: Final = (
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\*)?"
)
_EXPRESSION: Final = re.compile(rf"[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*")
_LITERAL: Final = re.compile(rf"(?:[^\x00-\x20\x7f\"'%<>\\^`{{|}}]|'|{_ESCAPED})*")


def fits(name: object, text: str) -> bool:
    """Whether a text has a format; every text has one that is not known."""
    check = FORMATS.get(name) if isinstance(name, str) else None
    return check is None or check(text)


# --- dates and times --------------------------------------------------------------


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    # The calendar of 0000 is that of 2000: both are leap years.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 2000, month)[1]


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    hour, minute, second, away_hours, away_minutes = (int(found[place] or 0) for place in (1, 2, 3, 5, 6))
    if max(hour, away_hours) > 23 or max(minute, away_minutes) > 59 or second > 60:
        return False
    away = (away_hours * 60 + away_minutes) * (-1 if found[4] == "-" else 1)
    # Only the last minute of a day in UTC can have a leap second.
    return second < 60 or (hour * 60 + minute - away) % (24 * 60) == 23 * 60 + 59


def _is_date_time(text: str) -> bool:
    return text[10:11] in {"T", "t"} and _is_date(text[:10]) and _is_time(text[11:])


# --- names and addresses ----------------------------------------------------------


def _is_hostname(text: str) -> bool:
    return 0 < len(text) <= 253 and all(_LABEL.fullmatch(label) for label in text.split("."))


def _is_idn_hostname(text: str) -> bool:
    labels = _IDN_DOTS.split(text)
    return len(text) <= 253 and all(len(label) <= 63 and _IDN_LABEL.fullmatch(label) for label in labels)


def _is_ip(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return text.isascii() and "%" not in text

    return check


_is_ipv4 = _is_ip(ipaddress.IPv4Address)
_is_ipv6 = _is_ip(ipaddress.IPv6Address)


def _is_email(
    atom: re.Pattern[str], quoted: re.Pattern[str], host: Callable[[str], bool]
) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        local, at, domain = text.rpartition("@")
        if not at or len(text) > 320 or not (atom.fullmatch(local) or quoted.fullmatch(local)):
            return False
        if domain[:1] == "[" and domain[-1:] == "]":
            address = domain[1:-1]
            return _is_ipv6(address[5:]) if address[:5].lower() == "ipv6:" else _is_ipv4(address)
        return host(domain)

    return check


# --- URIs -------------------------------------------------------------------------


def _characters(extra: str, beyond: str) -> re.Pattern[str]:
    return re.compile(rf"(?:[{_PLAIN}{extra}{beyond}]|{_ESCAPED})*")


def _is_uri(beyond: str, *, absolute: bool) -> Callable[[str], bool]:
    path, query = _characters(":@/", beyond), _characters(":@/?", beyond + (_PRIVATE if beyond else ""))
    fragment, host, user = _characters(":@/?", beyond), _characters("", beyond), _characters(":", beyond)

    def check(text: str) -> bool:
        scheme = _SCHEME.match(text)
        rest = text[scheme.end() :] if scheme else text
        rest, _, last = rest.partition("#")
        rest, _, asked = rest.partition("?")
        if rest.startswith("//"):
            authority, slash, rest = rest[2:].partition("/")
            rest = slash + rest
            if not _is_authority(authority, host, user):
                return False
        elif scheme is None and ":" in rest.partition("/")[0]:
            return False
        parts = (path, rest), (query, asked), (fragment, last)
        return not (absolute and scheme is None) and all(kind.fullmatch(part) for kind, part in parts)

    return check


def _is_authority(text: str, host: re.Pattern[str], user: re.Pattern[str]) -> bool:
    who, _, where = text.rpartition("@")
    if not user.fullmatch(who):
        return False
    if where.startswith("["):
        address, bracket, port = where[1:].partition("]")
        known = bool(bracket) and (_is_ipv6(address) or _FUTURE.fullmatch(address) is not None)
        return known and (not port or (port[0] == ":" and _PORT.fullmatch(port[1:]) is not None))
    name, _, port = where.partition(":")
    return host.fullmatch(name) is not None and _PORT.fullmatch(port) is not None


def _is_uri_template(text: str) -> bool:
    pieces = text.replace("}", "{").split("{")
    opened = [char for char in text if char in "{}"]
    return opened == ["{", "}"] * (len(opened) // 2) and all(
        (_EXPRESSION if position % 2 else _LITERAL).fullmatch(piece) for position, piece in enumerate(pieces)
    )


def _is_pattern(text: str) -> bool:
    try:
        compile_pattern(text)
    except PatternError:
        return False
    return True


def _whole(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_date_time,
    "duration": _whole(_DURATION),
    "email": _is_email(_ATOM, _QUOTED, _is_hostname),
    "idn-email": _is_email(_IDN_ATOM, _IDN_QUOTED, _is_idn_hostname),
    "hostname": _is_hostname,
    "idn-hostname": _is_idn_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "uri": _is_uri("", absolute=True),
    "uri-reference": _is_uri("", absolute=False),
    "iri": _is_uri(_BEYOND, absolute=True),
    "iri-reference": _is_uri(_BEYOND, absolute=False),
    "uri-template": _is_uri_template,
    "uuid": _whole(_UUID),
    "json-pointer": _whole(_POINTER),
    "relative-json-pointer": _whole(_RELATIVE_POINTER),
    "regex": _is_pattern,
}
"""Each format and its check, for texts."""
