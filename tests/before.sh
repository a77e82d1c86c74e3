#!/bin/sh
# Builds the static binary of another revision, to be measured beside this one: before.sh REV TARGET
# leaves target/before/ta.
set -eu
revision=$(git rev-parse --verify "$1^{commit}")
tree=target/before/tree
mkdir -p target/before
if [ "$(cat target/before/revision 2>/dev/null || :)" = "$revision" ]; then
    exit 0
fi
git worktree remove --force "$tree" 2>/dev/null || :
git worktree prune
git worktree add --quiet --detach "$tree" "$revision"
trap 'git worktree remove --force "$tree"' EXIT
built=$(pwd)/target/before/build
(cd "$tree" && CARGO_TARGET_DIR=$built "${CARGO:-cargo}" build --release --locked --target "$2")
cp "$built/$2/release/ta" target/before/ta
echo "$revision" >target/before/revision
