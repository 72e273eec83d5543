/* A library for LD_PRELOAD that sets the clock back by $HEED_SOAK_CLOCK_BACK seconds, $HEED_SOAK_CLOCK_AFTER seconds
   after the start of the program. CLOCK_MONOTONIC is not changed. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long started, after, back;

__attribute__((constructor)) static void start(void) {
    struct timespec now;
    const char *back_text = getenv("HEED_SOAK_CLOCK_BACK"), *after_text = getenv("HEED_SOAK_CLOCK_AFTER");
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    started = now.tv_sec;
    back = back_text ? atol(back_text) : 0;
    after = after_text ? atol(after_text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *result) {
    struct timespec now;
    int status = syscall(SYS_clock_gettime, clock, result);
    if (clock == CLOCK_REALTIME && back) {
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        if (now.tv_sec - started >= after)
            result->tv_sec -= back;
    }
    return status;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
