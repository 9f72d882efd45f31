// Writes one byte after the other, in blocks of 64 instructions, behind five others.
__asm__(".intel_syntax noprefix\n.text\n.globl _start\n_start:\n"
" lea rdi, [rip + buffer]\n mov ecx, 1500000\n xor eax, eax\n nop\n jmp 1f\n"
"1: mov byte ptr [rdi + rax], 1\n inc rax\n .rept 60\n nop\n .endr\n dec ecx\n jnz 1b\n"
" mov eax, 1\n mov edi, 1\n lea rsi, [rip + text]\n mov edx, 5\n syscall\n"
" mov eax, 231\n xor edi, edi\n syscall\n"
"text: .ascii \"done\\n\"\n"
".bss\n.balign 4096\nbuffer: .zero 1500000\n.text\n.att_syntax\n");
