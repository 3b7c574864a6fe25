"""Patterns of paths, and what `.gitignore` says: both are made regular expressions that cannot explode.

Rules:

- `*` and `?` match anything but `/`, `**` any number of directories, `[a-z]` and `[!a-z]` one character,
  `{a,b}` either. A backslash takes the meaning from what follows.
- Whatever is between two stars is looked for once, from the left, and not tried again: time grows with the
  length of the path, not with the number of stars. Braces become at most 200 patterns.
- `Rules` are those of `.gitignore`, as far as their regular expressions have 256 KiB together: the last one that matches counts, `!` takes a path back in, `/` at the
  end means directories, and a pattern without another `/` matches a name at any depth.

    path_pattern("src/**/*.py").match("src/a/b.py")
"""

import os
import re
from itertools import pairwise

__all__ = ["BadPattern", "Rules", "path_pattern"]

MAX_ALTERNATIVES = 200
MAX_LENGTH = 4096
MAX_SOURCE_LENGTH = 1 << 18

ANY_NAME = "[^/]*"
ANY_DIRECTORIES = "(?:[^/]+/)*"


class BadPattern(ValueError):
    """A pattern that means nothing."""


def path_pattern(pattern):
    """A compiled pattern of whole paths; BadPattern when there can be none."""
    return _compiled(_alternatives(pattern))


def _alternatives(pattern):
    """The regular expressions of a pattern, one for each way to choose in braces."""
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(f"expected at most {MAX_LENGTH} characters, found {len(pattern)}")
    return [_path(each) for each in _expanded(pattern)]


def _compiled(sources):
    return re.compile("(?s:" + "|".join(sources) + r")\Z")


def _expanded(pattern):
    """The patterns that one with braces stands for."""
    waiting, found = [pattern], []
    while waiting:
        one = waiting.pop()
        braces = _first_braces(one)
        if braces is None:
            found.append(one)
        else:
            begin, end, choices = braces
            waiting += [one[:begin] + choice + one[end:] for choice in choices]
        if len(waiting) + len(found) > MAX_ALTERNATIVES:
            raise BadPattern(f"expected braces with at most {MAX_ALTERNATIVES} alternatives, found more")
    return found


def _first_braces(pattern):
    """Where the first braces begin and end, and what is to choose from in them."""
    depth, begin, marks = 0, 0, []
    for position, character in _plain(pattern):
        if character == "{":
            if not depth:
                begin = position
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if not depth:
                edges = [begin, *marks, position]
                return begin, position + 1, [pattern[a + 1 : b] for a, b in pairwise(edges)]
        elif character == "," and depth == 1:
            marks.append(position)
    if depth:
        raise BadPattern("expected a closing brace, found none")
    return None


def _plain(pattern):
    """The characters that are neither behind a backslash nor in brackets."""
    position = 0
    while position < len(pattern):
        if pattern[position] == "\\":
            position += 2
            continue
        if pattern[position] == "[" and (end := _bracket_end(pattern, position)):
            position = end
            continue
        yield position, pattern[position]
        position += 1


def _bracket_end(pattern, begin):
    """The position behind a bracket expression; None when it has no end."""
    position = begin + 1
    if pattern[position : position + 1] in ("!", "^"):
        position += 1
    position += 1  # a first ] is a character
    while position < len(pattern):
        if pattern[position] == "\\":
            position += 1
        elif pattern[position] == "]":
            return position + 1
        position += 1
    return None


def _path(pattern):
    """The regular expression of a pattern without braces."""
    runs, trailing = [[]], False
    for part in pattern.split("/"):
        if part == "**":
            if runs[-1] or len(runs) == 1:
                runs.append([])
            trailing = True
        else:
            runs[-1].append(_name(part))
            trailing = False
    if trailing:
        runs[-1] = ["(?:[^/]+/)*[^/]+"]
    first, *middle = ["/".join(run) for run in runs]
    if not middle:
        return first
    *middle, last = middle
    source = f"{first}/" if first else ""
    source += "".join(f"(?>(?:[^/]+/)*?{run}/)" for run in middle)
    return source + ("" if trailing else ANY_DIRECTORIES) + last


