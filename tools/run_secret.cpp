// SPDX-License-Identifier: Apache-2.0
#include "tools/run_secret.h"

#include "lib/format.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace rdma_nccl {

namespace {

constexpr std::size_t secret_length = 32;

/// FNV-1a, the same on all machines.
std::uint64_t hash_of(std::uint64_t start, std::string_view text) {
    for (const char c : text) {
        start = (start ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
    return start;
}

bool is_token(std::string_view text) {
    return text.size() == secret_length && std::all_of(text.begin(), text.end(), [](char c) {
               return std::isxdigit(static_cast<unsigned char>(c)) != 0;
           });
}

} // namespace

std::string world_secret(const Environment& environment, std::string_view run_id) {
    if (auto token = environment.get(token_variable); token && is_token(*token)) {
        return *token;
    }
    std::string facts(run_id);
    for (const char* const name : {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_JOB_UID"}) {
        facts += '\n' + environment.get(name).value_or("");
    }
    return format_text("{:016x}{:016x}", hash_of(14695981039346656037ULL, facts),
                       hash_of(0x9e3779b97f4a7c15ULL, facts));
}

std::string question_of(std::string_view secret) {
    return std::string(secret.substr(0, secret_length / 2));
}

std::string answer_of(std::string_view secret) {
    return std::string(secret.substr(std::min(secret.size(), secret_length / 2)));
}

bool same_secret(std::string_view a, std::string_view b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
    }
    return difference == 0;
}

} // namespace rdma_nccl
