// SPDX-License-Identifier: Apache-2.0
#include "lib/settings/parse.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

SettingsOutcome from_option(std::string text) {
    SettingsSources sources;
    sources.option = std::move(text);
    return resolve_settings(sources);
}

/// The one error of an option text.
std::string error_of(std::string text) {
    const auto outcome = from_option(std::move(text));
    return outcome.errors.size() == 1 ? outcome.errors.front() : "(none)";
}

TEST(Settings, EveryAvailableKeyIsRead) {
    const auto outcome = from_option(
        "layout=pod,net=10.1.0.0/16,head=suffix:-ib0,port=21000,port_range=20000-20099,"
        "hca=^mlx5_0+mlx5_1:2,gid=5,family=ipv6,prefix=fd00::/8,roce=1,tuning=off,failover,strict,verbose=3");
    EXPECT_TRUE(outcome.errors.empty());
    const Settings& s = outcome.settings;
    EXPECT_TRUE(s.enable);
    EXPECT_EQ(s.layout, Layout::Pod);
    EXPECT_EQ(s.net.prefix->text(), "10.1.0.0/16");
    EXPECT_EQ(s.head.suffix, "-ib0");
    EXPECT_EQ(s.port, 21000);
    EXPECT_EQ(s.port_range->first, 20000);
    EXPECT_EQ(s.port_range->last, 20099);
    EXPECT_TRUE(s.hca.exclude);
    ASSERT_EQ(s.hca.items.size(), 2U);
    EXPECT_EQ(s.hca.items[0].name, "mlx5_0");
    EXPECT_FALSE(s.hca.items[0].port.has_value());
    EXPECT_EQ(s.hca.items[1].port, 2U);
    EXPECT_EQ(s.gid, 5U);
    EXPECT_EQ(s.family, FamilyChoice::Ipv6);
    EXPECT_EQ(s.prefix->text(), "fd00::/8");
    EXPECT_EQ(s.roce, RoceVersion::V1);
    EXPECT_FALSE(s.tuning);
    EXPECT_TRUE(s.failover);
    EXPECT_TRUE(s.strict);
    EXPECT_EQ(s.verbose, 3U);
    EXPECT_EQ(s.given.at("gid").origin, Origin::Option);
}

TEST(Settings, AutoGivesTheDefaultBack) {
    SettingsSources sources;
    sources.plugstack = {"gid=3", "port=21000", "net=eth0", "head=login", "hca=a", "prefix=10.0.0.0/8", "layout=rank"};
    sources.option = "gid=auto,port=auto,net=auto,head=auto,hca=auto,prefix=auto,layout=auto";
    const auto outcome = resolve_settings(sources);
    EXPECT_TRUE(outcome.errors.empty());
    EXPECT_FALSE(outcome.settings.gid || outcome.settings.port || outcome.settings.prefix);
    EXPECT_TRUE(outcome.settings.net.is_auto() && outcome.settings.head.is_auto() && outcome.settings.hca.is_auto());
    EXPECT_EQ(outcome.settings.layout, Layout::Auto);
}

TEST(Settings, StrongerPlacesWin) {
    SettingsSources sources;
    sources.site_path = "/etc/rdma-nccl.conf";
    sources.site_text = "gid = 1\nport = 21000\nverbose = 0\nfamily=ipv4\n";
    sources.plugstack = {"gid=2", "verbose=1", "port=22000"};
    sources.environment = {
        {"RDMA_NCCL_GID", "3"}, {"RDMA_NCCL_VERBOSE", "2"}, {"RDMA_NCCL_SET", "x:1"}, {"PATH", "/bin"}};
    sources.option = "gid=4";
    const auto outcome = resolve_settings(sources);
    EXPECT_TRUE(outcome.errors.empty() && outcome.warnings.empty());
    EXPECT_EQ(outcome.settings.gid, 4U);
    EXPECT_EQ(outcome.settings.verbose, 2U);
    EXPECT_EQ(outcome.settings.port, 22000);
    EXPECT_EQ(outcome.settings.family, FamilyChoice::Ipv4);
    EXPECT_EQ(outcome.settings.given.at("family").place, "/etc/rdma-nccl.conf:4");
    EXPECT_EQ(outcome.settings.given.at("verbose").place, "RDMA_NCCL_VERBOSE");
}

TEST(Settings, FaultsShowTheTextAndACaret) {
    EXPECT_EQ(error_of("gid=3,layuot=rank"), "--rdma-nccl: unknown key \"layuot\"; did you mean layout?\n"
                                             "    gid=3,layuot=rank\n"
                                             "          ^^^^^^");
    EXPECT_EQ(error_of("layout=rnk"), "--rdma-nccl: layout: expected one of auto, rank, node, pod; did you mean rank?\n"
                                      "    layout=rnk\n"
                                      "           ^^^");
    EXPECT_EQ(error_of("gid"), "--rdma-nccl: gid: expected auto or a GID index from 0 to 255\n"
                               "    gid\n"
                               "    ^^^");
    EXPECT_EQ(error_of("gid="), "--rdma-nccl: gid: expected auto or a GID index from 0 to 255\n"
                                "    gid=\n"
                                "        ^");
}

