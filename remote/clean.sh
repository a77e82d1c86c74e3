# Removes all that was placed on this machine. Read by plain /bin/sh from stdin, after a line for m
# (the marker that begins each answer). What runs goes on; it is only not there any more.
# shellcheck shell=sh disable=SC2154,SC2317  # the host's lines come before it; main is the end

say() { printf '\n%s %s\n' "$m" "$*"; }

main() {
    u=$(id -u 2>/dev/null) || u=${LOGNAME:-0}
    for base in "${HOME:+$HOME/.ta}" "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/ta}" \
        "${TMPDIR:+$TMPDIR/ta-$u}" "/var/tmp/ta-$u" "/dev/shm/ta-$u"; do
        if [ -z "$base" ] || [ ! -O "$base" ] || [ -h "$base" ] || [ ! -d "$base/server" ]; then
            continue
        fi
        if rm -rf "$base/server"; then say removed "$base/server"; else say left "$base/server"; fi
        # (Somebody else may keep something there.)
        rmdir "$base" 2>/dev/null
    done
    say over
}

main; exit
