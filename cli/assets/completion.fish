# Completes commands, options and names of turntree in fish: the program looks them up.
function __turntree_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l word (commandline --current-token --cut-at-cursor)
    # The program gets the word without quotes, also while one is open.
    for close in '' "'" '"'
        if set -l plain (string unescape -- "$word$close")
            set word $plain
            break
        end
    end
    COMPLETE=fish turntree -- $words "$word"
end
complete --keep-order --exclusive --command turntree --arguments "(__turntree_complete)"
