# The first half of a build, in the host image and without a network: a root filesystem with the files of the
# essential packages, none of them set up. /packages has the packages, /workspace takes root.tar.
set -eu
mkdir /tmp/repository
cd /tmp/repository
for file in /packages/*.deb; do
    ln -s "$file" .
    dpkg-deb --field "$file"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${file##*/}" "$(stat --format %s "$file")" \
        "$(sha256sum <"$file" | cut -d ' ' -f 1)"
done >Packages
case $(dpkg --print-architecture) in # /bin and the like lie in /usr from the start: Debian 12
    amd64) links='bin sbin lib lib32 lib64 libx32' ;;
    *) links='bin sbin lib' ;;
esac
# dpkg leaves a directory that is there as it is, and there is one id here: those that are for a group (their bits say so)
# are left for dpkg to make, with their owners. Not in the second half: an overlay on a tmpfs before Linux 6.6 can't make a
# directory anew that it has removed.
groups='find "$1/etc" "$1/usr" "$1/var" -xdev -depth -type d -empty -perm /2000 -delete'
merge="for name in $links; do mkdir -p \"\$1/usr/\$name\" && ln -s \"usr/\$name\" \"\$1/\$name\"; done"
# Signatures were apt's matter when it fetched the packages, and their digests pinfold's; what lies here is read-only.
# There is nothing to mount in a sandbox, and nothing that would need it before packages are set up.
export TAR_OPTIONS=--no-same-owner # there is one id here; dpkg gives each file its owner in the second half
mmdebstrap --mode=root --variant=extract --format=tar --skip=check/qemu,check/signed-by,chroot/mount \
    --setup-hook="$merge" --extract-hook="$groups" --include='?essential' \
    '' /workspace/root.tar 'deb [trusted=yes] copy:/tmp/repository ./'
