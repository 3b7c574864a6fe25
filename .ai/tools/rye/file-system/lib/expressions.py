"""What `grep` looks for: one regular expression, for Python and for ripgrep, with one meaning.

Rules:

- It is written as for Python's `re`. What was read of it is written out again for each engine, so that a
  class, a dot and `\\w` are the same characters in both. What ripgrep cannot do (looking around, going back
  to a group) is left to Python: `for_ripgrep` is None then.
- It matches within a line: nothing in it matches a newline, and one that asks for a newline is refused. `^`
  and `$` are the ends of a line.
- A file is text in UTF-8, or in UTF-16 with its mark, and has no NUL byte. Bytes that are not UTF-8 are
  matched by nothing.
"""

import re
import re._constants as op
import re._parser as parser
import warnings

from answers import Refusal

__all__ = ["Expression", "text_of"]

MAX_LENGTH = 4096

FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE
"""What an expression may say about itself: `(?i)`."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = b"\xef\xbb\xbf"


class Untranslatable(Exception):
    """Nothing that ripgrep can do."""


class Expression:
    """What is looked for in lines.

    `required` are bytes that every match has, in each file that is UTF-8; empty when there are none.
    `is_plain` says that it is a text as it stands: no file is so large that it is not found in no time.
    """

    def __init__(self, pattern, *, literal, ignore_case):
        if not pattern:
            raise Refusal("expected a pattern, found an empty one", "say what to look for")
        if len(pattern) > MAX_LENGTH:
            raise Refusal(f"expected a pattern of at most {MAX_LENGTH} characters, found {len(pattern)}", "")
        tree, ignore_case = parsed(re.escape(pattern) if literal else pattern, ignore_case)
        flag = "(?i)" if ignore_case else ""
        try:
            self._strict_source = flag + Python().sequence(tree)
            self._broken_source = flag + Python(broken=True).sequence(tree)
        except RecursionError as exc:
            raise unusable(exc) from None
        self._strict = self._broken = None
        self.is_plain = not ignore_case and all(what is op.LITERAL for what, _ in flattened(tree))
        self.required = b"" if ignore_case else required_literal(tree)
        try:
            self.for_ripgrep = flag + Rust().sequence(tree)
        except Untranslatable:
            self.for_ripgrep = None

    def prepare(self):
        """Make it ready to look with; a refusal when it cannot be."""
        try:
            self._strict = re.compile(self._strict_source, re.MULTILINE)
        except (RecursionError, OverflowError, re.error) as exc:
            raise unusable(exc) from None

    def is_in(self, content):
        """Whether a file has a line that matches."""
        if self.required and self.required not in content and not content.startswith(UTF_16):
            return False
        found = text_of(content)
        return found is not None and next(self.lines(*found), None) is not None

    def lines(self, text, is_valid):
        """The lines that match: number, where each begins and ends, and where the first match begins."""
        search = (self.strict if is_valid else self.broken).search
        position, counted, number, length = 0, 0, 1, len(text)
        while position < length and (match := search(text, position)) is not None:
            at = match.start()
            if at == length and text.endswith("\n"):
                return  # what is behind the last newline is no line
            begin = text.rfind("\n", 0, at) + 1
            end = text.find("\n", at)
            end = length if end < 0 else end
            number += text.count("\n", counted, begin)
            counted = begin
            yield number, begin, end, at
            position = end + 1

    @property
    def strict(self):
        """The expression for files that are UTF-8."""
        if self._strict is None:
            self.prepare()
        return self._strict

    @property
    def broken(self):
        """The expression for files that are not UTF-8."""
        if self._broken is None:
            self._broken = re.compile(self._broken_source, re.MULTILINE)
        return self._broken


def unusable(exc):
    """The refusal of what Python reads, and cannot look for."""
    return Refusal(f"expected a pattern that can be used, found: {exc}", "make it simpler")


def text_of(content):
    """A file as text, and whether all of it was UTF-8; None for what is no text."""
    if content.startswith(UTF_16):
        return content.decode("utf-16", "replace").removeprefix("\ufeff"), True
    if b"\0" in content:
        return None
    content = content.removeprefix(UTF_8_MARK)
    try:
        return content.decode(), True
    except UnicodeDecodeError:
        return content.decode("utf-8", "surrogateescape"), False


def parsed(pattern, ignore_case):
    """What was read of an expression, and whether case counts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError, Warning) as exc:
        hint = "escape what is meant literally with a backslash, or say literal: true"
        raise Refusal(f"expected a regular expression of Python, found: {exc}", hint) from None
    if tree.state.flags & ~FLAGS:
        raise Refusal("expected no flags but i, m, s and x, found others", "leave them out")
    return tree, ignore_case or bool(tree.state.flags & re.IGNORECASE)


def required_literal(tree):
    """The longest text that every match has, in UTF-8."""
    runs = [""]
    for what, value in flattened(tree):
        if what is op.LITERAL:
            runs[-1] += chr(value)
        else:
            runs.append("")
    return max((run.encode("utf-8", "surrogatepass") for run in runs), key=len)


def flattened(tree):
    """The parts of a sequence, with those of plain groups among them."""
    for what, value in tree:
        if what is op.SUBPATTERN and not value[1] and not value[2]:
            yield from flattened(value[3])
        else:
            yield what, value


