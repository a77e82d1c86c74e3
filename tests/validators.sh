#!/bin/sh
# Installs what judges the files of docs/deploy (Kubernetes' published schemas, BuildKit's parser of
# Dockerfiles) from PyPI into a directory, once. Where that cannot be done it says so; in CI that is a
# failure.
set -eu
into=$1
packages='kubernetes-validate==1.37.0
dockerfile==3.4.0'

[ "$(cat "$into/packages" 2>/dev/null)" != "$packages" ] || exit 0
rm -rf "$into"
mkdir -p "$into"
# shellcheck disable=SC2086  # a list of words
echo "installing" $packages
# shellcheck disable=SC2086  # a list of words
if command -v pip3 >/dev/null 2>&1 &&
    pip3 install --quiet --disable-pip-version-check --no-input --target "$into" \
        $packages >"$into/log" 2>&1; then
    echo "$packages" >"$into/packages"
    exit 0
fi
echo "missing: validators for docs/deploy; pip says:" >&2
tail -n 5 "$into/log" >&2 2>/dev/null || echo "(pip3 is not installed)" >&2
# Outside CI what needs them is skipped by name; in CI nothing is.
[ "${CI:-}" != true ]
