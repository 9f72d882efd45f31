//! Evaluates filters like those of real programs, and filters that the kernel does not accept.

use super::*;

const fn op(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | code) as u16, jt, jf, k }
}

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0001;

fn run(code: &[libc::sock_filter], number: i64, arguments: [Option<u64>; 6]) -> Option<Action> {
    let call = Call { number, arguments, instruction_pointer: Some(0x1234_5678_9abc) };
    Filter::new(code.to_vec()).run(&Data::new(&call))
}

#[test]
fn a_list_of_calls_is_decided_by_call_number() {
    let code = [
        op(LOAD, 0),
        jump(libc::BPF_JEQ, 9, 2, 0),
        jump(libc::BPF_JGE, 300, 1, 0),
        op(libc::BPF_RET, ERRNO),
        op(libc::BPF_RET, ALLOW),
    ];
    let none = [None; 6];
    let answers = [9, 11, 319].map(|number| run(&code, number, none));
    assert_eq!(answers, [Action::Allow, Action::Error, Action::Allow].map(Some));
}

#[test]
fn the_architecture_is_x86_64() {
    let code = [
        op(LOAD, 4),
        jump(libc::BPF_JEQ, 0xc000_003e, 0, 1),
        op(libc::BPF_RET, ALLOW),
        op(libc::BPF_RET, 0),
    ];
    assert_eq!(run(&code, 9, [None; 6]), Some(Action::Allow));
}

#[test]
fn arguments_and_the_instruction_pointer_are_words_of_the_data() {
    // The upper half of the third argument, and the lower half of the instruction pointer.
    for (offset, expected) in [(36, 7), (32, 8), (8, 0x5678_9abc), (12, 0x1234)] {
        let code = [
            op(LOAD, offset),
            jump(libc::BPF_JEQ, expected, 0, 1),
            op(libc::BPF_RET, ALLOW),
            op(libc::BPF_RET, 0),
        ];
        let arguments = [None, None, Some(7 << 32 | 8), None, None, None];
        assert_eq!(run(&code, 1, arguments), Some(Action::Allow), "{offset}");
    }
}

#[test]
fn a_decision_by_an_unknown_argument_is_not_made() {
    let by_argument = [
        op(LOAD, 16),
        jump(libc::BPF_JEQ, 1, 0, 1),
        op(libc::BPF_RET, ALLOW),
        op(libc::BPF_RET, ERRNO),
    ];
    assert_eq!(run(&by_argument, 1, [None; 6]), None);
    let by_nothing = [op(LOAD, 16), op(TO_X, 0), op(LOAD, 0), op(libc::BPF_RET, ALLOW)];
    assert_eq!(run(&by_nothing, 1, [None; 6]), Some(Action::Allow));
}

#[test]
fn arithmetic_and_scratch_memory_work() {
    let alu = |operation, k| op(libc::BPF_ALU | operation, k);
    let code = [
        op(LOAD, 0),
        alu(libc::BPF_MUL, 6),
        alu(libc::BPF_SUB, 2),
        alu(libc::BPF_LSH, 4),
        alu(libc::BPF_OR, 3),
        alu(libc::BPF_XOR, 1),
        op(libc::BPF_ST, 5),
        op(LOAD_CONSTANT, 0),
        op(LOAD_X_MEMORY, 5),
        op(TO_A, 0),
        jump(libc::BPF_JEQ, ((7 * 6 - 2) << 4 | 3) ^ 1, 0, 1),
        op(libc::BPF_RET, ALLOW),
        op(libc::BPF_RET, 0),
    ];
    assert_eq!(run(&code, 7, [None; 6]), Some(Action::Allow));
}

#[test]
fn programs_that_the_kernel_does_not_accept_are_not_decided() {
    for code in [
        &[][..],
        &[op(LOAD, 0)],
        &[op(LOAD, 2), jump(libc::BPF_JEQ, 0, 0, 0), op(libc::BPF_RET, ALLOW)],
        &[op(libc::BPF_ST, 16), op(libc::BPF_RET, ALLOW)],
        &[jump(libc::BPF_JA, u32::MAX, 0, 0), op(libc::BPF_RET, ALLOW)],
        &[op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0), op(libc::BPF_RET, ALLOW)],
        &[op(libc::BPF_ALU | libc::BPF_DIV, 0), op(RET_A, 0)],
    ] {
        assert_eq!(run(code, 1, [None; 6]), None, "{}", code.len());
    }
}

#[test]
fn every_answer_but_allow_and_log_forbids() {
    let answers = [0, 0x8000_0000, 0x0003_0000, 0x0005_0000, 0x7fc0_0000, 0x7ff0_0000, 0x1234_0000];
    for answer in answers {
        let action = run(&[op(libc::BPF_RET, answer)], 1, [None; 6]).unwrap();
        assert!(!matches!(action, Action::Allow | Action::Log), "{answer:x}");
    }
    assert_eq!(run(&[op(libc::BPF_RET, 0x7ffc_0000)], 1, [None; 6]), Some(Action::Log));
}
