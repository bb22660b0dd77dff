// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/atomic_file.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

tl::unexpected<Error> fail_errno(const std::string& path) {
    const int code = errno;
    return fail(format_text("{}: {}", printable(path, 200), std::strerror(code)), code);
}

} // namespace

Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        return fail(format_text("{} is no regular file; name one", printable(path, 200)));
    }
    std::string fresh = path + ".XXXXXX";
    const UniqueFd file(::mkostemp(fresh.data(), O_CLOEXEC));
    if (!file) {
        return fail_errno(path);
    }
    const auto give_up = [&fresh, &path] {
        auto problem = fail_errno(path);
        (void)::unlink(fresh.c_str());
        return problem;
    };
    while (!text.empty()) {
        const ssize_t count = ::write(file.get(), text.data(), text.size());
        if (count < 0 && errno != EINTR) {
            return give_up();
        }
        text.remove_prefix(count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    if (::fchmod(file.get(), mode) != 0 || ::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
        return give_up();
    }
    const auto slash = path.rfind('/');
    const auto directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const UniqueFd parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || (::fsync(parent.get()) != 0 && errno != EINVAL)) { // EINVAL: the file system does not support it
        return fail_errno(directory);
    }
    return {};
}

} // namespace rdma_nccl
