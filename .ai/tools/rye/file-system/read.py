"""Read a file of the project: lines of a text, a picture, or bytes as base64.

Text comes with line numbers, at most 2,000 lines and 64 KiB at once; what was cut is said, and `next_line` is
where to go on. A picture (PNG, JPEG, GIF, WebP) is shown as one. Every other file without text in it comes as
base64, a range of bytes at a time.
"""

import os

from answers import Refusal, answered
from contents import digest, is_binary, read_descriptor
from places import MAX_BYTES

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "read"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/file-system"
__tags__ = ["file", "read", "view", "text", "image", "lines"]

PERMISSIONS = {"project": "read"}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "description": "The file: relative to the project, or an absolute path in it.",
        },
        "start_line": {
            "type": "integer",
            "default": 1,
            "description": "The first line of a text, from 1; below 0 from the end: -20 for the last 20.",
        },
        "max_lines": {
            "type": "integer",
            "minimum": 1,
            "maximum": 20000,
            "default": 2000,
            "description": "How many lines of a text at most.",
        },
        "format": {
            "enum": ["auto", "numbered", "plain", "base64"],
            "default": "auto",
            "description": (
                "numbered: text with line numbers. plain: text as it is. base64: bytes. "
                "auto: numbered for text, pictures as pictures, base64 for the rest."
            ),
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "With base64: the first byte, from 0.",
        },
        "length": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1048576,
            "default": 49152,
            "description": "With base64: how many bytes at most.",
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "text": {"type": "string", "description": "The lines, numbered or plain."},
        "base64": {"type": "string"},
        "start_line": {"type": "integer"},
        "end_line": {"type": "integer", "description": "0 for an empty file."},
        "total_lines": {
            "type": ["integer", "null"],
            "description": "null when there are too many to count.",
        },
        "next_line": {"type": ["integer", "null"], "description": "Where to go on; null at the end."},
        "offset": {"type": "integer"},
        "next_offset": {"type": ["integer", "null"]},
        "encoding": {"type": "string"},
        "line_endings": {"enum": ["lf", "crlf", "mixed", "none"]},
        "size": {"type": "integer", "description": "Bytes of the whole file."},
        "sha256": {
            "type": ["string", "null"],
            "description": "Of the whole file: the expected_hash of edit and write. null when too large.",
        },
        "mime_type": {"type": "string"},
        "cut": {"type": "array", "items": {"type": "string"}, "description": "What was left out, and why."},
    },
    "required": ["path", "size", "sha256"],
}

# A picture, as base64, and what surrounds it.
CONFIG = {"timeout": 60, "max_output": 8388608}

