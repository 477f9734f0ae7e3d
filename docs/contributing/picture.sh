#!/bin/sh
# Makes docs/view.png, the picture of the README: a turn of the session that `demo` shows, in Chromium.
set -eu
cd "$(dirname "$0")/../.."
program=${1:-target/debug/turntree}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
turntree() { "$program" --store "$folder/store" --no-maintenance "$@"; }
turntree import cli/assets/demo.jsonl --session limiter
turntree fork plan-b limiter~3
turntree export limiter --format html -o "$folder/page.html"
chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/profile" \
    --window-size=1000,640 --virtual-time-budget=3000 --screenshot=docs/view.png "file://$folder/page.html#turn-9"
