#!/bin/sh
# pinfold-oci with systemd as its cgroup manager, as root on a machine that systemd has booted, whichever the version of
# its cgroups.
# usage: oci_systemd.sh DIRECTORY, which holds pinfold-oci, pinfold-scope and busybox. One "name: value" a line.
set -u
export PINFOLD_LIBEXEC="$1"
oci="$1/pinfold-oci --root /run/oci --systemd-cgroup"
bundle=/run/bundle
. "${0%/*}/oci_systemd_shared.sh"
busybox_root $bundle/rootfs "$1/busybox"
cd $bundle || exit 1
$oci spec
sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"sleep","100"/' config.json
sed -i 's#"linux": {#"linux": {"cgroupsPath": "pods-a.slice:pinfold:one", #; s#"resources": {#"resources": {"memory": {"limit": 50331648},#' config.json
asked=org.systemd.property
sed -i "s#\"linux\": {#\"annotations\": {\"$asked.TimeoutStopSec\": \"uint64 7\", \"$asked.Description\": \"'a box'\", \"$asked.After\": \"['one.target', 'two.target']\"}, &#" config.json
unit=pods.slice/pods-a.slice/pinfold-one.scope
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    scope=/sys/fs/cgroup/$unit
    limit=$scope/container/memory.max
else
    scope=/sys/fs/cgroup/systemd/$unit
    limit=/sys/fs/cgroup/memory/$unit/container/memory.limit_in_bytes
fi
place() { sed -n 's/^[0-9]*:name=systemd:\|^0:://p' | head -n 1; } # the line of the hierarchy that systemd looks at

$oci create one </dev/null >/dev/null 2>/run/err
echo "create: $? $(cat /run/err)"
$oci start one
pid=$($oci state one | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
echo "place: $(place <"/proc/$pid/cgroup")"
echo "everywhere: $(grep -vc ":/$unit/container\$" "/proc/$pid/cgroup")"
echo "unit: $(systemctl is-active pinfold-one.scope) $(systemctl show -p Slice pinfold-one.scope)"
for name in TimeoutStopUSec Description; do echo "$name: $(systemctl show -P $name pinfold-one.scope)"; done
echo "After: $(systemctl show -P After pinfold-one.scope | tr ' ' '\n' | grep -cx 'one.target\|two.target')"
echo "limit: $(cat $limit)"
systemctl daemon-reload
echo "reloaded: $(cat $limit)"
echo "stays: $(place <"/proc/$pid/cgroup")"
$oci exec --detach --pid-file /run/pid one sleep 100 </dev/null >/dev/null 2>/run/err # into a cgroup namespace on version 2
echo "exec: $(place <"/proc/$(cat /run/pid)/cgroup") $(cat /run/err)"
$oci update --pids-limit 3 one # two are there
$oci exec one sh -c 'exit 7' </dev/null >/dev/null 2>/run/err
echo "tight: $? $(cat /run/err)"
$oci pause one
echo "paused: $($oci state one | grep -c '"status": "paused"')"
$oci resume one
$oci update --memory 41943040 one
echo "updated: $(cat $limit)"
$oci delete --force one
is_over() { [ ! -e $scope ] && [ "$(systemctl is-active pinfold-one.scope)" = inactive ]; }
await is_over
echo "left: $(systemctl is-active pinfold-one.scope) $(find /sys/fs/cgroup -name pinfold-one.scope | head -n 1) $(ls -d /sys/fs/cgroup/freezer/pods.slice 2>/dev/null) $(pgrep -c -u 0 pinfold)" # an ordinary user has some of its own
$oci run one </dev/null >/dev/null 2>&1 &
is_running() { $oci state one 2>/dev/null | grep -q '"running"'; }
await is_running
systemctl kill --signal=KILL pinfold-one.scope
wait $!
echo "killed: $?"
sed -i "s/$asked.After/$asked.Slice/" config.json
$oci create two </dev/null >/dev/null 2>/run/err
echo "slice: $? $(cat /run/err)"
sed -i "s/$asked.Slice/$asked.Nonsense/" config.json
$oci create two </dev/null >/dev/null 2>/run/err
echo "nonsense: $? $(cat /run/err)"
sed -i 's/pods-a.slice:pinfold:one/\/plain\/path/' config.json
$oci create two </dev/null >/dev/null 2>/run/err
echo "plain: $? $(cat /run/err)"
