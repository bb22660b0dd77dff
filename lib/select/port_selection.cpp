// SPDX-License-Identifier: Apache-2.0
#include "lib/select/port_selection.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/select/candidates.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

/// Returns `hca` as the user wrote it: "hca=mlx5_1:1+mlx5_2".
std::string hca_setting(const HcaChoice& wanted) {
    std::string text = wanted.exclude ? "hca=^" : "hca=";
    for (const auto& item : wanted.items) {
        text += &item == wanted.items.data() ? "" : "+";
        text += item.port ? format_text("{}:{}", item.name, *item.port) : item.name;
    }
    return text;
}

bool names_all(const HcaChoice& wanted) {
    return wanted.is_auto() || wanted.exclude;
}

bool matches_setting(const HcaChoice& wanted, const PortCandidate& candidate) {
    return std::ranges::any_of(wanted.items, [&](const HcaChoice::Item& item) {
        return item.name == candidate.hca->name && item.port.value_or(candidate.port->number) == candidate.port->number;
    });
}

/// Returns all ports; the hca setting has excluded some.
Selection start_selection(const Fabric& fabric, const Settings& settings) {
    const auto& wanted = settings.hca;
    Selection selection{fabric, settings, {}};
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            PortCandidate candidate{.hca = &hca, .port = &port};
            if (candidate.is_roce()) {
                candidate.gid = choose_gid(fabric, port, settings);
            }
            if (!wanted.is_auto() && matches_setting(wanted, candidate) == wanted.exclude) {
                candidate.exclude(
                    wanted.exclude ? PortRule::Excluded : PortRule::NotNamed,
                    format_text("is {} {}: left out", wanted.exclude ? "excluded by" : "not in", hca_setting(wanted)));
            }
            selection.candidates.push_back(std::move(candidate));
        }
    }
    return selection;
}

void exclude_isolated(Selection& selection, std::span<const std::string> isolated) {
    for (auto& candidate : selection.candidates) {
        const std::string name = port_name(candidate.hca->name, candidate.port->number);
        if (candidate.remains() && contains(isolated, name)) {
            candidate.exclude(PortRule::NoNeighbour, "has an address in a network in which no other node of the step "
                                                     "has a port: left out; hca= can name it");
        }
    }
}

/// Warns of names and ports in the setting that do not exist on this node.
void warn_of_absent(const Fabric& fabric, const HcaChoice& wanted, std::vector<std::string>& warnings) {
    constexpr std::size_t max_names = 40;
    for (const auto& item : wanted.items) {
        const Hca* const hca = fabric.find_hca(item.name);
        if (hca == nullptr && !fabric.hcas.empty()) {
            warnings.push_back(format_text("{}: no HCA {} on this node; there are {}", hca_setting(wanted),
                                           printable(item.name), first_names(fabric.hcas, max_names)));
        } else if (hca != nullptr && item.port && fabric.find_port(item.name, *item.port) == nullptr) {
            warnings.push_back(format_text("{}: {} has no port {}; it has {}", hca_setting(wanted), item.name,
                                           *item.port, format_count(hca->ports.size(), "port")));
        }
    }
}

/// Joins at most four sentences, and the number of the rest.
std::string join_some(const std::vector<std::string>& texts) {
    constexpr std::size_t max_texts = 4;
    const std::string some = joined(std::span(texts).first(std::min(texts.size(), max_texts)), "; ");
    return texts.size() > max_texts ? format_text("{}; and {} more", some, texts.size() - max_texts) : some;
}

void add_exclusion(const PortCandidate& candidate, MessageGroups& sentences) {
    sentences.add(rule_name(candidate.exclusion->rule), candidate.name(),
                  format_text("{} {}", candidate.name(), candidate.exclusion->reason));
}

void warn_no_usable_port(const Selection& selection, std::vector<std::string>& warnings) {
    if (selection.fabric.hcas.empty()) {
        return; // Fabric itself reports that there is nothing to choose from
    }
    MessageGroups reasons;
    for (const auto& candidate : selection.candidates) {
        add_exclusion(candidate, reasons);
    }
    const bool any = !selection.candidates.empty();
    warnings.push_back(format_text("no RDMA port is usable, NCCL will use sockets: {}",
                                   any ? join_some(reasons.texts()) : "the devices have no ports"));
}

