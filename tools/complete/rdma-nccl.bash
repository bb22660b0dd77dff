# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Completion in bash. The command itself says what may stand at the cursor (complete.h).
#
# bash has one completion per command, and srun's is Slurm's. To have the settings of --rdma-nccl= in front of it:
#   source /usr/share/bash-completion/completions/rdma-nccl && _rdma_nccl_wrap srun sbatch salloc

_rdma_nccl() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() starts=() lines=() own value i line
    # bash has also broken words at = and ":". What no blank separates is one word again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i == 0)) || [[ $rest == [[:blank:]]* ]]; then
            words+=('')
            starts+=("$i")
            rest=${rest#"${rest%%[![:blank:]]*}"}
        fi
        own=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || own=$rest # up to the cursor
        words[-1]+=$own
        rest=${rest#"$own"}
    done
    [[ $own != [=:]* ]] || own='' # a separator is not part of what bash replaces
    value=${words[-1]}
    [[ $value != --*=* ]] || value=${value#*=}

    COMPREPLY=()
    # The one in PATH: a tabulator must not run whatever file the line names.
    mapfile -t lines < <(rdma-nccl complete "${words[@]}" 2> /dev/null)
    case ${lines[0]-} in
        :files | :directories)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen "-${lines[0]:1:1}" -- "$value")
            # bash replaces `own` alone, which may begin within the value, or before it
            COMPREPLY=("${COMPREPLY[@]/#/"${words[-1]%"$value"}"}")
            value=${words[-1]%"$own"}
            COMPREPLY=("${COMPREPLY[@]#"${value//\\/}"}") ;;
        ':command '*)
            i=${starts[${lines[0]#* }]}
            if declare -F _command_offset > /dev/null; then _command_offset "$i"
            elif ((i == COMP_CWORD)); then mapfile -t COMPREPLY < <(compgen -c -- "$own")
            else compopt -o default
            fi ;;
        *)
            for line in "${lines[@]}"; do
                line=${line%%$'\t'*}
                COMPREPLY+=("${line#"${words[-1]%"$own"}"}")
            done
            [[ ${COMPREPLY[*]-} != *= ]] || compopt -o nospace ;;
    esac
}
complete -F _rdma_nccl rdma-nccl

declare -ga _rdma_nccl_wrapped=()
declare -gA _rdma_nccl_behind=() # of each wrapped command the function that completes it otherwise; empty: none

# Puts ours in front of the completion that a command has now.
_rdma_nccl_take() { # COMMAND
    local spec function=
    spec=$(complete -p "$1" 2> /dev/null) || spec="complete -o bashdefault -o default $1"
    if [[ $spec == *' -F '* ]]; then
        function=${spec##* -F }
        function=${function%% *}
        spec=${spec/" -F $function"/}
    fi
    _rdma_nccl_behind[$1]=$function
    eval "${spec/#complete/complete -F _rdma_nccl_slurm}"
}

_rdma_nccl_slurm() { # PROGRAM WORD WORD_BEFORE
    local line=${COMP_LINE:0:COMP_POINT} name=$1 loader command
    # For a path, bash takes what was said of the name.
    complete -p "$name" > /dev/null 2>&1 || name=${1##*/}
    if [[ ${line##*[[:blank:]]} == --rdma-nccl=* ]]; then
        _rdma_nccl
    elif [[ ${_rdma_nccl_behind[$name]+taken} ]]; then
        [[ -z ${_rdma_nccl_behind[$name]} ]] || "${_rdma_nccl_behind[$name]}" "$@"
        [[ $2 != --* || --rdma-nccl != "$2"* ]] || COMPREPLY+=(--rdma-nccl)
    else # bash-completion loads Slurm's at its first use, and bash starts again after 124
        loader=$(complete -p -D 2> /dev/null)
        loader=${loader##* -F }
        complete -r "$name"
        [[ -z $loader ]] || "${loader%% *}" "$name"
        for command in "${_rdma_nccl_wrapped[@]}"; do # Slurm's file has the completions of all its commands
            [[ $(complete -p "$command" 2> /dev/null) == *' -F _rdma_nccl_slurm '* ]] || _rdma_nccl_take "$command"
        done
        return 124
    fi
}

_rdma_nccl_wrap() { # COMMAND...
    local command
    _rdma_nccl_wrapped+=("$@")
    for command in "$@"; do
        if complete -p "$command" > /dev/null 2>&1; then _rdma_nccl_take "$command"
        else complete -F _rdma_nccl_slurm "$command"
        fi
    done
}
