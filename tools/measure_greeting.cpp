// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_greeting.h"

#include "lib/text.h"
#include "tools/run_secret.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

constexpr char between = ' ';

} // namespace

std::string greeting_of(const MeasureWorld& world) {
    return question_of(world.secret) + between + std::to_string(world.member);
}

std::optional<unsigned> member_of(std::string_view greeting, const MeasureWorld& world) {
    const auto [question, number] = split_once(greeting, between);
    const auto member = parse_number<unsigned>(number.value_or(""));
    if (!same_secret(question, question_of(world.secret)) || !member || *member >= world.members) {
        return std::nullopt;
    }
    return member;
}

std::string measure_text(const nlohmann::json& message) {
    return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace rdma_nccl
