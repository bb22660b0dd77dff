// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output.h"

#include <gtest/gtest.h>
#include <vector>

namespace rdma_nccl::run {

namespace {

using Texts = std::vector<std::string>;

/// What the blocks give, each line behind "> ".
std::string lines_of(const Texts& blocks, std::size_t longest = LineSplitter::longest_line) {
    LineSplitter splitter(longest);
    std::string out;
    for (const auto& block : blocks) {
        splitter.take(block, "> ", out);
    }
    splitter.end("> ", out);
    return out;
}

/// All texts of so many bytes over the alphabet.
Texts all_texts(std::size_t size, std::string_view alphabet) {
    Texts texts{""};
    for (std::size_t i = 0; i < size; ++i) {
        Texts longer;
        for (const auto& text : texts) {
            for (const char c : alphabet) {
                longer.push_back(text + c);
            }
        }
        texts = std::move(longer);
    }
    return texts;
}

TEST(RunLines, EachLineHasItsPrefix) {
    EXPECT_EQ(lines_of({}), "");
    EXPECT_EQ(lines_of({"a\nb\n"}), "> a\n> b\n");
    EXPECT_EQ(lines_of({"\n\n"}), "> \n> \n");
    EXPECT_EQ(lines_of({"a", "b", "\nc", "\n"}), "> ab\n> c\n");
}

TEST(RunLines, TheLastNeedsNoNewline) {
    EXPECT_EQ(lines_of({"a\nb"}), "> a\n> b\n");
    EXPECT_EQ(lines_of({"b\r"}), "> b\n");
}

TEST(RunLines, AnUnfinishedLineIsHeldBack) {
    LineSplitter splitter;
    std::string out;
    splitter.take("a\nb", "", out);
    EXPECT_EQ(out, "a\n");
    splitter.take("c\n", "", out);
    EXPECT_EQ(out, "a\nbc\n");
}

TEST(RunLines, CarriageReturns) {
    EXPECT_EQ(lines_of({"10%\r20%\rdone\n"}), "> 10%\n> 20%\n> done\n");
    EXPECT_EQ(lines_of({"\r10%\r20%\n"}), "> 10%\n> 20%\n"); // tqdm begins with one
    EXPECT_EQ(lines_of({"dos\r\n\r\nb\r\n"}), "> dos\r\n> \r\n> b\r\n");
    EXPECT_EQ(lines_of({"dos\r", "\nb\n"}), "> dos\r\n> b\n");
    EXPECT_EQ(lines_of({"a\r\r\n"}), "> a\n> \r\n");
}

TEST(RunLines, AnyBytes) {
    const std::string bytes("\0\xff\x80z\n\0", 6);
    EXPECT_EQ(lines_of({bytes}), "> " + bytes.substr(0, 5) + "> " + std::string(1, '\0') + "\n");
}

TEST(RunLines, LongOnesComeInPieces) {
    EXPECT_EQ(lines_of({"abcdef\n"}, 3), "> abc\n> def\n"); // no empty line behind the last piece
    EXPECT_EQ(lines_of({"abcdefg\nh\n"}, 3), "> abc\n> def\n> g\n> h\n");
    EXPECT_EQ(lines_of({"abc\r\n"}, 3), "> abc\r\n");
    EXPECT_EQ(lines_of({"abcd\re"}, 3), "> abc\n> d\n> e\n");
}

TEST(RunLines, BlocksMakeNoDifference) {
    for (const auto& text : all_texts(6, "a\r\n")) {
        const auto whole = lines_of({text}, 2);
        for (unsigned cuts = 0; cuts < 1U << 5; ++cuts) {
            Texts blocks{text.substr(0, 1)};
            for (unsigned i = 1; i < text.size(); ++i) {
                if ((cuts >> (i - 1) & 1) != 0) {
                    blocks.emplace_back();
                }
                blocks.back() += text[i];
            }
            ASSERT_EQ(lines_of(blocks, 2), whole) << testing::PrintToString(blocks);
        }
    }
}

Texts tail_of(const Texts& blocks, std::size_t count = 100) {
    StreamTail tail;
    for (const auto& block : blocks) {
        tail.take(block);
    }
    return tail.lines(count);
}

TEST(RunTail, LastLinesOldestFirst) {
    EXPECT_EQ(tail_of({}), Texts{});
    EXPECT_EQ(tail_of({"a\nb\nc\n"}, 2), (Texts{"b", "c"}));
    EXPECT_EQ(tail_of({"a\nb", "c"}), (Texts{"a", "bc"}));
    EXPECT_EQ(tail_of({"a\n\n10%\r20%\r\n"}), (Texts{"a", "10%", "20%"}));
    EXPECT_EQ(tail_of({"a\n"}, 0), Texts{});
}

TEST(RunTail, KeepsSoMuchAndNoPartOfALine) {
    const std::string half(StreamTail::size / 2 - 1, 'x');
    const std::string line = half + "\n";
    EXPECT_EQ(tail_of({line, line}), (Texts{half, half}));
    EXPECT_EQ(tail_of({line, line, line}), (Texts{half, half}));
    EXPECT_EQ(tail_of({line + line + line}), (Texts{half, half}));
    EXPECT_EQ(tail_of({line, line, "z"}), (Texts{half, "z"})); // the first has lost a byte
    const std::string great(StreamTail::size * 3, 'y');
    EXPECT_EQ(tail_of({great + "\n"}), (Texts{std::string(StreamTail::size - 1, 'y')})); // better than nothing
    EXPECT_EQ(tail_of({great, "\nend\n"}), (Texts{"end"}));
}

} // namespace

} // namespace rdma_nccl::run
