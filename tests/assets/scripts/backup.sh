#!/usr/bin/env bash
#
# backup.sh - pack directories into a dated archive
#
set -euo pipefail

DEST=.
PREFIX=backup
QUIET=0
EXCLUDES=()

usage() {
  cat <<USAGE
Usage: $(basename "$0") [-q] [-d DIR] [-p PREFIX] [-x PATTERN]... PATH...
USAGE
}

log() {
  local level=$1; shift
  [ "$QUIET" -eq 1 ] || echo "[$level] $*"
}

while getopts ":d:p:x:qh" opt; do
  case "$opt" in
    d) DEST=$OPTARG ;;
    p) PREFIX="$OPTARG" ;;
    x) EXCLUDES+=("--exclude=$OPTARG") ;;
    q) QUIET=1 ;;
    h) usage; exit 0 ;;
    \?) echo "unknown option: -$OPTARG" >&2; usage >&2; exit 2 ;;
    :) echo "missing argument: -$OPTARG" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))

if [ $# -eq 0 ]; then
  usage >&2
  exit 2
fi

archive="$DEST/$PREFIX.tar"
tar -cf "$archive" ${EXCLUDES[@]+"${EXCLUDES[@]}"} -- "$@"
log info "wrote $archive"
tar -tf "$archive" | sort
