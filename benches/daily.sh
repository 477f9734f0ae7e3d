#!/usr/bin/env bash
# Times what people ask for every day, process start included: `resume` of a session of 1,500 messages,
# `usage` over 1,000 sessions when nothing is new, `secrets scan` of unique content, and what the modes
# of `secrets` add to an import. Medians of `rounds` runs. With PROGRAM that program is measured.
set -euo pipefail
cd "$(dirname "$0")/.."

sessions=${1:-1000}
messages=${2:-1500}
rounds=${3:-15}
if [ -z "${PROGRAM:-}" ]; then
    cargo build --quiet --release -p turntree-cli
    PROGRAM=$PWD/${CARGO_TARGET_DIR:-target}/release/turntree
fi
folder=$(mktemp -d "$PWD/${CARGO_TARGET_DIR:-target}/daily.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export TURNTREE_STORE=$folder/store TURNTREE_MAINTENANCE=off HOME=$folder/home
projects=$folder/home/.claude/projects
mkdir -p "$projects" "$folder/project"

# write SESSION MESSAGES BYTES: a prompt, then answers with a call of a tool and what it said.
write() {
    python3 - "$folder/project" "$1" "$2" "$3" <<'END'
import json, random, sys
project, session, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
drawn = random.Random(session)
names = "parser index build test error value config result field label path node tree part".split()
marked = "token key secret password auth".split()
def said():
    words = []
    while sum(map(len, words)) < size:
        name = drawn.choice(marked if drawn.random() < 0.03 else names)
        words.append(f"{name}_{drawn.randrange(10**6)} = {drawn.choice(names)}({drawn.random()})\n")
    return "".join(words)
def record(kind, number, message):
    print(json.dumps({"type": kind, "uuid": f"{session}-{number}", "sessionId": session, "cwd": project,
        "timestamp": f"2026-11-20T10:{number // 60 % 60:02}:{number % 60:02}.000Z", "message": message}))
record("user", 0, {"role": "user", "content": f"look at {session}"})
for number in range(1, count - 1, 2):
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"make {number}"}}
    record("assistant", number, {"id": f"m-{session}-{number}", "role": "assistant", "content": [call],
        "model": "claude-opus-4-5", "usage": {"input_tokens": 9, "cache_read_input_tokens": 90, "output_tokens": 40}})
    record("user", number + 1, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": f"t{number}", "content": said()}]})
END
}

# timed NAME COMMAND...: the median of some runs, in milliseconds.
timed() {
    local name=$1
    shift
    for _ in $(seq "$rounds"); do
        local start end
        start=$(date +%s%N)
        "$@" >/dev/null 2>&1
        end=$(date +%s%N)
        echo $(((end - start) / 1000))
    done | sort -n | awk -v name="$name" '{all[NR] = $1} END {
        printf "%s: median %.1f ms, least %.1f ms\n", name, all[int((NR + 1) / 2)] / 1000, all[1] / 1000}'
}

write long "$messages" 2000 >"$folder/long.jsonl"
"$PROGRAM" --store "$folder/one" import "$folder/long.jsonl" --session long 2>/dev/null
for agent in claude-code codex; do
    timed "resume of $messages messages in $agent" \
        "$PROGRAM" --store "$folder/one" resume long --in "$agent" --cwd "$folder/project"
done

for mode in off warn mask; do
    "$PROGRAM" --store "$folder/$mode" init >/dev/null
    "$PROGRAM" --store "$folder/$mode" secrets mode "$mode" >/dev/null 2>&1
    cp -r "$folder/$mode" "$folder/$mode.empty"
done
fresh() {
    rm -rf "${folder:?}/$1"
    cp -r "$folder/$1.empty" "$folder/$1"
    "$PROGRAM" --store "$folder/$1" import "$folder/long.jsonl" --session long
}
for mode in off warn mask; do
    timed "import of that, secrets mode $mode, with a copy of an empty store" fresh "$mode"
done

mkdir "$projects/project"
for number in $(seq "$sessions"); do
    write "s-$number" 21 20000 >"$projects/project/s-$number.jsonl"
done
"$PROGRAM" adopt >/dev/null 2>&1
"$PROGRAM" usage --all >/dev/null
timed "usage --all over $sessions sessions, nothing new" "$PROGRAM" usage --all
timed "secrets scan --all" "$PROGRAM" secrets scan --all
"$PROGRAM" secrets scan --all | tail -n 1
