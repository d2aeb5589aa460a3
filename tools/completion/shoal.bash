# bash completion for shoal: commands, options, experiments.

_shoal_experiments() {
    # Ids, and names without blanks, from the daemon; nothing without a daemon.
    timeout 1 shoal "${dir[@]}" ls 2>/dev/null | awk 'NR > 1 { print $1; print $2 }' | sort -u
}

_shoal_nodes() {
    timeout 1 shoal "${dir[@]}" nodes 2>/dev/null | awk 'NR > 1 { print $1 }' | sort -u
}

_shoal() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="init invite join status nodes slots submit ls show wait watch cancel pause resume delete metrics logs
        checkpoint events withhold drain undrain leave evict help"
    local common="--dir --json --help --version" options="" command="" i
    local -a dir=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == --dir ]]; then
            dir=(--dir "${COMP_WORDS[i + 1]}")
            ((i++))
        elif [[ ${COMP_WORDS[i]} != -* && -z $command ]]; then
            command=${COMP_WORDS[i]}
        fi
    done
    COMPREPLY=()
    case $previous in
    --dir | --context)
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        return
        ;;
    --name | --node-name | --expires | --timeout | --rank | --from | --set | --revoke | --for) return ;;
    esac
    case $command in
    init) options="--name --node-name" ;;
    join) options="--name" ;;
    invite) options="--expires --list --revoke" ;;
    evict) options="--with-vouched --yes" ;;
    submit) options="--context --set --follow --help-config" ;;
    wait) options="--timeout" ;;
    delete) options="--yes" ;;
    logs) options="--rank --follow" ;;
    events) options="--follow --from --since" ;;
    withhold) options="--for --return" ;;
    drain) options="--now --wait --timeout" ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$common $options" -- "$current")
        return
    fi
    case $command in
    "") mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current") ;;
    submit) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    evict) mapfile -t COMPREPLY < <(compgen -W "$(_shoal_nodes)" -- "$current") ;;
    checkpoint)
        if [[ $previous == checkpoint ]]; then
            mapfile -t COMPREPLY < <(compgen -W "ls get verify" -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -W "$(_shoal_experiments)" -- "$current")
        fi
        ;;
    drain | undrain)
        mapfile -t COMPREPLY < <(compgen -W "$(_shoal_nodes)" -- "$current")
        ;;
    show | wait | watch | cancel | pause | resume | delete | metrics | logs)
        mapfile -t COMPREPLY < <(compgen -W "$(_shoal_experiments)" -- "$current")
        ;;
    esac
}

complete -F _shoal shoal
