/* Sends each command of hmtt.h to the registers in the file that the argument names. Prints where they are mapped. */
#include "hmtt.h"

#include <stdio.h>

int main(int count, char **words)
{
    hmtt_window window = count == 2 ? hmtt_map(words[1], 0) : NULL;
    if (!window) {
        perror("hmtt_map");
        return 1;
    }
    printf("%p\n", (void *)(uintptr_t)window);
    hmtt_reset(window);
    for (int mode = HMTT_MODE_LINE; mode <= HMTT_MODE_ANALYSIS; mode++)
        hmtt_set_mode(window, (enum hmtt_mode)mode);
    hmtt_set_tag_base(window, 0x9876543210);
    hmtt_set_tag_window(window, 1);
    hmtt_set_tag_window(window, 0);
    hmtt_start(window);
    hmtt_mark(window, 0);
    hmtt_mark(window, 255);
    hmtt_kernel_enter(window);
    hmtt_kernel_exit(window);
    hmtt_stop(window);
    hmtt_unmap(window);
    return 0;
}
