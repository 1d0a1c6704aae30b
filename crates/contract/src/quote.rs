//! Arguments as a shell would read them back. Pure.

/// One command line from a program and its arguments.
pub fn quote(argv: &[String]) -> String {
    argv.iter().map(|argument| quote_one(argument)).collect::<Vec<_>>().join(" ")
}

fn quote_one(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        let arguments = ["plain", "", "a b", "it's", "$HOME", "naïve\n", "*", "a\"b\\"];
        let line = quote(&arguments.map(str::to_owned));
        let script = format!("printf '%s\\0' {line}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let read: Vec<_> = output.stdout.split(|byte| *byte == 0).collect();
        assert_eq!(read[..arguments.len()], arguments.map(str::as_bytes));
    }
}