TEST(Settings, BadValuesAreRefused) {
    for (const char* bad : {"gid=256",
                            "gid=-1",
                            "gid=x",
                            "port=0",
                            "port=80",
                            "port=65533",
                            "port=65536",
                            "port_range=1-5",
                            "port_range=20000-20002",
                            "port_range=30000-20000",
                            "port_range=20000",
                            "family=ipv5",
                            "roce=3",
                            "prefix=10.0.0.0",
                            "net=eth0/33",
                            "net=a b",
                            "net=a;b",
                            "net=eth\x1b",
                            "net=waytoolonginterfacename",
                            "net",
                            "head",
                            "head=suffix:",
                            "head=0123456789012345678901234567890123456789012345678901234567890123\x1b[31m",
                            "head=a;b",
                            "head=a/b",
                            "hca",
                            "hca=",
                            "hca=a:",
                            "hca=a:0",
                            "hca=a:x",
                            "hca=a++b",
                            "hca=^",
                            "verbose=4",
                            "strict=maybe",
                            "layout=",
                            "",
                            ",",
                            "=",
                            "gid=3,,"}) {
        if (std::string_view(bad).empty()) {
            continue; // a bare --rdma-nccl
        }
        EXPECT_NE(error_of(bad), "(none)") << bad;
    }
}

TEST(Settings, VerifySaysHowMuch) {
    EXPECT_EQ(resolve_settings({}).settings.verify, VerifyChoice::Summary);
    EXPECT_EQ(from_option("verify=off").settings.verify, VerifyChoice::Off);
    EXPECT_EQ(from_option("verify=full").settings.verify, VerifyChoice::Full);
    SettingsSources sources;
    sources.plugstack = {"verify=off"};
    sources.option = "verify"; // without a value it is on
    EXPECT_EQ(resolve_settings(sources).settings.verify, VerifyChoice::Summary);
    for (const char* bad : {"verify=", "verify=all", "verify=1", "verify=Full"}) {
        EXPECT_NE(error_of(bad).find("one of summary, on, off, full"), std::string::npos) << error_of(bad);
    }
}

TEST(Settings, VerifyDirIsAnAbsoluteDirectoryOfTheSite) {
    SettingsSources sources;
    sources.plugstack = {"verify_dir=/var/spool/rdma-nccl"};
    EXPECT_EQ(resolve_settings(sources).settings.verify_dir, "/var/spool/rdma-nccl");
    EXPECT_TRUE(resolve_settings({}).settings.verify_dir.empty());
    for (const char* bad : {"verify_dir=spool", "verify_dir=", "verify_dir"}) {
        sources.plugstack = {bad};
        const auto outcome = resolve_settings(sources);
        EXPECT_TRUE(outcome.settings.verify_dir.empty()) << bad;
        ASSERT_EQ(outcome.warnings.size(), 1U) << bad; // the site's: the step runs
    }
    const auto users = from_option("verify_dir=/tmp");
    EXPECT_EQ(users.errors.size(), 1U);
    EXPECT_TRUE(users.settings.verify_dir.empty());
}

TEST(Settings, SpawnIsNodeLayout) {
    for (const char* good : {"spawn", "spawn=off,layout=rank", "spawn,layout=node", "layout=auto,spawn=on"}) {
        EXPECT_EQ(error_of(good), "(none)") << good;
    }
    for (const char* bad : {"spawn,layout=rank", "layout=pod,spawn"}) {
        EXPECT_NE(error_of(bad).find("give no other layout, or spawn=off"), std::string::npos) << bad;
    }
}

TEST(Settings, ALayoutOfAStepIsStrongerThanTheSitesSpawn) {
    SettingsSources sources;
    sources.plugstack = {"spawn=on"};
    sources.option = "";
    EXPECT_TRUE(resolve_settings(sources).settings.spawn);
    sources.option = "layout=rank";
    const auto outcome = resolve_settings(sources);
    EXPECT_FALSE(outcome.settings.spawn);
    EXPECT_TRUE(outcome.errors.empty());
    sources.plugstack = {"layout=rank"};
    sources.option = "spawn";
    EXPECT_EQ(resolve_settings(sources).errors.size(), 1U);
}

TEST(Settings, OfPlacement) {
    for (const char* good : {"bind", "bind=auto", "bind=off", "bind=cpu", "bind=cpu+mem"}) {
        EXPECT_EQ(error_of(good), "(none)") << good;
    }
    EXPECT_NE(error_of("bind=gpu").find("expected"), std::string::npos);
    EXPECT_NE(error_of("bind=cpu+gpu"), "(none)");
}