/// True for an ACTIVE port that is beside a GPU, or at least as fast as a used one, but has no usable address: someone
/// probably forgot to configure it.
bool lacks_address(const Selection& selection, const PortCandidate& candidate,
                   const std::vector<PortCandidate*>& used) {
    constexpr std::array rules = {PortRule::NoGidTable, PortRule::NoGid, PortRule::NoUsableGid, PortRule::NoSuchGid,
                                  PortRule::LinkLocal};
    const auto rate = [&](const PortCandidate& port) { return link_gbps(selection.fabric, port); };
    return contains(rules, candidate.exclusion->rule) &&
           !default_route_above(selection.fabric, candidate) && // a management port is not missed
           (shares_switch_with_gpu(selection.fabric, *candidate.hca) ||
            std::ranges::any_of(used, [&](const PortCandidate* other) {
                return other->is_roce() == candidate.is_roce() &&
                       (same_rate_class(rate(*other), rate(candidate)) || rate(candidate) > rate(*other));
            }));
}

/// Returns "0000:53:00" of "0000:53:00.1": the part that all functions of a card share.
std::string_view card_of(const Hca& hca) {
    return std::string_view(hca.pci).substr(0, hca.pci.rfind('.'));
}

/// True for a broken rail: a port beside a GPU that does not work, with no other working port on its card. If another
/// port of the card works, this one may simply have no cable, or be what `prefix` is to leave out.
bool is_broken_rail(const Selection& selection, const PortCandidate& candidate) {
    constexpr std::array rules = {PortRule::NotActive,     PortRule::NoSubnetManager, PortRule::StateUnreadable,
                                  PortRule::TooSlowToRead, PortRule::NoDeviceFile,    PortRule::OutsidePrefix};
    return contains(rules, candidate.exclusion->rule) && shares_switch_with_gpu(selection.fabric, *candidate.hca) &&
           std::ranges::none_of(selection.candidates, [&](const PortCandidate& other) {
               return card_of(*other.hca) == card_of(*candidate.hca) && other.port->state == "ACTIVE" &&
                      other.port != candidate.port;
           });
}

/// True for a degraded rail: beside a GPU, with a card like that of a used port beside a GPU, but slower. Its link has
/// come up below its full speed.
bool is_degraded_rail(const Selection& selection, const PortCandidate& candidate,
                      const std::vector<PortCandidate*>& used) {
    return candidate.exclusion->rule == PortRule::Slower && !candidate.hca->board.empty() &&
           shares_switch_with_gpu(selection.fabric, *candidate.hca) &&
           std::ranges::any_of(used, [&](const PortCandidate* other) {
               return other->hca->board == candidate.hca->board &&
                      shares_switch_with_gpu(selection.fabric, *other->hca);
           });
}

/// Warns of ports that the user named but that cannot work, and of ports that are expected to be among the used ones.
void warn_of_left_out(Selection& selection, std::vector<std::string>& warnings) {
    const bool user_named = !names_all(selection.settings.hca);
    const auto used = selection.remaining();
    MessageGroups sentences;
    for (const auto& candidate : selection.candidates) {
        if (!candidate.remains() &&
            (lacks_address(selection, candidate, used) || is_broken_rail(selection, candidate) ||
             is_degraded_rail(selection, candidate, used) ||
             (user_named && matches_setting(selection.settings.hca, candidate)))) {
            add_exclusion(candidate, sentences);
        }
    }
    append(warnings, sentences.texts());
}

void warn_of_used(const PortCandidate& candidate, const Settings& settings, MessageGroups& sentences) {
    if (!candidate.is_roce()) {
        return;
    }
    const auto& gid = *candidate.gid.gid;
    if (!candidate.gid.doubt.empty()) {
        sentences.add(
            "doubt " + candidate.gid.doubt, candidate.name(),
            format_text("{}: gid={} is used as asked, although: {}", candidate.name(), gid.index, candidate.gid.doubt));
    } else if (candidate.gid.gid_class == GidClass::LinkLocal) {
        sentences.add("link-local", candidate.name(),
                      format_text("{} has {} a link-local address ({}), which reaches one network segment{}",
                                  candidate.name(),
                                  settings.family == FamilyChoice::Ipv6 ? "with family=ipv6 only" : "only",
                                  gid.value.text(), candidate.gid.remedy.empty() ? "" : "; " + candidate.gid.remedy));
    } else if (settings.prefix && !settings.gid && candidate.gid.gid_class != GidClass::InPrefix) {
        sentences.add("prefix", candidate.name(),
                      format_text("{} has no usable address in {} (prefix): {} is used; give a wider prefix",
                                  candidate.name(), settings.prefix->text(), gid.value.text()));
    }
}

