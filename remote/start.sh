# Finds the server that was placed on this machine and becomes it. Read by plain /bin/sh from stdin,
# after a line for each of: m (the marker that begins each answer), id (of the login), skip (of the
# places below, those that have failed: " 1 3 "). Nothing but a shell is needed to get an answer.
# shellcheck shell=sh disable=SC2154,SC2317  # the host's lines come before it; main is the end

say() { printf '\n%s %s\n' "$m" "$*"; }

# The SHA-256 of a file, by what there is; nothing where nobody can tell.
digest() {
    d=$(sha256sum <"$1" 2>/dev/null) || d=$(shasum -a 256 <"$1" 2>/dev/null) ||
        d=$(openssl dgst -sha256 -r <"$1" 2>/dev/null) || d=$("$1" --sha256 "$1" 2>/dev/null) || d=
    printf %s "${d%%[ *]*}"
}

# Whether the directory can be made, is this user's alone, and a program can be run in it. In a place
# that all may write to, somebody else may have been there first.
usable() {
    (umask 077 && mkdir -p "$1/server") 2>/dev/null && [ -O "$1" ] && [ ! -h "$1" ] &&
        chmod go-w "$1" 2>/dev/null || return 1
    try=$1/server/.try-$$
    printf '#!/bin/sh\nexit 0\n' 2>/dev/null >"$try" && chmod 700 "$try" && "$try" 2>/dev/null
    tried=$?
    rm -f "$try" 2>/dev/null
    return $tried
}

# Keeps what the user's login shell makes of the environment, then becomes the server. The line goes
# to the shell's stdin: that works with every shell, also where a start file becomes another one.
become() {
    env=${1%/*}/env-$id
    if [ ! -s "$env" ]; then
        printf "exec '%s' --keep-environment '%s'\n" "$1" "$env" | "${SHELL:-/bin/sh}" -l >/dev/null 2>&1
        # (As it is here, where the login shell has not come that far.)
        [ -s "$env" ] || "$1" --keep-environment "$env" >/dev/null 2>&1 || { say broken "$1"; exit 1; }
    fi
    say start "$1"
    exec "$1" exec-server --stdio --environment "$env" --announce "$m begin"
}

main() {
    say system "$(uname -s 2>/dev/null)" "$(uname -m 2>/dev/null)"
    read -r sha || exit 1
    u=$(id -u 2>/dev/null) || u=${LOGNAME:-0}
    set -- "${HOME:+$HOME/.ta}" "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/ta}" "${TMPDIR:+$TMPDIR/ta-$u}" \
        "/var/tmp/ta-$u" "/dev/shm/ta-$u"
    for base; do
        ta=$base/server/$sha/ta
        if [ -n "$base" ] && [ -O "$base" ] && [ ! -h "$base" ] && [ -x "$ta" ] &&
            [ "$(digest "$ta")" = "$sha" ] && "$ta" --version >/dev/null 2>&1; then
            become "$ta"
        fi
    done
    n=0
    for base; do
        n=$((n + 1))
        [ -n "$base" ] || continue
        case $skip in *" $n "*) continue ;; esac
        usable "$base" || continue
        if gzip -h >/dev/null 2>&1; then packed=gzip; else packed=plain; fi
        say need "$n" "$packed" "$base"
        exit 0
    done
    say nowhere "$*"
    exit 1
}

main; exit
