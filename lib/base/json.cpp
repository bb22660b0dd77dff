// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"

#include "lib/base/format.h"

// Without streams: the C++ library is linked in, so streams would bring all of its locales into the plugin.
#define JSON_NO_IO
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

namespace rdma_nccl {

namespace {

using Tree = nlohmann::ordered_json;

/// Keeps only the last of several members with the same name.
void erase_doubles(std::vector<JsonMember>& members) {
    std::set<std::string> seen;
    const auto is_double = [&seen](const JsonMember& member) { return !seen.insert(member.name).second; };
    members.erase(members.begin(), std::remove_if(members.rbegin(), members.rend(), is_double).base());
}

/// Builds a tree from parser events.
class Builder {
public:
    using number_integer_t = Tree::number_integer_t;
    using number_unsigned_t = Tree::number_unsigned_t;
    using number_float_t = Tree::number_float_t;
    using string_t = Tree::string_t;
    using binary_t = Tree::binary_t;

    explicit Builder(unsigned deepest) : deepest_(deepest) {}

    bool null() { return add({}); }
    bool boolean(bool value) { return add(value); }
    bool number_integer(number_integer_t value) { return add(value); }
    bool number_unsigned(number_unsigned_t value) { return add(value); }
    bool number_float(number_float_t value, const string_t& /*text*/) { return add(value); }
    bool string(string_t& value) { return add(std::move(value)); }
    static bool binary(binary_t& /*value*/) { return false; }
    bool start_object(std::size_t /*size*/) { return open(); }
    bool start_array(std::size_t /*size*/) { return open(); }
    bool end_object() {
        auto members = std::move(open_.back().members);
        erase_doubles(members);
        return close(Json::object(std::move(members)));
    }
    bool end_array() {
        auto items = std::move(open_.back().items);
        return close(Json::array(std::move(items)));
    }
    bool key(string_t& name) {
        open_.back().name = std::move(name);
        return true;
    }
    static bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                            const nlohmann::detail::exception& /*fault*/) {
        return false;
    }

    Json take() { return std::move(root_); }

private:
    /// An array or object that has not ended.
    struct Open {
        std::vector<Json> items;
        std::vector<JsonMember> members;
        std::optional<std::string> name; ///< the name of an object's next member
    };

    bool add(Json value) {
        if (open_.empty()) {
            root_ = std::move(value);
        } else if (auto& last = open_.back(); last.name) {
            last.members.push_back({std::move(*last.name), std::move(value)});
            last.name.reset();
        } else {
            last.items.push_back(std::move(value));
        }
        return true;
    }
    bool open() {
        open_.emplace_back();
        return open_.size() <= deepest_;
    }
    bool close(Json value) {
        open_.pop_back();
        return add(std::move(value));
    }

    unsigned deepest_;
    Json root_;
    std::vector<Open> open_;
};

/// Returns nlohmann's form of a value, for printing.
Tree tree_of(const Json& json) {
    if (json.is_array()) {
        return mapped(json.items(), tree_of);
    }
    if (json.is_object()) {
        Tree::object_t members;
        members.reserve(json.size()); // it would copy, not move, its members to grow
        for (const auto& [name, value] : json.members()) {
            members.emplace_back(name, tree_of(value)); // unlike emplace(), without a search for the name
        }
        return members;
    }
    if (const auto number = json.integer<std::uint64_t>()) {
        return *number;
    }
    if (const auto negative = json.integer<std::int64_t>()) {
        return *negative;
    }
    return json.is_string()    ? Tree(json.text())
           : json.is_boolean() ? Tree(json.get<bool>())
           : json.is_number()  ? Tree(json.get<double>())
                               : Tree();
}

} // namespace

Json::Json() noexcept = default;
Json::Json(std::nullptr_t /*null*/) {}
Json::Json(Leaf leaf) {
    std::visit([this](auto& value) { value_ = std::move(value); }, leaf);
}

Json::Json(std::initializer_list<JsonItem> members)
    : value_(mapped(members, [](const JsonItem& item) {
          return JsonMember{std::string(item.name), std::move(item.value)};
      })) {}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
    value_.swap(other.value_);
    return *this;
}
Json::~Json() = default;

Json Json::array(std::vector<Json> items) {
    Json json;
    json.value_ = std::move(items);
    return json;
}

Json Json::object() {
    return object(std::vector<JsonMember>());
}

