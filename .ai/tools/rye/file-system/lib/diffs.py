"""A unified diff of changes that are known: it is made of them, and need not be looked for.

A change has `start` and `end`, the bytes that it replaces, and `new`, what comes in their place. Changes are
in order, and do not overlap.
"""

from bisect import bisect_left, bisect_right

__all__ = ["diff"]

CONTEXT_LINES = 3
MAX_DIFF_CHARACTERS = 48 * 1024


def diff(name, old, changes):
    """The changes of a file as a unified diff."""
    lines = split_lines(old)
    out = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    shift = 0
    for first, last, new in hunks(old, lines, changes):
        begin, end = max(0, first - CONTEXT_LINES), min(len(lines), last + CONTEXT_LINES)
        body = [*marked(" ", lines[begin:first]), *new, *marked(" ", lines[last:end])]
        added = sum(line[0] in "+ " for line in body)
        removed = sum(line[0] in "- " for line in body)
        out.append(f"@@ -{span(begin, removed)} +{span(begin + shift, added)} @@\n")
        out += body
        shift += added - removed
    return shortened("".join(out))


def split_lines(content):
    """Lines, of which only newlines are the ends."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def span(begin, count):
    return f"{begin + 1 if count else begin},{count}"


class Region:
    """Lines that change together: from `first` up to `last`, and the changes in them."""

    def __init__(self, first, last):
        self.first, self.last, self.changes = first, last, []
        self._position, self._end = None, b""

    def add(self, old, change, last, begin):
        """Take a change in; `begin` is where the first line of the region begins."""
        self._pass(old, begin if self._position is None else self._position, change.start)
        self._end = change.new[-1:] or self._end
        self._position = change.end
        self.changes.append(change)
        self.last = max(self.last, last)

    def is_open(self, old, starts):
        """Whether what it becomes runs into the line behind it."""
        self._pass(old, self._position, starts[self.last])
        self._position = starts[self.last]
        return self.last + 1 < len(starts) and self._end not in (b"", b"\n")

    def _pass(self, old, begin, end):
        if begin < end:
            self._end = old[end - 1 : end]


def regions(old, starts, changes):
    """All regions, in order."""
    found = []
    for change in changes:
        first = bisect_right(starts, change.start) - 1
        last = bisect_left(starts, change.end)
        if found and first >= found[-1].last and found[-1].is_open(old, starts):
            found[-1].last += 1
        if not found or first >= found[-1].last:
            found.append(Region(first, last))
        found[-1].add(old, change, last, starts[first])
    if found and found[-1].is_open(old, starts):
        found[-1].last += 1
    return found


def hunks(old, lines, changes):
    """The changed lines: the first, behind the last, and what stands there in the diff."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    groups = []
    for region in regions(old, starts, changes):
        if groups and region.first < groups[-1][-1].last + 2 * CONTEXT_LINES:
            groups[-1].append(region)
        else:
            groups.append([region])
    for group in groups:
        body, position = [], group[0].first
        for region in group:
            begin, end = starts[region.first], starts[region.last]
            new = split_lines(rewritten(old, begin, end, region.changes))
            body += marked(" ", lines[position : region.first]) + compared(
                lines[region.first : region.last], new
            )
            position = region.last
        yield group[0].first, position, body


def compared(old, new):
    """Old lines and new ones, without those that both begin and end with."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    removed, added = old[same : len(old) - tail], new[same : len(new) - tail]
    return [
        *marked(" ", old[:same]),
        *marked("-", removed),
        *marked("+", added),
        *marked(" ", old[len(old) - tail :]),
    ]


def rewritten(old, begin, end, changes):
    """A part of the content with its changes."""
    pieces, position = [], begin
    for change in changes:
        pieces += old[position : change.start], change.new
        position = change.end
    return b"".join([*pieces, old[position:end]])


def marked(mark, lines):
    """Lines of a diff."""
    out = []
    for line in lines:
        text = line.decode("utf-8", "replace")
        out.append(
            f"{mark}{text}" if text.endswith("\n") else f"{mark}{text}\n\\ No newline at end of file\n"
        )
    return out


def shortened(text):
    """A diff without its middle when it is too long."""
    if len(text) <= MAX_DIFF_CHARACTERS:
        return text
    half = MAX_DIFF_CHARACTERS // 2
    omitted = len(text) - 2 * half
    return f"{text[:half]}\n[… {omitted} characters of the diff left out …]\n{text[-half:]}"
