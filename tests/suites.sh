#!/bin/sh
# The tests: against the debug build, the static binary that people run, the server-only one, and one
# of another architecture.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
built=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
static=x86_64-unknown-linux-musl
foreign=aarch64-unknown-linux-musl
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

# Runs integration tests against a binary. Many count time, and others may be using the machine: the few that fail are
# run once more, alone, and have to pass then.
integration() {
    binary=$1
    shift
    if attempt --test-threads=4 "$@"; then
        return
    fi
    failed=$(sed -n 's/^test \([^ ]*\) \.\.\. FAILED$/\1/p' "$log")
    [ -n "$failed" ] && [ "$(echo "$failed" | wc -l)" -le 8 ] || return 1
    echo "once more, alone: $failed"
    # shellcheck disable=SC2086  # a list of words
    attempt --test-threads=1 --exact $failed
}

# All of them. Programs of others (interpreters, proxies, agents) take whole processors, so they run apart from the
# tests that count time.
everything() {
    others="builds:: codex:: deploy:: mcp:: minimal:: pi:: real:: search:: serve:: ssh:: tls:: tools::"
    # shellcheck disable=SC2086  # a list of words
    integration "$1" $others
    # shellcheck disable=SC2046
    integration "$1" $(for name in $others; do echo "--skip $name"; done)
}

# Runs them once. They write to a file, which nobody waits for the end of; what they leave behind is known by a
# variable, and is a failure, too. (Signals that are ignored where this runs would be in what is tested, too.)
attempt() {
    mark="TESTED_BY=$(cat /proc/sys/kernel/random/uuid)"
    env --default-signal=HUP,INT,QUIT "$mark" TA_BIN="$binary" \
        "$cargo" test --locked --test it -- "$@" >"$log" 2>&1 &
    tail -n +1 -f --pid=$! "$log"
    wait $! || return 1
    nothing_is_left
}

nothing_is_left() {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        left=
        for process in /proc/[0-9]*; do
            if grep -qsz "^$mark\$" "$process/environ"; then left="$left ${process#/proc/}"; fi
        done
        [ -n "$left" ] || return 0
        [ "$try" = 10 ] || sleep 1
    done
    echo "the tests have left processes behind:"
    # shellcheck disable=SC2086
    ps -o pid,ppid,etime,args -p $left
    # shellcheck disable=SC2086
    kill -9 $left
    return 1
}

sh tests/static.sh whole "$static"
sh tests/static.sh server "$static"
sh tests/static.sh server "$foreign"
export TA_STATIC="$built/$static/release/ta"
if command -v qemu-aarch64-static >/dev/null 2>&1; then
    sh tests/foreign.sh "$TA_STATIC" qemu-aarch64-static "$built/$foreign/server/ta"
else
    echo "SKIPPED the server of $foreign: qemu-aarch64-static is not installed"
    [ "${CI:-}" != true ] || exit 1
fi
everything "$TA_STATIC"
# What another build of the server could be without. (These are parts of names: what is skipped is about
# commands that it has not.)
integration "$built/$static/server/ta" endings:: healthcheck:: http:: minimal:: stdio:: wire:: \
    --skip codex::client --skip forward:: --skip minimal::empty --skip serve::
"$cargo" test --locked --doc
"$cargo" test --locked --lib
everything "$built/debug/ta"
