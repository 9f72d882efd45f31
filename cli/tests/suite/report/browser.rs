//! Opens pages in headless Chromium, if it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of programs.
const NAMES: [&str; 3] = ["chromium-headless-shell", "chromium", "google-chrome"];

pub struct Browser(PathBuf);

/// What a page has become.
pub struct Seen {
    /// The elements before the scripts, as text.
    pub dom: String,
    /// Messages on the console.
    pub errors: Vec<String>,
    /// Addresses that were asked for, other than files and data.
    pub requests: Vec<String>,
}

impl Browser {
    pub fn find() -> Option<Browser> {
        let path = std::env::var_os("PATH")?;
        let folders = std::env::split_paths(&path);
        let mut programs = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
        programs.find(|program| program.is_file()).map(Browser)
    }

    /// Opens a page in a window of a width, and waits until it is drawn.
    pub fn open(&self, page: &Path, width: u32) -> Seen {
        let folder = tempfile::tempdir().unwrap();
        let net_log = folder.path().join("net.json");
        let output = Command::new(&self.0)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--virtual-time-budget=5000", "--enable-logging=stderr"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("--window-size={width},2000"))
            .arg(format!("--log-net-log={}", net_log.display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let console = stderr.lines().filter(|line| line.contains("CONSOLE"));
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!dom.is_empty(), "{stderr}");
        let shown = dom.split("<script").next().unwrap_or_default();
        Seen {
            dom: shown.to_owned(),
            errors: console.map(str::to_owned).collect(),
            requests: requests(&std::fs::read_to_string(net_log).unwrap()),
        }
    }
}

/// A page with a script at its end, which its policy is changed to allow.
pub fn with_script(page: &str, script: &str) -> String {
    let (before, rest) = page.split_once("script-src ").unwrap();
    let (_, rest) = rest.split_once(';').unwrap();
    format!("{before}script-src 'unsafe-inline';{rest}").replace("</body>", script)
}

/// The addresses of requests in a log of the browser's network.
fn requests(log: &str) -> Vec<String> {
    let urls = log.split("\"url\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let is_remote = |url: &&str| {
        ["http:", "https:", "ws:", "wss:"].iter().any(|scheme| url.starts_with(scheme))
    };
    urls.filter(is_remote).map(str::to_owned).collect()
}

impl Seen {
    /// Number of elements that are drawn in a chart.
    pub fn drawn(&self, title: &str) -> usize {
        let section = self.dom.split_once(&format!("<h2>{title}</h2>"));
        let section = section.and_then(|(_, rest)| rest.split("</section>").next());
        let content = section.and_then(|section| section.split_once("<g class=\"content\""));
        let content = content.and_then(|(_, rest)| rest.split("</g>").next());
        ["<rect", "<image", "d=\"M", "<circle"]
            .iter()
            .map(|element| content.unwrap_or_default().matches(element).count())
            .sum()
    }
}
