#!/bin/bash
# Runs a command as a service of a systemd of its own: process 1 of new namespaces, with the cgroup hierarchies of this
# host, version 1 beside an almost empty version 2, seen from groups of its own. The root is read-only there, but for
# DIRECTORY; /run is empty.
# usage: oci_systemd_namespace.sh DIRECTORY COMMAND...; all that it prints is in DIRECTORY/said
set -eu
directory=$1
name=pinfold-systemd-$$

hierarchies() { awk '$(NF-2) == "cgroup" || $(NF-2) == "cgroup2" {print $(NF-2), $5, $NF}' /proc/self/mountinfo; }

# Everything below the groups is of processes that have ended with their pid namespace.
clear() {
    hierarchies | while read -r _ place _; do
        for _ in $(seq 200); do
            [ -d "$place/$name" ] || break
            find "$place/$name" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
        done
    done
}

if [ "$1" = inside ]; then
    directory=$2
    mount --make-rprivate /
    mount -t proc proc /proc
    hierarchies >"$directory/hierarchies"
    mount --bind "$directory" "$directory"
    mount -t tmpfs -o mode=755 tmpfs /run
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    while read -r type place options; do
        mkdir -p "$place"
        options=$(echo "$options" | tr , '\n' | grep -vx rw | paste -sd, || true)
        mount -t "$type" ${options:+-o "$options"} cgroup "$place"
    done <"$directory/hierarchies"
    mkdir -p /run/systemd/system
    cp "$directory"/*.service "$directory"/*.socket /run/systemd/system/
    mount -o remount,bind,ro /
    exec env -i container=pinfold PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
        --unit=pinfold-test.service --log-target=null --show-status=false
fi

shift
cat >"$directory/dbus.socket" <<'UNIT'
[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/dbus/system_bus_socket
UNIT
cat >"$directory/dbus.service" <<'UNIT'
[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
ExecStart=@/usr/bin/dbus-daemon @dbus-daemon --system --address=systemd: --nofork --nopidfile --systemd-activation
UNIT
printf '#!/bin/sh\nexec %s\n' "$(printf '%q ' "$@")" >"$directory/command"
chmod 755 "$directory/command"
cat >"$directory/pinfold-test.service" <<UNIT
[Unit]
DefaultDependencies=no
Requires=dbus.socket
After=dbus.socket
SuccessAction=exit-force
FailureAction=exit-force
[Service]
ExecStart=$directory/command
StandardOutput=append:$directory/said
StandardError=inherit
UNIT

trap clear EXIT
hierarchies >"$directory/outside"
while read -r _ place _; do
    mkdir "$place/$name"
    for file in cpuset.cpus cpuset.mems; do
        [ ! -e "$place/$name/$file" ] || cat "$place/$file" >"$place/$name/$file"
    done
done <"$directory/outside"
(
    while read -r _ place _; do echo "$BASHPID" >"$place/$name/cgroup.procs"; done <"$directory/outside"
    exec timeout --foreground -s KILL 120 unshare --cgroup --mount --pid --uts --ipc --net --fork --kill-child \
        bash "$0" inside "$directory"
)
