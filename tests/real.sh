#!/bin/sh
# Installs real MCP and language servers, and real clients of them, from the npm registry into a
# directory, once, and what reads metrics from PyPI into one beside it. Where that cannot be done it
# says so; in CI that is a failure.
set -eu
into=$1

modules='prometheus_client==0.21.0'
if [ "$(cat "$into-python/packages" 2>/dev/null)" != "$modules" ]; then
    rm -rf "$into-python"
    mkdir -p "$into-python"
    echo "installing $modules"
    if python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$into-python" "$modules" >"$into-python/log" 2>&1; then
        echo "$modules" >"$into-python/packages"
    else
        echo "missing: Prometheus' library for Python; pip says:" >&2
        tail -n 5 "$into-python/log" >&2
        [ "${CI:-}" != true ]
    fi
fi

packages='@modelcontextprotocol/sdk@1.32.2
@modelcontextprotocol/inspector@2.12.0
@modelcontextprotocol/server-everything@2026.8.31
@modelcontextprotocol/server-filesystem@2026.8.31
typescript-language-server@4.4.0
typescript@5.9.3
vscode-jsonrpc@8.2.1'

[ "$(cat "$into/packages" 2>/dev/null)" != "$packages" ] || exit 0
rm -rf "$into"
mkdir -p "$into"
# shellcheck disable=SC2086  # a list of words
echo "installing" $packages
# shellcheck disable=SC2086  # a list of words
if command -v npm >/dev/null 2>&1 &&
    npm install --prefix "$into" --no-save --no-package-lock --no-audit --no-fund \
        --ignore-scripts --loglevel=error $packages >"$into/log" 2>&1; then
    echo "$packages" >"$into/packages"
    exit 0
fi
echo "missing: real MCP and language servers; npm says:" >&2
tail -n 5 "$into/log" >&2 2>/dev/null || echo "(npm is not installed)" >&2
# Outside CI what needs them is skipped by name; in CI nothing is.
[ "${CI:-}" != true ]
