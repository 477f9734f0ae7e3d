#compdef turntree
# Completes commands, options and names of turntree in zsh: the program looks them up.
_turntree() {
    local candidate value
    local -a found open whole
    # The program gets words without quotes, and the last one up to the cursor.
    found=("${(@f)$(
        COMPLETE=zsh _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((CURRENT - 1)) \
            turntree -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null
    )}")
    for candidate in $found; do
        # A colon in a value is escaped, the one before its description is not.
        value="${${candidate//\\:/$'\0'}%%:*}"
        if [[ "$value" == *[=/$'\0'] ]]; then
            open+=("$candidate")
        else
            whole+=("$candidate")
        fi
    done
    # A value that goes on gets no space.
    (( ! $#open )) || _describe -V values open -S ''
    (( ! $#whole )) || _describe -V values whole
}
# As a file in fpath it is the function itself, and is called for the first word; else it was sourced.
if [[ "${funcstack[1]}" == _turntree ]]; then
    _turntree "$@"
else
    compdef _turntree turntree
fi
