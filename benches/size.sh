#!/usr/bin/env bash
# Builds the program as it is released and prints its bytes. Fails above 25 MB, and where a fault of the
# program is reported in another form than by other builds: this one ends without unwinding.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --quiet --release --locked -p turntree-cli
program=$(realpath "${CARGO_TARGET_DIR:-target}/release/turntree")
size=$(wc -c <"$program")
echo "turntree: $size bytes"
if [ "$size" -gt 25000000 ]; then
    echo "the program is larger than 25 MB" >&2
    exit 1
fi

# No thread can start with such a stack, which the standard library takes for a fault.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
code=0
told=$(cd "$home" && HOME=$home RUST_MIN_STACK=$((1 << 60)) "$program" serve --stdio </dev/null 2>&1) || code=$?
if [ "$code" != 70 ] || [[ $told != "error: a fault of turntree itself at "* ]]; then
    echo "a fault ended with $code and said: $told" >&2
    exit 1
fi
