//! Tracebacks of Python, without the frames of libraries: what a person has to look at is in their
//! own files. Pure; the log keeps everything.

/// Files of libraries have one of these in their path.
const LIBRARIES: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "<frozen "];

/// Replaces consecutive frames of libraries by one line that counts them. The frame in which an
/// exception was raised is kept where there is no other.
pub fn fold(lines: &[String]) -> Vec<String> {
    let mut folded = Vec::with_capacity(lines.len());
    let mut rest = lines;
    while !rest.is_empty() {
        let frames = frames(rest);
        let Some((last, _)) = frames.split_last() else {
            folded.push(rest[0].clone());
            rest = &rest[1..];
            continue;
        };
        let own = frames.iter().any(|frame| !is_library(&frame[0]));
        let mut hidden = 0;
        for frame in &frames {
            if is_library(&frame[0]) && (own || frame.as_ptr() != last.as_ptr()) {
                hidden += 1;
                continue;
            }
            push_hidden(&mut folded, &mut hidden);
            folded.extend_from_slice(frame);
        }
        push_hidden(&mut folded, &mut hidden);
        rest = &rest[frames.iter().map(|frame| frame.len()).sum()..];
    }
    folded
}

fn push_hidden(folded: &mut Vec<String>, hidden: &mut usize) {
    match std::mem::take(hidden) {
        0 => {}
        1 => folded.push("  … 1 frame of libraries".to_owned()),
        count => folded.push(format!("  … {count} frames of libraries")),
    }
}

/// The frames that `lines` begin with, each with its lines of source.
fn frames(lines: &[String]) -> Vec<&[String]> {
    let mut frames = Vec::new();
    let mut rest = lines;
    while rest.first().is_some_and(|line| is_frame(line)) {
        let is_source = |line: &&String| line.starts_with("    ");
        let count = 1 + rest[1..].iter().take_while(is_source).count();
        let (frame, behind) = rest.split_at(count);
        frames.push(frame);
        rest = behind;
    }
    frames
}

fn is_frame(line: &str) -> bool {
    line.starts_with("  File \"") && line.contains("\", line ")
}

fn is_library(frame: &str) -> bool {
    let path = frame.trim_start().strip_prefix("File \"").unwrap_or_default();
    let path = path.split("\", line ").next().unwrap_or_default();
    LIBRARIES.iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> String {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        fold(&lines).join("\n")
    }

    #[test]
    fn frames_of_libraries_become_one_line() {
        let text = r#"pass 0
Traceback (most recent call last):
  File "/home/wuyi/job/train.py", line 9, in <module>
    main()
    ~~~~^^
  File "/home/wuyi/job/train.py", line 5, in main
    trainer.train(reader)
  File "/opt/venv/lib/python3.13/site-packages/paddle/v2/trainer.py", line 88, in train
    self.step(batch)
  File "/opt/venv/lib/python3.13/site-packages/paddle/v2/trainer.py", line 99, in step
    for sample in reader():
                  ^^^^^^^^
  File "/home/wuyi/job/reader.py", line 3, in reader
    yield int(line)
  File "<frozen codecs>", line 325, in decode
ValueError: invalid literal for int()"#;
        insta::assert_snapshot!(check(text), @r#"
        pass 0
        Traceback (most recent call last):
          File "/home/wuyi/job/train.py", line 9, in <module>
            main()
            ~~~~^^
          File "/home/wuyi/job/train.py", line 5, in main
            trainer.train(reader)
          … 2 frames of libraries
          File "/home/wuyi/job/reader.py", line 3, in reader
            yield int(line)
          … 1 frame of libraries
        ValueError: invalid literal for int()
        "#);
    }

    #[test]
    fn where_all_is_library_the_last_frame_stays() {
        let text = "Traceback (most recent call last):\n  File \"<frozen runpy>\", line 1, in f\n  \
                    File \"/usr/lib/python3/dist-packages/x.py\", line 2, in g\n    raise E\nE";
        insta::assert_snapshot!(check(text), @r#"
        Traceback (most recent call last):
          … 1 frame of libraries
          File "/usr/lib/python3/dist-packages/x.py", line 2, in g
            raise E
        E
        "#);
    }

    #[test]
    fn what_is_no_traceback_is_left_alone() {
        let text = "hello\n  File \"x\"\n    indented\n\n  File /site-packages/ gone";
        assert_eq!(check(text), text);
    }
}
