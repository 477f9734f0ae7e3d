# What a change must pass.
check:
    .ci/run

# Every test.
test *ARGS:
    cargo test --workspace {{ARGS}}

# Searches with fresh seeds, which it prints: properties for some rounds, each fuzz target for some seconds.
fuzz ROUNDS="20" SECONDS="60":
    fuzz/properties.sh {{ROUNDS}}
    fuzz/search.sh {{SECONDS}}

# Takes promises out of a copy of the code, one at a time, and sees whether tests notice.
mutants *ARGS:
    cargo run -p turntree-tests --bin mutants -- {{ARGS}}

# The newest releases of real agent clients against a stand-in; see tests/README.md.
clients *ARGS:
    cargo build --locked -p turntree-cli
    python3 tests/clients/play/main.py {{ARGS}}

# The same, and what they write and name beside the tables of turntree; see tests/README.md.
drift *ARGS:
    cargo build --locked -p turntree-cli
    python3 tests/clients/play/drift.py {{ARGS}}

# Public recordings of agents through import, export, resume and usage; see tests/README.md.
world *ARGS:
    cargo build --locked -p turntree-cli
    python3 tests/world/main.py {{ARGS}}

# The plugins of packaging/agents, installed in real clients; see tests/README.md.
plugins *ARGS:
    cargo build --locked -p turntree-cli
    python3 tests/clients/play/plugins.py {{ARGS}}

# The program for Windows under Wine: a storm of kills, and the stories; see tests/README.md.
windows *ARGS:
    python3 tests/windows/check.py --only kills --kills 300
    python3 tests/windows/stories.py {{ARGS}}

# The npm package, packed and installed, with the suites of the frameworks' owners.
node *ARGS:
    bindings/node/check {{ARGS}}

# The Python and the Node package as they are released: optimised, and of bounded size.
packages:
    bindings/python/check --profile wheel
    bindings/node/check --profile wheel

# A release in target/dist: archives, installers and packages; see packaging/README.md.
dist *ARGS:
    packaging/dist {{ARGS}}

# Installs what `dist` made, in places without Rust, and uses it.
dist-check *ARGS:
    python3 packaging/check.py {{ARGS}}

# The picture of the README, by Chromium.
picture:
    cargo build --locked -p turntree-cli
    docs/contributing/picture.py

# The criterion benches.
bench *ARGS:
    cargo bench -p turntree-benches {{ARGS}}

# The recorded workload beside other stores; see benches/README.md.
compare *ARGS:
    benches/compare/run.sh {{ARGS}}

# The ten policies of the audit: what each says, and what the disk holds; see benches/README.md.
bounded *ARGS:
    cargo run --release -p turntree-tests --bin bounded -- {{ARGS}}

# What remotes cost in requests and bytes, by a server that counts; see benches/README.md.
remotes:
    cargo build --release -p turntree-cli
    TURNTREE_MEASURED=$PWD/target/release/turntree cargo test -p turntree-tests --test cli -- --ignored --nocapture --test-threads 1 remote_numbers

# How costs grow with turns and sessions, as tables and pictures in benches/growth; --long adds 100,000 turns.
growth *ARGS:
    cargo build --release -p turntree-cli
    TURNTREE_MEASURED=${TURNTREE_MEASURED:-$PWD/target/release/turntree} cargo run --release -p turntree-tests --bin growth -- benches/growth {{ARGS}}

# Every command over the home of a power user, with budgets; --gb 6 is the whole one, see benches/README.md.
power-user *ARGS:
    cargo build --release -p turntree-cli
    benches/power_user.py target/release/turntree {{ARGS}}

# How long snapshots take while the program collects or packs the same store; see benches/README.md.
beside STORE *ARGS:
    cargo build --release -p turntree-cli
    TURNTREE_MEASURED=${TURNTREE_MEASURED:-$PWD/target/release/turntree} cargo run --release -p turntree-tests --bin beside -- {{STORE}} {{ARGS}}

# The bytes of the released program, which are bounded, and what it says of a fault.
size:
    benches/size.sh

# How large the index of `search` is, and how long it takes; see docs/guides/search.md.
search-index:
    cargo build --release -p turntree-cli
    benches/search_index.sh target/release/turntree

# The instructions of common commands, beside what is known of them.
instructions *ARGS:
    benches/instructions.sh {{ARGS}}

# One fdatasync a commit and no rename.
syscalls:
    benches/syscalls.sh

# Licences, advisories, duplicate versions.
deny:
    cargo deny check

# The site of the pages, by mdBook.
site:
    docs/contributing/site.py

docs:
    cargo doc --workspace --no-deps --open
