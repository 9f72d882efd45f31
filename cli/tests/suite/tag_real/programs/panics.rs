//! A program with caught panics, trait objects, closures, drops and threads.
use std::panic::{catch_unwind, resume_unwind};

trait Shape {
    fn area(&self, depth: u32) -> u64;
}
struct Square(u64);
struct Group(Vec<Box<dyn Shape>>);
struct Noted<'a>(&'a std::cell::Cell<u64>);

impl Shape for Square {
    fn area(&self, depth: u32) -> u64 {
        check(self.0, depth)
    }
}
impl Shape for Group {
    fn area(&self, depth: u32) -> u64 {
        self.0.iter().map(|shape| shape.area(depth + 1)).sum()
    }
}
impl Drop for Noted<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
#[inline(never)]
fn check(side: u64, depth: u32) -> u64 {
    if side % 13 == 5 {
        panic!("a side of {side} at {depth}");
    }
    side * side
}
#[inline(never)]
fn deep(n: u32, dropped: &std::cell::Cell<u64>) -> u64 {
    let _noted = Noted(dropped);
    if n == 0 { check(5, 0) } else { deep(n - 1, dropped) + 1 }
}
#[inline(never)]
fn group(n: u64) -> Group {
    let inner = Group((0..n % 4).map(|side| Box::new(Square(side)) as Box<dyn Shape>).collect());
    Group(vec![Box::new(Square(n)), Box::new(inner), Box::new(Square(n / 2))])
}
#[inline(never)]
fn attempt(n: u64) -> u64 {
    catch_unwind(|| group(n).area(0)).unwrap_or(1)
}
#[inline(never)]
fn again(n: u64) -> u64 {
    catch_unwind(|| match catch_unwind(|| check(n, 9)) {
        Ok(area) => area,
        Err(payload) => resume_unwind(payload),
    })
    .unwrap_or(7)
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    // The threads run one after the other, because a panic behaves differently while others panic.
    let thread = |number| {
        let thread = std::thread::spawn(move || (0..40).map(|n| attempt(n * 3 + number)).sum::<u64>());
        thread.join().unwrap()
    };
    let mut sum: u64 = (0..4u64).map(thread).sum();
    let dropped = std::cell::Cell::new(0);
    for n in 0..30 {
        let caught = catch_unwind(std::panic::AssertUnwindSafe(|| deep(n % 9, &dropped)));
        sum += u64::from(caught.is_err()) + again(u64::from(n));
    }
    let failed = std::thread::spawn(|| check(18, 1)).join().is_err();
    println!("{sum} {} {failed}", dropped.get());
}
