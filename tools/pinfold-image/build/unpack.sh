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
merge="for name in $links; do mkdir -p \"\$1/usr/\$name\" && ln -s \"usr/\$name\" \"\$1/\$name\"; done"
# Signatures were apt's matter when it fetched the packages, and their digests pinfold's; what lies here is read-only.
# There is nothing to mount in a sandbox, and nothing that would need it before packages are set up.
mmdebstrap --mode=root --variant=extract --format=tar --skip=check/qemu,check/signed-by,chroot/mount \
    --setup-hook="$merge" --include='?essential' \
    '' /workspace/root.tar 'deb [trusted=yes] copy:/tmp/repository ./'
