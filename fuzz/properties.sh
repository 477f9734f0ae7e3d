#!/usr/bin/env bash
# Searches for cases that break a property of the tests, with fresh seeds, which it prints.
#
#   fuzz/properties.sh [ROUNDS]               20 rounds over every property, by default
#   TURNTREE_TEST_SEED=N fuzz/properties.sh   the round of one seed again
#
# Only the tests in a module `properties` run: see tests/properties. The exit code is 1 when a property
# was broken in any round; what broke it is printed in its smallest form.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-20}
seeds=()
for ((round = 0; round < rounds; round++)); do seeds+=("$((RANDOM << 30 | RANDOM << 15 | RANDOM))"); done
[ -z "${TURNTREE_TEST_SEED:-}" ] || seeds=("$TURNTREE_TEST_SEED")

unset TURNTREE_TEST_SEED
cargo test --workspace --locked --lib --tests --no-run
status=0
for seed in "${seeds[@]}"; do
    if found=$(TURNTREE_TEST_SEED=$seed cargo test --quiet --workspace --locked --lib --tests --no-fail-fast \
        -- properties:: 2>&1); then
        echo "seed $seed: every property held"
    else
        printf '%s\nseed %s: BROKEN; to repeat it: TURNTREE_TEST_SEED=%s fuzz/properties.sh\n' "$found" "$seed" "$seed"
        status=1
    fi
done
exit "$status"
