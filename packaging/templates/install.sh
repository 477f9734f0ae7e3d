#!/bin/sh
# Installs turntree @VERSION@ for this user; needs no root.
#
#   install.sh [--prefix DIR]     into DIR/bin and DIR/share; ~/.local by default
#   install.sh --uninstall [--prefix DIR]
#
# TURNTREE_DOWNLOADS names the place of the archives: an address, or a directory of this machine.
# The archive is compared with the sum below before anything is installed.
set -eu

version='@VERSION@'
downloads=${TURNTREE_DOWNLOADS:-'@DOWNLOADS@'}
sums='@SUMS@'

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

usage() {
    say 'usage: install.sh [--prefix DIR] [--uninstall]'
    exit "$1"
}

# The name of this system, as the archives have it.
system() {
    processor=$(uname -m)
    case $(uname -s) in
    Linux) kind=unknown-linux-musl ;;
    Darwin)
        kind=apple-darwin
        # A shell that is translated from another processor names that one.
        if [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then processor=arm64; fi
        ;;
    MINGW* | MSYS* | CYGWIN*) fail 'this is Windows: use install.ps1 in PowerShell' ;;
    *) fail "there is no program for $(uname -s): build it with 'cargo install turntree-cli'" ;;
    esac
    case $processor in
    x86_64 | amd64) processor=x86_64 ;;
    aarch64 | arm64) processor=aarch64 ;;
    *) fail "there is no program for $processor: build it with 'cargo install turntree-cli'" ;;
    esac
    say "$processor-$kind"
}

fetch() {
    case $1 in
    http://* | https://*)
        if has curl; then
            curl --proto '=http,https' --fail --silent --show-error --location --retry 2 --output "$2" "$1"
        elif has wget; then
            wget -q -O "$2" "$1"
        else
            fail 'found neither curl nor wget: install one of them'
        fi
        ;;
    *) cp "${1#file://}" "$2" ;;
    esac || fail "could not get $1"
}

sum_of() {
    if has sha256sum; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif has shasum; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    elif has openssl; then
        openssl dgst -sha256 -r "$1" | cut -d ' ' -f 1
    else
        fail 'found no program for SHA-256 (sha256sum, shasum, openssl): the archive cannot be verified'
    fi
}

# Puts a file in its place at once, also over a program that runs.
place() {
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.new$$"
    chmod "$3" "$2.new$$"
    mv -f "$2.new$$" "$2"
    printf '%s\n' "$2" >>"$new_list"
}

remove_listed() {
    while IFS= read -r path; do
        if [ -z "${2:-}" ] || ! grep -F -x -q "$path" "$2"; then rm -f "$path"; fi
    done <"$1"
}

uninstall() {
    [ -f "$list" ] || fail "nothing was installed in $prefix by this script: $list does not exist"
    remove_listed "$list"
    rm -f "$list"
    rmdir "$prefix/share/turntree" 2>/dev/null || true
    say "Removed turntree from $prefix. Stores stay, and so do hooks in the settings of agents:"
    say "the page upgrade-and-remove.md of the documentation names their places."
}

install() {
    name=turntree-$version-$(system)
    archive=$name.tar.gz
    expected=$(printf '%s\n' "$sums" | while read -r sum file; do [ "$file" != "$archive" ] || say "$sum"; done)
    [ -n "$expected" ] || fail "version $version has no archive for this system ($archive)"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    new_list=$work/list
    fetch "${downloads%/}/$archive" "$work/$archive"
    found=$(sum_of "$work/$archive")
    [ "$found" = "$expected" ] || fail "$archive is damaged or another file: expected SHA-256 $expected, found $found"
    tar -xzf "$work/$archive" -C "$work"
    said=$("$work/$name/turntree" --version) || fail "the program of $archive does not run here"

    place "$work/$name/turntree" "$prefix/bin/turntree" 755
    for page in "$work/$name"/man/man1/*.1; do place "$page" "$prefix/share/man/man1/${page##*/}" 644; done
    scripts=$work/$name/completions
    place "$scripts/turntree.bash" "$prefix/share/bash-completion/completions/turntree" 644
    place "$scripts/_turntree" "$prefix/share/zsh/site-functions/_turntree" 644
    place "$scripts/turntree.fish" "$prefix/share/fish/vendor_completions.d/turntree.fish" 644
    for page in LICENSE-MIT LICENSE-APACHE THIRD-PARTY-LICENSES.txt; do
        place "$work/$name/$page" "$prefix/share/doc/turntree/$page" 644
    done
    # Files of an earlier version that this one does not have.
    if [ -f "$list" ]; then remove_listed "$list" "$new_list"; fi
    mkdir -p "$prefix/share/turntree"
    cp "$new_list" "$list"
    say "Installed $said in $prefix/bin."
    case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) say "That is not in PATH. Add to the profile of your shell: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    say "To begin: 'turntree demo', then 'turntree adopt'."
}

main() {
    prefix=${TURNTREE_PREFIX:-${HOME:-}/.local}
    action=install
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix) [ $# -gt 1 ] || usage 2; prefix=$2; shift ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) action=uninstall ;;
        -h | --help) usage 0 ;;
        *) usage 2 >&2 ;;
        esac
        shift
    done
    case $prefix in
    /.local | '') fail 'there is no home directory: name a directory with --prefix' ;;
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
    esac
    list=$prefix/share/turntree/installed
    "$action"
}

# Nothing runs before the last line has arrived.
main "$@"
