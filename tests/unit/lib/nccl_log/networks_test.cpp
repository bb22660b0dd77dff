// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/networks.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl_log/messages.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

TEST(NcclNetworks, AreFoundByNameAndStem) {
    const auto of = [](std::string_view name) {
        const auto* const known = find_network(name);
        return known == nullptr ? "-" : known->name;
    };
    EXPECT_EQ(of("IB"), "IB");
    EXPECT_EQ(of("IBext_v10"), "IBext*");
    EXPECT_EQ(of("IB-CAST"), "IB-*");
    EXPECT_EQ(of("UCX-RMA"), "UCX*");
    EXPECT_EQ(of("Socket"), "Socket");
    EXPECT_EQ(of("Socket_v8"), "Socket_*");
    EXPECT_EQ(of("AWS Libfabric"), "AWS Libfabric");
    EXPECT_EQ(of("OFI"), "OFI");
    EXPECT_EQ(of("IBM"), "-");
    EXPECT_EQ(of("Sockets"), "-");
    EXPECT_EQ(of(""), "-");
}

TEST(NcclNetworks, ProvidersInTheirLayers) {
    EXPECT_EQ(transport_of_provider("efa"), NcclTransport::Rdma);
    EXPECT_EQ(transport_of_provider("verbs;ofi_rxm"), NcclTransport::Rdma);
    EXPECT_EQ(transport_of_provider("shm+cxi:lnx"), NcclTransport::Rdma);
    EXPECT_EQ(transport_of_provider("udp;ofi_rxd"), NcclTransport::Socket);
    EXPECT_EQ(transport_of_provider("tcp+cxi:lnx"), NcclTransport::OtherNet); // may be either
    EXPECT_EQ(transport_of_provider("cxi+tcp+cxi"), NcclTransport::OtherNet);
    EXPECT_EQ(transport_of_provider("usnic"), NcclTransport::OtherNet);
    EXPECT_EQ(transport_of_provider("tcpx"), NcclTransport::OtherNet);
    EXPECT_EQ(transport_of_provider(""), NcclTransport::OtherNet);
    EXPECT_EQ(transport_of_provider(";+:"), NcclTransport::OtherNet);
}

// doc/facts/nccl-log.md has the tables of the code. UPDATE_TABLES=1 build/tests/unit --gtest_filter='NcclLogTables.*'
// writes them anew.

using Lines = std::vector<std::string>;

Lines rows_of(std::span<const KnownName> names) {
    return mapped(names, [](const KnownName& known) {
        const std::string_view carrier = !known.transport                         ? "its provider"
                                         : known.transport == NcclTransport::Rdma ? "RDMA"
                                                                                  : "sockets";
        return format_text("| `{}` | {} | {} | {} |", known.name, carrier, known.what, known.source);
    });
}

Lines rows_of_causes() {
    return mapped(known_causes(), [](const KnownCause& row) {
        return format_text("| `{}` | {} | {} |", row.message, row.cause.empty() ? "no fault" : row.cause,
                           ends_rdma(row.cause) ? "yes" : "");
    });
}

/// Replaces the rows of the table with this header, and returns the old ones.
Lines exchange_rows(Lines& text, const std::string& header, const Lines& rows) {
    const auto head = std::ranges::find(text, header);
    if (head == text.end() || std::next(head) == text.end()) {
        return {"no table " + header};
    }
    const auto begin = head + 2; // behind |---|---|
    const auto end = std::find_if(begin, text.end(), [](const std::string& line) { return !line.starts_with('|'); });
    Lines old(begin, end);
    text.insert(text.erase(begin, end), rows.begin(), rows.end());
    return old;
}

TEST(NcclLogTables, AreInDoc) {
    const std::string path = "doc/facts/nccl-log.md";
    std::ifstream file(path);
    const std::string doc(std::istreambuf_iterator<char>(file), {});
    Lines text = mapped(split(doc, '\n'), [](std::string_view line) { return std::string(line); });
    const bool update = std::getenv("UPDATE_TABLES") != nullptr;
    const auto expect = [&](const std::string& header, const Lines& rows) {
        const auto old = exchange_rows(text, header, rows);
        EXPECT_TRUE(update || old == rows) << path << ": " << header << ": UPDATE_TABLES=1 writes it anew (see above)";
    };
    expect("| network | carried by | what | source |", rows_of(known_names(NameKind::Network)));
    expect("| provider | carried by | what | source |", rows_of(known_names(NameKind::Provider)));
    expect("| plugin | carried by | what | source |", rows_of(known_names(NameKind::Plugin)));
    expect("| message | cause | ends RDMA |", rows_of_causes());
    if (update) {
        std::ofstream(path) << joined(text, "\n");
    }
}

} // namespace
} // namespace rdma_nccl
