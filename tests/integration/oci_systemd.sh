#!/bin/sh
# pinfold-oci with systemd as its cgroup manager, as root on a machine that systemd has booted with cgroup v2.
# usage: oci_systemd.sh DIRECTORY, which holds pinfold-oci, pinfold-scope and busybox. One "name: value" a line.
set -u
export PINFOLD_LIBEXEC="$1"
oci="$1/pinfold-oci --root /run/oci --systemd-cgroup"
bundle=/run/bundle
mkdir -p $bundle/rootfs/bin $bundle/rootfs/proc $bundle/rootfs/dev $bundle/rootfs/sys
cp "$1/busybox" $bundle/rootfs/bin/busybox
for name in sh sleep cat; do ln -s busybox $bundle/rootfs/bin/$name; done
cd $bundle || exit 1
$oci spec
sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"sleep","100"/' config.json
sed -i 's#"linux": {#"linux": {"cgroupsPath": "pods-a.slice:pinfold:one", #; s#"resources": {#"resources": {"memory": {"limit": 50331648},#' config.json
scope=/sys/fs/cgroup/pods.slice/pods-a.slice/pinfold-one.scope

$oci create one </dev/null >/dev/null 2>/run/err
echo "create: $? $(cat /run/err)"
$oci start one
pid=$($oci state one | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
echo "place: $(cut -d: -f3 "/proc/$pid/cgroup")"
echo "unit: $(systemctl is-active pinfold-one.scope) $(systemctl show -p Slice pinfold-one.scope)"
echo "limit: $(cat $scope/container/memory.max)"
systemctl daemon-reload
echo "reloaded: $(cat $scope/container/memory.max)"
echo "exec: $($oci exec one cat /proc/self/cgroup | cut -d: -f3)"
$oci pause one
echo "paused: $($oci state one | grep -c '"status": "paused"')"
$oci resume one
$oci update --memory 41943040 one
echo "updated: $(cat $scope/container/memory.max)"
$oci delete --force one
tries=0
while [ -e $scope ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
echo "left: $(systemctl is-active pinfold-one.scope) $(ls -d $scope 2>/dev/null) $(pgrep -c pinfold)"
sed -i 's/pods-a.slice:pinfold:one/\/plain\/path/' config.json
$oci create two </dev/null >/dev/null 2>/run/err
echo "plain: $? $(cat /run/err)"
