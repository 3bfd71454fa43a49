/* Shifts the clocks of a program that loads this library (LD_PRELOAD), as if it ran on another
 * machine. TEST_CLOCK has the offset of the wall clock in nanoseconds, the drift of all clocks in
 * nanoseconds per second, the monotonic time in nanoseconds at which the drift begins, a file and
 * a step in nanoseconds: the wall clock has the step while the file exists. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static void add(struct timespec *time, long long ns) {
    long long total = time->tv_sec * SECOND + time->tv_nsec + ns;
    time->tv_sec = total / SECOND;
    time->tv_nsec = total % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    const char *text = getenv("TEST_CLOCK");
    if (failed != 0 || text == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)) {
        return (int)failed;
    }
    long long offset, drift, begin, step;
    char file[512];
    if (sscanf(text, "%lld %lld %lld %511s %lld", &offset, &drift, &begin, file, &step) != 5) {
        abort();
    }
    struct timespec now = *time;
    if (clock == CLOCK_REALTIME) {
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    }
    long long since = now.tv_sec * SECOND + now.tv_nsec - begin;
    add(time, (long long)((double)since * (double)drift / (double)SECOND));
    if (clock == CLOCK_REALTIME) {
        add(time, offset);
        if (access(file, F_OK) == 0) {
            add(time, step);
        }
    }
    return 0;
}