def _name(part):
    """The regular expression of one component."""
    segments, current, position = [], "", 0
    while position < len(part):
        character = part[position]
        if character == "*":
            segments.append(current)
            current = ""
            while part[position + 1 : position + 2] == "*":
                position += 1
        elif character == "?":
            current += "[^/]"
        elif character == "[":
            end = _bracket_end(part, position)
            if end is None:
                raise BadPattern("expected a closing bracket, found none")
            current += _brackets(part[position + 1 : end - 1])
            position = end - 1
        elif character == "\\":
            position += 1
            if position == len(part):
                raise BadPattern("expected a character behind the backslash, found none")
            current += re.escape(part[position])
        else:
            current += re.escape(character)
        position += 1
    segments.append(current)
    if len(segments) == 1:
        return current
    first, *middle, last = segments
    between = "".join(f"(?>[^/]*?{segment})" for segment in middle if segment)
    return f"{first}{between}{ANY_NAME}{last}"


def _brackets(inside):
    """A bracket expression; what is between the brackets."""
    negated = inside[:1] in ("!", "^")
    items, ranges, position = _characters(inside[negated:]), [], 0
    while position < len(items):
        if items[position + 1 : position + 2] == [None] and position + 2 < len(items):
            low, high = items[position], items[position + 2] or "-"
            if (low or "-") > high:
                raise BadPattern(f"expected a range that goes up, found {low}-{high}")
            ranges.append(f"{re.escape(low or '-')}-{re.escape(high)}")
            position += 3
        else:
            ranges.append(re.escape(items[position] or "-"))
            position += 1
    return f"(?!/)[{'^' if negated else ''}{''.join(ranges)}]"


def _characters(inside):
    """The characters of a bracket expression; None for a minus that may mean a range."""
    found, position = [], 0
    while position < len(inside):
        if inside[position] == "\\" and position + 1 < len(inside):
            position += 1
            found.append(inside[position])
        else:
            found.append(None if inside[position] == "-" else inside[position])
        position += 1
    return found


# --- rules ---


class Rules:
    """Lines as in `.gitignore`, for paths below the directory that they stand in.

    `size` is the length of their regular expressions, `is_cut` whether the last rules are left out for it.
    """

    def __init__(self, lines):
        self.rules, self.size, self.is_cut = [], 0, False
        for rule in map(_rule, map(_bytewise, lines)):
            if rule is not None:
                self.size += len(rule[-1])
                self.is_cut = self.size > MAX_SOURCE_LENGTH
                if self.is_cut:
                    break
                self.rules.append(rule)
        self._of_names = _any(source for _, _, of_name, _, source in self.rules if of_name)
        self._of_paths = _any(source for _, _, of_name, _, source in self.rules if not of_name)

    def verdict(self, path, name, *, is_directory):
        """True for a path that is left out, False for one taken in, None when no rule speaks of it."""
        if not path.isascii():
            path, name = _bytewise(path), _bytewise(name)
        by_name = self._of_names is not None and self._of_names.match(name)
        by_path = self._of_paths is not None and self._of_paths.match(path)
        if not by_name and not by_path:
            return None
        for negated, for_directories, of_name, pattern, _ in reversed(self.rules):
            if for_directories and not is_directory:
                continue
            if pattern.match(name if of_name else path):
                return not negated
        return None


def _bytewise(text):
    """A text with a character for each byte of it: `?` and brackets are bytes, for git and for ripgrep."""
    return text if text.isascii() else os.fsencode(text).decode("latin-1")


def _any(sources):
    sources = list(sources)
    return _compiled(sources) if sources else None


def _rule(line):
    """A line as (negated, for directories, of names, pattern, its source); None for what is no rule."""
    line = line.removesuffix("\n").removesuffix("\r")
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    negated = line.startswith("!")
    line = line[negated:]
    for_directories = line.endswith("/") and not line.endswith("\\/")
    line = line[: len(line) - for_directories]
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    try:
        source = "|".join(_alternatives(line))
        return negated, for_directories, not anchored, _compiled([source]), source
    except (BadPattern, re.error):
        return None  # as git, and ripgrep: it matches nothing
