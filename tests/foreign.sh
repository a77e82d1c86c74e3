#!/bin/sh
# The server of another architecture, run by qemu's user mode, and asked by the `ta` of this one:
# `sh tests/foreign.sh TA QEMU SERVER`.
set -eu
ta=$1 qemu=$2 server=$3
work=$(mktemp -d)
pid=
finish() {
    [ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
fail() {
    echo "$server under $qemu: $1" >&2
    cat "$work/log" >&2
    exit 1
}
same() {
    [ "$1" = "$2" ] || fail "\"$2\" is not \"$1\""
}

TA_EXEC_TOKEN=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
export TA_EXEC_TOKEN
"$qemu" "$server" exec-server --port 0 --cwd "$work" --print-url >"$work/url" 2>"$work/log" &
pid=$!
tries=0
until [ -s "$work/url" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || fail "it does not start"
    sleep 0.1
done
TA_EXEC_URL=$(cat "$work/url")
export TA_EXEC_URL

same "hello from there" "$(timeout 60 "$ta" run -c 'echo hello from there')"
same "both" "$(echo both | timeout 60 "$ta" run -i -- cat)"
code=0
timeout 60 "$ta" run -c 'exit 7' || code=$?
same 7 "$code"
echo content >"$work/file"
same "content" "$(timeout 60 "$ta" fs read file)"
echo "written from here" | timeout 60 "$ta" fs write new
same "written from here" "$(cat "$work/new")"
kill "$pid"
code=0
wait "$pid" || code=$?
pid=
same 0 "$code"
echo "$server serves under $qemu"
