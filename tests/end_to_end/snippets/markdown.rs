//! Fenced blocks of Markdown documents, and the commands in them.
//!
//! The first word behind the fence is the language; the others are for the tests:
//!
//! | word | meaning |
//! | --- | --- |
//! | `not-run=REASON` | the block is not run |
//! | `exit=N` | a command of the block ends with this code |
//! | `patience=SECONDS` | measurements have so long before they are interrupted |
//! | `continues` | the block goes on where the one before it has ended |
//! | `session` | the TOML is a session file |

use std::collections::BTreeMap;

/// Words with a value, and those without.
const WITH_VALUE: [&str; 3] = ["not-run", "exit", "patience"];
const WITHOUT_VALUE: [&str; 2] = ["continues", "session"];

/// Languages of blocks that nothing is done with.
const PLAIN: [&str; 4] = ["text", "ini", "json", "nginx"];

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// Commands behind a prompt, and what they print.
    Console,
    /// Commands, one per line.
    Shell,
    /// A configuration or a session file.
    Toml,
    /// A job of a pipeline, of which Thalweg's own commands are run.
    Yaml,
    /// Everything else.
    Plain,
}

/// A fenced block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) file: String,
    /// The line of its first content.
    pub(crate) line: usize,
    pub(crate) language: Language,
    pub(crate) words: BTreeMap<String, String>,
    pub(crate) text: Vec<String>,
}

/// A command, and the line on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The blocks of a document.
///
/// # Errors
/// A block has no language, or a word that means nothing; or it does not end.
pub(crate) fn blocks(file: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let place = format!("{file}:{}", index + 1);
        let indent = indent(line);
        let (language, words) = read_info(info).map_err(|fault| format!("{place}: {fault}"))?;
        let mut text = Vec::new();
        loop {
            let Some((_, line)) = lines.next() else { return Err(format!("{place}: the block does not end")) };
            if line.trim() == "```" {
                break;
            }
            text.push(line.get(indent..).unwrap_or_default().to_owned());
        }
        blocks.push(Block { file: file.to_owned(), line: index + 2, language, words, text });
    }
    Ok(blocks)
}

fn read_info(info: &str) -> Result<(Language, BTreeMap<String, String>), String> {
    let mut parts = info.split_whitespace();
    let language = match parts.next() {
        Some("console") => Language::Console,
        Some("sh") => Language::Shell,
        Some("toml") => Language::Toml,
        Some("yaml") => Language::Yaml,
        Some(plain) if PLAIN.contains(&plain) => Language::Plain,
        Some(other) => return Err(format!("{other:?} is no language that the tests know")),
        None => return Err("the block needs a language: sh or console for commands, text for anything else".to_owned()),
    };
    let mut words = BTreeMap::new();
    for word in parts {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let known: &[&str] = if word.contains('=') { &WITH_VALUE } else { &WITHOUT_VALUE };
        if !known.contains(&name) {
            return Err(format!("{word:?} means nothing; there are {WITH_VALUE:?} with a value and {WITHOUT_VALUE:?}"));
        }
        words.insert(name.to_owned(), value.to_owned());
    }
    Ok((language, words))
}

impl Block {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// Whether something is done with it.
    pub(crate) fn is_tested(&self) -> bool {
        self.language != Language::Plain
    }

    pub(crate) fn not_run(&self) -> Option<&str> {
        self.words.get("not-run").map(String::as_str)
    }

    pub(crate) fn continues(&self) -> bool {
        self.words.contains_key("continues")
    }

    /// A number behind a word.
    pub(crate) fn number(&self, word: &str) -> Option<i32> {
        let number = self.words.get(word)?;
        Some(number.parse().unwrap_or_else(|_| panic!("{}: {word}={number} is no number", self.place())))
    }

    pub(crate) fn contains(&self, part: &str) -> bool {
        self.text.iter().any(|line| line.contains(part))
    }

