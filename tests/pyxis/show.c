// SPDX-License-Identifier: Apache-2.0
// show NAME...: prints these variables as NAME=VALUE on one line.
// show exit N, show signal N: ends so. show wait FILE: says that it is ready, and ends when there is such a file.
// As sh it does what pyxis wants of an image's shell: it stops, and ends when it is continued.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    const size_t length = strlen(argv[0]);
    if (length >= 2 && strcmp(argv[0] + length - 2, "sh") == 0) {
        raise(SIGSTOP);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "exit") == 0) {
        return atoi(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "signal") == 0) {
        raise(atoi(argv[2]));
    }
    if (argc == 3 && strcmp(argv[1], "wait") == 0) {
        puts("ready");
        fflush(stdout);
        while (access(argv[2], F_OK) != 0) {
            usleep(20000);
        }
        return 0;
    }
    char line[4096] = "";
    for (int i = 1; i < argc; ++i) {
        const char* const value = getenv(argv[i]);
        const size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%s=%s", i > 1 ? " " : "", argv[i], value ? value : "");
    }
    return puts(line) < 0; // in one write, so that ranks' lines do not mix
}
