#!/bin/sh
# podman of an ordinary user with systemd as its cgroup manager and pinfold-oci as its runtime, on cgroup version 2, as root
# on a machine that systemd has booted: makes the user, and runs itself once more in a service of that user's systemd.
# usage: oci_systemd_rootless.sh DIRECTORY, which holds pinfold-oci, pinfold-scope and busybox. One "name: value" a line.
set -u
place=/run/rootless
. "${0%/*}/oci_systemd_shared.sh"
if [ "$1" != inside ]; then
    mkdir -p $place
    cp "$1/pinfold-oci" "$1/pinfold-scope" "$1/busybox" "$0" "$1/oci_systemd_shared.sh" $place
    podman_settings $place $place none
    cat >$place/policy.json <<POLICY
{"pinfold": 1, "extends": ["oci"], "engine": {"roots": {"add": ["/home/dev/rootfs"]}, "write": {"add": ["/home/dev/store/*-containers", "/run/user/*/state/*-containers"]}}}
POLICY
    chmod -R a+rX $place
    useradd -m --add-subids-for-system dev
    chown dev $place/policy.json # in podman's user namespace, what is root's is nobody's
    loginctl enable-linger dev
    await test -S "/run/user/$(id -u dev)/bus"
    exec systemd-run --machine=dev@ --user --unit=web.service --pipe --wait -q -p Delegate=yes sh "$place/${0##*/}" inside
fi

cd || exit 1
XDG_RUNTIME_DIR=/run/user/$(id -u)
export XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS="unix:path=$XDG_RUNTIME_DIR/bus" CONTAINERS_CONF=$place/containers.conf
podman() { command podman --storage-driver vfs --root ~/store --runroot "$XDG_RUNTIME_DIR/state" "$@"; }
busybox_root rootfs $place/busybox

podman run -d --name one --pidfile pid --memory 64m --pids-limit 20 --rootfs ~/rootfs sleep 1000 >/dev/null
group=$(sed -n 's/^0:://p' "/proc/$(cat pid)/cgroup")
echo "group: $group"
echo "limits: $(cat "/sys/fs/cgroup$group/memory.max" "/sys/fs/cgroup$group/pids.max" | tr '\n' ' ')"
echo "exec: $(podman exec one echo inside)"
podman rm -f -t 0 one >/dev/null
await test ! -e "/sys/fs/cgroup${group%/container}"
echo "left: $(ls -d "/sys/fs/cgroup${group%/container}" 2>/dev/null)"

# As podman's units of systemd have it: in the service itself, and with the operator's policy above.
podman --runtime-flag policy=$place/policy.json run --rm --cgroups=split --cgroupns host --rootfs ~/rootfs cat /proc/self/cgroup >said 2>&1
echo "split: $(tr '\n' ' ' <said)"
