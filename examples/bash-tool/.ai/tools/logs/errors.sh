#!/usr/bin/env bash
# /// rye
# version: 1.0.0
# description: Count the errors in a log file of the project, by hour.
# executor_id: rye/core/runtimes/bash_runtime
# tags: [logs, errors]
# annotations: {title: Errors by hour, readOnlyHint: true}
# config_schema:
#   type: object
#   properties:
#     file: {type: string, default: app.log, description: "A log with lines that begin with a time such as 2026-11-18T09:00:00."}
#     word: {type: string, default: ERROR, description: What makes a line an error; not a pattern.}
#   additionalProperties: false
# examples:
#   - description: Two hours, and a line that is no error.
#     files: {app.log: "2026-11-18T09:01:00 ERROR a\n2026-11-18T09:02:00 INFO b\n2026-11-18T10:00:00 ERROR c\n"}
#     parameters: {}
#     expect: {data: {"2026-11-18T09": 1, "2026-11-18T10": 1}}
#   - description: What looks like a pattern is a word like any other.
#     files: {app.log: "2026-11-18T09:01:00 ERROR\n"}
#     parameters: {word: E.R}
#     expect: {data: {}}
#   - description: So is what looks like a command.
#     files: {app.log: "2026-11-18T09:01:00 $(id) happened\n"}
#     parameters: {word: $(id)}
#     expect: {data: {"2026-11-18T09": 1}}
# ///
set -euo pipefail

# A file that begins with a dash is a file, and a word is no pattern.
found=$(grep --fixed-strings --regexp="$RYE_PARAM_word" -- "./$RYE_PARAM_file" || [ $? -eq 1 ])
printf '%s' "$found" | cut -c1-13 | sort | uniq -c |
  awk 'BEGIN { printf "{" } { printf "%s\"%s\": %d", separator, $2, $1; separator = ", " } END { print "}" }'
