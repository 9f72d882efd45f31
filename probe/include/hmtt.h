/* Commands to an HMTT card from a program on the machine whose memory the card watches, above all marks, which the card
 * records among the program's accesses.
 *
 *     hmtt_window window = hmtt_map("/dev/mem", 0);   // physical address 0, as `hmtt ctl --device PATH:OFFSET`
 *     if (!window) { perror("/dev/mem"); return 1; }
 *     hmtt_mark(window, 1);
 *     phase();
 *     hmtt_mark(window, 2);
 *     hmtt_unmap(window);
 *
 * A command is HMTT_COUNT reads of one register, each past the caches. No function but hmtt_map and hmtt_unmap makes a
 * system call. One thread at a time may send commands: an access of another command restarts the card's count. This header
 * requires the registers where the card has them by default, HMTT_STRIDE bytes apart. It is C11, for Linux.
 */
#ifndef HMTT_H
#define HMTT_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Number of accesses that are a command. */
#define HMTT_COUNT 32
/* Bytes from one register to the next. */
#define HMTT_STRIDE 8
/* Bytes of all registers. */
#define HMTT_WINDOW_BYTES 4096

/* Mapped registers of a card. */
typedef const volatile unsigned char *hmtt_window;

/* Kinds of records. */
enum hmtt_mode { HMTT_MODE_LINE, HMTT_MODE_PAGE, HMTT_MODE_FREQUENCY, HMTT_MODE_ANALYSIS };

/* Maps the registers: a device, or a file for tests, in which physical address 0 is at `offset`, a multiple of 4096.
 * Returns NULL on failure, with errno of open(2) or mmap(2). */
static inline hmtt_window hmtt_map(const char *path, off_t offset)
{
    /* With O_SYNC, device memory is mapped uncached. */
    int file = open(path, O_RDWR | O_SYNC);
    if (file < 0)
        return NULL;
    void *at = mmap(NULL, HMTT_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
    int failure = errno;
    close(file);
    errno = failure;
    if (at == MAP_FAILED)
        return NULL;
    return (hmtt_window)at;
}

/* Unmaps the registers. */
static inline void hmtt_unmap(hmtt_window window)
{
    munmap((void *)(uintptr_t)window, HMTT_WINDOW_BYTES);
}

/* Sends the command of a register, 0 to 511. */
static inline void hmtt_send(hmtt_window window, unsigned number)
{
    const volatile uint32_t *place = (const volatile uint32_t *)(window + (number & 511) * HMTT_STRIDE);
    for (int access = 0; access < HMTT_COUNT; access++) {
#if defined(__x86_64__) || defined(__i386__)
        /* The kernel maps memory cached that is also its own, whatever O_SYNC asks for. */
        __asm__ volatile("clflush %0\n\tmfence" : : "m"(*place) : "memory");
#endif
        (void)*place;
    }
}

/* Makes a mark for free use. */
static inline void hmtt_mark(hmtt_window window, uint8_t number)
{
    hmtt_send(window, 0x100u + number);
}

/* Makes the marks that the kernel was entered and left. */
static inline void hmtt_kernel_enter(hmtt_window window) { hmtt_send(window, 0x60); }
static inline void hmtt_kernel_exit(hmtt_window window) { hmtt_send(window, 0x61); }

/* Stops the capture, restores the power-on settings, and starts the capture if the card's run switch is on. */
static inline void hmtt_reset(hmtt_window window) { hmtt_send(window, 0x10); }
/* Starts the capture if the card's run switch is on. */
static inline void hmtt_start(hmtt_window window) { hmtt_send(window, 0x11); }
/* Stops the capture. */
static inline void hmtt_stop(hmtt_window window) { hmtt_send(window, 0x12); }

/* Selects the kind of records. */
static inline void hmtt_set_mode(hmtt_window window, enum hmtt_mode mode)
{
    hmtt_send(window, 0x18u + (unsigned)mode);
}

/* Sets the physical address of the tag window, of 40 bits. */
static inline void hmtt_set_tag_base(hmtt_window window, uint64_t base)
{
    for (int digit = 9; digit >= 0; digit--)
        hmtt_send(window, 0x40u + (unsigned)(base >> (4 * digit) & 15));
}

/* Turns the tag window on, or off if `on` is 0. */
static inline void hmtt_set_tag_window(hmtt_window window, int on)
{
    hmtt_send(window, on ? 0x50 : 0x51);
}

#endif
