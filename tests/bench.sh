#!/bin/sh
# Measures the static binaries: `sh tests/bench.sh TARGET [ROW…] [--quick]`. Where BEFORE names an
# earlier revision, rows that take turns with another binary do so with that.
set -eu
cd "$(dirname "$0")/.."
target=$1
shift
cargo=${CARGO:-cargo}
sh tests/static.sh whole "$target"
sh tests/static.sh server "$target"
if [ -n "${BEFORE:-}" ]; then
    sh tests/before.sh "$BEFORE" "$target"
    export TA_BEFORE="$PWD/target/before/ta"
fi
# (A thousand connections at once, and both ends are here.)
# shellcheck disable=SC3045  # dash and busybox have it; where there is none, nothing is lost
ulimit -n 8192 2>/dev/null || :
exec "$cargo" bench --locked --bench bench -- "$@"
