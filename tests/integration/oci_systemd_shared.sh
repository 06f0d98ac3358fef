# What the scripts of podman beneath systemd have in common: for sh, read with ".".

# podman_settings FOLDER PROGRAMS NETNS: FOLDER gets `containers.conf`, and `runtime` for it; PROGRAMS has pinfold-oci and
# pinfold-scope.
podman_settings() {
    printf '#!/bin/sh\nPINFOLD_LIBEXEC=%s exec %s/pinfold-oci "$@"\n' "$2" "$2" >"$1/runtime" # conmon hands no variables on
    chmod 755 "$1/runtime"
    cat >"$1/containers.conf" <<CONF
[containers]
netns="$3"
default_ulimits=["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager="systemd"
events_logger="file"
runtime="pinfold-oci"
runtime_supports_json=["pinfold-oci"]
[engine.runtimes]
pinfold-oci=["$1/runtime"]
CONF
}

# busybox_root FOLDER BUSYBOX: a root file system of busybox alone.
busybox_root() {
    for name in bin etc proc sys dev run tmp; do mkdir -p "$1/$name"; done
    cp "$2" "$1/bin/busybox"
    for name in sh sleep cat echo; do ln -s busybox "$1/bin/$name"; done
    echo root:x:0:0::/:/bin/sh >"$1/etc/passwd"
}

# await COMMAND...: until it succeeds, or a minute is over.
await() {
    tries=0
    while ! "$@" && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
}
