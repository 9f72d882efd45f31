// Executes loops and repeated string instructions in phases, always the same instructions. Blocks do not overlap: each loop is
// entered by a jump.
__asm__(".intel_syntax noprefix\n.text\n.globl _start\n_start:\n"
" mov r12d, 6\n jmp 1f\n"
"1: lea rdi, [rip + buffer]\n mov ecx, 5000\n mov eax, r12d\n rep stosb\n mov r13d, 700\n jmp 2f\n"
"2: imul rax, rax, 77\n add rbx, rax\n mov [rip + buffer], rbx\n dec r13d\n jnz 2b\n jmp 3f\n"
"3: lea rsi, [rip + buffer]\n lea rdi, [rip + buffer + 2048]\n mov ecx, 200\n rep movsq\n mov r13d, 300\n jmp 4f\n"
"4: add rbx, [rip + buffer + 64]\n dec r13d\n jnz 4b\n dec r12d\n jnz 1b\n"
" mov eax, 231\n mov edi, 7\n syscall\n"
".bss\n.balign 64\nbuffer: .zero 8192\n.text\n.att_syntax\n");
