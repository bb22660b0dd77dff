// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_endpoint.h"

#include "lib/format.h"
#include "lib/settings.h"
#include "lib/socket_address.h"
#include "lib/text.h"

#include <algorithm>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <sys/random.h>

namespace rdma_nccl {

namespace {

constexpr std::string_view version = "1";
constexpr std::size_t most_addresses = 8;
constexpr std::size_t longest_endpoint = 1024;

std::string hex(const Token& token) {
    std::string text;
    for (const auto byte : token) {
        text += format_text("{:02x}", byte);
    }
    return text;
}

std::optional<Token> from_hex(std::string_view text) {
    Token token{};
    if (text.size() != 2 * token.size()) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < token.size(); ++i) {
        const auto byte = parse_number<std::uint8_t>(text.substr(2 * i, 2), 16);
        if (!byte) {
            return std::nullopt;
        }
        token[i] = *byte;
    }
    return token;
}

} // namespace

std::optional<Secret> random_secret() {
    Secret secret;
    for (Token* token : {&secret.question, &secret.answer}) {
        if (::getrandom(token->data(), token->size(), 0) != static_cast<ssize_t>(token->size())) {
            return std::nullopt;
        }
    }
    return secret;
}

std::string_view bytes_of(const Token& token) {
    return {reinterpret_cast<const char*>(token.data()), token.size()};
}

std::string launcher_token(const Secret& secret) {
    std::string text;
    for (std::size_t i = 0; i < secret.question.size(); ++i) {
        text += format_text("{:02x}", secret.question.at(i) ^ secret.answer.at(i));
    }
    return text;
}

bool equal_in_constant_time(std::string_view bytes, const Token& token) {
    if (bytes.size() != token.size()) {
        return false;
    }
    unsigned difference = 0;
    for (std::size_t i = 0; i < token.size(); ++i) {
        difference |= static_cast<unsigned>(static_cast<unsigned char>(bytes[i])) ^ token[i];
    }
    return difference == 0;
}

std::string write_endpoint(const ExchangeEndpoint& endpoint) {
    std::string addresses;
    for (const auto& address : endpoint.addresses) {
        addresses += (addresses.empty() ? "" : ",") + address.text();
    }
    return format_text("{};{};{};{};{};{}", version, endpoint.port, hex(endpoint.secret.question),
                       hex(endpoint.secret.answer), endpoint.seconds, addresses);
}

std::optional<ExchangeEndpoint> read_endpoint(std::string_view text) {
    const auto fields = split(text.size() > longest_endpoint ? std::string_view() : text, ';');
    if (fields.size() != 6 || fields[0] != version) {
        return std::nullopt;
    }
    const auto port = parse_number<std::uint16_t>(fields[1]);
    const auto question = from_hex(fields[2]);
    const auto answer = from_hex(fields[3]);
    const auto seconds = parse_number<unsigned>(fields[4]);
    if (!port || *port == 0 || !question || !answer || !seconds || *seconds == 0 || *seconds > most_exchange_seconds) {
        return std::nullopt;
    }
    ExchangeEndpoint endpoint{{}, *port, {*question, *answer}, *seconds};
    for (const auto part : split(fields[5], ',')) {
        const auto address = IpAddress::parse(part);
        if (!address || endpoint.addresses.size() == most_addresses) {
            return std::nullopt;
        }
        endpoint.addresses.push_back(*address);
    }
    return endpoint;
}

std::vector<IpAddress> own_addresses() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) {
        return {};
    }
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
    std::vector<IpAddress> addresses;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        const auto address = address_of(entry->ifa_addr);
        if ((entry->ifa_flags & IFF_UP) != 0 && address && address->is_routable()) {
            addresses.push_back(*address);
        }
    }
    std::stable_partition(addresses.begin(), addresses.end(), [](const auto& address) { return address.is_ipv4(); });
    addresses.resize(std::min(addresses.size(), most_addresses));
    return addresses;
}

} // namespace rdma_nccl
