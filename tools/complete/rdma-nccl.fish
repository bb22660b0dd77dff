# SPDX-License-Identifier: Apache-2.0
# Completion in fish. The command itself says what may stand at the cursor (complete.h).
#
# For the settings of srun's --rdma-nccl=, which fish adds to other completions of srun, in config.fish:
#   source /usr/share/fish/vendor_completions.d/rdma-nccl.fish

function __rdma_nccl_complete
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    # The one in PATH: a tabulator must not run whatever file the line names.
    set -l lines (rdma-nccl complete $words "$token" 2>/dev/null)
    set -l before (string match -r -- '^--[^=]*=' "$token")
    set -l value (string replace -- "$before" '' "$token")
    switch "$lines[1]"
        case :files
            printf "$before%s\n" (__fish_complete_path "$value")
        case :directories
            printf "$before%s\n" (__fish_complete_directories "$value")
        case ':command *'
            set -e words[1..(string replace ':command ' '' $lines[1])]
            complete -C (string join ' ' -- (string escape -- $words) "$token")
        case '*'
            printf '%s\n' $lines
    end
end

complete -c rdma-nccl -f -a '(__rdma_nccl_complete)'
for command in srun sbatch salloc
    complete -c $command -f -n 'string match -q -- "--r*" (commandline -ct)' -a '(__rdma_nccl_complete)'
end
