#!/bin/sh
# Runs `make test` in a Debian 13 root (Python 3.13, RabbitMQ 4.0), which debootstrap makes on the first run. Needs root.
#
# DEBIAN13_ROOT    folder of the root; build/debian13 if not set. A copy of the checkout is kept in its /source.
# DEBIAN13_MIRROR  package mirror for debootstrap; its own default if not set
# DEBIAN13_BINDS   further paths to show inside, separated by spaces: a folder of wheels, an authority's certificates
#
# Proxy settings and the variables of pip (PIP_…), npm (npm_config_…) and TLS (SSL_CERT_…) hold inside as outside.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

root=$(realpath -m "${DEBIAN13_ROOT:-build/debian13}")
packages="ca-certificates erlang-base gcc git make openssl procps python3 python3-dev python3-venv rabbitmq-server redis-server"

if [ "$(id -u)" -ne 0 ]; then
    say "A Debian 13 root needs mounts and chroot: run this as root, sudo make test-debian13."
    exit 1
fi
if [ ! -e "$root/etc/debian_version" ]; then
    command -v debootstrap >/dev/null 2>&1 || install_packages "debootstrap" "debootstrap" "debootstrap" "debootstrap"
    say "Making $root with debootstrap, for some minutes"
    mkdir -p "$root"
    debootstrap --variant=minbase trixie "$root" ${DEBIAN13_MIRROR:+"$DEBIAN13_MIRROR"} >"$root.log" 2>&1 || {
        tail -20 "$root.log" >&2
        rm -rf "$root"
        exit 1
    }
    # No package may start its service.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
fi

mkdir -p "$root/source"
find "$root/source" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard | tar --create --null --ignore-failed-read --files-from=- |
    tar --extract --directory="$root/source" --no-same-owner
cp /etc/resolv.conf "$root/etc/resolv.conf"

inside=$(env | grep -E '^(PIP_|npm_config_|NODE_EXTRA_CA_CERTS|SSL_CERT_|(https?|no)_proxy=|(HTTPS?|NO)_PROXY=)' | cut -d= -f1 | sort -u)
set -- env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ARGS="${ARGS:-}"
for name in $inside; do
    set -- "$@" "$name=$(printenv "$name")"
done

# Mounts and processes end with this script: both have a namespace of their own.
export root packages
export binds="${DEBIAN13_BINDS:-}"
# shellcheck disable=SC2016 # expanded by the inner shell
exec unshare --mount --pid --fork --kill-child --propagation private sh -eu -c '
    mount -t proc proc "$root/proc"
    mountpoint -q "$root/dev/pts" || mount --rbind /dev "$root/dev"
    mountpoint -q "$root/sys" || mount -t sysfs -o ro sys "$root/sys"
    if [ "$(cat "$root/.packages" 2>/dev/null)" != "$packages" ]; then
        chroot "$root" "$@" apt-get update -q
        chroot "$root" "$@" DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
        echo "$packages" >"$root/.packages"
    fi
    # After the packages: their scripts replace files that are shown from outside, such as the certificates.
    for path in $binds; do
        if [ -d "$path" ]; then mkdir -p "$root$path"; else mkdir -p "$(dirname "$root$path")" && touch "$root$path"; fi
        mount --bind "$path" "$root$path"
    done
    chroot "$root" "$@" sh -c "cd /source && make test ARGS=\"\$ARGS\""
' sh "$@"
