//! Reads tables of the accesses of a program, as `hmtt convert` writes them.
//!
//! A table does not state which accesses belong to one execution of an instruction. A string
//! instruction has at most one operand that it reads, followed by one other operand. So the
//! accesses of one execution are found by their directions: a read, followed by an access with as
//! many elements, is one execution. Two consecutive scans of a string by the same instruction, with
//! no other access between them, look like a comparison of two strings.

use std::collections::HashMap;
use std::rc::Rc;

use hmtt_files::access_trace::{Function, Made};
use hmtt_format::Direction;

use super::program::Columns;
use super::{Ending, Part, SourceError};
use crate::access_trace::table::reader::{Row, Rows};

/// The reason why the results for a table of samples are incomplete.
const SAMPLES: &str =
    "accesses were sampled: most of them are missing, and numbers are those of the samples";
/// The note on a fact that no table of a program states.
const LOSSES: &str = "a table does not say which accesses its trace lacks";

/// The name of a function, or the path of its file, if it is known.
type Name = Option<Rc<str>>;

/// Numbers of functions by name and file.
#[derive(Default)]
struct Numbers {
    numbers: HashMap<(Rc<str>, Rc<str>), u32>,
    /// The last function, which the next access probably has, too.
    last: Option<(Name, Name, u32)>,
}

impl Numbers {
    /// The number of a function, and its description if the function is new.
    fn of(
        &mut self,
        function: Option<Rc<str>>,
        object: Option<Rc<str>>,
    ) -> (u32, Option<Function>) {
        if let Some((name, path, number)) = &self.last
            && (name, path) == (&function, &object)
        {
            return (*number, None);
        }
        let (number, new) = self.find(&function, &object);
        self.last = Some((function, object, number));
        (number, new)
    }

    fn find(&mut self, function: &Name, object: &Name) -> (u32, Option<Function>) {
        if function.is_none() && object.is_none() {
            return (0, None);
        }
        let name = |name: &Name| name.clone().unwrap_or_else(|| Rc::from(""));
        let key = (name(function), name(object));
        if let Some(number) = self.numbers.get(&key) {
            return (*number, None);
        }
        let number = self.numbers.len() as u32 + 1;
        let (name, path) = (key.0.to_string(), key.1.to_string());
        self.numbers.insert(key, number);
        (number, Some(Function { name, path, ..Function::default() }))
    }
}

/// Whether an access belongs to the same execution of an instruction as the accesses before it. All
/// are by the same instruction.
fn continues(before: &[Made], next: &Made) -> bool {
    let has_elements = next.elements != 1 || before.iter().any(|access| access.elements != 1);
    match before {
        // Accesses of one element each have the same order in one execution and in several.
        _ if !has_elements => true,
        [first] => first.direction == Direction::Read && first.elements == next.elements,
        _ => false,
    }
}

/// Passes all rows on. Sets `are_samples` if a row stands for an unknown number of accesses.
fn pass_on(
    rows: &mut dyn Rows,
    columns: &mut Columns<'_, '_>,
    are_samples: &mut bool,
) -> Result<(), SourceError> {
    let mut numbers = Numbers::default();
    while let Some(Row { thread, made: access, function, object }) = rows.next_row()? {
        *are_samples |= access.represents == 0;
        let (function, new) = numbers.of(function, object);
        columns.add_functions(new.as_slice());
        columns.set_thread(thread);
        let before = columns.instruction();
        if before.first().is_some_and(|first| first.pc != access.pc) || !continues(before, &access)
        {
            columns.end_instruction();
        }
        if access.size == 0 && access.elements == 1 && access.address.is_some() {
            columns.push_unsized(function, &access);
        } else {
            columns.push(function, access);
        }
    }
    Ok(())
}

/// Reads a table, with the functions of accesses if they are wanted.
pub fn read(
    rows: &mut dyn Rows,
    with_functions: bool,
    add: &mut dyn FnMut(usize, Part<'_>),
) -> Result<Ending, SourceError> {
    let mut are_samples = false;
    let mut ending = super::program::read_with(with_functions, add, |columns| {
        let failure = pass_on(rows, columns, &mut are_samples).err();
        columns.finish();
        failure
    })?;
    if are_samples {
        ending.missing.push(SAMPLES.to_owned());
    }
    ending.notes.push(LOSSES.to_owned());
    Ok(ending)
}
