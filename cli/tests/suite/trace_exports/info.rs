//! `hmtt info` states sums over what the text has.

use hmtt_test_support::names::assert_json_documented;
use serde_json::Value;

use super::*;

#[test]
fn info_sums_up_the_accesses() {
    let Some(Sample { file, text, image, .. }) = &*SAMPLE else { return };
    let path = file.to_str().unwrap();
    let info: Value = serde_json::from_slice(&hmtt(&["info", "--json", path]).stdout).unwrap();
    assert_json_documented("hmtt info", &info);
    let (mut counts, mut bytes, mut pages, mut lines) =
        (BTreeMap::new(), 0, BTreeSet::new(), BTreeSet::new());
    let (mut lowest, mut highest) = (u64::MAX, 0);
    let mut copied = 0;
    each_access(text, |(pc, direction), address, size| {
        let function = image.function_at(pc).map(|function| &*function.name);
        copied += u64::from(function == Some("copies") && direction == 'R');
        *counts.entry(direction).or_insert(0) += 1;
        bytes += size;
        let last = address + size - 1;
        lines.extend(address / 64..=last / 64);
        pages.extend(address / 4096..=last / 4096);
        (lowest, highest) = (lowest.min(address), highest.max(last));
    });
    for line in text.lines().filter(|line| line.split(' ').nth(3) == Some("?")) {
        let direction = line.split(' ').nth(2).unwrap().chars().next().unwrap();
        *counts.entry(direction).or_insert(0) += 1;
        bytes += line.split(' ').nth(4).unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(info["reads"], counts[&'R']);
    assert_eq!(info["writes"], counts[&'W']);
    assert_eq!(info["access_bytes"], bytes);
    assert_eq!(info["pages"], pages.len());
    assert_eq!(info["lines"], lines.len());
    assert_eq!(info["lowest_address"], format!("{lowest:#x}"));
    assert_eq!(info["highest_address"], format!("{highest:#x}"));
    assert_eq!(info["file_bytes"], file.metadata().unwrap().len());
    assert_eq!(info["threads"].as_array().unwrap().len(), 1);
    assert_eq!(info["threads"][0]["accesses"], info["accesses"]);
    let functions = info["functions"].as_array().unwrap();
    assert_eq!((functions.len(), &functions[0]["function"]), (10, &"copies".into()));
    assert!(copied > 2000 * 300);
    assert_eq!(functions[0]["reads"], copied);
    let text = String::from_utf8(hmtt(&["info", path]).stdout).unwrap();
    let has = |name: &str, value: &Value| text.contains(&format!("{name:<22}  {value}\n"));
    assert!(has("accesses", &info["accesses"]) && has("pages of 4 KiB", &info["pages"]), "{text}");
    assert!(text.contains(" accesses  copies\n"), "{text}");
    // What is missing is stated.
    let cut = scratch("trace-exports-cut.acc");
    let whole = std::fs::read(file).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 5]).unwrap();
    let cut = hmtt(&["info", cut.to_str().unwrap()]);
    assert_eq!(cut.status.code(), Some(3));
    assert!(String::from_utf8(cut.stdout).unwrap().contains("the file is cut"));
}
