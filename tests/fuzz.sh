#!/bin/sh
# Fuzzes each target, coverage-guided, for so many seconds. (The variable lets a stable compiler take the flags
# that a fuzzing build needs.)
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
command -v cargo-fuzz >/dev/null || "$cargo" install --locked cargo-fuzz
for target in session head; do
    mkdir -p "tests/fuzz/corpus/$target"
    RUSTC_BOOTSTRAP=1 "$cargo" fuzz run --fuzz-dir tests/fuzz "$target" \
        "tests/fuzz/corpus/$target" "tests/fuzz/seeds/$target" -- \
        "-max_total_time=${1:-600}" -timeout=15
done
