#!/bin/sh
# Sees to it that the programs named on the command line are there: installs their Debian
# packages where that can be done, and says what to install where it cannot.
set -eu

package() {
    case $1 in
        ip) echo iproute2 ;;
        ps) echo procps ;;
        script) echo bsdutils ;;
        unshare | nsenter | prlimit | setsid | setpriv) echo util-linux ;;
        stty | chroot) echo coreutils ;;
        chattr) echo e2fsprogs ;;
        systemd-socket-activate | systemd-analyze) echo systemd ;;
        node) echo nodejs ;;
        nginx) echo nginx-light ;;
        s6-supervise) echo s6 ;;
        runsv) echo runit ;;
        supervisord) echo supervisor ;;
        pip3) echo python3-pip ;;
        nm) echo binutils ;;
        qemu-aarch64-static) echo qemu-user-static ;;
        fdfind) echo fd-find ;;
        rg) echo ripgrep ;;
        ssh | ssh-keygen) echo openssh-client ;;
        sshd) echo openssh-server ;;
        dropbear) echo dropbear-bin ;;
        strip) echo binutils ;;
        *) echo "$1" ;;
    esac
}

missing=
for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $(package "$program")"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # a list of words
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } \
        >/dev/null 2>&1 || apt_failed=1
fi
for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 && continue
    echo "missing: $program (Debian package $(package "$program"))${apt_failed:+; apt-get failed}" >&2
    # Outside CI what needs it is skipped by name; in CI nothing is.
    [ "${CI:-}" != true ] || exit 1
done
