#!/usr/bin/env bash
# Shows with strace what a durable snapshot asks of the disk, and fails unless it is exactly one
# fdatasync and no rename: by a handle that stays open, and by one-shot commands.
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
cargo build --quiet --release -p turntree-compare -p turntree-cli
contestant=${CARGO_TARGET_DIR:-target}/release/turntree-compare
turntree=${CARGO_TARGET_DIR:-target}/release/turntree
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

# Runs a command, and appends its calls to $folder/trace.
traced() {
    strace -f -qq -e "trace=$calls" -e signal=none -A -o "$folder/trace" "$@" >"$folder/answer"
}

# Counts the calls in $folder/trace into $folder/$1.
count() {
    sed -E 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/' "$folder/trace" | sort | uniq -c | awk '{print $2, $1}' >"$folder/$1"
    rm "$folder/trace"
}

# Prints what is in $folder/$2 and not in $folder/$1, and fails unless it is one fdatasync for each of
# $3 snapshots.
compare() {
    awk -v commits="$3" '
        NR == FNR { before[$1] = $2; next }
        { more = $2 - before[$1]; if (more) printf "%-16s %6d, %g a snapshot\n", $1, more, more / commits
          if ($1 == "fdatasync") syncs = more; else others += more }
        END { if (!others) print "others                0"
              exit !(syncs == commits && others == 0) }
    ' "$folder/$1" "$folder/$2"
}

for turns in "$short" "$long"; do
    "$contestant" init --store "$folder/store-$turns" >"$folder/answer"
    traced "$contestant" run --store "$folder/store-$turns" --fsync on --turns "$folder/turns.jsonl" \
        --to "$turns" --out "$folder/log"
    count "$turns"
done
printf '%s more snapshots made these calls:\n' "$commits"
compare "$short" "$long" "$commits"

export TURNTREE_MAINTENANCE=off
snapshot() {
    "$@" "$turntree" --store "$folder/store-one-shots" snapshot -m "turn" --session s \
        --append-message "user=what next?" >"$folder/answer"
}
"$turntree" --store "$folder/store-one-shots" init >"$folder/answer"
snapshot
for _ in $(seq "$short"); do
    snapshot traced
done
count one-shots
echo 'none 0' >"$folder/nothing"
printf '%s snapshots, each by a process of its own, made these calls:\n' "$short"
compare nothing one-shots "$short"
