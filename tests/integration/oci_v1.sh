#!/bin/sh
# In a machine whose controllers version 1 may have: mounts them, with no version 2 beside, runs the rows whose name has WORD, and
# prints the figures of a container.
# usage: oci_v1.sh DIRECTORY WORD
set -eu
top=/sys/fs/cgroup
for controller in $(cat $top/cgroup.subtree_control); do echo "-$controller" >$top/cgroup.subtree_control; done
echo $$ >$top/cgroup.procs
umount $top
mount -t tmpfs -o mode=755 tmpfs $top
for controller in net_cls net_prio hugetlb pids freezer devices; do
    mkdir $top/$controller
    mount -t cgroup -o $controller cgroup $top/$controller
done
/usr/bin/python3 "$1/oci_fields_v2.py" "$1/pinfold-oci" /run/fields "$2"

oci="$1/pinfold-oci --root /run/oci"
mkdir /run/bundle
cd /run/bundle
$oci spec
sed -i 's/"terminal": true/"terminal": false/; s#"sh"#"sleep", "100"#; s#"path": "rootfs"#"path": "/run/fields/rootfs"#' config.json
$oci run --detach one </dev/null >/dev/null 2>&1
$oci events --stats one
$oci delete --force one
