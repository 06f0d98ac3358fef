# The second half of a build: its root is what the first has unpacked, so that the packages' own scripts run with the
# image's programs, and reach nothing else. /packages has the packages, /workspace takes image.tar.
set -eu
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C HOME=/root TMPDIR=/tmp
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # no service is started: policy-rc.d(8)
chmod 755 /usr/sbin/policy-rc.d
# Which package comes first is in no file that could be asked yet, so none waits for another while it is unpacked.
dpkg --force-depends --force-unsafe-io --install /packages/*.deb
dpkg --force-unsafe-io --configure --pending
rm /usr/sbin/policy-rc.d
[ -z "$(dpkg --audit)" ] || { dpkg --audit >&2; exit 1; }

# What tells when and where it was built, or can be made again.
rm -rf /var/cache/apt /var/lib/apt/lists /var/cache/ldconfig /var/cache/debconf/*-old /var/lib/dpkg/*-old
rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/.pwd.lock
rm -f /var/lib/dpkg/lock /var/lib/dpkg/lock-frontend /var/lib/dpkg/triggers/Lock
find /var/log -type f -delete

# The mount points of this sandbox, and the three files that every sandbox gets where its image has none, are not the
# image's.
cd /
exec tar --create --file /workspace/image.tar --sort=name --one-file-system --numeric-owner --format=posix \
    --pax-option='exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime' \
    --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime \
    --exclude=./packages --exclude=./workspace --exclude=./etc/hosts --exclude=./etc/hostname \
    --exclude=./etc/resolv.conf .
