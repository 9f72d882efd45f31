//! Writes the Verilog of a bank table: the state and the timers of the banks and ranks that the
//! memory has.

use std::fmt::Write as _;

use super::model::{Shape, left};
use super::{CommandLines, Window};

/// Returns the body of the module.
pub fn of(shape: &Shape) -> String {
    let mut text = spread(shape);
    for rank in 0..shape.ranks {
        for bank in 0..shape.banks {
            text += &bank_state(shape, rank, bank);
        }
        text += &rank_window(shape, rank);
        text += &rank_refresh(shape, rank);
    }
    text + &gather(shape)
}

/// Returns the number of bits that hold `value`.
fn width(value: u32) -> u32 {
    (u32::BITS - value.leading_zeros()).max(1)
}

/// Returns an `always` block: the reset clears the named registers, and `edge` assigns them.
fn registers(names: &[String], edge: &str) -> String {
    let zeros: Vec<String> = names.iter().map(|name| format!("{name} <= 0;")).collect();
    format!(
        "always @(posedge clock[0] or posedge clock[1])\n    if (clock[1]) begin {} end else begin\n{edge}    end\n",
        zeros.join(" ")
    )
}

/// Returns the names of the registers of bank, rank or edge `n`.
fn named(names: &[&str], n: impl std::fmt::Display) -> Vec<String> {
    names.iter().map(|name| format!("{name}{n}")).collect()
}

/// Joins the expressions of all ranks with `operator`.
fn of_ranks(shape: &Shape, operator: &str, expression: impl Fn(usize) -> String) -> String {
    (0..shape.ranks).map(expression).collect::<Vec<_>>().join(operator)
}

/// Registers of the first edge for each rank.
const RANK_LINES: [&str; 7] = ["chosen", "closes", "refresh", "entry", "mode", "cke_rises", "all"];

/// Returns the registers of the first edge: the command, a select line for each bank, and the lines
/// of each rank.
fn spread(shape: &Shape) -> String {
    let pins = shape.banks.trailing_zeros();
    let mut text = String::from(
        "reg [9:0] op1 = 0;\nreg several1 = 0, column1 = 0, precharges1 = 0;\nreg [1:0] rank1 = 0;\n\
         reg [3:0] ba1 = 0;\n",
    );
    let mut edge = String::from("    op1 <= op;\n");
    let mut names = named(&["op", "several", "column", "precharges", "rank", "ba"], 1);
    let several: Vec<String> = (0..shape.ranks)
        .flat_map(|high| (0..high).map(move |low| format!("(ranks[{low}] & ranks[{high}])")))
        .collect();
    let several = if several.is_empty() { "1'b0".into() } else { several.join(" | ") };
    let _ = writeln!(edge, "    several1 <= {several};");
    let lines = CommandLines::default();
    let (read, write) = (lines.get_my_offset_read(), lines.get_my_offset_write());
    let _ = writeln!(edge, "    column1 <= op[{read}] | op[{write}];");
    let _ = writeln!(edge, "    precharges1 <= (op[{read}] | op[{write}]) & a10;");
    if shape.ranks > 1 {
        let lowest = (1..shape.ranks).rev().fold("2'd0".to_string(), |others, rank| {
            format!("ranks[{rank}] ? 2'd{rank} : {others}")
        });
        let _ = writeln!(edge, "    rank1 <= ranks[0] ? 2'd0 : {lowest};");
    }
    if pins > 0 {
        let _ = writeln!(edge, "    ba1 <= ba[{}:0];", pins - 1);
    }
    for rank in 0..shape.ranks {
        let _ = writeln!(
            text,
            "reg chosen{rank} = 0, closes{rank} = 0, refresh{rank} = 0, entry{rank} = 0, \
             mode{rank} = 0, cke_rises{rank} = 0, all{rank} = 0;"
        );
        let (all_bit, refresh) =
            (lines.get_my_offset_precharge_all(), lines.get_my_offset_refresh());
        let mode = lines.get_my_offset_mode_register_set();
        let _ = writeln!(
            edge,
            "    chosen{rank} <= ranks[{rank}];\n    \
             all{rank} <= ranks[{rank}] & op[{all_bit}];\n    \
             closes{rank} <= ranks[{rank}] & op[{refresh}];\n    \
             refresh{rank} <= ranks[{rank}] & op[{refresh}] & ~cke_falls[{rank}];\n    \
             entry{rank} <= ranks[{rank}] & op[{refresh}] & cke_falls[{rank}];\n    \
             mode{rank} <= ranks[{rank}] & op[{mode}];\n    cke_rises{rank} <= cke_rises[{rank}];"
        );
        names.extend(named(&RANK_LINES, rank));
        for bank in 0..shape.banks {
            let _ = writeln!(text, "reg select{rank}_{bank} = 0;");
            names.push(format!("select{rank}_{bank}"));
            let wanted = if pins == 0 {
                String::new()
            } else {
                format!(" & ba[{}:0] == {pins}'d{bank}", pins - 1)
            };
            let _ = writeln!(edge, "    select{rank}_{bank} <= ranks[{rank}]{wanted};");
        }
    }
    text + &registers(&names, &edge)
}

