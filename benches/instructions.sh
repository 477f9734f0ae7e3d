#!/usr/bin/env bash
# Counts the instructions of common commands, which no load of the machine changes, and fails where one takes
# 10 % more than benches/instructions.txt says. It counts in the build of the tests: what counts is whether a
# change makes a command do more.
#
#   instructions.sh            counts and compares
#   instructions.sh --update   counts and writes benches/instructions.txt anew; the commit says why
set -euo pipefail
cd "$(dirname "$0")/.."

known=$PWD/benches/instructions.txt
command -v valgrind >/dev/null || { echo "valgrind is not to be had: instructions are not counted"; exit 0; }
cargo build --quiet --locked --workspace --bin turntree
program=$(realpath "${CARGO_TARGET_DIR:-target}/debug/turntree")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/work"
cd "$folder/work"
export HOME=$folder TURNTREE_STORE=$folder/store TURNTREE_MAINTENANCE=off TURNTREE_NOW=2026-01-01T00:00:00Z

# 200 prompts with answers of some hundred words, as Claude Code writes them.
awk 'BEGIN {
    srand(7); parent = "null"
    for (n = 1; n <= 400; n++) {
        text = ""
        for (word = 0; word < 120; word++) text = text sprintf("w%x ", int(rand() * 4000))
        id = sprintf("\"00000000-0000-4000-8000-%012d\"", n)
        time = sprintf("2026-01-01T%02d:%02d:00.000Z", n / 60, n % 60)
        head = sprintf("\"uuid\":%s,\"parentUuid\":%s,\"sessionId\":\"s\",\"timestamp\":\"%s\",\"cwd\":\"/w\",\"version\":\"2.0.0\"", id, parent, time)
        if (n % 2) printf "{\"type\":\"user\",%s,\"message\":{\"role\":\"user\",\"content\":\"%s\"}}\n", head, text
        else printf "{\"type\":\"assistant\",%s,\"message\":{\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}}\n", head, text
        parent = id
    }
}' >"$folder/session.jsonl"
for number in $(seq 60); do echo "fn f$number() {}" >"f$number.rs"; done

# Runs a command and writes its name and its instructions.
count() {
    local name=$1
    shift
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
        --log-file="$folder/counted" "$program" "$@" >"$folder/out" 2>&1 ||
        { echo "$name: turntree $* failed"; cat "$folder/out"; exit 1; }
    awk -v name="$name" '/I +refs/ { gsub(",", "", $NF); print name, $NF }' "$folder/counted" >>"$folder/counts"
}

"$program" init >"$folder/out"
"$program" remote add origin "$folder/remote" >"$folder/out"
count help help
count import import "$folder/session.jsonl" --session s
count push push
count snapshot snapshot -m more --set scratchpad/plan=more
count push-of-a-turn push
count log log -n 200
count show show HEAD
count diff diff HEAD~100 HEAD
count fork fork plan HEAD~20
count restore restore HEAD --to "$folder/restored"
count repack repack
count grep grep 'w1[0-9a]3 w' --all
count search-first search w123
count search search w124
count fsck fsck

if [ "${1:-}" = --update ]; then
    cp "$folder/counts" "$known"
    cat "$known"
    exit
fi
awk '
    NR == FNR { limit[$1] = $2; next }
    !($1 in limit) { print $1 ": no count is known"; bad = 1; next }
    { change = 100 * ($2 / limit[$1] - 1)
      printf "%-16s %12.0f instructions, %+.1f %%\n", $1, $2, change
      if (change > 10) { print $1 " takes more than it did: benches/instructions.sh --update, if that is worth it"; bad = 1 } }
    END { exit bad }
' "$known" "$folder/counts"
