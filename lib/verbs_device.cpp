// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs_device.h"

#include "lib/fabric_parse.h"
#include "lib/format.h"

namespace rdma_nccl {

namespace {

constexpr std::string_view class_directory = "/sys/class/infiniband_verbs";
constexpr std::size_t short_file = 128;

DeviceAccess access_of(const Root& root, const std::string& path) {
    if (!root.exists(path)) {
        return DeviceAccess::Missing;
    }
    return root.is_live() && !root.may_read_and_write(path) ? DeviceAccess::Denied : DeviceAccess::Open;
}

} // namespace

VerbsDevices::VerbsDevices(const Root& root) : known_(root.exists("/dev")) {
    if (!known_) {
        return;
    }
    for (const auto& name : root.list(class_directory).value_or(std::vector<std::string>{})) {
        const auto hca = root.read(format_text("{}/{}/ibdev", class_directory, name), short_file);
        if (hca && is_device_name(name)) { // the class has a file abi_version too
            by_hca_[*hca] = name;
        }
    }
}

void VerbsDevices::describe(const Root& root, Hca& hca) const {
    if (!known_) {
        return;
    }
    const auto found = by_hca_.find(hca.name);
    if (found == by_hca_.end()) {
        hca.device_access = DeviceAccess::NoVerbsDevice;
        return;
    }
    hca.device_file = "/dev/infiniband/" + found->second;
    hca.device_access = access_of(root, hca.device_file);
}

} // namespace rdma_nccl