/// Returns the registers of a bank: its row and its timer.
fn bank_state(shape: &Shape, rank: usize, bank: usize) -> String {
    let n = format!("{rank}_{bank}");
    let lines = CommandLines::default();
    let (activate, precharge) = (lines.get_my_offset_activate(), lines.get_my_offset_precharge());
    let mut text = format!(
        "reg open{n} = 0, fresh{n} = 0, conflict{n} = 0;\n\
         wire activate{n} = select{n} & op1[{activate}];\n\
         wire opens{n} = activate{n} & ~open{n} & ~busy{rank} & ~several1;\n\
         wire single{n} = select{n} & op1[{precharge}];\n\
         wire auto{n} = select{n} & precharges1;\n"
    );
    let edge = format!(
        "\
         \x20   open{n} <= opens{n} | (open{n} & ~(activate{n} | single{n} | auto{n} | all{rank} | closes{rank}));\n\
         \x20   fresh{n} <= activate{n} | (fresh{n} & ~(select{n} & column1 & open{n} & ~several1));\n\
         \x20   conflict{n} <= (single{n} & open{n}) | (conflict{n} & ~(auto{n} | all{rank} | closes{rank} | (activate{n} & open{n})));\n",
    );
    text += &registers(&named(&["open", "fresh", "conflict"], &n), &edge);
    let (trcd, trp) = (left(shape.trcd), left(shape.trp));
    if trcd.max(trp) == 0 {
        let _ = writeln!(text, "wire timed{n} = 1'b0;");
        return text;
    }
    let high = width(trcd.max(trp)) - 1;
    let _ = writeln!(text, "reg [{high}:0] left{n} = 0;\nwire timed{n} = left{n} != 0;");
    let edge = format!(
        "\x20   if (opens{n}) left{n} <= {trcd};\n\
         \x20   else if (open{n} & (single{n} | all{rank})) left{n} <= {trp};\n\
         \x20   else if (activate{n} | (open{n} & (auto{n} | closes{rank}))) left{n} <= 0;\n\
         \x20   else if (timed{n}) left{n} <= left{n} - 1'b1;\n",
    );
    text + &registers(&named(&["left"], &n), &edge)
}

/// Returns the timer of a rank: tRFC, tXS, tMRD. `busy` is a separate register, because the path to
/// ACTIVATE is long.
fn rank_window(shape: &Shape, rank: usize) -> String {
    let windows = [Window::Rfc, Window::Xs, Window::Mrd];
    let [rfc, xs, mrd] = windows.map(|window| left(shape.clocks(window)));
    let [in_rfc, in_xs, in_mrd] = windows.map(|window| window as u32);
    let open = (0..shape.banks).map(|bank| format!("open{rank}_{bank}")).collect::<Vec<_>>();
    let in_rp = (0..shape.banks)
        .map(|bank| format!("(timed{rank}_{bank} & ~open{rank}_{bank})"))
        .collect::<Vec<_>>();
    let high = width(rfc.max(xs).max(mrd)) - 1;
    let starts = |clocks: u32| u8::from(clocks != 0);
    let text = format!(
        "wire any_open{rank} = {open};\nwire any_in_rp{rank} = {in_rp};\n\
         reg cke_falls{rank} = 0, busy{rank} = 0;\nreg [1:0] window{rank} = 0;\nreg [{high}:0] wait{rank} = 0;\n\
         wire exit{rank} = cke_falls{rank} & cke_rises{rank};\n",
        open = open.join(" | "),
        in_rp = in_rp.join(" | "),
    );
    let edge = format!(
        "\x20   cke_falls{rank} <= entry{rank} | (cke_falls{rank} & ~cke_rises{rank});\n\
         \x20   wait{rank} <= wait{rank} - 1'b1;\n\
         \x20   if (wait{rank} == 1) busy{rank} <= 1'b0;\n\
         \x20   if (refresh{rank} & ~any_open{rank}) begin\n\
         \x20       window{rank} <= 2'd{in_rfc};\n        wait{rank} <= {rfc};\n        busy{rank} <= 1'b{rfc_starts};\n\
         \x20   end else if (exit{rank}) begin\n\
         \x20       window{rank} <= 2'd{in_xs};\n        wait{rank} <= {xs};\n        busy{rank} <= 1'b{xs_starts};\n\
         \x20   end else if (mode{rank} & ~busy{rank} & ~any_open{rank}) begin\n\
         \x20       window{rank} <= 2'd{in_mrd};\n        wait{rank} <= {mrd};\n        busy{rank} <= 1'b{mrd_starts};\n\
         \x20   end\n",
        rfc_starts = starts(rfc),
        xs_starts = starts(xs),
        mrd_starts = starts(mrd),
    );
    text + &registers(&named(&["cke_falls", "busy", "window", "wait"], rank), &edge)
}

