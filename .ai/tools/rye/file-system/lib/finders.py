"""What `grep` answers of files that have a line that matches: their lines, their names, or how many there are.

Each kind goes through the files in order, up to the limit, and reads every one anew.

A search ends for a signal after some thousand steps, each of which may go through a whole line. So a line that
is very long is looked at only by a process that can be killed.
"""

from answers import shown
from children import in_time, results_of
from expressions import text_of
from files import Files

__all__ = ["FINDERS", "text_in"]

MAX_LINE_CHARACTERS = 400
"""How much of a line is shown."""

BEFORE_MATCH_CHARACTERS = 100
MAX_ANSWER_CHARACTERS = 256 * 1024
"""How much all lines together may be."""

LONG_LINE_CHARACTERS = 32 * 1024
"""From how many characters on a line may hold up a signal by more than a moment."""


class LongLine(Exception):
    """A line that is too long to be searched here."""


class Finder:
    """Looks for matches in files, one after the other, up to the limit."""

    NAME = ""

    def __init__(self, expression, params, prefix):
        self.expression, self.prefix = expression, prefix
        self.limit, self.context = params["limit"], params["context"]

    def found_in(self, root, paths, deadline):
        """What was found in files below an open directory, and whether there is more; TooLate for neither."""
        if self.expression.is_plain:
            return self._found(root, paths)
        try:
            return in_time(lambda: self._found(root, paths, only_short_lines=True), deadline)
        except LongLine:
            [found] = results_of([lambda: self._found(root, paths)], deadline)
            return found

    def _found(self, root, paths, *, only_short_lines=False):
        files, found = Files(root), []
        for path in paths:
            content = files.read(path)
            decoded = None if content is None else text_of(content)
            if decoded is None:
                continue
            if only_short_lines and has_long_line(decoded[0]):
                raise LongLine
            for each in self.each(shown(self.prefix + path), *decoded):
                if len(found) == self.limit or not self.has_room(each):
                    return found, True
                found.append(each)
        return found, False

    def has_room(self, each):
        """Whether one more can be answered."""
        return True

    def each(self, path, text, is_valid):
        """What is to be answered of one file."""
        raise NotImplementedError


class Lines(Finder):
    """The lines that match."""

    NAME = "matches"

    def _found(self, root, paths, **how):
        self._room = MAX_ANSWER_CHARACTERS
        return super()._found(root, paths, **how)

    def has_room(self, each):
        self._room -= len(each["text"]) + sum(map(len, (*each.get("before", ()), *each.get("after", ()))))
        return self._room >= 0

    def each(self, path, text, is_valid):
        for number, begin, end, at in self.expression.lines(text, is_valid):
            match = {"path": path, "line": number, "text": cut(text[begin:end], at - begin)}
            if self.context:
                match["before"] = before(text, begin, self.context)
                match["after"] = after(text, end, self.context)
            yield match


class Names(Finder):
    """The files."""

    NAME = "files"

    def each(self, path, text, is_valid):
        for _ in self.expression.lines(text, is_valid):
            yield path
            return


class Counts(Finder):
    """How many lines match in each file."""

    NAME = "counts"

    def each(self, path, text, is_valid):
        lines = sum(1 for _ in self.expression.lines(text, is_valid))
        if lines:
            yield {"path": path, "lines": lines}


def text_in(root, path):
    """The text of a file below an open directory; None for what is none, or cannot be read."""
    content = Files(root).read(path)
    return None if content is None else text_of(content)


FINDERS = {"lines": Lines, "files": Names, "count": Counts}


def has_long_line(text):
    """Whether a line of a text is a long one."""
    begin = 0
    while len(text) - begin > LONG_LINE_CHARACTERS:
        begin = text.rfind("\n", begin, begin + LONG_LINE_CHARACTERS + 1) + 1
        if not begin:
            return True
    return False


def before(text, begin, count):
    """The lines before a line."""
    lines = []
    while begin > 0 and len(lines) < count:
        end, begin = begin - 1, text.rfind("\n", 0, begin - 1) + 1
        lines.append(cut(text[begin:end], 0))
    return lines[::-1]


def after(text, end, count):
    """The lines behind a line."""
    lines = []
    while end + 1 < len(text) and len(lines) < count:
        begin = end + 1
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        lines.append(cut(text[begin:end], 0))
    return lines


def cut(line, at):
    """A line as it is shown; of a long one what is around the match."""
    line = line.removesuffix("\r")
    if len(line) > MAX_LINE_CHARACTERS:
        begin = max(0, min(at - BEFORE_MATCH_CHARACTERS, len(line) - MAX_LINE_CHARACTERS))
        end = begin + MAX_LINE_CHARACTERS
        line = f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
    if line.isascii():
        return line
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
