#!/bin/sh
# Runs tests on a kernel of its own, where control groups are delegated: `make test-vm`. CONTRIBUTING.md has the rest.
#
#   VM_KERNEL=vmlinux scripts/vm/run.sh [TESTS]
#
# The guest sees this machine's files, read-only, and has its own /tmp, /dev and /sys. Nothing is installed and no image is made.
set -eu
: "${VM_KERNEL:?expected the file of a kernel in VM_KERNEL, with virtiofs and cgroups built in}"
qemu=${VM_QEMU:-qemu-system-x86_64} virtiofsd=${VM_VIRTIOFSD:-virtiofsd}
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
files=
trap '[ -z "$files" ] || kill "$files" 2>/dev/null || true; rm -rf "$work"' EXIT

$virtiofsd --socket-path="$work/files" --shared-dir=/ --readonly --sandbox=none --cache=always --xattr > "$work/said" 2>&1 &
files=$!
for _ in $(seq 100); do [ -S "$work/files" ] && break; sleep 0.1; done
[ -S "$work/files" ] || { echo "virtiofsd did not start:" >&2; cat "$work/said" >&2; exit 1; }

tests=$(echo "${*:-tests/attacks/isolation}" | tr ' ' ,)
$qemu -machine "q35,accel=${VM_ACCEL:-tcg}" -cpu max -smp 2 -m 4G -nodefaults -nographic -no-reboot -serial stdio \
  -object memory-backend-memfd,id=memory,size=4G,share=on -numa node,memdev=memory \
  -chardev "socket,id=files,path=$work/files" -device vhost-user-fs-pci,chardev=files,tag=rootfs -device virtio-rng-pci \
  -kernel "$VM_KERNEL" -append "root=rootfs rootfstype=virtiofs ro console=ttyS0 quiet panic=-1 no_timer_check \
init=$here/scripts/vm/init.sh -- $here $tests" < /dev/null | tee "$work/told"
grep -q '^the tests ended with 0' "$work/told"
