// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/pickle.h"

#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace rdma_nccl::flight_recorder {
namespace {

using namespace std::string_literals;

bool is_read(const std::string& program) {
    return Pickle::parse("\x80\x02" + program + ".").has_value();
}

std::optional<std::int64_t> integer(const std::string& program) {
    const auto bytes = "\x80\x02" + program + ".";
    const auto pickle = Pickle::parse(bytes);
    return pickle ? pickle->root().integer() : std::nullopt;
}

std::string text(std::string_view letters) {
    return std::string("X") + static_cast<char>(letters.size()) + "\0\0\0"s + std::string(letters);
}

TEST(Pickle, Integers) {
    EXPECT_EQ(integer("K\xff"), 255);
    EXPECT_EQ(integer("M\xff\xff"), 65535);
    EXPECT_EQ(integer("J\xfe\xff\xff\xff"), -2);
    EXPECT_EQ(integer("\x8a\x00"s), 0);
    EXPECT_EQ(integer("\x8a\x01\xff"), -1);
    EXPECT_EQ(integer("\x8a\x05\x00\x00\x00\x00\x01"s), std::int64_t{1} << 32);
    EXPECT_EQ(integer("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s), INT64_MIN);
    EXPECT_EQ(integer("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"s), std::nullopt);
}

TEST(Pickle, ListsTuplesAndDictionaries) {
    const auto bytes = "\x80\x02}q\x01(" + text("list") + "](K\x01K\x02" + "eK\x03" + "a" + text("tuple") +
                       "K\x04K\x05\x86" + text("none") + "N" + text("true") + "\x88u" + text("again") + "h\x01s.";
    const auto pickle = Pickle::parse(bytes);
    ASSERT_TRUE(pickle) << pickle.error().message;
    const auto root = pickle->root();
    EXPECT_EQ(root.size(), 5U);
    EXPECT_TRUE(root.is_dictionary());
    EXPECT_EQ(root.key(0).text(), "list");
    EXPECT_EQ(root.at("list").size(), 3U);
    EXPECT_EQ(root.at("list").item(2).integer(), 3);
    EXPECT_EQ(root.at("list").item(3).integer(), std::nullopt);
    EXPECT_EQ(root.at("tuple").item(1).integer(), 5);
    EXPECT_EQ(root.at("true").boolean(), true);
    EXPECT_EQ(root.at("none").integer(), std::nullopt);
    EXPECT_EQ(root.at("absent").at("deeper").item(7).text(), std::nullopt);
    EXPECT_EQ(root.at("again").at("again").at("tuple").item(0).integer(), 4) << "it contains itself";
}

TEST(Pickle, ACallStandsForItsFirstArgument) {
    EXPECT_EQ(integer("ctorch.jit._pickle\nbuild_intlist\nK\x07\x85R"), 7);
    EXPECT_FALSE(is_read("cos\nsystem\n)R")) << "without an argument";
    EXPECT_FALSE(is_read("K\x01K\x07\x85R")) << "no function";
    EXPECT_FALSE(is_read("cos\nsystem\nK\x07R")) << "no arguments";
    EXPECT_FALSE(is_read("cos\n" + std::string(300, 'x') + "\n"));
}

TEST(Pickle, RefusesWhatMakesNoSense) {
    EXPECT_FALSE(Pickle::parse(""));
    EXPECT_FALSE(Pickle::parse("\x80\x02K\x01")) << "without an end";
    EXPECT_FALSE(Pickle::parse("\x80\x03N.")) << "another protocol";
    EXPECT_FALSE(Pickle::parse("\x80\x02N.N")) << "something behind it";
    for (const auto& program : {"a"s,
                                "e"s,
                                "u"s,
                                "t"s,
                                "s"s,
                                "h\x01"s,
                                "q\x01"s,
                                "R"s,
                                "\x85"s,
                                "NN"s,
                                ""s,
                                "M\x01"s,
                                "X\xff\xff\xff\xff"s,
                                "](K\x01K\x02u"s,
                                "}(K\x01K\x02"
                                "e"s,
                                "}(K\x01u"s,
                                ")K\x01"
                                "a"s,
                                "](a"s,
                                "](\x85"s,
                                "\x8a\x02\x01"s,
                                "cno newline"s,
                                "G\x01"s}) {
        EXPECT_FALSE(is_read(program)) << program;
    }
    EXPECT_FALSE(is_read("N0")) << "POP is none of PyTorch's";
    EXPECT_FALSE(is_read("}b")) << "nor is BUILD";
}

TEST(Pickle, HasLimits) {
    EXPECT_TRUE(is_read(std::string(most_pickle_marks, '(') + std::string(most_pickle_marks, 't')));
    EXPECT_FALSE(is_read(std::string(most_pickle_marks + 1, '(') + std::string(most_pickle_marks + 1, 't')));
    EXPECT_TRUE(is_read("](" + std::string(most_pickle_values - 1, 'N') + "e"));
    EXPECT_FALSE(is_read("](" + std::string(most_pickle_values, 'N') + "e"));
    // Deep without a mark: this takes no stack.
    EXPECT_TRUE(is_read("N" + std::string(most_pickle_values - 1, '\x85')));
    std::string again = "](Nq\x01" + std::string(1, 'e');
    for (std::size_t i = 0; i < 9; ++i) { // few values in many places
        again += "(";
        for (std::size_t j = 0; j < (std::size_t{1} << 20); ++j) {
            again += "h\x01";
        }
        again += "e";
    }
    EXPECT_FALSE(is_read(again));
    EXPECT_EQ(Pickle::parse(std::string(most_pickle_bytes + 1, 'N')).error().message, "longer than 67.1 MB");
}

} // namespace
} // namespace rdma_nccl::flight_recorder
