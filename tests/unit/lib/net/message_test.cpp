// SPDX-License-Identifier: Apache-2.0
#include "lib/net/message.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {
namespace {

// --- A message with a field of each kind, and one without any ---

enum class Colour { Red, Green, Blue };

struct Leaf {
    std::string name;
    std::vector<std::string> tags;
};

void fields(auto& f, Is<Leaf> auto& m) {
    f("name", m.name, std::size_t{8});
    f("tags", m.tags, std::size_t{3});
}

struct Everything {
    bool yes = false;
    double real = 0;
    double small_real = 0;
    std::uint8_t byte = 7;
    std::uint16_t port = 0;
    unsigned few = 0;
    int error = 0;
    std::uint64_t large = 0;
    std::int64_t deep = 0;
    Colour colour = Colour::Red;
    std::string text;
    std::string bytes;
    std::vector<std::string> lines;
    IpAddress address;
    std::optional<unsigned> maybe;
    Leaf leaf;
    std::vector<Leaf> leaves;
    std::vector<int> numbers;
};

struct Nothing {};

} // namespace

template<>
inline constexpr std::string_view message_name<Everything> = "everything";

template<>
inline constexpr std::string_view message_name<Nothing> = "nothing";

namespace {

void fields(auto& f, Is<Everything> auto& m) {
    f("yes", m.yes);
    f("real", m.real);
    f("small_real", m.small_real, 2.5);
    f("byte", m.byte);
    f("port", m.port);
    f("few", m.few, 10U);
    f("error", m.error);
    f("large", m.large);
    f("deep", m.deep);
    f("colour", m.colour, Colour::Blue);
    f("text", m.text);
    f("bytes", raw(m.bytes), std::size_t{20});
    f("lines", raw(m.lines), std::size_t{3}, std::size_t{5});
    f("address", m.address);
    f("maybe", m.maybe);
    f("leaf", m.leaf);
    f("leaves", m.leaves);
    f("numbers", m.numbers, std::size_t{4});
    f.check(m.port != 13);
}

void fields(auto& /*f*/, Is<Nothing> auto& /*m*/) {}

using Message = std::variant<Everything, Nothing>;

std::optional<Everything> read(std::string_view values) {
    const auto message = read_message<Message>("{\"everything\":" + std::string(values) + "}");
    return message ? std::optional(std::get<Everything>(*message)) : std::nullopt;
}

std::optional<Everything> read_field(const std::string& name, const std::string& value) {
    return read("{\"" + name + "\":" + value + "}");
}

Everything through(const Everything& message) {
    const auto text = write_message(Message(message));
    const auto again = read_message<Message>(text);
    EXPECT_TRUE(again) << text;
    return again ? std::get<Everything>(*again) : Everything();
}

// --- What survives ---

TEST(Message, EveryKindOfFieldSurvives) {
    Everything message;
    message.yes = true;
    message.real = 0.1;
    message.small_real = 2.5;
    message.byte = 255;
    message.port = 65535;
    message.few = 10;
    message.error = std::numeric_limits<int>::min();
    message.large = std::numeric_limits<std::uint64_t>::max();
    message.deep = std::numeric_limits<std::int64_t>::min();
    message.colour = Colour::Blue;
    message.text = "a \"text\" with \\ and /";
    message.address = IpAddress::parse("fd00::1").value();
    message.maybe = 0;
    message.leaf = {"leaf", {"a", ""}};
    message.leaves = {{"one", {}}, {"", {"x", "y", "z"}}};
    message.numbers = {-1, 0, std::numeric_limits<int>::max()};
    const auto again = through(message);
    EXPECT_EQ(again.yes, true);
    EXPECT_EQ(again.real, 0.1);
    EXPECT_EQ(again.small_real, 2.5);
    EXPECT_EQ(again.byte, 255);
    EXPECT_EQ(again.port, 65535);
    EXPECT_EQ(again.few, 10U);
    EXPECT_EQ(again.error, std::numeric_limits<int>::min());
    EXPECT_EQ(again.large, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(again.deep, std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(again.colour, Colour::Blue);
    EXPECT_EQ(again.text, "a \"text\" with \\ and /");
    EXPECT_EQ(again.address, message.address);
    EXPECT_EQ(again.maybe, 0U);
    EXPECT_EQ(again.leaf.tags, (std::vector<std::string>{"a", ""}));
    ASSERT_EQ(again.leaves.size(), 2U);
    EXPECT_EQ(again.leaves[0].name, "one");
    EXPECT_EQ(again.leaves[1].tags.size(), 3U);
    EXPECT_EQ(again.numbers, message.numbers);
    EXPECT_EQ(through(Everything()).maybe, std::nullopt);
    EXPECT_EQ(write_message(Message(Nothing())), "{\"nothing\":{}}");
    EXPECT_TRUE(std::holds_alternative<Nothing>(read_message<Message>("{\"nothing\":{}}").value()));
}

TEST(Message, RawTextsAreNotMadePrintable) {
    Everything message;
    for (const auto& bytes : {std::string("two\nlines\t\x1b[1m"), std::string(3, '\0'),
                              std::string("\xc3\xa4\xe2\x82\xac\x7f"), std::string("{\"few\":1}")}) {
        message.bytes = bytes;
        EXPECT_EQ(through(message).bytes, bytes);
        EXPECT_EQ(write_message(message).find('\n'), std::string::npos);
    }
    EXPECT_TRUE(read_field("bytes", "\"" + std::string(20, 'x') + "\""));
    EXPECT_FALSE(read_field("bytes", "\"" + std::string(21, 'x') + "\""));
    message.lines = {"a\nb", "", std::string(6, '\xff')};
    EXPECT_EQ(through(message).lines, (std::vector<std::string>{"a\nb", "", ""}));
    EXPECT_TRUE(read_field("lines", R"(["12345","",""])"));
    EXPECT_FALSE(read_field("lines", R"(["123456"])"));
    EXPECT_FALSE(read_field("lines", R"(["","","",""])"));
    EXPECT_FALSE(read_field("lines", R"(["",1])"));
}

// Whatever bytes a text has: what is left of it is within its limit, or the reader would refuse it.
TEST(Message, NoRawTextGrows) {
    for (int byte = 0; byte < 256; ++byte) {
        Everything message;
        message.bytes = "<" + std::string(1, static_cast<char>(byte)) + ">";
        EXPECT_EQ(through(message).bytes, byte < 0x80 ? message.bytes : "<>") << byte;
        message.bytes.assign(30, static_cast<char>(byte));
        EXPECT_EQ(through(message).bytes, byte < 0x80 ? message.bytes.substr(0, 20) : "") << byte;
    }
    Everything message;
    message.bytes = std::string(19, 'x') + "\xc3\xa4"; // cut in the midst of a character
    EXPECT_EQ(through(message).bytes, std::string(19, 'x'));
}

// --- What the writer cuts, so that the reader takes it ---

TEST(Message, LongTextsAreCut) {
    Everything message;
    message.text.assign(longest_text, 't');
    EXPECT_EQ(through(message).text, message.text);
    message.text += 't';
    EXPECT_EQ(through(message).text, std::string(longest_text - 3, 't') + "...");
    message.text.assign(100'000, '\n');
    EXPECT_EQ(through(message).text, std::string(longest_text - 3, '?') + "...");
    message.leaf.name = "12345678";
    EXPECT_EQ(through(message).leaf.name, "12345678");
    message.leaf.name = "123456789";
    EXPECT_EQ(through(message).leaf.name, "12345...");
    message.bytes.assign(21, '\n');
    EXPECT_EQ(through(message).bytes, std::string(20, '\n'));
    message.lines.assign(4, "123456");
    EXPECT_EQ(through(message).lines, std::vector<std::string>(3, "12345"));
}

TEST(Message, OfTooManyItemsTheFirstAreWritten) {
    Everything message;
    message.numbers = {1, 2, 3, 4, 5};
    message.leaves.assign(most_items + 1, {"leaf", {"a", "b", "c", "d"}});
    const auto again = through(message);
    EXPECT_EQ(again.numbers, (std::vector<int>{1, 2, 3, 4}));
    ASSERT_EQ(again.leaves.size(), most_items);
    EXPECT_EQ(again.leaves.back().tags, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Message, RealsAreFiniteAndInRange) {
    using Limits = std::numeric_limits<double>;
    for (const auto& [written, come] :
         {std::pair(Limits::quiet_NaN(), 0.0), std::pair(Limits::infinity(), 0.0), std::pair(-Limits::infinity(), 0.0),
          std::pair(-1.0, 0.0), std::pair(-0.0, 0.0), std::pair(1e10, greatest_real), std::pair(1e-300, 1e-300),
          std::pair(Limits::denorm_min(), Limits::denorm_min())}) {
        Everything message;
        message.real = written;
        EXPECT_EQ(through(message).real, come) << written;
    }
    Everything message;
    message.small_real = 3;
    EXPECT_EQ(through(message).small_real, 2.5);
}

TEST(Message, WhatIsWrittenIsPrintable) {
    Everything message;
    message.text = "a\tb\x7f\xc3\xa4\x1b[1m\n";
    const auto text = write_message(message);
    for (const char c : text) {
        EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
    }
    EXPECT_EQ(through(message).text, "a?b????[1m?");
}

// --- What a stranger may write ---

TEST(Message, WhatComesInIsMadePrintable) {
    EXPECT_EQ(read_field("text", "\"a\\tb\\u001b[1m\\u0000\\u007f\xc3\xa4\"")->text, "a?b?[1m????");
    EXPECT_EQ(read_field("leaf", "{\"tags\":[\"\\n\"]}")->leaf.tags.at(0), "?");
}

TEST(Message, UnknownFieldsArePassedOver) {
    const auto message =
        read("{\"new\":{\"deep\":[[[1,null]]]},\"few\":3,\"\":1,\"leaf\":{\"name\":\"x\",\"more\":1}}");
    ASSERT_TRUE(message);
    EXPECT_EQ(message->few, 3U);
    EXPECT_EQ(message->leaf.name, "x");
}

TEST(Message, MissingFieldsKeepTheirDefaults) {
    const auto message = read("{}");
    ASSERT_TRUE(message);
    EXPECT_EQ(message->byte, 7);
    EXPECT_EQ(message->maybe, std::nullopt);
}

TEST(Message, AnotherKindIsRefused) {
    const std::vector<std::pair<std::string, std::string>> values = {
        {"bool", "true"}, {"number", "1"},  {"real", "1.5"}, {"text", "\"x\""},
        {"list", "[]"},   {"object", "{}"}, {"null", "null"}};
    const std::vector<std::pair<std::string, std::vector<std::string>>> taken = {
        {"yes", {"bool"}},      {"real", {"number", "real"}}, {"byte", {"number"}},  {"port", {"number"}},
        {"few", {"number"}},    {"error", {"number"}},        {"large", {"number"}}, {"deep", {"number"}},
        {"colour", {"number"}}, {"text", {"text"}},           {"bytes", {"text"}},   {"address", {}},
        {"maybe", {"number"}},  {"leaf", {"object"}},         {"leaves", {"list"}},  {"lines", {"list"}},
        {"numbers", {"list"}}};
    for (const auto& [field, kinds] : taken) {
        for (const auto& [kind, value] : values) {
            const bool good = std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
            EXPECT_EQ(read_field(field, value).has_value(), good) << field << " " << kind;
        }
    }
}

TEST(Message, NumbersOutOfRangeAreRefused) {
    const std::vector<std::array<std::string, 3>> ranges = {
        {"byte", "255", "256"},
        {"byte", "0", "-1"},
        {"port", "65535", "65536"},
        {"few", "10", "11"},
        {"few", "0", "-1"},
        {"error", "2147483647", "2147483648"},
        {"error", "-2147483648", "-2147483649"},
        {"large", "18446744073709551615", "18446744073709551616"},
        {"large", "0", "-1"},
        {"deep", "9223372036854775807", "9223372036854775808"},
        {"deep", "-9223372036854775808", "-9223372036854775809"},
        {"colour", "2", "3"},
        {"colour", "0", "-1"},
        {"maybe", "4294967295", "4294967296"},
        {"real", "1000000000", "1000000001"},
        {"real", "0", "-0.1"},
        {"real", "1e9", "1e999"},
        {"small_real", "2.5", "2.6"},
        {"few", "1", "1.0"},
        {"few", "1", "1e0"},
        {"port", "12", "13"}, // the message's own check
    };
    for (const auto& [field, good, bad] : ranges) {
        EXPECT_TRUE(read_field(field, good)) << field << " " << good;
        EXPECT_FALSE(read_field(field, bad)) << field << " " << bad;
    }
}

TEST(Message, TooLongAndTooManyAreRefused) {
    const auto text = [](std::size_t size) { return "\"" + std::string(size, 'x') + "\""; };
    const auto list = [](std::size_t size, const std::string& item) {
        std::string items;
        for (std::size_t i = 0; i < size; ++i) {
            items += (i == 0 ? "" : ",") + item;
        }
        return "[" + items + "]";
    };
    EXPECT_TRUE(read_field("text", text(400)));
    EXPECT_FALSE(read_field("text", text(401)));
    EXPECT_TRUE(read_field("leaf", "{\"name\":" + text(8) + "}"));
    EXPECT_FALSE(read_field("leaf", "{\"name\":" + text(9) + "}"));
    EXPECT_TRUE(read_field("leaf", "{\"tags\":" + list(3, text(400)) + "}"));
    EXPECT_FALSE(read_field("leaf", "{\"tags\":" + list(3, text(401)) + "}"));
    EXPECT_FALSE(read_field("leaf", "{\"tags\":" + list(4, text(1)) + "}"));
    EXPECT_TRUE(read_field("leaves", list(64, "{}")));
    EXPECT_FALSE(read_field("leaves", list(65, "{}")));
    EXPECT_TRUE(read_field("numbers", list(4, "1")));
    EXPECT_FALSE(read_field("numbers", list(5, "1")));
}

TEST(Message, OneBadItemOfANestedListMakesItBad) {
    EXPECT_TRUE(read_field("leaves", R"([{"name":"a","tags":["x","y"]},{"tags":[]}])"));
    EXPECT_FALSE(read_field("leaves", R"([{"name":"a"},{"tags":["x",1]}])"));
    EXPECT_FALSE(read_field("leaves", R"([{"name":"a"},[]])"));
    EXPECT_FALSE(read_field("leaves", R"([[{"name":"a"}]])"));
    EXPECT_FALSE(read_field("numbers", "[1,[2]]"));
    // A good field behind a bad one does not make up for it.
    EXPECT_FALSE(read(R"({"yes":1,"few":3})"));
}

TEST(Message, AddressesAreNumbers) {
    EXPECT_TRUE(read_field("address", "\"10.0.0.1\""));
    for (const auto* const bad : {"\"\"", "\"n01\"", "\"10.0.0.1/24\"", "\"10.0.0.256\"", "\"fe80::1%eth0\""}) {
        EXPECT_FALSE(read_field("address", bad)) << bad;
    }
}

TEST(Message, GarbageIsNoMessage) {
    const std::string whole = write_message(through(Everything()));
    for (std::size_t length = 0; length < whole.size(); ++length) {
        EXPECT_FALSE(read_message<Message>(whole.substr(0, length))) << length;
    }
    EXPECT_FALSE(read_message<Message>(whole + "x"));
    EXPECT_FALSE(read_message<Message>(whole + whole));
    for (const auto& bad :
         {std::string("null"), std::string("1"), std::string("[]"), std::string("\"everything\""), std::string("{}"),
          std::string(R"({"everything":[]})"), std::string(R"({"everything":null})"),
          std::string(R"({"nothing":{},"everything":{}})"), std::string("{\"everything\":{\"text\":\"\xff\"}}"),
          std::string("{\"everything\":{\"text\":\"a\nb\"}}"), std::string("\xef\xbb\xbf"),
          std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x00\x01\x02", 3)}) {
        EXPECT_FALSE(read_message<Message>(bad)) << bad;
    }
}

// A list in a list without end takes no stack.
TEST(Message, DeepNestingIsNoCrash) {
    constexpr std::size_t depth = 200'000;
    EXPECT_FALSE(read_message<Message>(std::string(depth, '[')));
    EXPECT_FALSE(read_field("unknown", std::string(depth, '[') + std::string(depth, ']')));
    EXPECT_TRUE(read_field("unknown", std::string(8, '[') + std::string(8, ']')));
    EXPECT_FALSE(read_field("numbers", std::string(depth, '[') + std::string(depth, ']')));
}

TEST(Message, BracketsInTextAreNoNesting) {
    const std::string brackets = R"("[[[[[[[[[[[[[[[[[[[[\"{{{{{{{{{{{{{{{{{{{{{{{{")";
    EXPECT_TRUE(read_field("unknown", brackets));
    EXPECT_TRUE(read_field("unknown", "[" + brackets + ",[[" + brackets + "]]]"));
}

TEST(Message, ErrorsAreInWords) {
    const auto of = [](std::string_view text) { return read_message<Message>(text).error().message; };
    EXPECT_EQ(of("x"), "not a message of rdma-nccl");
    EXPECT_EQ(of("{\"\\u001b[1m\xc3\xa4\":{}}"),
              "a message \"?[1m??\" is not known; is rdma-nccl the same on all nodes?");
    EXPECT_EQ(of(R"({"everything":{"few":"x"}})"), "a message \"everything\" is malformed");
}

} // namespace
} // namespace rdma_nccl