/// Returns the time since the last REFRESH of a rank. It is compared a clock ahead, so the result
/// is a register.
fn rank_refresh(shape: &Shape, rank: usize) -> String {
    let limit = shape.refresh_limit;
    if limit == 0 {
        return format!("wire overdue{rank} = 1'b0;\n");
    }
    let text = format!(
        "reg refreshes{rank} = 0, due{rank} = 0, overdue{rank} = 0;\nreg [{high}:0] since{rank} = 0;\n\
         wire restart{rank} = refresh{rank} | exit{rank};\n",
        high = width(limit) - 1,
    );
    let edge = format!(
        "\x20   due{rank} <= restart{rank} ? 1'b{at_once} : refreshes{rank} & ~entry{rank} & ~due{rank} & since{rank} == {last};\n\
         \x20   overdue{rank} <= due{rank} & ~restart{rank} & ~entry{rank};\n\
         \x20   since{rank} <= restart{rank} ? 1 : since{rank} + 1'b1;\n\
         \x20   refreshes{rank} <= restart{rank} | (refreshes{rank} & ~entry{rank} & ~due{rank});\n",
        at_once = u8::from(limit == 1),
        last = limit - 1,
    );
    text + &registers(&named(&["refreshes", "due", "overdue", "since"], rank), &edge)
}

/// Returns the second edge: it gathers the state of the addressed bank and ranks.
fn gather(shape: &Shape) -> String {
    let any = |name: &str| {
        let terms: Vec<String> = (0..shape.ranks)
            .flat_map(|rank| {
                (0..shape.banks).map(move |bank| {
                    let n = format!("{rank}_{bank}");
                    format!("(select{n} & {name}{n})")
                })
            })
            .collect();
        terms.join(" | ")
    };
    let ranked =
        |name: &str| of_ranks(shape, " | ", |rank| format!("(chosen{rank} & {name}{rank})"));
    let mut window = String::from("2'd0");
    for rank in (0..shape.ranks).rev() {
        window = format!("chosen{rank} & busy{rank} ? window{rank} : {window}");
    }
    let overdue: Vec<String> = (0..4)
        .rev()
        .map(|rank| if rank < shape.ranks { format!("overdue{rank}") } else { "1'b0".into() })
        .collect();
    let edge = format!(
        "\x20   gathered[9:0] <= op1;\n\
         \x20   gathered[11:10] <= rank1;\n\
         \x20   gathered[15:12] <= ba1;\n\
         \x20   gathered[16] <= several1;\n\
         \x20   gathered[17] <= {open};\n\
         \x20   gathered[18] <= {fresh};\n\
         \x20   gathered[19] <= {conflict};\n\
         \x20   gathered[20] <= {timed};\n\
         \x20   gathered[21] <= {any_open};\n\
         \x20   gathered[22] <= {any_in_rp};\n\
         \x20   gathered[24:23] <= {window};\n\
         \x20   gathered[28:25] <= {{{overdue}}};\n",
        open = any("open"),
        fresh = any("fresh"),
        conflict = any("conflict"),
        timed = any("timed"),
        any_open = ranked("any_open"),
        any_in_rp = ranked("any_in_rp"),
        overdue = overdue.join(", "),
    );
    let registers = registers(&["gathered".into()], &edge);
    format!("reg [28:0] gathered = 0;\n{registers}always @(*) found = gathered;\n")
}
