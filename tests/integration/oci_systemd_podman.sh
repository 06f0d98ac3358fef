#!/bin/sh
# podman with systemd as its cgroup manager and pinfold-oci as its runtime: see oci_systemd.sh.
# usage: oci_systemd_podman.sh DIRECTORY, which holds pinfold-oci, pinfold-scope and busybox. One "name: value" a line.
set -u
export TMPDIR=/run HOME=/run CONTAINERS_CONF=/run/containers.conf
. "${0%/*}/oci_systemd_shared.sh"
podman_settings /run "$1" host
podman() { command podman --storage-driver vfs --root /run/store --runroot /run/state "$@"; }

busybox_root /run/image "$1/busybox"
tar -C /run/image -cf /run/image.tar .
podman import -q /run/image.tar localhost/bb >/dev/null

echo "run: $(podman run --rm localhost/bb echo hi)"
id=$(podman run -d --memory 64m localhost/bb sleep 1000)
echo "id: $id"
pid=$(podman inspect -f '{{.State.Pid}}' "$id")
place=$(sed -n 's/^[0-9]*:memory://p' "/proc/$pid/cgroup")
echo "place: $place"
echo "limit: $(cat "/sys/fs/cgroup/memory$place/memory.limit_in_bytes")"
echo "unit: $(systemctl is-active "libpod-$id.scope")"
echo "exec: $(podman exec "$id" echo inside)"
podman pause "$id" >/dev/null
echo "paused: $(podman inspect -f '{{.State.Status}}' "$id")"
podman unpause "$id" >/dev/null
podman kill "$id" >/dev/null
echo "code: $(podman wait "$id")"
podman rm -f "$id" >/dev/null

podman pod create --name pod --infra-image localhost/bb --infra-command "/bin/sleep 1000" >/dev/null
podman run -d --pod pod localhost/bb sleep 1000 >/dev/null
echo "pod: $(podman pod ps --format "{{.Status}}") $(podman ps -q | wc -l)"
podman pod rm -f -t 0 pod >/dev/null
is_over() { [ "$(systemctl is-active "libpod-$id.scope")" = inactive ]; }
await is_over
echo "left: $(systemctl is-active "libpod-$id.scope") $(find /sys/fs/cgroup -path '*/freezer/*libpod*' | head -n 3)"
