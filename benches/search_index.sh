#!/usr/bin/env bash
# The index of `search`: its size beside what it is made of, how long it takes to be made, and a search in
# a new process. Usage: search_index.sh PROGRAM [FOLDER of transcripts] [COPIES]. Copies are sessions of
# their own, with other words in part, since what is the same is there once.
set -euo pipefail

program=$(realpath "$1")
sessions=$(realpath "${2:-${TURNTREE_SESSIONS:-../shared/sessions}}")
copies=${3:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TURNTREE_STORE=$folder/store HOME=$folder

"$program" init >/dev/null 2>&1
find "$sessions" -name '*.jsonl' -type f | sort >"$folder/list"
for copy in $(seq "$copies"); do
    number=0
    while read -r file; do
        number=$((number + 1))
        # Every seventh word that begins with a small letter is another one in each copy.
        sed -E "s/([a-z]{3})([a-z]+)/\1$([ "$copy" = 1 ] || echo "$copy")\2/7" "$file" >"$folder/session.jsonl"
        "$program" import "$folder/session.jsonl" --session "s$copy-$number" >/dev/null 2>&1 || true
    done <"$folder/list"
done
"$program" repack >/dev/null 2>&1

milliseconds() {
    local begin end
    begin=$(date +%s%N)
    "$@" >/dev/null 2>&1 || true
    end=$(date +%s%N)
    awk "BEGIN { printf \"%.1f\", ($end - $begin) / 1e6 }"
}

echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
echo "the first search, which makes the index: $(milliseconds "$program" search nothing-like-it) ms"
# What the documents are made of: the unique contents of messages, notes and files.
content=$("$program" stats --json | python3 -c '
import json, sys
sections = [s["sections"].items() for s in json.load(sys.stdin)["sessions"]]
print(sum(size["raw_bytes"] for all in sections for name, size in all if name != "source"))')
index=$(stat -c %s "$folder/store/workspaces/derived-search")
echo "content: $content bytes; index: $index bytes, $(awk "BEGIN { printf \"%.3f\", $index / $content }") of it"
for words in "quizzical" "parser error" "\"permission denied\"" "config*" "the"; do
    for _ in 1 2 3; do "$program" search "$words" >/dev/null 2>&1 || true; done
    echo "search $words, new process: $(milliseconds "$program" search "$words") ms"
done