Json Json::object(std::vector<JsonMember> members) {
    Json json;
    json.value_ = std::move(members);
    return json;
}

void Json::throw_kind(const char* wanted) {
    throw JsonError(format_text("JSON: {} is wanted here", wanted));
}

template<typename T>
const T& Json::as(const char* wanted) const {
    if (const auto* const value = std::get_if<T>(&value_)) {
        return *value;
    }
    throw_kind(wanted);
}

const std::string& Json::text() const {
    return as<std::string>("a string");
}

const std::vector<Json>& Json::items() const {
    return as<std::vector<Json>>("an array");
}

const std::vector<JsonMember>& Json::members() const {
    return as<std::vector<JsonMember>>("an object");
}

std::string Json::value(std::string_view name, const char* otherwise) const {
    return value(name, std::string(otherwise));
}

bool Json::as_bool() const {
    return as<bool>("a boolean");
}

double Json::as_double() const {
    if (const auto* const value = std::get_if<std::int64_t>(&value_)) {
        return static_cast<double>(*value);
    }
    if (const auto* const value = std::get_if<std::uint64_t>(&value_)) {
        return static_cast<double>(*value);
    }
    return as<double>("a number");
}

std::size_t Json::size() const {
    return is_array() ? items().size() : is_object() ? members().size() : 0;
}

const Json& Json::at(std::size_t index) const {
    if (index >= items().size()) {
        throw JsonError(format_text("JSON: there is no item {}", index));
    }
    return items()[index];
}

Json& Json::operator[](std::size_t index) {
    return const_cast<Json&>(at(index)); // NOLINT(cppcoreguidelines-pro-type-const-cast): *this is not const
}

Json& Json::emplace_back() {
    if (is_null()) {
        value_ = std::vector<Json>();
    }
    if (auto* const items = std::get_if<std::vector<Json>>(&value_)) {
        return items->emplace_back();
    }
    throw_kind("an array");
}

const Json* Json::find(std::string_view name) const {
    const auto* const members = std::get_if<std::vector<JsonMember>>(&value_);
    const auto* const found = members ? find_by(*members, &JsonMember::name, name) : nullptr;
    return found ? &found->value : nullptr;
}

const Json& Json::at(std::string_view name) const {
    if (const auto* const found = find(name)) {
        return *found;
    }
    throw JsonError(format_text("JSON: there is no \"{}\"", name));
}

Json& Json::operator[](std::string_view name) {
    if (is_null()) {
        value_ = std::vector<JsonMember>();
    }
    if (auto* const members = std::get_if<std::vector<JsonMember>>(&value_)) {
        auto* const found = find_by(*members, &JsonMember::name, name);
        return found ? found->value : members->emplace_back(JsonMember{std::string(name), {}}).value;
    }
    throw_kind("an object");
}

void Json::update(const Json& other) {
    for (const auto& [name, value] : other.members()) {
        (*this)[name] = value;
    }
}

void Json::erase(std::string_view name) {
    if (auto* const members = std::get_if<std::vector<JsonMember>>(&value_)) {
        std::erase_if(*members, [name](const auto& member) { return member.name == name; });
    }
}

bool operator==(const Json& one, const Json& other) {
    if (one.is_object() && other.is_object()) {
        return one.size() == other.size() && std::ranges::all_of(one.members(), [&](const JsonMember& member) {
                   const auto* const found = other.find(member.name);
                   return found && *found == member.value;
               });
    }
    if (one.is_number() && other.is_number() && one.value_.index() != other.value_.index()) {
        return one.as_double() == other.as_double();
    }
    return one.is_array() && other.is_array() ? one.items() == other.items()
                                              : !one.is_object() && one.value_ == other.value_;
}

std::string Json::dump(int indent, NotUtf8 bytes) const {
    using Handler = Tree::error_handler_t;
    return tree_of(*this).dump(indent, ' ', true, bytes == NotUtf8::LeftOut ? Handler::ignore : Handler::replace);
}

std::optional<Json> Json::parse(std::string_view text, unsigned deepest) {
    Builder builder(deepest);
    return Tree::sax_parse(text, &builder) ? std::optional(builder.take()) : std::nullopt;
}

std::ostream& operator<<(std::ostream& out, const Json& json) {
    return out << json.dump(2);
}

} // namespace rdma_nccl
