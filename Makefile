# SPDX-License-Identifier: Apache-2.0
# The whole build: one file, no recursion, nothing generated but config.mk. `make help` lists the goals.
#
# What is compiled is found by wildcard: a new lib/x.cpp needs no line here. Objects lie in build/obj/ under the name of
# their source, products in build/. A build folder elsewhere (mkdir b && cd b && ../configure && make) has a Makefile of
# one line that includes this one; every path to a source therefore starts with $(srcdir).

comma := ,
srcdir := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
MAKEFLAGS += -rR --no-print-directory
.DELETE_ON_ERROR:
.PHONY: bench-programs all tests fuzz check check-vm check-arm64 bench demo format check-format lint install uninstall
.PHONY: html-doc deps deps-check deps-vm deps-packages deps-arm64 dist packages clean distclean help gtest FORCE

all: ## build the plugin, the command and the examples (configures itself first)

# One short line for each command; `make V=1` shows the commands themselves.
say = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' $1 '$2';)

# --- Configuration --------------------------------------------------------------------------------------------------
# `make` alone must work in a fresh clone: config.mk is a target like any other, and make reads it once it is made. The
# goals named here must work where nothing is installed yet, so they do not ask for it.
unconfigured := help html-doc deps deps-check deps-vm deps-packages deps-arm64 demo check check-vm check-arm64 bench format \
	check-format clean distclean
ifneq ($(filter-out $(unconfigured),$(or $(MAKECMDGOALS),all)),)
include config.mk
endif

config.mk: $(srcdir)/configure $(srcdir)/config.mk.in $(srcdir)/config.h.in
	$(call say,CONF,$@)if [ -x config.status ]; then ./config.status --recheck && ./config.status; \
	else $(srcdir)/configure; fi

config.h: config.mk
	@[ -f $@ ] || ./config.status $@