class Python:
    """Writes an expression for Python."""

    NEWLINE = "\\n"
    CATEGORIES = {
        op.CATEGORY_DIGIT: "\\d",
        op.CATEGORY_NOT_DIGIT: "\\D",
        op.CATEGORY_SPACE: "\\s",
        op.CATEGORY_NOT_SPACE: "\\S",
        op.CATEGORY_WORD: "\\w",
        op.CATEGORY_NOT_WORD: "\\W",
    }
    PLACES = {
        op.AT_BEGINNING: "^",
        op.AT_BEGINNING_STRING: "^",
        op.AT_END: "$",
        op.AT_END_STRING: "$",
        op.AT_BOUNDARY: "\\b",
        op.AT_NON_BOUNDARY: "\\B",
    }

    def __init__(self, *, broken=False):
        self.never = "\\n\\udc80-\\udcff" if broken else "\\n"

    def sequence(self, tree):
        """The expression of parts in a row."""
        return "".join(self.part(what, value) for what, value in tree)

    def part(self, what, value):
        """The expression of one part."""
        write = getattr(self, str(what).lower(), None)
        if write is None:
            raise Untranslatable(str(what))
        return write(value)

    def literal(self, code):
        if code == 10:
            raise Refusal(
                "expected a pattern within one line, found one with a newline", "look for one line of it"
            )
        return self.character(code)

    def character(self, code):
        """One character, as it stands in and out of classes."""
        character = chr(code)
        if character.isalnum() and code < 128:
            return character
        return f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"

    def not_literal(self, code):
        return f"[^{self.character(code)}{self.never}]"

    def any(self, _):
        return f"[^{self.never}]"

    def in_(self, items):
        """A class of characters."""
        negated = items[0][0] is op.NEGATE
        inside = "".join(self.item(*each) for each in items if each[0] is not op.NEGATE)
        if negated:
            return f"[^{inside}{self.never}]"
        return f"(?![{self.never}])[{inside}]"

    def item(self, what, value):
        """One item of a class."""
        if what is op.LITERAL:
            return self.character(value)
        if what is op.RANGE:
            return f"{self.character(value[0])}-{self.character(value[1])}"
        return self.CATEGORIES[value]

    def branch(self, value):
        return f"(?:{'|'.join(map(self.sequence, value[1]))})"

    def subpattern(self, value):
        group, added, removed, tree = value
        if (added | removed) & ~FLAGS:
            raise Refusal("expected no flags but i, m, s and x, found others", "leave them out")
        inside = self.sequence(tree)
        if (added | removed) & re.IGNORECASE:
            inside = f"(?{'i' if added & re.IGNORECASE else '-i'}:{inside})"
        return self.group(group, inside)

    def group(self, number, inside):
        """A group; it has to be counted, as others may go back to it."""
        return f"(?:{inside})" if number is None else f"({inside})"

    def max_repeat(self, value, suffix=""):
        least, most, tree = value
        times = f"{{{least},{'' if most is op.MAXREPEAT else most}}}"
        return f"(?:{self.sequence(tree)}){times}{suffix}"

    def min_repeat(self, value):
        return self.max_repeat(value, "?")

    def at(self, where):
        return self.PLACES[where]

    def possessive_repeat(self, value):
        return self.max_repeat(value, "+")

    def atomic_group(self, tree):
        return f"(?>{self.sequence(tree)})"

    def assert_(self, value):
        return f"(?{'=' if value[0] > 0 else '<='}{self.sequence(value[1])})"

    def assert_not(self, value):
        return f"(?{'!' if value[0] > 0 else '<!'}{self.sequence(value[1])})"

    def groupref(self, number):
        return f"(?:\\{number})"

    def groupref_exists(self, value):
        number, yes, no = value
        return f"(?({number}){self.sequence(yes)}{'|' + self.sequence(no) if no else ''})"

    def failure(self, _):
        return "(?!)"


setattr(Python, "in", Python.in_)
setattr(Python, "assert", Python.assert_)


class Rust(Python):
    """Writes an expression for ripgrep."""

    CATEGORIES = {
        op.CATEGORY_DIGIT: "\\d",
        op.CATEGORY_NOT_DIGIT: "\\D",
        op.CATEGORY_SPACE: "\\s\\x1c-\\x1f",
        op.CATEGORY_NOT_SPACE: "[^\\s\\x1c-\\x1f]",
        op.CATEGORY_WORD: "\\p{L}\\p{N}_",
        op.CATEGORY_NOT_WORD: "[^\\p{L}\\p{N}_]",
    }

    def __init__(self):
        self.never = "\\n"

    def part(self, what, value):
        if what in NOT_OF_RUST:
            raise Untranslatable(str(what))
        return super().part(what, value)

    def character(self, code):
        if 0xD800 <= code < 0xE000:
            raise Untranslatable("half a surrogate pair")
        return chr(code) if chr(code).isalnum() and code < 128 else f"\\x{{{code:x}}}"

    def in_(self, items):
        negated = items[0][0] is op.NEGATE
        inside = "".join(self.item(*each) for each in items if each[0] is not op.NEGATE)
        return f"[^{inside}\\n]" if negated else f"[[{inside}]&&[^\\n]]"

    def group(self, number, inside):
        return f"(?:{inside})"


setattr(Rust, "in", Rust.in_)

NOT_OF_RUST = {
    op.POSSESSIVE_REPEAT,
    op.ATOMIC_GROUP,
    op.ASSERT,
    op.ASSERT_NOT,
    op.GROUPREF,
    op.GROUPREF_EXISTS,
    op.FAILURE,
}
