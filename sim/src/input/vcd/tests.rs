use super::*;
use hmtt_format::toml_memory;

const MEMORY: &str = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\n\
    burst_length = 4\n[map]\ncolumn = ['p3-p13']\nbank = ['p14', 'p15']\nrow = ['p16-p28']\n";
const PINS: &str = "clock='ck'\ncke='p.cke'\ncs_n='cs'\nras_n='ras'\ncas_n='cas'\nwe_n='we'\n\
    ba=['ba0','ba1']\na='a'\n";
const HEADER: &str = "$timescale 1ps $end $scope module p $end\n\
    $var wire 1 ! ck $end $var wire 1 \" cke $end $var wire 1 # cs $end\n\
    $var wire 1 $ ras $end $var wire 1 % cas $end $var wire 1 & we $end\n\
    $var wire 1 ' ba0 $end $var wire 1 ( ba1 $end $var wire 13 ) a [12:0] $end\n\
    $upscope $end $enddefinitions $end\n";

fn spans(pins: &str, body: &str) -> Result<Vec<Pins>, InputError> {
    spans_of(pins, format!("{HEADER}{body}").into_bytes())
}

fn spans_of(pins: &str, text: Vec<u8>) -> Result<Vec<Pins>, InputError> {
    let reader = Box::new(std::io::Cursor::new(text));
    let memory = toml_memory::parse(MEMORY).unwrap();
    let pins = PinMap::parse(pins).unwrap();
    let recording = open(Path::new("x.vcd"), reader, Some(memory), Some(pins))?;
    recording.spans.map(|span| span.map(|span| span.pins)).collect()
}

const START: &str = "#0 0! 1\" 1# 1$ 1% 1& 0' 0( b0 )\n";

#[test]
fn pins_are_sampled_at_rising_edges() {
    let body = format!("{START}#5 1!\n#7 0# 0$ b101 ) 1(\n#10 0!\n#15 1! 1#\n#20 0!\n#25 1!\n");
    let active = Pins { cs_n: 0b1110, ras_n: false, ba: 2, a: 5, ..Pins::DESELECT };
    let idle = Pins { cs_n: 0b1111, ..active };
    assert_eq!(spans(PINS, &body).unwrap(), [Pins::DESELECT, active, idle]);
    let after = format!("{PINS}sample='after'\n");
    assert_eq!(spans(&after, &body).unwrap(), [Pins::DESELECT, idle, idle]);
}

#[test]
fn ranks_have_their_own_pins_or_share_a_clock_enable() {
    let pins = PINS.replace("cs_n='cs'", "cs_n=['cs','ba0']").replace("'ba0','ba1'", "'ba1'");
    let body = format!("{START}#1 1'\n#5 1!\n#7 0'\n#10 0!\n#15 1!\n#17 0\"\n#20 0!\n#25 1!\n");
    let levels: Vec<_> =
        spans(&pins, &body).unwrap().iter().map(|pins| (pins.cke, pins.cs_n)).collect();
    assert_eq!(levels, [(0b1111, 0b1111), (0b1111, 0b1101), (0, 0b1101)]);
}

#[test]
fn unknown_levels_are_power_up_first_and_errors_later() {
    let off = Pins { cke: 0, ..Pins::DESELECT };
    let body = format!("#0 0! x\"\n#5 1!\n#10 0!\n{}#15 1!\n", START.replace("#0", "#12"));
    assert_eq!(spans(PINS, &body).unwrap(), [off, Pins::DESELECT]);
    let late = format!("{body}#20 0! 0# x$\n#25 1!\n");
    let error = spans(PINS, &late).unwrap_err().to_string();
    assert_eq!(error, "x.vcd:12: at time 25: ras_n is neither 0 nor 1");
    let deselected = format!("{body}#20 0! xras x$\n#25 1!\n").replace("xras ", "");
    assert_eq!(spans(PINS, &deselected).unwrap().len(), 3);
}

