// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

TEST(Json, IsMadeOfPlainValues) {
    const std::map<std::string, unsigned> counts{{"a", 1}, {"b", 2}};
    const std::vector<std::string> words{"x", "y"};
    const std::optional<int> nothing;
    const Json json{{"null", nullptr},
                    {"yes", true},
                    {"least", INT64_MIN},
                    {"most", UINT64_MAX},
                    {"real", 0.1},
                    {"text", std::string_view("t")},
                    {"words", words},
                    {"map", counts},
                    {"nothing", nothing},
                    {"some", std::optional(5)},
                    {"list", Json::array({1, "b", Json{{"c", 2}}})}};
    EXPECT_EQ(json.dump(), R"({"null":null,"yes":true,"least":-9223372036854775808,"most":18446744073709551615,)"
                           R"("real":0.1,"text":"t","words":["x","y"],"map":{"a":1,"b":2},"nothing":null,"some":5,)"
                           R"("list":[1,"b",{"c":2}]})");
    EXPECT_EQ(Json::parse(json.dump()), json);
    EXPECT_EQ(Json::parse(json.dump(2)), json);
    EXPECT_EQ((Json{{"a", Json::array({1, Json{{"b", 2}}})}, {"c", Json::array()}, {"d", Json::object()}}).dump(2),
              "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": [],\n  \"d\": {}\n}");
}

TEST(Json, KeepsTheOrderOfItsMembers) {
    Json json;
    json["z"] = 1;
    json["a"] = 2;
    json["z"] = 3;
    EXPECT_EQ(json.dump(), R"({"z":3,"a":2})");
    json["b"] = 4;
    json.erase("a");
    EXPECT_EQ(json.dump(), R"({"z":3,"b":4})");
    EXPECT_EQ(json, (Json{{"b", 4}, {"z", 3}})) << "the order does not matter";
    EXPECT_FALSE(json == (Json{{"b", 4}, {"z", 4}}));
    EXPECT_FALSE(json == (Json{{"b", 4}}));
}

TEST(Json, TakesAPartOfItself) {
    Json json{{"a", Json{{"b", 1}}}, {"c", 2}};
    json["d"] = json["c"];
    EXPECT_EQ(json.dump(), R"({"a":{"b":1},"c":2,"d":2})");
    json = json["a"];
    EXPECT_EQ(json.dump(), R"({"b":1})");
}

TEST(Json, GivesNumbersWithinTheirRange) {
    EXPECT_EQ(Json(255).get<std::uint8_t>(), 255);
    EXPECT_EQ(Json(256).integer<std::uint8_t>(), std::nullopt);
    EXPECT_EQ(Json(-1).integer<unsigned>(), std::nullopt);
    EXPECT_EQ(Json(-128).get<std::int8_t>(), -128);
    EXPECT_EQ(Json(UINT64_MAX).integer<std::int64_t>(), std::nullopt);
    EXPECT_EQ(Json(1.0).integer<int>(), std::nullopt);
    EXPECT_EQ(Json(3).get<double>(), 3.0);
    EXPECT_EQ(Json(3), Json(3.0));
    EXPECT_EQ(*Json::parse("[1,2]"), Json(std::vector<int>{1, 2}));
    EXPECT_EQ(Json::parse("[1,2]")->get<std::vector<unsigned>>(), (std::vector<unsigned>{1, 2}));
}

TEST(Json, SaysWhatItIsNot) {
    const Json json{{"text", "t"}};
    EXPECT_THROW((void)json.get<int>(), JsonError);
    EXPECT_THROW((void)json.at("none"), JsonError);
    EXPECT_THROW((void)json.at("text").get<bool>(), JsonError);
    EXPECT_THROW((void)json.items(), JsonError);
    EXPECT_THROW((void)Json(5).members(), JsonError);
    EXPECT_THROW(Json("x").push_back(1), JsonError);
    EXPECT_THROW((void)json.value("text", 5), JsonError);
    EXPECT_EQ(json.value("none", 5), 5);
    EXPECT_EQ(json.value("text", ""), "t");
    EXPECT_EQ(Json(5).find("x"), nullptr);
    EXPECT_EQ(Json(5).size(), 0U);
    EXPECT_THROW((void)Json::array().at(0), JsonError);
}

TEST(Json, ParsesOnlyJson) {
    for (const auto* const text : {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "\"\xff\"", "{\"a\":1}}", "NaN"}) {
        EXPECT_EQ(Json::parse(text), std::nullopt) << text;
    }
    EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3})"), (Json{{"a", 3}, {"b", 2}})) << "the last counts";
    EXPECT_EQ(Json::parse(" \"\\u00e9\" ")->text(), "\xc3\xa9");
}

TEST(Json, IsNotNestedWithoutEnd) {
    const auto nested = [](unsigned depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_TRUE(Json::parse(nested(16), 16));
    EXPECT_FALSE(Json::parse(nested(17), 16));
    EXPECT_FALSE(Json::parse(nested(1'000'000)));
}

TEST(Json, TextsComeBackAsTheyWere) {
    for (const std::string text : {"plain", "a \"quote\"", "back\\slash", "\x01\n\t\x7f", "\xc3\xa9", ""}) {
        const Json json{{text, text}};
        EXPECT_EQ(Json::parse(json.dump()), json) << json.dump();
    }
}

TEST(Json, PrintsAnyBytes) {
    const Json json("a\xff\n\x01<\xc3\xa9");
    EXPECT_EQ(json.dump(), R"("a\ufffd\n\u0001<\u00e9")");
    EXPECT_EQ(json.dump(-1, Json::NotUtf8::LeftOut), R"("a\n\u0001<\u00e9")");
    EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

} // namespace
} // namespace rdma_nccl
