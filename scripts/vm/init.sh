#!/bin/bash
# The first process of the guest: what an ordinary system has mounted, control groups for root and for the tests' ordinary user,
# and the tests. `init.sh PROJECT TEST,TEST…`
export PATH="$1/.venv/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis
user=4001  # tests/users.py
groups=/sys/fs/cgroup
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
mount -t securityfs security /sys/kernel/security
mkdir -p /dev/pts /dev/shm /dev/mqueue
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t mqueue mqueue /dev/mqueue
mount -t tmpfs -o mode=1777 shm /dev/shm
for place in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmp $place; done
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 none $groups
ln -s /proc/self/fd /dev/fd
ip link set lo up

mkdir -p $groups/tests/here
echo $$ > $groups/tests/here/cgroup.procs
echo "+pids +memory" > $groups/cgroup.subtree_control
echo "+pids +memory" > $groups/tests/cgroup.subtree_control
chown $user $groups/tests $groups/tests/cgroup.procs $groups/tests/cgroup.subtree_control $groups/tests/here/cgroup.procs

cd "$1" || exit 1
echo "$(uname -r), $(cat /sys/kernel/security/lsm 2>/dev/null)"
lilux-proc probe
python -m pytest -p no:cacheprovider -v --timeout 1200 -rs ${2//,/ } < /dev/null
echo "the tests ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