#[test]
fn mistakes_are_named() {
    let error = |pins: &str, body: &str| spans(pins, body).unwrap_err().to_string();
    let missing = PINS.replace("'ras'", "'rass'");
    assert_eq!(error(&missing, ""), "x.vcd:5: ras_n: there is no signal `rass`");
    let wide = PINS.replace("'we'", "'a'");
    assert_eq!(error(&wide, ""), "x.vcd:5: we_n: signal `a` has 13 bits, 1 expected");
    let many = PINS.replace("cs_n='cs'", "cs_n=['cs','ras','cas','we','ba0']");
    assert_eq!(error(&many, ""), "x.vcd:5: cs_n: more than 4 bits");
    assert_eq!(error(PINS, "#5 1!\n#4 0!"), "x.vcd:7: at time 5: time goes back to 4");
    let value = "expected a time or a change of a value, got";
    assert_eq!(error(PINS, "#5\n\n?"), format!("x.vcd:8: {value} `?`"));
    assert_eq!(error(PINS, "#5 0!\n"), "x.vcd:6: at time 5: the clock never rises");
    assert_eq!(error(PINS, "#5x\n"), "x.vcd:6: expected a time, got `#5x`");
    let digits = "expected the digits of levels, got";
    assert_eq!(error(PINS, "\nb01a )"), format!("x.vcd:7: {digits} `01a`"));
    assert_eq!(error(PINS, "#5\nb01"), "x.vcd:7: the file ends within a change of a vector");
    assert_eq!(error(PINS, "#5\n$comment x"), "x.vcd:7: the file ends within $comment");
}

#[test]
fn mistakes_in_declarations_have_their_lines() {
    let error = |text: &str| spans_of(PINS, text.into()).unwrap_err().to_string();
    assert_eq!(error("$date x $end\n\n"), "x.vcd:3: the file ends before $enddefinitions");
    assert_eq!(error("$date\nx\n"), "x.vcd:1: the file ends within $date");
    assert_eq!(error("\n$var wire 1\n"), "x.vcd:2: the file ends within $var");
    let var = "expected type, size, identifier code and name after $var";
    assert_eq!(error("\n$var wire\n1 ! $end"), format!("x.vcd:2: {var}, got `wire 1 !`"));
    let other = "x.vcd:2: expected a declaration such as $var, got `#0`";
    assert_eq!(error("$date x $end\n#0\n"), other);
    let real = HEADER.replace("wire 1 $ ras", "real 64 $ ras");
    let no_levels = "ras_n: `ras` is no signal with levels (type `real`, size `64`)";
    assert_eq!(error(&real), format!("x.vcd:5: {no_levels}"));
}

/// A recording. [`expected`] returns its pins.
const BODY: &str = "#0\n0! 1\" 1# 1$ 1% 1& 0' 0( b0 )\n#5 1!\n#7 0# 0$ b101 ) 1(\n#10 0!\n#15 1!\n";

fn expected() -> Vec<Pins> {
    let active = Pins { cs_n: 0b1110, ras_n: false, ba: 2, a: 5, ..Pins::DESELECT };
    vec![Pins::DESELECT, active]
}

fn check(what: &[u8], text: Vec<u8>) {
    let read = spans_of(PINS, text);
    let what = String::from_utf8_lossy(what);
    assert_eq!(read.map_err(|error| format!("{what}: {error}")), Ok(expected()), "{what}");
}

#[test]
fn declarations_that_no_pin_needs_are_skipped() {
    let declarations: [&[u8]; 30] = [
        b"$date lundi 22 ao\xfbt 2021 (heure d'\xe9t\xe9) $end",
        b"$date $end",
        b"$date\nMon Nov 22 2021\n$end",
        b"$date today$end",
        b"$version \xff\xfe $end",
        b"$timescale 0.001fs $end",
        b"$timescale 1 ns $end",
        b"$timescale\t10\r\nps\r\n$end",
        b"$timescale 100as $end",
        b"$timescale $end",
        b"$timezero -5 $end",
        b"$comment wire 1 ! ck $enddefinitions $end",
        b"$attrbegin misc 02 name 1030 $end",
        b"$attrend $end",
        b"$vendor_thing 1 2 3 $end",
        b"$scope dumped_signals $end $unscope $end",
        b"$scope $end $upscope $end",
        b"$scope interface \xe9 $end $upscope $end",
        b"$scope vhdl_architecture a b $end $upscope $end",
        b"$scope begin x $end $scope fork y $end $upscope $end $upscope $end",
        b"$scope sv_array $unit $end $upscope $end",
        b"$upscope $end",
        b"$var real 64 r1 ck $end",
        b"$var string 0 s1 cs $end",
        b"$var port [3:0] <0 ras $end",
        b"$var parameter 32 p1 WIDTH[31:0] $end",
        b"$var event 1 e1 happened $end",
        b"$var enum 99999999999999999999 n1 state [ 3 : 0 ] $end",
        b"$var wire 8 n11 buffer<0> $end",
        b"$var logic 1 \xe9 \xe9\xe8 $end",
    ];
    for declaration in declarations {
        check(declaration, [declaration, b"\n", HEADER.as_bytes(), BODY.as_bytes()].concat());
        let inner = HEADER.replace("$var wire 1 ' ba0", "DECLARATION $var wire 1 ' ba0");
        let (first, rest) = inner.split_once("DECLARATION").unwrap();
        let inner = [first.as_bytes(), declaration, rest.as_bytes(), BODY.as_bytes()].concat();
        if declaration != b"$upscope $end" {
            check(declaration, inner);
        }
    }
}

