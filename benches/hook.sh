#!/usr/bin/env bash
# Times one event of `turntree hook`, process start included: after an edit and after a shell command,
# in a session of 1,000 turns whose transcript is some 10 MB, in a workspace of 100,000 files. Each
# event finds one more step in the transcript.
set -euo pipefail
cd "$(dirname "$0")/.."

turns=${1:-1000}
files=${2:-100000}
rounds=${3:-40}
cargo build --quiet --release -p turntree-cli
program=$PWD/${CARGO_TARGET_DIR:-target}/release/turntree
folder=$(mktemp -d "$PWD/${CARGO_TARGET_DIR:-target}/hook.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export TURNTREE_STORE=$folder/store TURNTREE_MAINTENANCE=off
project=$folder/project
transcript=$folder/session.jsonl

python3 - "$project" "$files" <<'END'
import os, sys
project, files = sys.argv[1], int(sys.argv[2])
for number in range(files):
    if number % 100 == 0:
        folder = f"{project}/d{number // 10000}/e{number // 100}"
        os.makedirs(folder)
    with open(f"{folder}/f{number}.txt", "w") as file:
        file.write(f"file {number}\n")
END

# One step: a reply with a call of a tool, and what it said.
step() {
    python3 - "$project" "$1" "$2" <<'END'
import json, sys
project, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for turn in range(first, first + count):
    common = {"sessionId": "s", "cwd": project, "timestamp": "2026-11-20T10:00:00.000Z"}
    call = {"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": f"make {turn}"}}
    said = f"line {turn} of what a tool said\n" * 300
    print(json.dumps({"type": "assistant", "uuid": f"a{turn}", **common,
        "message": {"id": f"m{turn}", "role": "assistant", "content": [call]}}))
    print(json.dumps({"type": "user", "uuid": f"u{turn}", **common,
        "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": f"t{turn}", "content": said}]}}))
END
}

event() {
    printf '{"session_id":"s","transcript_path":"%s","cwd":"%s","hook_event_name":"%s","tool_name":"%s","tool_input":{"file_path":"%s/d0/e0/f1.txt","command":"make"}}' \
        "$transcript" "$project" "$1" "$2" "$project"
}

step 0 "$turns" >"$transcript"
event Stop "" | "$program" hook --background
cp -r "$folder/store" "$folder/start"
ls -l "$transcript" | awk '{printf "transcript: %.1f MB\n", $5 / 1e6}'

for tool in Edit Bash Read; do
    next=$turns
    for _ in $(seq "$rounds"); do
        step "$next" 1 >>"$transcript"
        next=$((next + 1))
        event PostToolUse "$tool" >"$folder/event"
        echo "$next" >"$project/d0/e0/f1.txt"
        start=$(date +%s%N)
        "$program" hook <"$folder/event"
        end=$(date +%s%N)
        echo $(((end - start) / 1000))
        sleep 0.2
    done | sort -n | awk -v tool="$tool" '{all[NR] = $1} END {
        printf "after %s: median %.1f ms, p90 %.1f ms\n", tool, all[int((NR + 1) / 2)] / 1000, all[int(NR * 0.9)] / 1000}'
    turns=$((turns + rounds))
done
"$program" hook log
"$program" fsck | tail -n 1
