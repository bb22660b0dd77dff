// SPDX-License-Identifier: Apache-2.0
#include "lib/libnl_library.h"

#ifdef HAVE_LIBNL

#include "lib/format.h"
#include "lib/symbols.h"

#include <dlfcn.h>

namespace rdma_nccl {

Result<LibnlLibrary> LibnlLibrary::load() {
    // Never closed, as it was loaded before as a rule: verbs providers need it, too.
    void* const handle = ::dlopen(LIBNL_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(format_text("{} cannot be loaded: install libnl 3 ({})", LIBNL_SONAME, ::dlerror()));
    }
    LibnlLibrary library{};
    Symbols symbols(handle);
    symbols.find(library.socket_alloc, "nl_socket_alloc");
    symbols.find(library.socket_free, "nl_socket_free");
    symbols.find(library.socket_disable_auto_ack, "nl_socket_disable_auto_ack");
    symbols.find(library.socket_modify_cb, "nl_socket_modify_cb");
    symbols.find(library.socket_get_fd, "nl_socket_get_fd");
    symbols.find(library.connect, "nl_connect");
    symbols.find(library.send_simple, "nl_send_simple");
    symbols.find(library.recvmsgs_default, "nl_recvmsgs_default");
    symbols.find(library.geterror, "nl_geterror");
    symbols.find(library.message_header, "nlmsg_hdr");
    if (!symbols.missing().empty()) {
        return fail(format_text("{} has no {}: install libnl 3.2 or newer", LIBNL_SONAME, symbols.missing()));
    }
    return library;
}

} // namespace rdma_nccl

#endif