#[test]
fn types_of_variables_and_scopes_do_not_matter() {
    let types = ["logic", "reg", "tri0", "supply1", "bit", "integer", "std_logic", "unheard_of"];
    for kind in types {
        let header = HEADER.replace("var wire", &format!("var {kind}"));
        check(kind.as_bytes(), [header, BODY.into()].concat().into_bytes());
    }
    for scope in ["module p", "p", "generate p", "unheard_of p", "struct \t p"] {
        let header = HEADER.replace("module p", scope);
        check(scope.as_bytes(), [header, BODY.into()].concat().into_bytes());
    }
    for range in ["a [12:0]", "a[12:0]", "a [ 12 : 0 ]", "a [0:12]", "a[-1:11]", "a"] {
        let header = HEADER.replace("a [12:0]", range);
        check(range.as_bytes(), [header, BODY.into()].concat().into_bytes());
    }
}

#[test]
fn values_that_no_pin_needs_are_skipped() {
    let values: [&[u8]; 20] = [
        b"r1.5 r1",
        b"R-1e300 r1",
        b"r 1.5 r1",
        b"snothing\xe9 s1",
        b"s s1",
        b"S1 s1",
        b"pD 6 0 <0",
        b"pDUX 606 060 <0",
        b"b012z?q nobody",
        b"B1 nobody",
        b"1nobody",
        b"hnobody",
        b"$comment \xe9 #99 0! $end",
        b"$dumpall $end",
        b"$dumpoff x9 $end $dumpon $end",
        b"$dumpports pD 6 0 <0 $end",
        b"$dumpvars\r\n$end",
        b"$end",
        b"$vcdclose #99 $end",
        b"$vendor 1 2 $end",
    ];
    for value in values {
        let (first, rest) = BODY.split_once("b101").unwrap();
        let rest = [b" b101", rest.as_bytes()].concat();
        check(value, [HEADER.as_bytes(), first.as_bytes(), value, &rest].concat());
    }
}

#[test]
fn levels_of_vhdl_are_those_of_verilog() {
    let body =
        BODY.replace("0! 1\" 1#", "L! H\" h#").replace("1! #7", "h! #7").replace("101", "Hl1");
    check(b"weak levels", [HEADER, &body].concat().into_bytes());
    for unknown in "xXzZuUwW-".chars() {
        let body = format!("{BODY}#20 0! {unknown}& 0#\n#25 1!\n");
        let error = spans(PINS, &body).unwrap_err().to_string();
        assert_eq!(error, "x.vcd:13: at time 25: we_n is neither 0 nor 1", "{unknown}");
    }
}

#[test]
fn any_white_space_separates_tokens() {
    let text = [HEADER, BODY].concat();
    let spaces = ["\n", "\r\n", "\t", "\u{b}", "\u{c}", "  \n\n ", "\r"];
    for space in spaces {
        let tokens: Vec<_> = text.split_ascii_whitespace().collect();
        check(space.as_bytes(), tokens.join(space).into_bytes());
    }
    let last_line = text.trim_end();
    check(b"no newline", last_line.into());
    check(b"end of file of DOS", format!("{last_line}\r\n\u{1a}").into_bytes());
    check(b"byte-order mark", format!("\u{feff}{text}").into_bytes());
    check(b"no $end", text.replace("$enddefinitions $end", "$enddefinitions").into_bytes());
}

#[test]
fn a_comment_may_be_between_all_tokens() {
    let text = [HEADER, BODY].concat();
    let tokens: Vec<_> = text.split_ascii_whitespace().collect();
    // Not within the time scale, whose text is not read.
    for at in 3..tokens.len() {
        let (first, rest) = tokens.split_at(at);
        let comment: &[&str] = &["$comment", "#7", "0!", "$var", "$end"];
        check(
            format!("before token {at}").as_bytes(),
            [first, comment, rest].concat().join(" ").into(),
        );
    }
}

#[test]
fn times_may_be_negative_and_long() {
    for (from, to) in [("#0", "#-12"), ("#5", "# 5"), ("#15", "#99999999999999999999999")] {
        let body = BODY.replace(from, to);
        check(to.as_bytes(), [HEADER, &body].concat().into_bytes());
    }
}
