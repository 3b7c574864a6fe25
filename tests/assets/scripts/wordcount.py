#!/usr/bin/env python3
"""Count words in text files and print the most frequent ones."""

import argparse
import collections
import re
import sys

CONFIG = dict(pattern=r"[A-Za-z']+")
__version__ = "2." + "1"
FORMATS = ("text", "csv")


def build_parser():
    parser = argparse.ArgumentParser(description="Count words.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="files to read")
    parser.add_argument("-n", "--top", type=int, default=3, help="how many words to print (default: %(default)s)")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="fold case first")
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=FORMATS, default="text")
    output.add_argument("-x", "--exclude", action="append", default=[], help="a word to leave out; may be repeated")
    parser.add_argument("-v", "--verbose", action="count", default=0)
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def main(argv=None):
    args = build_parser().parse_args(argv)
    words = collections.Counter()
    for name in args.files:
        with open(name, encoding="utf-8") as stream:
            text = stream.read()
        words.update(re.findall(CONFIG["pattern"], text.lower() if args.ignore_case else text))
    for word in args.exclude:
        words.pop(word, None)
    if args.verbose > 1:
        print(f"{len(words)} different words", file=sys.stderr)
    for word, count in sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))[: args.top]:
        print(f"{word},{count}" if args.format == "csv" else f"{count:6} {word}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
