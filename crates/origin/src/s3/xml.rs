//! Reading the small XML documents of S3 servers: their elements with text, in order. Bounded in
//! depth; the caller bounds the bytes. Namespaces, attributes and document types are ignored.

use quick_xml::Reader;
use quick_xml::events::Event;

/// The deepest nesting of elements that is read.
const DEPTH_MAX: usize = 16;

/// Visits each element when it ends, with the names from the root to it, and the text in it.
pub(super) fn visit(bytes: &[u8], mut ended: impl FnMut(&[&str], &str)) -> Result<(), String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    let mut end = |path: &mut Vec<String>, content: &mut String| {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        ended(&names, content);
        content.clear();
        path.pop();
    };
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(element) => {
                if path.len() == DEPTH_MAX {
                    return Err("it is nested too deeply".into());
                }
                path.push(name(element.local_name().as_ref()));
                content.clear();
            }
            Event::End(_) => end(&mut path, &mut content),
            Event::Empty(element) => {
                path.push(name(element.local_name().as_ref()));
                content.clear();
                end(&mut path, &mut content);
            }
            Event::Text(part) => content.push_str(&part.xml10_content()),
            Event::CData(part) => content.push_str(&part.xml10_content()),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(|error| error.to_string())? {
                Some(character) => content.push(character),
                None => content.push_str(entity(&reference.xml10_content())?),
            },
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err("it ends early".into()),
            _ => {}
        }
    }
}

fn name(local: impl AsRef<str>) -> String {
    local.as_ref().to_owned()
}

fn entity(name: &str) -> Result<&'static str, String> {
    match name {
        "amp" => Ok("&"),
        "lt" => Ok("<"),
        "gt" => Ok(">"),
        "quot" => Ok("\""),
        "apos" => Ok("'"),
        _ => Err(format!("it has an unknown entity {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let mut found = Vec::new();
        let outcome = visit(text.as_bytes(), |path, text| found.push(format!("{}={text}", path.join("/"))));
        match (outcome, expected) {
            (Ok(()), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{text}: {error}"),
            (outcome, _) => panic!("{text}: {outcome:?}, {found:?}"),
        }
    }

    #[test]
    fn elements_are_visited_with_their_text() {
        check("<?xml version=\"1.0\"?>\n<A xmlns=\"x\"><B>1</B><C/></A>", Ok(&["A/B=1", "A/C=", "A="]));
        check("<A>a&amp;b &#228;&#x41; <![CDATA[<x>]]></A>", Ok(&["A=a&b \u{e4}A <x>"]));
        check("<n:A><n:B>1</n:B></n:A>", Ok(&["A/B=1", "A="]));
        check("<A><B>1</A>", Err(""));
        check("<A><B>1</B>", Err("ends early"));
        check("<A>&evil;</A>", Err("entity"));
        check(&"<A>".repeat(17), Err("deeply"));
        check("plain", Ok(&[]));
    }
}
