//! Pictures as columns: under each place of a window the pixels that it sees, so that a convolution
//! is a product of matrices. And back, adding up what falls on the same pixel.

use super::Axis;

/// A window that moves over a picture: its way down and its way across.
pub(super) type Window = [Axis; 2];

/// Rows of the columns for one channel.
pub(super) fn taps(window: &Window) -> usize {
    window[0].window * window[1].window
}

/// Columns, of which each belongs to a place of the window.
pub(super) fn places(window: &Window) -> usize {
    window[0].places * window[1].places
}

/// Writes the columns of some channels, from column `from` on, to rows of `width` numbers.
pub(super) fn unfold(
    window: &Window,
    channels: &[f32],
    columns: &mut [f32],
    [width, from]: [usize; 2],
) {
    let [down, across] = window;
    let rows = columns.chunks_exact_mut(width).map(|row| &mut row[from..][..places(window)]);
    for (row, (channel, tap_down, tap_across)) in rows.zip(rows_of(window, channels.len())) {
        let channel = &channels[channel..][..down.length * across.length];
        let (lines, first_line) = down.reach(tap_down);
        let (stops, first_pixel) = across.reach(tap_across);
        if lines.len() < down.places {
            row.fill(0.0);
        }
        for (step, line) in lines.enumerate() {
            let target = &mut row[line * across.places..][..across.places];
            let source = &channel[(first_line + step * down.stride) * across.length..];
            target[..stops.start].fill(0.0);
            target[stops.end..].fill(0.0);
            if stops.is_empty() {
                continue;
            }
            let target = &mut target[stops.clone()];
            if across.stride == 1 {
                target.copy_from_slice(&source[first_pixel..][..target.len()]);
            } else {
                let source = source[first_pixel..].iter().step_by(across.stride);
                target.iter_mut().zip(source).for_each(|(target, number)| *target = *number);
            }
        }
    }
}

/// Adds columns, those from column `from` on of rows of `width` numbers, to the pixels of some
/// channels.
pub(super) fn fold(
    window: &Window,
    columns: &[f32],
    channels: &mut [f32],
    [width, from]: [usize; 2],
) {
    let [down, across] = window;
    let rows = columns.chunks_exact(width).map(|row| &row[from..][..places(window)]);
    for (row, (channel, tap_down, tap_across)) in rows.zip(rows_of(window, channels.len())) {
        let channel = &mut channels[channel..][..down.length * across.length];
        let (lines, first_line) = down.reach(tap_down);
        let (stops, first_pixel) = across.reach(tap_across);
        if stops.is_empty() {
            continue;
        }
        for (step, line) in lines.enumerate() {
            let source = &row[line * across.places..][stops.clone()];
            let target = &mut channel[(first_line + step * down.stride) * across.length..];
            let target = &mut target[first_pixel..];
            if across.stride == 1 {
                target.iter_mut().zip(source).for_each(|(target, number)| *target += number);
            } else {
                let target = target.iter_mut().step_by(across.stride);
                target.zip(source).for_each(|(target, number)| *target += number);
            }
        }
    }
}

/// For each row of the columns: where its channel begins, and which pixel of the window it is.
fn rows_of(window: &Window, numbers: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let [down, across] = *window;
    (0..numbers).step_by(down.length * across.length).flat_map(move |channel| {
        let taps = (0..down.window).flat_map(move |y| (0..across.window).map(move |x| (y, x)));
        taps.map(move |(y, x)| (channel, y, x))
    })
}
