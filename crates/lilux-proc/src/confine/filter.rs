//! A seccomp filter from a table of system calls: a decision tree, because a chain would cost twice as much to load and run.
//!
//! Pure: numbers go in, instructions come out. The tests run them in an interpreter.

use std::collections::BTreeMap;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The listener of the filter is told, and decides.
    Tell,
    Errno(i32),
}

/// A look at 32 bits of one argument: the low ones, unless the kernel takes all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    pub argument: u8,
    pub is_high: bool,
    pub mask: u32,
    pub is: Is,
}

impl Test {
    pub const fn low(argument: u8, mask: u32, is: Is) -> Self {
        Self { argument, is_high: false, mask, is }
    }

    pub const fn high(argument: u8, mask: u32, is: Is) -> Self {
        Self { is_high: true, ..Self::low(argument, mask, is) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    Equal(u32),
    NotZero,
}

/// The first case whose tests all hold decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub cases: Vec<(Vec<Test>, Verdict)>,
    pub otherwise: Verdict,
}

impl Rule {
    /// The same for all arguments.
    pub fn always(verdict: Verdict) -> Self {
        Self { cases: Vec::new(), otherwise: verdict }
    }
}

/// Calls that have no rule are allowed up to this number, and unknown beyond it.
pub struct Table {
    pub rules: BTreeMap<u32, Rule>,
    pub last: Option<u32>,
    /// For calls of another architecture: i386 has other numbers, for which no rule is meant.
    pub foreign: Verdict,
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const OFFSET_OF_NUMBER: u32 = 0;
const OFFSET_OF_ARCH: u32 = 4;
const OFFSET_OF_ARGUMENTS: u32 = 16;

const ALLOW: u32 = 0x7fff_0000;
const TELL: u32 = 0x7fc0_0000;
const ERRNO: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

pub type Instruction = libc::sock_filter;

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn answer(verdict: Verdict) -> Instruction {
    plain(
        RETURN,
        match verdict {
            Verdict::Allow => ALLOW,
            Verdict::Tell => TELL,
            Verdict::Errno(errno) => ERRNO | errno as u32,
        },
    )
}

/// The program.
pub fn compile(table: &Table) -> Vec<Instruction> {
    let mut program = vec![plain(LOAD, OFFSET_OF_ARCH)];
    program.push(Instruction { code: JUMP_EQUAL, jt: 1, jf: 0, k: ARCH });
    program.push(answer(table.foreign));
    program.push(plain(LOAD, OFFSET_OF_NUMBER));
    emit_tree(&intervals(table), &mut program);
    share_answers(program)
}

/// Each answer stands as rarely as jumps reach it: the kernel translates the whole program for each run.
fn share_answers(mut program: Vec<Instruction>) -> Vec<Instruction> {
    for at in 0..program.len() {
        let last = |away: usize, most: usize| {
            let first = program[at + 1 + away];
            let reached = &program[at + 1..program.len().min(at + 2 + most)];
            let same = |one: &Instruction| one.code == RETURN && one.k == first.k;
            if first.code == RETURN { reached.iter().rposition(same).unwrap_or(away) } else { away }
        };
        match program[at] {
            Instruction { code: JUMP, k, .. } => program[at].k = last(k as usize, program.len()) as u32,
            Instruction { code: JUMP_EQUAL | JUMP_AT_LEAST, jt, jf, .. } => {
                let [jt, jf] = [jt, jf].map(|away| last(usize::from(away), usize::from(u8::MAX)) as u8);
                program[at] = Instruction { jt, jf, ..program[at] };
            }
            _ => {}
        }
    }
    without_unreached(&program)
}

fn without_unreached(program: &[Instruction]) -> Vec<Instruction> {
    let mut reached = vec![false; program.len() + 1];
    reached[0] = true;
    // Jumps lead forwards only.
    for (at, one) in program.iter().enumerate() {
        if reached[at] {
            ways(*one).iter().flatten().for_each(|away| reached[at + 1 + away] = true);
        }
    }
    let place = |at: usize| reached[..at].iter().filter(|reached| **reached).count();
    let kept = program.iter().enumerate().filter(|(at, _)| reached[*at]);
    let moved = kept.map(|(at, one)| {
        let away = |far: usize| place(at + 1 + far) - place(at + 1);
        match one.code {
            JUMP => Instruction { k: away(one.k as usize) as u32, ..*one },
            _ => Instruction { jt: away(one.jt.into()) as u8, jf: away(one.jf.into()) as u8, ..*one },
        }
    });
    moved.collect()
}

/// How far beyond the next instruction it goes on.
fn ways(one: Instruction) -> [Option<usize>; 2] {
    match one.code {
        RETURN => [None, None],
        JUMP => [Some(one.k as usize), None],
        JUMP_EQUAL | JUMP_AT_LEAST => [Some(one.jt.into()), Some(one.jf.into())],
        _ => [Some(0), None],
    }
}

/// Where which rule begins, in order; the first begins at 0, and the last goes on for ever.
fn intervals(table: &Table) -> Vec<(u32, Rule)> {
    let mut found: Vec<(u32, Rule)> = Vec::new();
    let mut begin = |number: u32, rule: Rule| match found.last_mut() {
        Some((at, last)) if *at == number => *last = rule,
        Some((_, last)) if *last == rule => {}
        _ => found.push((number, rule)),
    };
    begin(0, Rule::always(Verdict::Allow));
    for (number, rule) in &table.rules {
        begin(*number, rule.clone());
        begin(number + 1, Rule::always(Verdict::Allow));
    }
    if let Some(last) = table.last {
        begin(last + 1, Rule::always(Verdict::Errno(libc::ENOSYS)));
    }
    // Neighbours are one: what the kernel translates for each run is as short as it can be.
    found.dedup_by(|next, before| next.1 == before.1);
    found
}

fn emit_tree(intervals: &[(u32, Rule)], program: &mut Vec<Instruction>) {
    if let [(_, rule)] = intervals {
        return emit_rule(rule, program);
    }
    let (low, high) = intervals.split_at(intervals.len() / 2);
    let (mut below, k) = (Vec::new(), high[0].0);
    emit_tree(low, &mut below);
    if let Ok(away) = u8::try_from(below.len()) {
        program.push(Instruction { code: JUMP_AT_LEAST, jt: away, jf: 0, k });
    } else {
        // Conditional jumps reach 255 instructions; the other one reaches any.
        program.push(Instruction { code: JUMP_AT_LEAST, jt: 0, jf: 1, k });
        program.push(plain(JUMP, below.len() as u32));
    }
    program.append(&mut below);
    emit_tree(high, program);
}

fn emit_rule(rule: &Rule, program: &mut Vec<Instruction>) {
    for (tests, verdict) in &rule.cases {
        let mut code = Vec::new();
        for test in tests {
            code.push(plain(
                LOAD,
                OFFSET_OF_ARGUMENTS + 8 * u32::from(test.argument) + 4 * u32::from(test.is_high),
            ));
            if test.mask != u32::MAX {
                code.push(plain(AND, test.mask));
            }
            let (k, jt, jf) = match test.is {
                Is::Equal(value) => (value, 0, 1),
                Is::NotZero => (0, 1, 0),
            };
            // Where it does not hold, `1` becomes the way to the next case.
            code.push(Instruction { code: JUMP_EQUAL, jt, jf, k });
        }
        code.push(answer(*verdict));
        let end = code.len();
        for (at, instruction) in code.iter_mut().enumerate().filter(|(_, one)| one.code == JUMP_EQUAL) {
            let away = (end - at - 1) as u8;
            instruction.jt *= away;
            instruction.jf *= away;
        }
        program.extend(code);
    }
    program.push(answer(rule.otherwise));
}

/// What the kernel would do with the program.
#[cfg(test)]
pub fn interpret(program: &[Instruction], arch: u32, number: u32, arguments: [u64; 6]) -> Verdict {
    let load = |offset: u32| match offset {
        OFFSET_OF_NUMBER => number,
        OFFSET_OF_ARCH => arch,
        _ => {
            let bit = (offset - OFFSET_OF_ARGUMENTS) * 8;
            (arguments[(bit / 64) as usize] >> (bit % 64)) as u32
        }
    };
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        match code {
            LOAD => accumulator = load(k),
            AND => accumulator &= k,
            JUMP => at += k as usize,
            JUMP_EQUAL => at += usize::from(if accumulator == k { jt } else { jf }),
            JUMP_AT_LEAST => at += usize::from(if accumulator >= k { jt } else { jf }),
            RETURN if k == ALLOW => return Verdict::Allow,
            RETURN if k == TELL => return Verdict::Tell,
            RETURN => return Verdict::Errno((k & 0xffff) as i32),
            other => panic!("no such instruction: {other:#x}"),
        }
    }
}

#[cfg(test)]
pub const OWN_ARCH: u32 = ARCH;

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let deny = Rule::always(Verdict::Errno(libc::EPERM));
        let both = Rule {
            cases: vec![
                (vec![Test::low(0, u32::MAX, Is::Equal(2)), Test::low(1, 0xf, Is::Equal(1))], Verdict::Allow),
                (vec![Test::low(2, 0x600, Is::NotZero)], Verdict::Errno(libc::ENOSYS)),
            ],
            otherwise: Verdict::Errno(libc::EACCES),
        };
        let rules = [(0, deny.clone()), (7, both), (8, deny.clone()), (40, deny.clone()), (99, deny)];
        Table { rules: rules.into_iter().collect(), last: Some(99), foreign: Verdict::Errno(libc::ENOSYS) }
    }

    #[test]
    fn every_number_gets_its_own_verdict() {
        let program = compile(&table());
        for number in 0..200 {
            let expected = match number {
                0 | 8 | 40 | 99 => Verdict::Errno(libc::EPERM),
                7 => Verdict::Errno(libc::EACCES),
                100.. => Verdict::Errno(libc::ENOSYS),
                _ => Verdict::Allow,
            };
            assert_eq!(interpret(&program, ARCH, number, [0; 6]), expected, "{number}");
        }
        assert_eq!(interpret(&program, ARCH, u32::MAX, [0; 6]), Verdict::Errno(libc::ENOSYS));
    }

    #[test]
    fn the_first_case_that_holds_decides_and_high_bits_hide_nothing() {
        let program = compile(&table());
        let verdict = |arguments| interpret(&program, ARCH, 7, arguments);
        assert_eq!(verdict([2, 0x801, 0x600, 0, 0, 0]), Verdict::Allow);
        assert_eq!(verdict([1 << 32 | 2, 1, 0, 0, 0, 0]), Verdict::Allow);
        assert_eq!(verdict([2, 2, 0, 0, 0, 0]), Verdict::Errno(libc::EACCES));
        assert_eq!(verdict([2, 2, 0x200, 0, 0, 0]), Verdict::Errno(libc::ENOSYS));
        assert_eq!(verdict([3, 1, 1 << 40 | 0x400, 0, 0, 0]), Verdict::Errno(libc::ENOSYS));
    }

    #[test]
    fn neighbours_with_one_rule_cost_no_more_than_one_number() {
        let of = |numbers: std::ops::Range<u32>| {
            let rules = numbers.map(|number| (number, Rule::always(Verdict::Errno(libc::EPERM)))).collect();
            compile(&Table { rules, last: None, foreign: Verdict::Allow })
        };
        assert_eq!(of(5..40).len(), of(5..6).len());
        assert_eq!(interpret(&of(5..40), ARCH, 39, [0; 6]), Verdict::Errno(libc::EPERM));
        assert_eq!(interpret(&of(5..40), ARCH, 40, [0; 6]), Verdict::Allow);
    }

    #[test]
    fn equal_answers_are_one_answer_as_far_as_jumps_reach() {
        let program = compile(&table());
        let answers: Vec<u32> = program.iter().filter(|one| one.code == RETURN).map(|one| one.k).collect();
        let distinct: std::collections::BTreeSet<u32> = answers.iter().copied().collect();
        assert_eq!(answers.len(), distinct.len(), "{answers:x?}");
        for (at, one) in program.iter().enumerate() {
            for away in ways(*one).iter().flatten() {
                assert!(at + 1 + away < program.len(), "{at} leads out of the program");
            }
        }
    }

    #[test]
    fn far_jumps_lead_where_near_ones_do() {
        let deny = |number: u32| Rule {
            cases: vec![(vec![Test::low(0, 0xff, Is::Equal(number))], Verdict::Allow)],
            otherwise: Verdict::Errno(libc::EPERM),
        };
        let rules = (0..400).map(|number| (2 * number, deny(number & 0xff))).collect();
        let program = compile(&Table { rules, last: Some(900), foreign: Verdict::Allow });
        for number in 0..400 {
            let verdict = |argument| interpret(&program, ARCH, 2 * number, [argument, 0, 0, 0, 0, 0]);
            assert_eq!(verdict(u64::from(number & 0xff)), Verdict::Allow);
            assert_eq!(verdict(u64::from(number & 0xff) + 1), Verdict::Errno(libc::EPERM));
            assert_eq!(interpret(&program, ARCH, 2 * number + 1, [0; 6]), Verdict::Allow);
        }
    }

    #[test]
    fn another_architecture_has_no_calls() {
        let program = compile(&table());
        for number in [0, 1, 7, 500] {
            assert_eq!(interpret(&program, 0x4000_0003, number, [0; 6]), Verdict::Errno(libc::ENOSYS));
        }
    }
}