$(srcdir)/configure: $(srcdir)/configure.ac $(wildcard $(srcdir)/m4/*.m4)
	@command -v autoconf > /dev/null || \
	{ echo "autoconf is not installed: 'sudo make deps' installs what the build needs"; exit 1; }
	$(call say,GEN,configure)cd $(srcdir) && autoconf --warnings=all && rm -f configure~

# --- Flags ----------------------------------------------------------------------------------------------------------
# Warnings are errors for who works on the code (a git checkout), not for who builds a release with a newer compiler.
WERROR ?= $(if $(wildcard $(srcdir)/.git),-Werror)
# clang warns about va_start() after an enum parameter, but Slurm's header declares spank_get_item() just like that. It
# also warns where std::stable_sort() of libstdc++ 12 calls a function that libstdc++ marks as deprecated; without
# __DEPRECATED libstdc++ marks nothing, and g++ still warns of what the code itself uses.
warnings := -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wformat=2 \
	-Wmissing-declarations $(if $(findstring clang,$(CXX)),-Wno-varargs -U__DEPRECATED) $(WERROR)

# Sanitizers replace the run-time checks of the C library. (Some compilers predefine _FORTIFY_SOURCE, hence -U.)
hardening := -fstack-protector-strong $(if $(SANITIZERS),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
# The check of virtual tables opens a pipe, and takes it for a fault when descriptors have run out, as they do in tests.
sanitize := $(if $(SANITIZERS),-fsanitize=$(SANITIZERS) -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
# clang++ adds the fuzzer's probes to all but the other tests, so that the fuzz tests link the same objects.
can_fuzz := $(and $(SANITIZERS),$(findstring clang,$(CXX)),$(FUZZ_CXX))
probes = $(if $(and $(can_fuzz),$(filter-out tests/%,$1)),-fsanitize=fuzzer-no-link)

cppflags = -I. -I$(srcdir) -DSYSCONFDIR='"$(sysconfdir)"' -DBINDIR='"$(bindir)"' -DLIBEXECDIR='"$(libexecdir)"' $(SLURM_CPPFLAGS) $(LIBNL_CPPFLAGS) $(CPPFLAGS)
cxxflags = -std=c++20 $(warnings) $(hardening) -fmacro-prefix-map=$(srcdir)/= $(CXXFLAGS)
ldflags  = -Wl,-z,relro,-z,now -Wl,--as-needed $(sanitize) $(LDFLAGS)

# lib/ and plugin/ end up in a shared object inside srun and slurmstepd: nothing of the library is visible from outside,
# of the plugin only what plugin/rdma_nccl.map names; unused functions can be dropped one by one.
sections := -ffunction-sections -fdata-sections
shared_code := -fPIC -fno-semantic-interposition $(sections)
hidden_code := $(shared_code) -fvisibility=hidden -fvisibility-inlines-hidden
# Compile hot code for speed (-O2) when the rest is compiled for size (-Os).
fast := $(if $(filter -Os,$(CXXFLAGS)),lib/nccl_log/line lib/nccl_log/process lib/nccl_log/reader lib/base/text lib/base/cpu_set lib/placement/% lib/topology/distance tools/profiler/%)
# Tests are compiled more often than they run: they do without the optimizer. Programs of `make bench` have it: the
# linker takes inline functions of the C++ library from the first object that has them.
# With sanitizers, two checks that come with every access to a member are a quarter of their compile time: only the
# commands have them, and the library's inline functions there.
quick := -O0 -U_FORTIFY_SOURCE $(if $(findstring undefined,$(SANITIZERS)),-fno-sanitize=null -fno-sanitize=alignment)
is_quick = $(filter-out tests/bench/%,$(filter tests/%,$1))
code = $(call probes,$1) $(or $(if $(filter lib/% tools/profiler/%,$1),$(hidden_code)),$(if $(filter plugin/% tests/fake_%,$1),$(shared_code)),-fPIE $(sections) $(if $(is_quick),$(quick))) \
	$(if $(filter tools/bench/nccl_rank/% tests/fake_nccl/%,$1),$(cuda_flags)) $(if $(filter $(fast),$1),-O2)
# Headers alone: both libraries are loaded when they are needed.
cuda_flags := $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)

# --- What was built from what, and how ------------------------------------------------------------------------------
find = $(shell cd $(srcdir) && find lib plugin tools tests examples -path tests/data -prune -o -name '$1' -print | sort)
# Without CUDA and NCCL there is no rdma-nccl-bench.
has_bench := $(and $(HAVE_CUDA),$(HAVE_NCCL))
everything := $(filter-out $(if $(has_bench),,tools/bench/nccl_rank/% tests/fake_nccl/%) \
	$(if $(HAVE_HWLOC),,lib/topology/hwloc_%),$(call find,*.cpp))
sources = $(filter $1/%.cpp,$(everything))

objects = $(patsubst %.cpp,build/obj/%.o,$(filter $1/%.cpp,$(everything)))

# Other flags (in config.mk or on the command line) or another Slurm: compile again. A source added or gone: link again.
# These two files change when what they hold does, also beside another make in this folder. (A package brings headers
# with old dates, hence Slurm's number.)
compiler_version = $(shell $(CXX) --version 2> /dev/null | head -n 1)
slurm_number = $(shell grep -hs 'define SLURM_VERSION_NUMBER' $(SLURM_PREFIX)/include/slurm/slurm*.h)
build/flags: text = $(compiler_version) $(CXX) $(PRECOMPILED) $(fast) $(quick) $(cppflags) $(cuda_flags) $(cxxflags) $(hidden_code) $(ldflags) $(own_cxx_library) $(LIBS) $(slurm_number)
build/sources: text = $(everything)
build/flags build/sources: FORCE
	@mkdir -p $(@D)
	@new=$@.$$$$; printf '%s\n' '$(subst ','\'',$(text))' > $$new; if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi

# --- Compile and link -----------------------------------------------------------------------------------------------
compile = $(CXX) $(cppflags) $(cxxflags) $(sanitize)
# Headers take most of the compile time. build-aux/common/FOLDER.h has those that most files of a folder include; it is
# precompiled once, with the folder's flags. `make PRECOMPILED=no`, as in the build for the newest virtual machines,
# finds missing includes. (lib/base/format.cpp includes fmt in a way of its own.)
precompiled_suffix := $(if $(findstring clang,$(CXX)),pch,gch)
precompiled_flags := $(if $(findstring clang,$(CXX)),-fpch-instantiate-templates)
precompiled_folders := $(if $(filter no,$(PRECOMPILED)),,lib plugin tools tests)
precompiled_folder = $(if $(filter tests/fake_% tests/bench/% tools/profiler/% lib/base/format $(fast),$1),,$(filter $(precompiled_folders),$(firstword $(subst /, ,$1))))
precompiled = $(patsubst %,build/obj/%/common.h,$(call precompiled_folder,$1))
precompiled_headers := $(patsubst %,build/obj/%/common.h.$(precompiled_suffix),$(precompiled_folders))
$(precompiled_headers): build/obj/%/common.h.$(precompiled_suffix): $(srcdir)/build-aux/common/%.h build/flags
	@mkdir -p $(@D)
	@echo '#include "build-aux/common/$*.h"' > build/obj/$*/common.h
	$(call say,CXX,$*/common.h)$(compile) $(call code,$*/) $(precompiled_flags) -MMD -MP -MF $(basename $@).d -x c++-header \
		-o $@ build/obj/$*/common.h

# -MMD -MP: the compiler writes down which headers each object was made from, for the next run of make.
.SECONDEXPANSION:
build/obj/%.o: $(srcdir)/%.cpp build/flags $$(addsuffix .$(precompiled_suffix),$$(call precompiled,$$*))
	@mkdir -p $(@D)
	$(call say,CXX,$*.cpp)$(compile) $(call code,$*) $(addprefix -include ,$(call precompiled,$*)) -MMD -MP -c -o $@ $<

# Texts in the program, as literals, that are written as what they are: the pages of --html and the fabric profiles.
embedded := $(patsubst $(srcdir)/%,build/embedded/%.inc,$(wildcard $(srcdir)/tools/*/page.html $(srcdir)/tools/*/*.css $(srcdir)/tools/*/page.js \
	$(srcdir)/etc/profiles.d/*.conf))
build/obj/tools/html/page.o build/obj/lib/fabric_profile/shipped.o: $(embedded)
$(embedded): build/embedded/%.inc: $(srcdir)/%
	@mkdir -p $(@D)
	@{ printf 'R"text('; cat $<; printf ')text"\n'; } > $@

program = $(call say,LINK,$@)$(CXX) -pie $(ldflags) -Wl,--gc-sections -o $@ $(filter %.o %.a,$^)

# The command without its main() is an archive too: the unit tests call its parts.
library  := build/librdma_nccl.a
commands := build/commands.a
plugin   := $(if $(HAVE_SLURM),build/rdma_nccl.so)
examples := build/examples/pi
rank_of_bench := $(if $(has_bench),build/rdma-nccl-bench)
static_command := $(if $(HAVE_STATIC),build/static/rdma-nccl)
profiler := build/librdma_nccl_profiler.so
all: $(plugin) build/rdma-nccl $(static_command) $(rank_of_bench) $(profiler) $(examples)

without_hwloc := build/obj/lib/topology/no_hwloc.o
$(library): $(filter-out $(if $(HAVE_HWLOC),$(without_hwloc)),$(call objects,lib)) build/sources
$(commands): $(filter-out build/obj/tools/main.o $(addprefix build/obj/tools/,static/% profiler/% bench/nccl_rank/%),$(call objects,tools)) build/sources
$(library) $(commands):
	@rm -f $@
	$(call say,AR,$@)$(AR) qcs $@ $(filter %.o,$^)

# The C++ library is linked in: a login node may have an older one, and srun must not care; and the command starts in
# two thirds of the time. With sanitizers it stays shared, because their run-time library has to see its calls.
own_cxx_library = $(if $(SANITIZERS),,-static-libstdc++ -static-libgcc)

# No -z defs: spank_* and slurm_* come from the process that loads the plugin.
build/rdma_nccl.so: $(call objects,plugin) $(library) $(srcdir)/plugin/rdma_nccl.map build/sources
	$(call say,LINK,$@)$(CXX) -shared $(ldflags) $(own_cxx_library) -Wl,--gc-sections \
		-Wl,--version-script=$(srcdir)/plugin/rdma_nccl.map -o $@ $(filter %.o %.a,$^) $(LIBS)

build/rdma-nccl: build/obj/tools/main.o $(commands) $(library) build/sources
	$(program) $(own_cxx_library) $(LIBS)

# For containers. The linker takes these functions before those of the archives.
build/static/rdma-nccl: $(call objects,tools/static) $(without_hwloc) $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -static $(ldflags) -Wl,--gc-sections -o $@ $(filter %.o %.a,$^) $(LIBS)

# The only program that knows CUDA and NCCL: a rank of `rdma-nccl bench`, which finds it in its own folder.
build/rdma-nccl-bench: $(call objects,tools/bench/nccl_rank) $(commands) $(library) build/sources
	$(program) $(own_cxx_library) $(LIBS)

# NCCL unloads it with its last communicator: its counters stay.
$(profiler): $(call objects,tools/profiler) $(srcdir)/tools/profiler/rdma_nccl_profiler.map build/sources
	$(call say,LINK,$@)$(CXX) -shared $(ldflags) $(own_cxx_library) -Wl,--gc-sections,-z,nodelete$(if $(SANITIZERS),,$(comma)-z$(comma)defs) \
		-Wl,--version-script=$(srcdir)/tools/profiler/rdma_nccl_profiler.map -o $@ $(filter %.o,$^)

$(examples): build/examples/%: build/obj/examples/%.o
	@mkdir -p $(@D)
	$(program) $(LIBS)

# --- Tests ----------------------------------------------------------------------------------------------------------
fake_verbs := $(if $(HAVE_IBVERBS),build/tests/fake_verbs/libibverbs.so.1)
fake_nccl := $(if $(has_bench),build/tests/fake_nccl/libnccl.so.2)
fake_nvml := build/tests/fake_nvml/libnvidia-ml.so.1
fake_release := $(addprefix build/tests/fake_release/,rdma-nccl $(if $(plugin),rdma_nccl.so))
fake_container := $(if $(plugin),build/tests/fake_container.so)
emulated := $(fake_verbs) $(fake_nccl) $(fake_nvml) $(fake_release) $(fake_container)
.PHONY: emulated
emulated: $(emulated)
tests: build/tests/unit build/tests/profiler build/tests/profiled build/tests/holder build/tests/owners build/tests/verbs-pair build/tests/pages \
	$(emulated) $(if $(plugin),build/tests/spank) ## build the test programs

build/tests/unit: $(call objects,tests/unit) $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(GTEST_LIBS) $(LIBS)

# NCCL's part is emulated; it loads the library that was built.
build/tests/profiler: build/obj/tests/profiler/plugin_test.o $(library) build/sources | $(profiler)
	@mkdir -p $(@D)
	$(program) $(GTEST_LIBS) -ldl $(LIBS)

# The same as a task of a step, for tests/vm.
build/tests/profiled: build/obj/tests/profiler/player.o build/sources
	@mkdir -p $(@D)
	$(program) $(own_cxx_library) -ldl

# The fake SPANK host defines spank_* itself; -rdynamic shows them to the plugin that it loads.
build/tests/spank: $(call objects,tests/spank) $(library) build/sources | $(plugin)
	@mkdir -p $(@D)
	$(program) -rdynamic $(GTEST_LIBS) -ldl $(LIBS)

# RDMA between processes of one machine, and links between GPUs, emulated (README.md in tests/fake_*).
$(fake_verbs): $(call objects,tests/fake_verbs) build/sources
$(fake_nvml): $(call objects,tests/fake_nvml) build/sources
$(fake_verbs) $(fake_nvml):
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -shared $(ldflags) $(own_cxx_library) -Wl,-soname,$(@F) -o $@ $(filter %.o,$^)

# Another plugin, which runs the tasks in an image (tests/fake_container/README.md).
build/tests/fake_container.so: $(call objects,tests/fake_container) build/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -shared $(ldflags) $(own_cxx_library) -o $@ $(filter %.o,$^)

# A plugin and a command of another version, which other versions do not understand: the linker takes own_release() from
# the first object that has it.
build/tests/fake_release/rdma_nccl.so: $(call objects,tests/fake_release) $(call objects,plugin) $(library) $(srcdir)/plugin/rdma_nccl.map build/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -shared $(ldflags) $(own_cxx_library) -Wl,--gc-sections \
		-Wl,--version-script=$(srcdir)/plugin/rdma_nccl.map -o $@ $(filter %.o %.a,$^) $(LIBS)
build/tests/fake_release/rdma-nccl: $(call objects,tests/fake_release) build/obj/tools/main.o $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(own_cxx_library) $(LIBS)

# NCCL and CUDA in the host's memory, emulated (tests/fake_nccl/README.md): one file with two names.
$(fake_nccl): $(call objects,tests/fake_nccl) build/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -shared $(ldflags) $(own_cxx_library) -Wl,-soname,$(@F) -o $@ $(filter %.o,$^)
	@cp --remove-destination $@ $(@D)/libcuda.so.1

# What holds ports for tests/hold/hold-test.
build/tests/holder: $(call objects,tests/hold) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(LIBS)

# What tests/vm asks for the owners of queue pairs.
build/tests/owners: $(call objects,tests/owners) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(own_cxx_library) $(LIBS)

# What tests/vm measures links with: the engine of `rdma-nccl pairs`, and nothing else of it.
build/tests/verbs-pair: $(call objects,tests/verbs) $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(own_cxx_library) $(LIBS)

# What writes pages of fixed reports for tests/html/html-test.
build/tests/pages: $(call objects,tests/html) $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(own_cxx_library) $(LIBS)

# What `make bench` measures with: a program for each tests/bench/*.cpp.
bench_programs := $(patsubst %.cpp,build/%,$(call sources,tests/bench))
$(bench_programs): build/%: build/obj/%.o $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(program) $(LIBS)

$(call objects,tests/unit) $(call objects,tests/spank) build/obj/tests/profiler/plugin_test.o: | gtest
gtest:
	@[ -n "$(HAVE_GTEST)" ] || { echo "configure found no GoogleTest: 'sudo make deps-check' installs it"; exit 1; }

# One libFuzzer program for each tests/fuzz/*.cpp, in a build with clang++'s sanitizers (tests/run-check makes build-asan).
fuzzers := $(if $(can_fuzz),$(patsubst %.cpp,build/%,$(call sources,tests/fuzz)))
fuzz: $(fuzzers) ## build the fuzz tests (in build-asan, which `make check STAGES=fuzz` configures)
	@[ -n "$(can_fuzz)" ] || { echo "fuzz tests need ./configure CXX=clang++ --enable-asan; 'make check STAGES=fuzz' does it"; exit 1; }

$(fuzzers): build/%: build/obj/%.o $(commands) $(library) build/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(ldflags) -fsanitize=fuzzer -o $@ $(filter %.o %.a,$^) $(LIBS)

# `make check STAGES="unit spank"` runs only these; they are in tests/run-check. Some send signals, which must not be
# ignored from the start as nohup and `&` have it.
check: ## run all tests that this machine can run, and say which were left out (STAGES="unit spank": only these)
	@MAKE='$(MAKE)' env --default-signal $(srcdir)/tests/run-check $(STAGES)

# Two Debian releases, each with its Slurm; SUITES="bookworm" for one, SUITES="testing" for a newer Slurm. Their images
# stay in ~/.cache, what is built for them in build-vm/.
check-vm: ## run the tests in virtual machines with Soft-RoCE and a real Slurm (as root)
	@$(srcdir)/build-aux/deps --vm
	@env --default-signal $(srcdir)/tests/vm/check $(SUITES)

# SUITE="trixie" for another Debian release than this machine's; STAGES as above. What is built is in build-arm64/.
check-arm64: $(srcdir)/configure ## build for aarch64, and run the tests under QEMU's emulation of a process
	@[ "$$(id -u)" != 0 ] || $(srcdir)/build-aux/deps --arm64
	@env --default-signal $(srcdir)/tests/arm64/check $(addprefix --suite ,$(SUITE)) $(STAGES)

bench-programs: $(bench_programs)
bench: ## measure against the named peers
	@$(MAKE) all bench-programs
	@$(srcdir)/tests/bench/run

demo: ## bring up a private Slurm of two nodes with the plugin, and run srun --rdma-nccl on it (as root)
	@[ "$$(id -u)" != 0 ] || $(srcdir)/build-aux/quietly 'Packages, steps done' $(srcdir)/build-aux/deps
	@$(srcdir)/build-aux/quietly 'Building, steps done' $(MAKE) -j"$$(nproc)" all
	@$(srcdir)/tests/cluster/demo

# --- Style ----------------------------------------------------------------------------------------------------------
headers = $(call find,*.h)

format: ## bring all C++ into the project's format (clang-format)
	@cd $(srcdir) && clang-format -i $(call find,*.cpp) $(headers)

check-format: ## say which C++ is not in the project's format
	@cd $(srcdir) && clang-format --dry-run -Werror $(call find,*.cpp) $(headers)

# An object is newer than its source and every header it includes, so it stands for all of them: only what changed is
# looked at again. Most of the time goes to the analyzer that follows paths through the code: it gets an eighth of its
# usual budget. clang-tidy skips the tests: compiler warnings and sanitizers cover them.
tidy_flags = -x c++ -std=c++20 -Wall -Wextra $(cppflags) $(cuda_flags) -Xclang -analyzer-config -Xclang max-nodes=28000
looked_at := $(filter-out tests/%,$(everything))
# Where clang's own headers are, a quarter of the time is enough: headers are precompiled. Nothing is found in those; the
# project's own are looked at once, as build-aux/common/*.h includes them.
clang_headers := $(wildcard /usr/lib/llvm-14/include)
tidy_folders := lib tools $(if $(HAVE_SLURM),plugin)
tidy_helpers := $(if $(wildcard $(clang_headers)/clang/AST/ASTContext.h),build/lint/own_declarations.so \
	$(patsubst %,build/lint/%.pch,library $(tidy_folders)))
lint: build/lint.ok ## look for likely mistakes (clang-tidy); only in what changed
build/lint.ok: $(looked_at:%.cpp=build/obj/%.o) $(srcdir)/.clang-tidy | $(tidy_helpers)
	@$(srcdir)/build-aux/lint $(patsubst build/obj/%.o,$(srcdir)/%.cpp,\
		$(filter %.o,$(if $(filter %.clang-tidy,$?),$^,$?))) \
		$(if $(tidy_helpers),$(tidy_folders:%=$(srcdir)/build-aux/common/%.h)) -- $(tidy_flags)
	@touch $@

build/lint/own_declarations.so: $(srcdir)/build-aux/own_declarations.cpp
	@mkdir -p $(@D)
	$(call say,CXX,build-aux/own_declarations.cpp)$(CXX) -std=c++17 -O1 -fPIC -shared -fno-rtti -isystem $(clang_headers) -o $@ $<
build/lint/%.pch: $(srcdir)/build-aux/common/%.h build/flags
	@mkdir -p $(@D)
	$(call say,CXX,$(@F))/usr/lib/llvm-14/bin/clang++ $(subst -x c++,-x c++-header,$(tidy_flags)) -MMD -MP -MF $(@:.pch=.d) -MT $@ -o $@ $<
-include $(wildcard build/lint/*.d)

# --- Install --------------------------------------------------------------------------------------------------------
# KIND:SOURCE:DESTINATION for each file; build-aux/install-files knows the kinds. One list, so that uninstall removes
# what install put. Everything below etc/ that is not one of the two configuration files is an example.
man_pages := $(foreach n,1 5 8,$(addprefix man$n/,$(notdir $(wildcard $(srcdir)/doc/*.$n))))
# bash-completion loads a file that has the command's name.
completion := zsh/site-functions/_rdma-nccl fish/vendor_completions.d/rdma-nccl.fish
data := $(shell cd $(srcdir) && find etc examples doc/schema -type f ! -path etc/rdma-nccl.conf ! -path 'etc/plugstack.conf.d/*')
installed = $(if $(plugin),program:$(plugin):$(plugindir)/rdma_nccl.so) \
	program:build/rdma-nccl:$(bindir)/rdma-nccl \
	program:$(profiler):$(libexecdir)/rdma-nccl/librdma_nccl_profiler.so \
	$(if $(static_command),program:$(static_command):$(libexecdir)/rdma-nccl/rdma-nccl) \
	$(if $(rank_of_bench),program:$(rank_of_bench):$(bindir)/rdma-nccl-bench) \
	data:$(srcdir)/tools/complete/rdma-nccl.bash:$(datadir)/bash-completion/completions/rdma-nccl \
	config:$(srcdir)/etc/rdma-nccl.conf:$(sysconfdir)/rdma-nccl.conf \
	config:$(srcdir)/etc/plugstack.conf.d/rdma-nccl.conf:$(sysconfdir)/slurm/plugstack.conf.d/rdma-nccl.conf \
	$(foreach file,$(completion),data:$(srcdir)/tools/complete/$(notdir $(file)):$(datadir)/$(file)) \
	$(foreach page,$(man_pages),data:$(srcdir)/doc/$(notdir $(page)):$(mandir)/$(page)) \
	$(foreach file,$(data),data:$(srcdir)/$(file):$(datadir)/rdma-nccl/$(patsubst doc/%,%,$(file:etc/%=%)))

install: all ## install (prefix, bindir, sysconfdir, plugindir, ..., DESTDIR); keeps configuration files that exist
	@BINDIR='$(bindir)' STRIP='$(STRIP)' $(srcdir)/build-aux/install-files put '$(DESTDIR)' $(installed)

uninstall: ## remove what install put, except configuration files that were edited
	@$(srcdir)/build-aux/install-files remove '$(DESTDIR)' $(installed)

# --- The rest -------------------------------------------------------------------------------------------------------
deps: ## install the packages for building and for the demo (apt or dnf, as root)
	@$(srcdir)/build-aux/deps

deps-check: ## as deps, and what `make check` needs
	@$(srcdir)/build-aux/deps --check

deps-vm: ## install what virtual machines need: QEMU, mmdebstrap, ...
	@$(srcdir)/build-aux/deps --vm

deps-packages: ## install what packaging needs: debhelper, rpm, lintian, ...
	@$(srcdir)/build-aux/deps --packages

html-doc: ## write the guides and the manual as HTML pages into build/html-doc
	@$(srcdir)/build-aux/html-doc build/html-doc

deps-arm64: ## install what `make check-arm64` and guests of aarch64 need: a cross compiler, QEMU, mmdebstrap
	@$(srcdir)/build-aux/deps --arm64

dist: $(srcdir)/configure ## pack the sources as rdma-nccl-VERSION.tar.gz
	$(call say,TAR,$(PACKAGE)-$(VERSION).tar.gz)$(srcdir)/build-aux/dist $(PACKAGE)-$(VERSION)

# Those of the distribution this is; `make packages FORMATS="deb rpm"` for others, on any that has rpmbuild.
FORMATS ?= $(if $(wildcard /etc/debian_version),deb,rpm)
packages: dist ## build the distribution's packages, for the Slurm found (make deps-packages)
	@$(srcdir)/build-aux/packages/build $(PACKAGE)-$(VERSION).tar.gz $(FORMATS)

clean: ## remove what was built
	rm -rf build build-asan build-vm build-arm64 build-compilers

distclean: clean ## remove what configure wrote, too
	rm -rf config.mk config.h config.log config.status rdma-nccl-*.tar.gz
	$(if $(wildcard $(srcdir)/.git),cd $(srcdir) && rm -rf configure autom4te.cache)

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1\t\2/p' $(srcdir)/Makefile | while IFS='	' read -r goal text; do \
		printf '  %-13s %s\n' "$$goal" "$$text"; done

-include $(shell [ ! -d build/obj ] || find build/obj -name '*.d')
