#!/bin/sh
# Runs the live cgroup tests in a machine with real cgroup v2: as root, as a user in a delegated service, as a user
# without any delegation (a scope of systemd's is asked for), and as one for whom nobody asks. One line each says how it
# ended; all output goes to LOG.
# usage: cgroup_vm.sh DIRECTORY LOG, the directory holds test_cgroup_live, test_cgroup_life, test_cgroup_faults and pinfold-scope
set -u
from=$1 log=$2
dir=$(mktemp -d /run/pinfold-test.XXXXXX)
cp "$from/test_cgroup_live" "$from/test_cgroup_life" "$from/test_cgroup_faults" "$from/pinfold-scope" "$dir/"
chmod -R a+rX "$dir"

report() {
    what=$1
    shift
    echo "== $what" >>"$log"
    "$@" >>"$log" 2>&1
    echo "$what: $?"
}

# Each in a service, or a scope, of its own.
both() {
    what=$1 status=0
    shift
    echo "== $what" >>"$log"
    for program in test_cgroup_live test_cgroup_life; do
        "$@" "$dir/$program" >>"$log" 2>&1 || status=$?
    done
    echo "$what: $status"
}

both root env PINFOLD_CGROUP_MUST=1
report faults "$dir/test_cgroup_faults"

useradd -m dev
loginctl enable-linger dev
id=$(id -u dev)
tries=0
until [ -S "/run/user/$id/bus" ] || [ $tries -ge 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
both delegated systemd-run --machine=dev@ --user --pipe --wait -q -p Delegate=yes \
    --setenv=PINFOLD_CGROUP_MUST=1
both scope runuser -u dev -- env XDG_RUNTIME_DIR="/run/user/$id" PINFOLD_CGROUP_MUST=1 \
    PINFOLD_SCOPE_PROGRAM="$dir/pinfold-scope"
both undelegated runuser -u dev --
echo "left: $(find /sys/fs/cgroup -name 'pinfold-test-*' ! -name '*-self' | wc -l)"
