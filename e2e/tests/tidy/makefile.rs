//! The rule about the `Makefile`, the only list of commands: each command says what it does.

use super::tree::File;

/// Commands (phony targets) without `## what it does` on their rule line.
pub(crate) fn descriptions(makefile: &File) -> Vec<String> {
    let mut offences = Vec::new();
    for (phony_number, name) in commands(makefile) {
        let rules: Vec<(usize, &str)> =
            makefile.lines().filter(|(_, line)| is_rule_of(line, name)).collect();
        if !rules.iter().any(|(_, line)| is_described(line)) {
            let number = rules.first().map_or(phony_number, |(number, _)| *number);
            let what = format!("`{name}` is not described; write `{name}: … ## what it does`");
            offences.push(makefile.offence(number, &what));
        }
    }
    offences
}

/// The phony targets, with the line that declares each.
fn commands(makefile: &File) -> Vec<(usize, &str)> {
    let mut commands = Vec::new();
    let mut continues = false;
    for (number, line) in makefile.lines() {
        let names = match line.strip_prefix(".PHONY:") {
            Some(names) => names,
            None if continues => line,
            None => continue,
        };
        continues = names.ends_with('\\');
        let names = names.trim_end_matches('\\').split_whitespace();
        commands.extend(names.map(|name| (number, name)));
    }
    commands
}

fn is_rule_of(line: &str, name: &str) -> bool {
    !line.starts_with(['\t', '#', '.'])
        && line.split_once(':').is_some_and(|(targets, rest)| {
            !rest.starts_with('=') && targets.split_whitespace().any(|target| target == name)
        })
}

fn is_described(rule: &str) -> bool {
    rule.split_once("## ").is_some_and(|(_, description)| !description.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        assert_eq!(descriptions(&File::new("Makefile", text)), expect);
    }

    #[test]
    fn a_described_command_passes() {
        check(".PHONY: test\ntest: build ## run every test\n\tcargo test\n", &[]);
        check("target/x: y\n\tcp y x\n", &[]);
    }

    #[test]
    fn a_command_without_a_description_is_reported_with_its_line() {
        check(
            ".PHONY: demo \\\n  test\ndemo: ## show it\ntest: build\n\tcargo test ## no\n",
            &["Makefile:4: `test` is not described; write `test: … ## what it does`"],
        );
    }

    #[test]
    fn a_command_without_a_rule_is_reported_where_it_is_declared() {
        check(
            "x:\n.PHONY: bench\nbench := 1\n",
            &["Makefile:2: `bench` is not described; write `bench: … ## what it does`"],
        );
    }
}
