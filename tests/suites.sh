#!/bin/sh
# The tests: against the debug build, the static binary that people run, the server-only one, and one
# of another architecture.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
built=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
static=x86_64-unknown-linux-musl
foreign=aarch64-unknown-linux-musl

sh tests/static.sh whole "$static"
sh tests/static.sh server "$static"
sh tests/static.sh server "$foreign"
export TA_STATIC="$built/$static/release/ta"
if command -v qemu-aarch64-static >/dev/null 2>&1; then
    sh tests/foreign.sh "$built/$static/release/ta" qemu-aarch64-static "$built/$foreign/server/ta"
else
    echo "SKIPPED the server of $foreign: qemu-aarch64-static is not installed"
    [ "${CI:-}" != true ] || exit 1
fi
# What another build of the server could be without. (These are parts of names: what is skipped is about
# commands that it has not.)
TA_BIN=$built/$static/server/ta "$cargo" test --locked --test it -- --test-threads=6 \
    endings:: guardian:: healthcheck:: http:: minimal:: process:: run::codes run::streams search:: stdio:: \
    wire:: --skip client:: --skip conformance:: --skip deploy:: --skip files_cli:: --skip forward:: \
    --skip minimal::empty --skip serve:: --skip tls::
# Programs of others (interpreters, proxies, agents) take whole processors, so they run apart from the
# tests that count time.
others="builds:: deploy:: mcp:: minimal:: pi:: real:: search:: serve:: ssh:: tls:: tools::"
skipped=$(for name in $others; do echo "--skip $name"; done)
suite() {
    # shellcheck disable=SC2086  # lists of words
    "$cargo" test --locked --test it -- --test-threads=4 $others
    # shellcheck disable=SC2086
    "$cargo" test --locked "$@" --test it -- --test-threads=6 $skipped
}
(
    export TA_BIN="$built/$static/release/ta"
    suite
)
"$cargo" test --locked --doc
suite --lib