TEST(Settings, OfTheExchange) {
    EXPECT_EQ(error_of("exchange=on,hosts=off,hold=on"), "(none)");
    EXPECT_EQ(error_of("exchange=30,hosts=file,hold=off"), "(none)");
    for (const char* bad :
         {"exchange=0", "exchange=31", "exchange=41", "exchange=soon", "hosts=on", "hold=2", "hosts_mount=on"}) {
        EXPECT_NE(error_of(bad), "(none)") << bad;
    }
    EXPECT_NE(error_of("hosts=mount").find("the site has to set hosts_mount=on"), std::string::npos);
}

// slurmstepd has 45 s for all: users may have the nodes wait for 30 of them, the site for 40.
TEST(Settings, LongExchangesAreTheSitesOnly) {
    SettingsSources sources;
    sources.plugstack = {"exchange=40"};
    EXPECT_TRUE(resolve_settings(sources).errors.empty());
    EXPECT_EQ(resolve_settings(sources).settings.exchange_seconds, 40U);
    sources.option = "exchange=10"; // a user may want less than the site
    EXPECT_TRUE(resolve_settings(sources).errors.empty());
    EXPECT_EQ(resolve_settings(sources).settings.exchange_seconds, 10U);
    sources.option = "exchange=31";
    const auto outcome = resolve_settings(sources);
    ASSERT_EQ(outcome.errors.size(), 1U);
    EXPECT_NE(outcome.errors[0].find("exchange: more than 30 seconds are for the site to set"), std::string::npos);
    EXPECT_EQ(outcome.settings.exchange_seconds, 30U) << "for who goes on all the same";
    sources = {};
    sources.environment = {{"RDMA_NCCL_EXCHANGE", "40"}};
    EXPECT_EQ(resolve_settings(sources).errors.size(), 1U);
    sources = {};
    sources.site_path = "site.conf";
    sources.site_text = "exchange = 40\n";
    EXPECT_EQ(resolve_settings(sources).settings.exchange_seconds, 40U);
    sources.site_text = "exchange = 41\n";
    EXPECT_FALSE(resolve_settings(sources).warnings.empty());
    EXPECT_EQ(resolve_settings(sources).settings.exchange_seconds, Settings().exchange_seconds);
}

TEST(Settings, SiteKeysAreTheSitesOnly) {
    EXPECT_NE(error_of("root=/copy").find("root can be set by the site only"), std::string::npos);
    EXPECT_NE(error_of("memlock=raise").find("memlock can be set by the site only"), std::string::npos);
    SettingsSources sources;
    sources.environment = {{"RDMA_NCCL_ROOT", "/copy"}};
    EXPECT_EQ(resolve_settings(sources).errors.size(), 1U);
    sources.environment.clear();
    sources.plugstack = {"root=/copy"};
    EXPECT_EQ(resolve_settings(sources).settings.root, "/copy");
}

TEST(Settings, FaultsOfTheSiteAreWarningsAndTheRestCounts) {
    SettingsSources sources;
    sources.site_path = "site.conf";
    sources.site_text =
        "# comment\n\n  gid = many # why not\nport = 21000\nbogus\n = 3\nNCCL_IB_TIMEOUT = 99\nNCCL_IB_TIMEOUT = 18\n";
    sources.plugstack = {"verbose=loud", "gid=3"};
    const auto outcome = resolve_settings(sources);
    EXPECT_TRUE(outcome.errors.empty());
    ASSERT_EQ(outcome.warnings.size(), 5U);
    EXPECT_EQ(outcome.warnings[0], "site.conf:3: gid: expected auto or a GID index from 0 to 255; line ignored\n"
                                   "    gid = many\n"
                                   "          ^^^^");
    EXPECT_EQ(outcome.settings.port, 21000);
    EXPECT_EQ(outcome.settings.gid, 3U);
    EXPECT_EQ(outcome.settings.tuning_values.ib_timeout, 18U);
}

TEST(Settings, OffSwitchesOneStepOff) {
    SettingsSources sources;
    sources.plugstack = {"enable"};
    EXPECT_TRUE(resolve_settings(sources).settings.enable);
    sources.option = "off";
    EXPECT_FALSE(resolve_settings(sources).settings.enable);
    sources.option = "on,gid=3";
    EXPECT_TRUE(resolve_settings(sources).settings.enable);
}

TEST(Settings, HelpNamesEveryKey) {
    const std::string help = settings_help();
    for (const auto& key : settings_keys()) {
        EXPECT_NE(help.find("\n" + std::string(key.name)), std::string::npos) << key.name;
    }
    EXPECT_TRUE(asks_for_help("help"));
    EXPECT_TRUE(asks_for_help("gid=3,help"));
    EXPECT_FALSE(asks_for_help("helper"));
}

} // namespace
} // namespace rdma_nccl
