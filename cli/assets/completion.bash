# Completes commands, options and names of turntree in bash: the program looks them up.
_turntree() {
    local word before="" quoted="" rest="${COMP_LINE:0:COMP_POINT}" last i
    local -a words=()
    # Bash splits words at colons and equal signs, as in HEAD:src and --in=codex: join them.
    for (( i = 0; i <= COMP_CWORD; i++ )); do
        word="${COMP_WORDS[i]}"
        if (( i == 0 )) || [[ "$rest" == [[:blank:]]* ]]; then
            rest="${rest#"${rest%%[![:blank:]]*}"}"
            before=""
            words+=("")
        fi
        (( i < COMP_CWORD )) || word="$rest"
        last=$(( ${#words[@]} - 1 ))
        if (( i < COMP_CWORD )) || [[ "$word" =~ ^[:=]+$ ]]; then
            before+="$word"
        fi
        words[last]+="$word"
        rest="${rest#"$word"}"
    done
    case "${words[last]}" in
        \'* | \"*) quoted=1 words[last]="${words[last]:1}" ;;
        *) words[last]="${words[last]//\\/}" before="${before//\\/}" ;;
    esac
    COMPREPLY=()
    IFS=$'\013' read -r -d '' -a COMPREPLY < <(
        COMPLETE=bash _CLAP_IFS=$'\013' _CLAP_COMPLETE_INDEX="$last" _CLAP_COMPLETE_COMP_TYPE="$COMP_TYPE" \
            turntree -- "${words[@]}" 2> /dev/null
    )
    for i in "${!COMPREPLY[@]}"; do
        word="${COMPREPLY[i]#"$before"}"
        if [[ -z "$quoted" && "$word" == *[[:space:]\'\"\$\`\\\|\&\;\<\>\(\)\*\?\[\]\!\#]* ]]; then
            printf -v word %q "$word"
        fi
        COMPREPLY[i]="$word"
    done
    if [[ "${COMPREPLY[*]}" == *[=/:] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
if [[ "${BASH_VERSINFO[0]}" -gt 4 || "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 ]]; then
    complete -o bashdefault -o nosort -F _turntree turntree
else
    complete -o bashdefault -F _turntree turntree
fi