ANNOTATIONS = {
    "title": "Read a file",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

ANCHOR = {"mode": "always", "env_paths": {"PYTHONPATH": {"prepend": ["{anchor_path}/lib"]}}}

EXAMPLES = [
    {
        "description": (
            "Show a few lines of a file, with their numbers. Open a document and read it. What is "
            "written in this text file? Show me the source code of a script. Display the content of "
            "the readme."
        ),
        "parameters": {"path": "notes.txt", "start_line": 2, "max_lines": 2},
        "files": {"notes.txt": "one\ntwo\nthree\nfour\n"},
        "expect": {
            "contains": {"text": "     2\ttwo\n     3\tthree\n", "total_lines": 4, "next_line": 4},
        },
    },
    {
        "description": (
            "What are the last lines of a log? View an image or a screenshot. See a photo. Print the "
            "first lines of a table. Load a configuration."
        ),
        "parameters": {"path": "run.log", "start_line": -1, "format": "plain"},
        "files": {"run.log": "begun\nfailed\n"},
        "expect": {"contains": {"text": "failed\n", "start_line": 2}},
    },
    {
        "description": "Read the bytes of a binary file.",
        "parameters": {"path": "../secret.txt"},
        "expect": {"code": "tool_failed"},
    },
]

MAX_TEXT_BYTES = 64 * 1024
"""How much text is answered at once."""

MAX_LINE_CHARACTERS = 2000
"""How much of one line is shown with its number."""

MAX_PICTURE_BYTES = 3840 * 1024
"""How large a picture is shown: 5 MiB as base64, which is what models take."""

MAX_TRANSCODED_BYTES = 16 * 1024 * 1024
"""How large a file may be that is UTF-16."""

CHUNK_BYTES = 1 << 20

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = b"\xef\xbb\xbf"


@answered
def execute(params, project):
    """The answer for a file."""
    with project.find(params["path"]) as place:
        descriptor = place.open()
        source = Source(descriptor, place)
        form = params["format"]
        if form == "auto":
            form = source.form()
        about = {"path": place.shown, "size": source.size, "sha256": source.sha256}
        if form == "picture":
            return picture(source, about)
        if form == "base64":
            return about | piece(source, params["offset"], params["length"])
        return about | text(source, params, numbered=form == "numbered")


class Source:
    """An open file; the whole of it when it is small enough to be held."""

    def __init__(self, descriptor, place):
        self.descriptor, self.place = descriptor, place
        self.size = os.fstat(descriptor).st_size
        self.whole = read_descriptor(descriptor, place) if self.size <= MAX_BYTES else None
        if self.whole is not None:
            self.size = len(self.whole)
        self.head = os.pread(descriptor, 8192, 0) if self.whole is None else self.whole[:8192]

    @property
    def sha256(self):
        return None if self.whole is None else digest(self.whole)

    def form(self):
        """How it is answered when nobody says how."""
        if mime_type(self.head):
            return "picture"
        if self.head.startswith(UTF_16):
            return "numbered"
        return "base64" if is_binary(self.head if self.whole is None else self.whole) else "numbered"

    def chunks(self):
        """The content, a piece at a time."""
        if self.whole is not None:
            yield self.whole
            return
        offset = 0
        while chunk := os.pread(self.descriptor, CHUNK_BYTES, offset):
            offset += len(chunk)
            yield chunk


# --- text ---


def text(source, params, *, numbered):
    """Some lines of a text."""
    encoding, chunks, total = decoded(source)
    start = first_line(params["start_line"], total, source.place)
    raw, cut = window(chunks, start, params["max_lines"])
    if not raw and start > 1:
        found = f"start_line {start}" + ("" if total is None else f" of {total}")
        what = f"expected a line of the file, found {found}: {source.place.shown}"
        raise Refusal(what, "start_line: -20 is the end of a file")
    shown, count, left_out = rendered(raw, start, numbered=numbered)
    end = start + count - 1
    if cut == "line":
        left_out.append(f"line {end}: all behind its first {MAX_TEXT_BYTES} bytes")
    more = end < total if total is not None else cut is not None
    if more:
        left_out.append(f"lines from {end + 1} on")
    answer = {"text": shown, "start_line": start, "end_line": end if count else 0, "total_lines": total}
    answer |= {"next_line": end + 1 if more else None}
    answer |= {"encoding": encoding, "line_endings": line_endings(raw)}
    return answer | ({"cut": left_out} if left_out else {})


def decoded(source):
    """The encoding, the content in UTF-8, and how many lines it has."""
    whole = source.whole
    if whole is None:
        return "utf-8", source.chunks(), None
    encoding = "utf-8"
    if whole.startswith(UTF_16):
        if len(whole) > MAX_TRANSCODED_BYTES:
            what = f"expected at most {MAX_TRANSCODED_BYTES} bytes of UTF-16, found {len(whole)}"
            raise Refusal(what, "convert it first: iconv -f UTF-16 -t UTF-8")
        encoding, whole = "utf-16", whole.decode("utf-16", "replace").encode("utf-8", "replace")
    elif whole.startswith(UTF_8_MARK):
        encoding, whole = "utf-8 with a byte order mark", whole[len(UTF_8_MARK) :]
    elif not is_utf_8(whole):
        encoding = "not utf-8: what is none is shown as \ufffd"
    total = whole.count(b"\n") + (not whole.endswith(b"\n") and bool(whole))
    return encoding, iter([whole]), total


def is_utf_8(content):
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def first_line(start, total, place):
    """The number of the first line, from 1."""
    if start > 0:
        return start
    if start == 0:
        raise Refusal("expected a line from 1, or below 0 from the end, found start_line 0", "start_line: 1")
    if total is None:
        what = (
            f"expected a file of at most {MAX_BYTES} bytes to count from its end, found more: {place.shown}"
        )
        raise Refusal(what, "use rye/bash/bash: tail -n 20")
    return max(1, total + start + 1)


def window(chunks, start, count):
    """So many lines from one on, as they are, and what ended them: `lines`, `line` when the only one was too
    long, or None at the end of the file.

    A file of any size is passed through a piece at a time.
    """
    before, kept, lines = start - 1, bytearray(), 0
    for chunk in chunks:
        begin = 0
        if before:
            here = chunk.count(b"\n")
            if here < before:
                before -= here
                continue
            begin, before = behind_newlines(chunk, before), 0
        while begin < len(chunk):
            if lines == count:
                return bytes(kept), "lines"
            newline = chunk.find(b"\n", begin)
            end = len(chunk) if newline < 0 else newline + 1
            if len(kept) + end - begin > MAX_TEXT_BYTES:
                return full(kept, chunk[begin:end])
            kept += chunk[begin:end]
            lines, begin = lines + (newline >= 0), end
    return bytes(kept), None


def full(kept, piece):
    """What is answered when a piece has no room: whole lines, or the beginning of the first one."""
    if b"\n" in kept:
        return bytes(kept[: kept.rfind(b"\n") + 1]), "lines"
    return whole_characters(bytes(kept + piece[: MAX_TEXT_BYTES - len(kept)])), "line"


def whole_characters(content):
    """Bytes without a character that was cut at their end."""
    for back in range(1, 4):
        if content[-back] & 0xC0 != 0x80:
            return content[:-back] if content[-back] >= 0xC0 else content
    return content


def behind_newlines(chunk, count):
    """The position behind so many newlines."""
    position = 0
    for _ in range(count):
        position = chunk.index(b"\n", position) + 1
    return position


def rendered(raw, start, *, numbered):
    """The lines as they are shown, how many there are, and what was cut of them."""
    content = raw.decode("utf-8", "replace")
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    if not numbered:
        return content, len(lines), []
    out, cut = [], []
    for number, raw_line in enumerate(lines, start):
        line = raw_line.removesuffix("\r")
        if len(line) > MAX_LINE_CHARACTERS:
            cut.append(f"line {number}: {len(line) - MAX_LINE_CHARACTERS} characters at its end")
        shortened = f"{line[:MAX_LINE_CHARACTERS]} […]" if len(line) > MAX_LINE_CHARACTERS else line
        out.append(f"{number:>6}\t{shortened}\n")
    if len(cut) > 5:
        cut[5:] = [f"the ends of {len(cut) - 5} more lines"]
    return "".join(out), len(lines), cut


def line_endings(raw):
    """How the lines that were read end."""
    newlines, carriage = raw.count(b"\n"), raw.count(b"\r\n")
    if not newlines:
        return "none"
    return "mixed" if 0 < carriage < newlines else "crlf" if carriage else "lf"


# --- bytes ---


def piece(source, offset, length):
    """A range of bytes."""
    import base64

    if offset > source.size or (offset == source.size and offset):
        what = f"expected an offset below {source.size}, found {offset}: {source.place.shown}"
        raise Refusal(what, "offset: 0")
    found = os.pread(source.descriptor, length, offset)
    end = offset + len(found)
    answer = {"base64": base64.b64encode(found).decode(), "offset": offset}
    if end < source.size:
        return answer | {"next_offset": end, "cut": [f"bytes from {end} on, of {source.size}"]}
    return answer | {"next_offset": None}


def mime_type(head):
    """The type of a picture that models can see; None for everything else. Content counts, not names."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    kinds = {
        b"\x89PNG\r\n\x1a\n": "image/png",
        b"\xff\xd8\xff": "image/jpeg",
        b"GIF87a": "image/gif",
        b"GIF89a": "image/gif",
    }
    return next((kind for magic, kind in kinds.items() if head.startswith(magic)), None)


def picture(source, about):
    """A picture, as a content block of MCP."""
    import base64

    if source.size > MAX_PICTURE_BYTES:
        what = (
            f"expected a picture of at most {MAX_PICTURE_BYTES} bytes, found {source.size}: {about['path']}"
        )
        raise Refusal(what, "make it smaller, or read its bytes with format base64")
    kind = mime_type(source.head)
    block = {"type": "image", "data": base64.b64encode(source.whole).decode(), "mimeType": kind}
    return {"content": [block], "structuredContent": about | {"mime_type": kind}}