std::string used_reason(const PortCandidate& candidate, const Settings& settings) {
    const std::string by = names_all(settings.hca) ? "" : " as " + hca_setting(settings.hca);
    const double rate = candidate.port->believable_rate_gbps();
    const std::string speed = rate > 0 ? format_text("{:g} Gb/s", rate) : "rate unknown";
    if (!candidate.is_roce()) {
        return format_text("is used{}: InfiniBand, {}", by, speed);
    }
    const auto& gid = *candidate.gid.gid;
    return format_text("is used{}: RoCE, GID {} ({}), {}", by, gid.index, gid.value.text(), speed);
}

/// Returns the verdicts on a port's GIDs, now that it is known whether the port itself is used.
std::vector<GidVerdict> gid_verdicts(const PortCandidate& candidate) {
    std::vector<GidVerdict> verdicts = candidate.gid.verdicts;
    if (!candidate.is_roce()) {
        for (const auto& gid : candidate.port->gids) {
            verdicts.push_back(candidate.port->link_layer == LinkLayer::InfiniBand
                                   ? GidVerdict{gid.index, GidRule::InfiniBand, "only RoCE needs a GID index"}
                                   : GidVerdict{gid.index, GidRule::PortLeftOut, "the port is left out"});
        }
    }
    if (!candidate.remains()) {
        for (auto& verdict : verdicts) {
            if (verdict.used()) {
                verdict = {verdict.index, GidRule::PortLeftOut, "the port is left out"};
            }
        }
    }
    return verdicts;
}

PortChoice port_choice(const PortCandidate& candidate, const Settings& settings) {
    const bool remains = candidate.remains();
    return {.hca = candidate.hca->name,
            .port = candidate.port->number,
            .link_layer = candidate.port->link_layer,
            .rule = remains ? PortRule::Used : candidate.exclusion->rule,
            .reason = remains ? used_reason(candidate, settings) : candidate.exclusion->reason,
            .gid_index = remains && candidate.is_roce() ? std::optional(candidate.gid.gid->index) : std::nullopt,
            .gids = gid_verdicts(candidate)};
}

} // namespace

std::vector<const PortChoice*> FabricChoice::used() const {
    return selected(mapped(ports, [](const PortChoice& port) { return &port; }), &PortChoice::used);
}

std::vector<std::string> FabricChoice::used_names() const {
    return mapped(used(), &PortChoice::name);
}

std::string FabricChoice::nccl_ib_hca() const {
    const auto names = used_names();
    return names.empty() ? "" : "=" + joined(names, ",");
}

bool FabricChoice::is_efa() const {
    return !ports.empty() &&
           std::ranges::all_of(ports, [](const PortChoice& port) { return port.rule == PortRule::Efa; });
}

bool FabricChoice::uses(const std::string& hca) const {
    return std::ranges::any_of(ports, [&](const PortChoice& port) { return port.hca == hca && port.used(); });
}

std::string FabricChoice::reason_for(const Hca& hca) const {
    const auto used =
        std::ranges::find_if(ports, [&](const PortChoice& port) { return port.hca == hca.name && port.used(); });
    const auto* const first = used != ports.end() ? &*used : find_by(ports, &PortChoice::hca, hca.name);
    if (first != nullptr) {
        return first->reason;
    }
    const auto unread = std::ranges::find_if(hca.problems, [](const auto& text) { return text.starts_with('/'); });
    return format_text("has no port{}: left out", unread == hca.problems.end() ? "" : format_text(" ({})", *unread));
}

FabricChoice choose_fabric(const Fabric& fabric, const Settings& settings, std::span<const std::string> isolated) {
    Selection selection = start_selection(fabric, settings);
    apply_filters(selection);
    if (names_all(settings.hca)) {
        exclude_isolated(selection, isolated);
    }

    FabricChoice choice;
    choice.ports =
        mapped(selection.candidates, [&](const PortCandidate& candidate) { return port_choice(candidate, settings); });
    warn_of_absent(fabric, settings.hca, choice.warnings);
    const auto used = selection.remaining();
    if (choice.is_efa()) {
        return choice; // nothing is wrong with them
    }
    if (used.empty()) {
        warn_no_usable_port(selection, choice.warnings);
        return choice;
    }
    warn_of_left_out(selection, choice.warnings);
    MessageGroups sentences;
    for (const PortCandidate* const candidate : used) {
        warn_of_used(*candidate, settings, sentences);
    }
    append(choice.warnings, sentences.texts());
    if (std::ranges::any_of(used, &PortCandidate::is_roce) && !std::ranges::all_of(used, &PortCandidate::is_roce)) {
        choice.warnings.emplace_back("hca= names InfiniBand and RoCE ports: NCCL cannot join them; name one kind");
    }
    decide_gid_index(used, settings, choice);
    return choice;
}

} // namespace rdma_nccl
