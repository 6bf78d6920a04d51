#!/bin/sh
# systemd as PID 1 on a root folder, in namespaces and a control group of its own: boot.sh ROOT CGROUP
#
# The container sees clean trees: only control groups of version 2, a /dev of its own with /dev/fuse as udev would
# make it, and no network but its own loopback.

set -e
root=$1
if [ -z "$2" ]; then
    cd "$root"
    mount --bind . .
    cd "$root"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t cgroup2 none sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs dev
    for node in null:666:1:3 zero:666:1:5 full:666:1:7 random:666:1:8 urandom:666:1:9 tty:666:5:0 fuse:666:10:229; do
        IFS=: read -r name mode major minor <<END
$node
END
        mknod -m "$mode" "dev/$name" c "$major" "$minor"
    done
    ln -s /proc/self/fd dev/fd
    ln -s /proc/self/fd/0 dev/stdin
    ln -s /proc/self/fd/1 dev/stdout
    ln -s /proc/self/fd/2 dev/stderr
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    mount -t tmpfs tmpfs dev/shm
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=1777 tmpfs tmp
    mkdir run/old
    pivot_root . run/old
    umount -l run/old
    exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --log-target=console
fi
mkdir "$2"
echo $$ >"$2/cgroup.procs"
exec unshare --mount --pid --ipc --uts --net --cgroup --fork --propagation private --kill-child sh "$0" "$root" ""
