#!/usr/bin/env bash
# Runs turntree and other stores on workload M side by side, and prints the tables.
#
#   run.sh [PEER...]
#
# HARNESS  the harness, which is only read   (default: shared/peers beside the repository)
# SCRATCH  a writable copy of it, kept       (default: target/compare)
# ROUNDS   timed runs of each store          (default: 3, one after the other in every round)
#
# Needs python3 and a Rust toolchain. Quote ratios within one run: machines are noisy.
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
harness=${HARNESS:-$repository/../shared/peers}
scratch=${SCRATCH:-$repository/target/compare}
rounds=${ROUNDS:-3}
peers=("$@")
if [ ${#peers[@]} -eq 0 ]; then
    peers=(rs-oplog rs-oplog-zstd rs-fjall-cas rs-sqlite-casd-zstd rs-redb-cas
        rs-redb-casd-zstd langgraph-sqlite-delta rs-git2)
fi

say() { printf '== %s\n' "$*" >&2; }

say "harness: $harness, in $scratch"
if [ ! -f "$scratch/bench.py" ]; then
    mkdir -p "$scratch"
    cp -r --no-preserve=mode "$harness"/. "$scratch"
fi
cd "$scratch"
if [ ! -x venv/bin/python ]; then
    python3 -m venv venv
    venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
fi
[ -x rustpeers/target/release/rustpeers ] || (cd rustpeers && cargo build --release)
[ -f workloads/M/turns.jsonl ] || venv/bin/python workload.py --sizes M

say "turntree"
(cd "$repository" && cargo build --release -p turntree-compare)
target=${CARGO_TARGET_DIR:-$repository/target}
venv/bin/python - "$target/release/turntree-compare" <<'PYTHON'
import json, sys
table = json.load(open("contestants.json"))
table["turntree"] = {"group": "rust", "cmd": [sys.argv[1]], "aggressive": True}
json.dump(table, open("contestants.json", "w"), indent=1)
PYTHON

say "workload M, $rounds rounds"
all=$(IFS=,; echo "turntree,${peers[*]}")
for peer in turntree "${peers[@]}"; do rm -f "results/M/$peer.json"; done
for ((round = 1; round < rounds; round++)); do
    venv/bin/python bench.py --size M --peers "$all" --runs 1 --off 0 --no-probe >&2
done
venv/bin/python bench.py --size M --peers "$all" --runs 1 --off 1 >&2
venv/bin/python report.py
sed -n '/^## Workload M/,/^### Size floors/p' RESULTS.md | grep -v '^### Size floors'
