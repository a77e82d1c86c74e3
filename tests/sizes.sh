#!/bin/sh
# Prints how many bytes of a static binary are whose, crate by crate: `sh tests/sizes.sh whole|server`.
# (They are told by the symbols, so it is linked once more, with them.)
set -eu
cd "$(dirname "$0")/.."
kind=$1
target=x86_64-unknown-linux-musl
sh tests/static.sh "$kind" "$target" -C strip=none >&2
case $kind in server) directory=server ;; *) directory=release ;; esac
binary=${CARGO_TARGET_DIR:-target}/$target/$directory/ta
symbols=$binary.symbols
nm --demangle --print-size "$binary" >"$symbols"
# The one that people run again.
sh tests/static.sh "$kind" "$target" >&2
python3 -c '
import collections, re, sys

sizes = collections.Counter()
for line in sys.stdin:
    words = line.split(None, 3)
    # What only takes room in memory is not in the file.
    if len(words) == 4 and words[2] not in "bB":
        crate = re.search(r"([A-Za-z_]\w*)(\[\w+\])?::", words[3])
        sizes[crate.group(1) if crate else "(C)"] += int(words[1], 16)
for crate, size in sorted(sizes.items()):
    if size >= 256:
        print(f"{size:8} {crate}")
' <"$symbols"
