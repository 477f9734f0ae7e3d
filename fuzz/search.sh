#!/usr/bin/env bash
# Searches for inputs that break a promise, with libFuzzer on stable Rust.
#
#   fuzz/search.sh [SECONDS] [TARGET...]      60 seconds for each of all targets, by default
#
# `requests` needs the whole program and all that it uses, so it is searched only when it is named.
# A search has a fresh seed, which it prints. With FUZZ_SEED=N it begins with the inputs in the repository
# alone, in an order that N gives, as on a clean clone. Two targets run at a time. What is new goes to target/fuzz/found/TARGET, and what breaks a target
# to target/fuzz/broken/TARGET: then the log is shown, and the exit code is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi
if (($# == 0)); then
    mapfile -t all < <(find fuzz/fuzz_targets -name '*.rs' -exec basename {} .rs \; | sort)
    for target in "${all[@]}"; do [ "$target" = requests ] || set -- "$@" "$target"; done
fi
features=libfuzzer
[[ " $* " != *' requests '* ]] || features+=,program

# Coverage of turntree and what it uses, without a nightly compiler. With `--target` the flags stay
# away from build scripts; some optimization makes a search several times as long for its time, and
# keeps the checks of a debug build.
host=$(rustc --print host-tuple)
export RUSTFLAGS='--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
 -Ccodegen-units=1'
RUSTFLAGS=${RUSTFLAGS//$'\n'/}
export CARGO_PROFILE_DEV_OPT_LEVEL=1
bins=()
for target in "$@"; do bins+=(--bin "$target"); done
cargo build -p turntree-fuzz --no-default-features --features "$features" --target-dir target/fuzz --target "$host" \
    --locked "${bins[@]}"

seed=${FUZZ_SEED:-$((RANDOM << 15 | RANDOM))}
echo "seed $seed; FUZZ_SEED=$seed begins the same search from the corpora alone"

# An input longer than `-max_len` is never made, and one that takes 20 s or 1 GB breaks its target.
search() {
    local target=$1
    local found=target/fuzz/found/$target broken=target/fuzz/broken/$target
    [ -z "${FUZZ_SEED:-}" ] || rm -rf "$found"
    mkdir -p "$found" "$broken"
    if "target/fuzz/$host/debug/$target" "$found" "fuzz/corpus/$target" \
        -seed="$seed" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=1024 \
        -artifact_prefix="$broken/" -print_final_stats=1 >"target/fuzz/$target.log" 2>&1; then
        local log=target/fuzz/$target.log runs before after
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        before=$(sed -n 's/.*INITED cov: \([0-9]*\).*/\1/p' "$log" | head -1)
        after=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
        printf '%-16s %12s %12s %12s\n' "$target" "$runs" "$before" "$after"
    else
        printf '%-16s BROKEN, see %s\n' "$target" "$broken"
        tail -n 40 "target/fuzz/$target.log"
        return 1
    fi
}

printf '%-16s %12s %12s %12s\n' target executions 'edges first' 'edges last'
status=0
while (($# > 0)); do
    search "$1" &
    one=$!
    if (($# > 1)); then
        search "$2" || status=1
    fi
    wait "$one" || status=1
    shift $(($# > 1 ? 2 : 1))
done
exit "$status"
