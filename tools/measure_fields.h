// SPDX-License-Identifier: Apache-2.0
// Values of a measurement in JSON by lib/net's codec: what a message may hold is said once, in fields().
#pragma once

#include "lib/json.h"
#include "lib/net/message.h"

#include <optional>
#include <utility>

namespace rdma_nccl {

template<typename T>
Json written(const T& value) {
    auto object = Json::object();
    FieldWriter writer(object);
    fields(writer, value);
    return object;
}

/// What written() makes, and nothing else: no field is missing, unknown, of another kind or beyond its limits.
template<typename T>
std::optional<T> read_exactly(const Json& json) {
    if (!json.is_object()) {
        return std::nullopt;
    }
    T value{};
    FieldReader reader(json);
    fields(reader, value);
    return reader.good() && written(value) == json ? std::optional(std::move(value)) : std::nullopt;
}

} // namespace rdma_nccl
