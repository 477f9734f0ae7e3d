# What a change must pass.
check:
    .ci/run

# Every test.
test *ARGS:
    cargo test --workspace {{ARGS}}

# Takes promises out of a copy of the code, one at a time, and sees whether tests notice.
mutants *ARGS:
    cargo run -p turntree-tests --bin mutants -- {{ARGS}}

# The criterion benches.
bench *ARGS:
    cargo bench -p turntree-benches {{ARGS}}

# The recorded workload beside other stores; see benches/README.md.
compare *ARGS:
    benches/compare/run.sh {{ARGS}}

# One fdatasync a commit and no rename.
syscalls:
    benches/syscalls.sh

# Licences, advisories, duplicate versions.
deny:
    cargo deny check

docs:
    cargo doc --workspace --no-deps --open
