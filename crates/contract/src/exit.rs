//! Exit codes in plain words: the reason shown for a replica that ended.
//!
//! Only what the code itself tells. Whether the job fails because of it, and whether the memory
//! limit was really hit, is known to the backend, which adds its own sentence.

/// What an exit code says. Codes above 128 are 128 plus the signal that ended the process.
pub fn reason(code: i32) -> String {
    match (REASONS.iter().find(|(known, _)| *known == code), signal(code)) {
        (Some((_, reason)), _) => (*reason).to_owned(),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => format!("exited with code {code}: the end of its log says why"),
    }
}

/// The signal that ended a process with this exit code.
pub fn signal(code: i32) -> Option<i32> {
    (129..=192).contains(&code).then(|| code - SIGNAL_BASE)
}

/// The exit code of a process that was ended by `signal`.
pub fn from_signal(signal: i32) -> i32 {
    SIGNAL_BASE + signal
}

const SIGNAL_BASE: i32 = 128;

const REASONS: &[(i32, &str)] = &[
    (0, "finished"),
    (1, "the program failed: the end of its log says why"),
    (
        2,
        "the program refused its arguments, or a file of it is not there: the end of its log says \
         why",
    ),
    (126, "the entry command cannot be executed: is its file executable?"),
    (127, "the entry command was not found: is it in the package or the image?"),
    (130, "interrupted"),
    (134, "aborted: a failed assertion or a fatal error, see the end of its log"),
    (135, "crashed: bus error, often a full /dev/shm or a truncated mapped file"),
    (
        136,
        "floating-point trap: overflow, division by zero or NaN; \
         lower the learning rate or clip the gradients, and check the data",
    ),
    (137, "killed or out of memory: if nobody killed it, ask for more memory"),
    (139, "crashed: invalid memory access (segmentation fault)"),
    (143, "terminated on request"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_original_has_its_words() {
        let check = |code, word| assert!(reason(code).contains(word), "{}", reason(code));
        check(134, "abort");
        check(136, "floating-point trap");
        check(137, "out of memory");
        check(139, "crash");
    }

    #[test]
    fn other_codes_name_their_number() {
        assert_eq!(reason(129), "ended by signal 1");
        assert_eq!(reason(128 + 31), "ended by signal 31");
        assert_eq!(reason(42), "exited with code 42: the end of its log says why");
        assert_eq!(reason(255), "exited with code 255: the end of its log says why");
        assert_eq!(reason(-1), "exited with code -1: the end of its log says why");
    }

    #[test]
    fn signals_and_codes_are_inverse() {
        for number in 1..=64 {
            assert_eq!(signal(from_signal(number)), Some(number));
        }
        for code in [i32::MIN, -1, 0, 1, 128, 193, 255, i32::MAX] {
            assert_eq!(signal(code), None);
        }
    }
}
