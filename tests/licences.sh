#!/bin/sh
# Prints the licences of everything that is in the binary, from the sources that cargo has fetched;
# asks no network.
set -eu
cd "$(dirname "$0")/.."
target=${1:-x86_64-unknown-linux-musl}
cargo=${CARGO:-cargo}
echo "The binary is made of ta itself and of these packages, under the licences below."
# Name, version, licence and directory of each: what is only needed to build is not in the binary.
"$cargo" tree --locked --offline --target "$target" --edges normal,no-proc-macro --prefix none \
    --format '{p}' | sed 's/ (.*//' | sort -u >"${TMPDIR:-/tmp}/ta-packages.$$"
trap 'rm -f "${TMPDIR:-/tmp}/ta-packages.$$"' EXIT
"$cargo" metadata --locked --offline --format-version 1 --filter-platform "$target" |
    python3 tests/licences.py "${TMPDIR:-/tmp}/ta-packages.$$"