    /// The commands in order.
    pub(crate) fn commands(&self) -> Vec<CommandLine> {
        let mut commands = Vec::new();
        let mut lines = self.text.iter().enumerate();
        while let Some((index, line)) = lines.next() {
            let command = match self.language {
                Language::Console => behind_prompt(line),
                Language::Shell => Some(line.as_str()),
                Language::Yaml => {
                    Some(line.trim_start().trim_start_matches("- ")).filter(|line| line.starts_with("thalweg "))
                }
                Language::Toml | Language::Plain => None,
            };
            let Some(command) = command.filter(|line| !line.trim().is_empty() && !line.starts_with('#')) else {
                continue;
            };
            let mut text = command.to_owned();
            if line.trim_start().starts_with("- ") {
                // A text of YAML goes on in lines that are indented further.
                let further = self.text[index + 1..].iter().take_while(|next| indent(next) > indent(line));
                further.for_each(|next| text.push_str(&format!(" {}", next.trim())));
            }
            while text.ends_with('\\') {
                text.pop();
                let next = lines.next().map_or("", |(_, line)| line.trim_start_matches("> "));
                text.push_str(next.trim_start());
            }
            if let Some(end) = here_document(&text) {
                for (_, line) in lines.by_ref() {
                    text.push('\n');
                    text.push_str(line.strip_prefix("> ").unwrap_or(line));
                    if text.ends_with(&format!("\n{end}")) {
                        break;
                    }
                }
            }
            commands.push(CommandLine { line: self.line + index, text });
        }
        commands
    }

    /// A line that looks like a command of Thalweg, with its place.
    pub(crate) fn hidden_command(&self) -> Option<String> {
        let is_command = |line: &str| {
            line.starts_with("thalweg ") || behind_prompt(line).is_some_and(|command| command.starts_with("thalweg "))
        };
        let (index, line) = self.text.iter().enumerate().find(|(_, line)| is_command(line))?;
        Some(format!("{}:{}: {line}", self.file, self.line + index))
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The text behind `$ `, `# `, `HOST$ ` or `HOST# `.
fn behind_prompt(line: &str) -> Option<&str> {
    let (host, command) = line.split_once(['$', '#'])?;
    let is_host = host.chars().all(|c| c.is_ascii_lowercase());
    command.strip_prefix(' ').filter(|_| is_host)
}

/// The line that ends the here document which a command has.
fn here_document(command: &str) -> Option<String> {
    let (_, rest) = command.split_once("<<")?;
    let word = rest.trim_start_matches(['\'', '"']);
    let end = word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len());
    (end > 0).then(|| word[..end].to_owned())
}

fn one(text: &str) -> Block {
    let mut blocks = blocks("a.md", text).expect("a block");
    assert_eq!(blocks.len(), 1);
    blocks.remove(0)
}

#[test]
fn commands_are_found_behind_prompts_and_in_scripts() {
    let check = |text: &str, expected: &[(usize, &str)]| {
        let found: Vec<(usize, String)> =
            one(text).commands().into_iter().map(|command| (command.line, command.text)).collect();
        let expected: Vec<(usize, String)> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("```console\n$ thalweg run x\nPASS  x\n# thalweg serve\n```", &[(2, "thalweg run x"), (4, "thalweg serve")]);
    check("```console\nserver$ a\nclient$ b\nb$x\n```", &[(2, "a"), (3, "b")]);
    check("x\n\n```sh\n# says\na \\\n    b   # says\n\nc\n```", &[(5, "a b   # says"), (8, "c")]);
    check("```sh\na <<'EOF'\n# b\nEOF\nc\n```", &[(2, "a <<'EOF'\n# b\nEOF"), (5, "c")]);
    check("  ```sh\n  a\n  ```", &[(2, "a")]);
    check("```yaml\nscript:\n  - make\n  - thalweg a\n    b\n  - c\n```", &[(4, "thalweg a b")]);
    check("```yaml\n- run: |\n    make\n    thalweg a \\\n      b\n    c\n```", &[(4, "thalweg a b")]);
}

#[test]
fn words_are_read_and_others_refused() {
    let block = one("```sh not-run=builds exit=2 continues\na\n```");
    assert_eq!((block.not_run(), block.number("exit"), block.continues()), (Some("builds"), Some(2), true));
    for wrong in ["```\na\n```", "```bash\na\n```", "```sh slow\na\n```", "```sh not-run\na\n```", "```sh\na"] {
        assert!(blocks("a.md", wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_command_in_plain_text_is_found() {
    for (text, found) in
        [("thalweg run x", true), ("$ thalweg x", true), ("# thalweg x", true), ("see thalweg x", false)]
    {
        assert_eq!(one(&format!("```text\na\n{text}\n```")).hidden_command().is_some(), found, "{text}");
    }
}
