//! The words of a line of shell, as a person copies it from a browser or types it: quotes,
//! continued lines, and bash's `$'...'`, which browsers write around control characters. Nothing is
//! expanded or carried out.

use std::iter::Peekable;
use std::str::Chars;

use shlex::try_quote;

type Characters<'l> = Peekable<Chars<'l>>;

/// The words of a line.
///
/// # Errors
/// The line is not one for a POSIX shell; the message says why.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    // Windows' cmd escapes quotes with carets.
    if line.contains("^\"") {
        return Err("this line is for Windows' cmd: copy it as cURL (bash)".to_owned());
    }
    shlex::split(&plain(line)?).ok_or_else(|| "a quote is not closed".to_owned())
}

/// The line in one, with each `$'...'` in plain quotes.
fn plain(line: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut characters = line.chars().peekable();
    let mut quote = None;
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '$') if characters.peek() == Some(&'\'') => {
                characters.next();
                let text = decoded(&mut characters)?;
                plain += &try_quote(&text).map_err(|_| "a word contains a NUL, which no argument can".to_owned())?;
                continue;
            }
            // A continued line; shlex would begin a word there.
            (None | Some('"'), '\\') if characters.next_if_eq(&'\n').is_some() => continue,
            (None | Some('"'), '\\') => {
                plain.push(character);
                plain.extend(characters.next());
                continue;
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        plain.push(character);
    }
    Ok(plain)
}

/// The text up to the closing quote of a `$'...'` (bash, QUOTING).
fn decoded(characters: &mut Characters<'_>) -> Result<String, String> {
    let mut bytes = Vec::new();
    let push = |bytes: &mut Vec<u8>, character: char| {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    };
    loop {
        match characters.next().ok_or("a quote is not closed")? {
            '\'' => break,
            '\\' => match characters.next().ok_or("a quote is not closed")? {
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'e' | 'E' => bytes.push(0x1b),
                'f' => bytes.push(0x0c),
                'n' => bytes.push(b'\n'),
                'r' => bytes.push(b'\r'),
                't' => bytes.push(b'\t'),
                'v' => bytes.push(0x0b),
                'x' => bytes.push(number(characters, 16, 2)? as u8),
                'u' => push(&mut bytes, character(number(characters, 16, 4)?)?),
                'U' => push(&mut bytes, character(number(characters, 16, 8)?)?),
                digit @ '0'..='7' => {
                    let first = digit.to_digit(8).unwrap_or_default();
                    let (more, count) = digits(characters, 8, 2);
                    bytes.push((first * 8_u32.pow(count) + more) as u8);
                }
                other @ ('\\' | '\'' | '"' | '?') => push(&mut bytes, other),
                other => {
                    bytes.push(b'\\');
                    push(&mut bytes, other);
                }
            },
            other => push(&mut bytes, other),
        }
    }
    String::from_utf8(bytes).map_err(|_| "a word contains bytes that are no UTF-8: put it into a file".to_owned())
}

fn character(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| format!("\\u{code:04x} is no character"))
}

/// The number that follows, of at least one digit.
fn number(characters: &mut Characters<'_>, radix: u32, most: u32) -> Result<u32, String> {
    match digits(characters, radix, most) {
        (_, 0) => Err("a backslash in $'...' lacks its digits".to_owned()),
        (number, _) => Ok(number),
    }
}

/// The number that follows, and how many digits it has.
fn digits(characters: &mut Characters<'_>, radix: u32, most: u32) -> (u32, u32) {
    let (mut number, mut count) = (0, 0);
    while count < most
        && let Some(digit) = characters.peek().and_then(|next| next.to_digit(radix))
    {
        characters.next();
        number = number * radix + digit;
        count += 1;
    }
    (number, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_bash() {
        for (line, expected) in [
            ("curl a", &["curl", "a"][..]),
            ("  curl\t'a b'  \"c \\\"d\\\"\" e\\ f ", &["curl", "a b", "c \"d\"", "e f"]),
            ("curl \\\n  -H 'x: y' \\\n  z", &["curl", "-H", "x: y", "z"]),
            ("a'b'\"c\"", &["abc"]),
            ("'' \"\"", &["", ""]),
            ("'a\\b' \"$'x'\"", &["a\\b", "$'x'"]),
            (r"$'a\'b' $'\n\t\\\u0021\x41\101\7'", &["a'b", "\n\t\\!AA\u{7}"]),
            (r#"--data-raw $'{"a":"\u00e9\r\n"}'"#, &["--data-raw", "{\"a\":\"é\r\n\"}"]),
            (r"$'\U0001F600\q' x$'y z'w", &["😀\\q", "xy zw"]),
            ("a=$b", &["a=$b"]),
        ] {
            assert_eq!(split(line), Ok(expected.iter().map(ToString::to_string).collect()), "{line}");
        }
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        for (line, part) in [
            ("curl 'a", "not closed"),
            ("curl $'a", "not closed"),
            ("curl \"a", "not closed"),
            (r"curl $'a\0'", "NUL"),
            (r"curl $'\xff'", "UTF-8"),
            (r"curl $'\ud800'", "no character"),
            (r"curl $'\xg'", "digits"),
            ("curl ^\"http://a/^\"", "cURL (bash)"),
        ] {
            let message = split(line).unwrap_err();
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
