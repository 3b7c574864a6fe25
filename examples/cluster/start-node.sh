#!/bin/sh
# Starts a node of a Ray cluster, as a machine of its own would be: ./start-node.sh NAME ADDRESS [OPTIONS OF ray start]
# Its home is machines/NAME, so it has its own key and decides for itself whom it trusts.
set -eu
name=$1 address=$2
shift 2
export HOME="$PWD/machines/$name" RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$PWD/token"
mkdir -p "$HOME"
[ -s token ] || (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > token)
ray start --node-ip-address="$address" --disable-usage-stats --object-store-memory=80000000 --block "$@" \
  > "$HOME/ray.log" 2>&1 < /dev/null &
echo $! > "$HOME/ray.pid"
until grep -q "Ray runtime started" "$HOME/ray.log"; do
  kill -0 $! 2> /dev/null || { cat "$HOME/ray.log" >&2; exit 1; }
  sleep 0.2
done
echo "$name is there"
