#!/usr/bin/env bash
# Shows with strace what a durable snapshot asks of the disk, and fails unless it is exactly one
# fdatasync and no rename.
#
# Two runs, one longer than the other: their difference is what the additional snapshots did, without
# the opening of the store and of its first segment.
set -euo pipefail
cd "$(dirname "$0")/.."

short=50
long=250
commits=$((long - short))
calls=fdatasync,fsync,sync_file_range,msync,rename,renameat,renameat2,link,linkat,unlink,unlinkat

command -v strace >/dev/null || { echo "strace is needed" >&2; exit 2; }
cargo build --quiet --release -p turntree-compare
contestant=${CARGO_TARGET_DIR:-target}/release/turntree-compare
folder=$(mktemp -d "${CARGO_TARGET_DIR:-target}/syscalls.XXXXXX")
trap 'rm -rf "$folder"' EXIT

awk -v turns="$long" 'BEGIN {
    for (turn = 1; turn <= turns; turn++) {
        printf "{\"turn\":%d,\"parent\":%d,\"branch\":\"main\",\"ops\":[", turn, turn - 1
        printf "{\"op\":\"msg\",\"m\":{\"role\":\"user\",\"content\":\"prompt %d\"}},", turn
        printf "{\"op\":\"pad_set\",\"k\":\"plan\",\"v\":\"step %d\"},", turn
        printf "{\"op\":\"file_write\",\"path\":\"src/%d.rs\",\"content\":\"fn f%d() {}\"}]}\n", turn % 30, turn
    }
}' >"$folder/turns.jsonl"

# Counts the calls of a run over the first $1 turns into $folder/$1.
count() {
    "$contestant" init --store "$folder/store-$1" >"$folder/answer"
    strace -f -qq -e "trace=$calls" -e signal=none -o "$folder/trace" \
        "$contestant" run --store "$folder/store-$1" --fsync on --turns "$folder/turns.jsonl" \
        --to "$1" --out "$folder/log" >"$folder/answer"
    sed -E 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/' "$folder/trace" | sort | uniq -c | awk '{print $2, $1}' >"$folder/$1"
}
count "$short"
count "$long"

printf '%s more snapshots made these calls:\n' "$commits"
awk -v commits="$commits" '
    NR == FNR { before[$1] = $2; next }
    { more = $2 - before[$1]; if (more) printf "%-16s %6d, %g a snapshot\n", $1, more, more / commits
      if ($1 == "fdatasync") syncs = more; else others += more }
    END { if (!others) print "others                0"
          exit !(syncs == commits && others == 0) }
' "$folder/$short" "$folder/$long"
