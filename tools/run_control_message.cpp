// SPDX-License-Identifier: Apache-2.0
#include "tools/run_control_message.h"

#include "lib/format.h"
#include "lib/text.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <optional>

namespace rdma_nccl {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_text = 1024;

/// Reads one message's values; one that is missing or out of range makes the whole of it bad.
class Values {
public:
    explicit Values(const Json& json) : json_(json) {}

    template<typename T>
    T number(const char* name, std::uint64_t greatest) {
        const auto found = json_.find(name);
        if (found == json_.end() || !found->is_number_unsigned() || found->template get<std::uint64_t>() > greatest) {
            good_ = false;
            return T{};
        }
        return static_cast<T>(found->template get<std::uint64_t>());
    }
    bool flag(const char* name) {
        const auto found = json_.find(name);
        good_ = good_ && found != json_.end() && found->is_boolean();
        return good_ && found->get<bool>();
    }
    std::string text(const char* name, std::size_t longest = most_text) {
        const auto found = json_.find(name);
        good_ = good_ && found != json_.end() && found->is_string() &&
                found->get_ref<const std::string&>().size() <= longest;
        return good_ ? found->get<std::string>() : std::string();
    }
    [[nodiscard]] bool good() const { return good_; }
    void refuse() { good_ = false; }

private:
    const Json& json_;
    bool good_ = true;
};

constexpr std::uint64_t most_attempts = 1U << 20U;
constexpr std::uint64_t most_nodes = 1U << 24U;
constexpr std::uint64_t longest_age_us = 1ULL << 50U;

// Name, values out, values in: one triple for each kind of message.
const char* name_of(const Hello& /*m*/) {
    return "hello";
}
Json values_of(const Hello& m) {
    return {{"node_rank", m.node_rank}, {"host", m.host}, {"secret", m.secret}};
}
void take(Hello& m, Values& v) {
    m.node_rank = v.number<unsigned>("node_rank", most_nodes);
    m.host = v.text("host");
    m.secret = v.text("secret");
}

const char* name_of(const FailureNotice& /*m*/) {
    return "failure";
}
Json values_of(const FailureNotice& m) {
    return {{"failure", write_failure(m.failure)}, {"age_us", m.age_us}};
}
void take(FailureNotice& m, Values& v) {
    m.age_us = v.number<std::uint64_t>("age_us", longest_age_us);
    auto failure = read_failure(v.text("failure", most_failure_text));
    if (failure) {
        m.failure = std::move(*failure);
    } else {
        v.refuse();
    }
}

const char* name_of(const Ended& /*m*/) {
    return "ended";
}
Json values_of(const Ended& m) {
    return {{"attempt", m.attempt}, {"clean", m.clean}};
}
void take(Ended& m, Values& v) {
    m.attempt = v.number<unsigned>("attempt", most_attempts);
    m.clean = v.flag("clean");
}

const char* name_of(const SignalCount& /*m*/) {
    return "signal";
}
Json values_of(const SignalCount& m) {
    return {{"signal", m.signal}, {"count", m.count}, {"old", m.old}};
}
void take(SignalCount& m, Values& v) {
    m.signal = v.number<int>("signal", static_cast<std::uint64_t>(SIGRTMAX));
    m.count = v.number<unsigned>("count", 1U << 20U);
    m.old = v.flag("old");
}

const char* name_of(const Alive& /*m*/) {
    return "alive";
}
Json values_of(const Alive& m) {
    return {{"moved", m.moved}};
}
void take(Alive& m, Values& v) {
    m.moved = v.flag("moved");
}

const char* name_of(const Welcome& /*m*/) {
    return "welcome";
}
Json values_of(const Welcome& m) {
    return {{"secret", m.secret}};
}
void take(Welcome& m, Values& v) {
    m.secret = v.text("secret");
}

const char* name_of(const EndRanks& /*m*/) {
    return "end";
}
Json values_of(const EndRanks& m) {
    return {{"attempt", m.attempt}, {"why", m.why.substr(0, most_text)}};
}
void take(EndRanks& m, Values& v) {
    m.attempt = v.number<unsigned>("attempt", most_attempts);
    m.why = printable(v.text("why"), most_text);
}

const char* name_of(const Restart& /*m*/) {
    return "restart";
}
Json values_of(const Restart& m) {
    return {{"attempt", m.attempt}, {"port", m.port}};
}
void take(Restart& m, Values& v) {
    m.attempt = v.number<unsigned>("attempt", most_attempts);
    m.port = v.number<std::uint16_t>("port", UINT16_MAX);
}

const char* name_of(const Finish& /*m*/) {
    return "finish";
}
Json values_of(const Finish& m) {
    return {{"code", m.code}};
}
void take(Finish& m, Values& v) {
    m.code = v.number<int>("code", 255);
}

const char* name_of(const ShowStacks& /*m*/) {
    return "stacks";
}
Json values_of(const ShowStacks& /*m*/) {
    return Json::object();
}
void take(ShowStacks& /*m*/, Values& /*v*/) {}

template<std::size_t I = 0>
std::optional<ControlMessage> message_named(std::string_view name) {
    if constexpr (I < std::variant_size_v<ControlMessage>) {
        std::variant_alternative_t<I, ControlMessage> message;
        return name == name_of(message) ? ControlMessage(std::move(message)) : message_named<I + 1>(name);
    } else {
        return std::nullopt;
    }
}

} // namespace

std::string write_control_message(const ControlMessage& message) {
    const auto write = [](const auto& m) { return Json{{name_of(m), values_of(m)}}; };
    return std::visit(write, message).dump(-1, ' ', true, Json::error_handler_t::replace) + '\n';
}

Result<ControlMessage> read_control_message(std::string_view line) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.size() != 1 || !json.begin()->is_object()) {
        return fail("not a message of a launcher");
    }
    auto message = message_named(json.begin().key());
    if (!message) {
        return fail(format_text("a message \"{}\" is not known", printable(json.begin().key())));
    }
    Values values(*json.begin());
    std::visit([&values](auto& m) { take(m, values); }, *message);
    if (!values.good()) {
        return fail(format_text("a message \"{}\" with bad values", json.begin().key()));
    }
    return std::move(*message);
}

} // namespace rdma_nccl
