#!/bin/sh
# Ends a node as a power failure would: ./stop-node.sh NAME
set -eu
# Every process below one, the lowest first.
all() {
  for child in $(ps -o pid= --ppid "$1"); do all "$child"; done
  echo "$1"
}
pids=$(all "$(cat "machines/$1/ray.pid")")
kill -KILL $pids
for pid in $pids; do
  while grep -qs '^State:[[:space:]]*[^XZ]' "/proc/$pid/status"; do sleep 0.1; done
done
echo "$1 is gone"
