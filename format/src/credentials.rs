//! Hides credentials of URLs in messages.
//!
//! A URL of an object store may have a user and a password in front of its host, or a signature in
//! its query. Our errors quote URLs, and so do errors of the libraries that access them. Messages
//! may be kept in logs that others read.

use core::fmt;

/// Printed in place of a credential.
const HIDDEN: &str = "***";
const BEFORE_HOST: &str = "://";

/// A text that prints `***` in place of the user, the password and the values of the query of each
/// URL in it.
///
/// ```
/// use hmtt_format::credentials::hidden;
///
/// let text = "http://me:secret@host/set?sig=abc&part=1: the store refuses";
/// let expected = "http://***@host/set?sig=***&part=***: the store refuses";
/// assert_eq!(hidden(text).to_string(), expected);
/// assert_eq!(hidden("s3://bucket/a@b").to_string(), "s3://bucket/a@b");
/// ```
pub const fn hidden(text: &str) -> Hidden<'_> {
    Hidden { text }
}

/// A text without the credentials of the URLs in it.
#[derive(Clone, Copy, Debug)]
pub struct Hidden<'a> {
    text: &'a str,
}

impl fmt::Display for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        while let Some((before, url)) = rest.split_once(BEFORE_HOST) {
            let end = url.find(ends_url).unwrap_or(url.len());
            f.write_str(before)?;
            f.write_str(BEFORE_HOST)?;
            write_url(&url[..end], f)?;
            rest = &url[end..];
        }
        f.write_str(rest)
    }
}

/// Whether a character ends a URL, because no URL contains it.
fn ends_url(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '<' | '>' | '(' | ')' | ',')
}

/// Writes the part of a URL that follows `://`.
fn write_url(url: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (user, rest) = url.split_at(user_bytes(url));
    f.write_str(if user.is_empty() { "" } else { HIDDEN })?;
    let Some((place, query)) = rest.split_once('?') else { return f.write_str(rest) };
    f.write_str(place)?;
    for (number, field) in query.split('&').enumerate() {
        f.write_str(if number == 0 { "?" } else { "&" })?;
        let Some((name, value)) = field.split_once('=') else {
            f.write_str(field)?;
            continue;
        };
        // A message may continue with `:` after a URL.
        let end = if value.ends_with(':') { ":" } else { "" };
        write!(f, "{name}={HIDDEN}{end}")?;
    }
    Ok(())
}

/// Length of the user and the password, without the `@` behind them; 0 if there are none. A
/// password may contain unescaped characters that end a host, and `@` too. So everything in front
/// of the last `@` is hidden, even if that `@` is in a path.
fn user_bytes(url: &str) -> usize {
    let host = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    let has_user =
        host.contains('@') || host.split_once(':').is_some_and(|(_, port)| !is_port(host, port));
    if has_user { url.rfind('@').unwrap_or(0) } else { 0 }
}

/// Whether the text after the first `:` of a host is a port number, or the host is an IPv6 address.
fn is_port(host: &str, port: &str) -> bool {
    host.starts_with('[') || port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credentials_are_hidden_wherever_a_url_is() {
        for (text, expected) in [
            ("no URL, but a@b", "no URL, but a@b"),
            ("http://u:p@h:80/x", "http://***@h:80/x"),
            ("https://token@h", "https://***@h"),
            ("s3://key:a/b+c@bucket/set", "s3://***@bucket/set"),
            ("http://u:p@x@h/a", "http://***@h/a"),
            ("http://u:p@?=x@h/a", "http://***@h/a"),
            ("http://u:p@x/y@h/a", "http://***@h/a"),
            ("http://[::1]:9000/a@b", "http://[::1]:9000/a@b"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            (
                "(http://u:p@h/a) and \"az://u:p@h?sig=x\"",
                "(http://***@h/a) and \"az://***@h?sig=***\"",
            ),
            ("http://h/?a&b=c", "http://h/?a&b=***"),
            ("http://", "http://"),
        ] {
            assert_eq!(hidden(text).to_string(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_password_is_left(
            password in "[a-z]{3}[a-zA-Z0-9:/?#@&=%+]{0,12}[a-z]",
            before in "[ a-z:]{0,8}",
            after in "[ a-z]{0,8}",
        ) {
            let secret = format!("Zq{password}");
            let text = format!("{before} http://user:{secret}@host/path {after}");
            let shown = hidden(&text).to_string();
            prop_assert!(!shown.contains("Zq"), "{}", shown);
            prop_assert!(shown.contains("@host/path"), "{}", shown);
        }
    }
}
