//! Printing a configuration as a file that, read again, means the same: every key, what it is for, and its value. Keys
//! that have no value are there as comments.

use toml::Value;

use super::Configuration;
use super::form::Form;
use super::keys::{self, Keys};

/// Width of explanations.
const COLUMNS: usize = 100;

/// The file's text.
pub fn print(configuration: &Configuration) -> String {
    let mut printer = Printer { text: String::new(), path: Vec::new(), is_example: false, explains: true };
    printer.push_prose("The configuration of `thalweg serve`, as it is in effect. Keys behind a bare # are not set.");
    // The printer reads; that it is given what could be changed is the reader's need.
    keys::configuration(&mut printer, &mut configuration.clone());
    printer.text
}

struct Printer {
    text: String,
    /// The tables that the present one is in.
    path: Vec<&'static str>,
    /// Nothing of this is set: it shows what could be.
    is_example: bool,
    /// Keys are explained, and shown though they are not set.
    explains: bool,
}

impl Printer {
    fn push_prose(&mut self, says: &str) {
        let mut column = 0;
        for word in says.split_whitespace() {
            let begins = column == 0;
            if begins || column + 1 + word.len() > COLUMNS {
                self.text.push_str(if begins { "# " } else { "\n# " });
                column = 2;
            } else {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += word.len();
        }
        self.text.push('\n');
    }

    fn push_line(&mut self, is_comment: bool, line: &str) {
        if is_comment {
            self.text.push('#');
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn push_key(&mut self, name: &str, says: &str, value: Option<&Value>, example: &str) {
        if value.is_none() && !self.explains {
            return;
        }
        if self.explains {
            self.push_prose(says);
        }
        match value {
            Some(value) => self.push_line(self.is_example, &format!("{name} = {value}")),
            None => self.push_line(true, &format!("{name} = {example}")),
        }
    }

    /// Prints a table with its heading.
    fn print_table<T>(&mut self, name: &'static str, is_one_of_many: bool, value: &mut T, keys: fn(&mut Self, &mut T)) {
        self.path.push(name);
        let path = self.path.join(".");
        let heading = if is_one_of_many { format!("[[{path}]]") } else { format!("[{path}]") };
        self.push_line(self.is_example, &heading);
        keys(self, value);
        self.path.pop();
    }

    /// Does so for what is not set.
    fn print_example<T>(
        &mut self,
        name: &'static str,
        is_one_of_many: bool,
        mut value: T,
        keys: fn(&mut Self, &mut T),
    ) {
        if self.explains {
            let outer = std::mem::replace(&mut self.is_example, true);
            self.print_table(name, is_one_of_many, &mut value, keys);
            self.is_example = outer;
        }
    }

    fn begin_table(&mut self, says: &str) {
        self.text.push('\n');
        if self.explains {
            self.push_prose(says);
        }
    }
}

impl Keys for Printer {
    fn value<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T) {
        self.push_key(name, says, (form.write)(value).as_ref(), form.example);
    }

    fn required<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T) {
        let value = (form.write)(value).filter(|_| !self.is_example);
        self.push_key(name, says, value.as_ref(), form.example);
    }

    fn table<T>(&mut self, name: &'static str, says: &'static str, value: &mut T, keys: fn(&mut Self, &mut T)) {
        self.begin_table(says);
        self.print_table(name, false, value, keys);
    }

    fn optional<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        value: &mut Option<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    ) {
        match value {
            None if !self.explains => {}
            None => {
                self.begin_table(says);
                self.print_example(name, false, new(), keys);
            }
            Some(value) => {
                self.begin_table(says);
                self.print_table(name, false, value, keys);
            }
        }
    }

    fn tables<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        values: &mut Vec<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    ) {
        let explains = self.explains;
        if values.is_empty() && explains {
            self.begin_table(says);
            self.print_example(name, true, new(), keys);
        }
        for value in values {
            self.begin_table(says);
            self.print_table(name, true, value, keys);
            // Once is enough.
            self.explains = false;
        }
        self.explains = explains;
    }
}
