// SPDX-License-Identifier: Apache-2.0
// Converts values of a measurement to JSON with lib/net's codec: fields() defines once what a message may hold.
#pragma once

#include "lib/base/json.h"
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

/// Reads exactly what written() writes. Returns nullopt if a field is missing, unknown, of another type or out of
/// range.
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
