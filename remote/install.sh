# Places a server on this machine. Read by plain /bin/sh from stdin, after a line for each of: m (the
# marker that begins each answer), base (the directory), sha (of the server), packed (gzip or plain).
# The server itself follows on stdin when this has said "ready", up to its end. It is written beside
# and renamed, so that whoever finds it finds all of it, however many do this at once.
# shellcheck shell=sh disable=SC2154,SC2317  # the host's lines come before it; main is the end

say() { printf '\n%s %s\n' "$m" "$*"; }

digest() {
    d=$(sha256sum <"$1" 2>/dev/null) || d=$(shasum -a 256 <"$1" 2>/dev/null) ||
        d=$(openssl dgst -sha256 -r <"$1" 2>/dev/null) || d=$("$1" --sha256 "$1" 2>/dev/null) || d=
    printf %s "${d%%[ *]*}"
}

fail() {
    say "$@"
    exit 1
}

main() {
    umask 077
    to=$base/server/$sha
    new=$to/.new-$$
    trap 'rm -f "$new" 2>/dev/null; rmdir "$to" 2>/dev/null' EXIT
    trap 'exit 1' HUP INT TERM PIPE
    mkdir -p "$to" 2>/dev/null || fail place "cannot make $to"
    say ready
    if [ "$packed" = gzip ]; then
        gzip -dc 2>/dev/null >"$new"
    else
        cat 2>/dev/null >"$new"
    fi || fail place "cannot write all of it to $to"
    chmod 700 "$new" || fail place "cannot make $new executable"
    got=$(digest "$new")
    [ "$got" = "$sha" ] || fail whole "${got:-nothing that could tell}"
    "$new" --version >/dev/null 2>&1 || fail run "$("$new" --version 2>&1)"
    mv -f "$new" "$to/ta" || fail place "cannot rename $new"
    say placed
}

main; exit
