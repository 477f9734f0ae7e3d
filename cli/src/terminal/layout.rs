//! The layout of a screen of any size.

use ratatui_core::layout::Rect;

/// Width from which a list shows the preview to its right.
const FOR_TWO: u16 = 100;

/// Height from which a list shows the preview below it.
const FOR_BELOW: u16 = 18;

/// Height from which a list shows headings.
const FOR_HEADINGS: u16 = 14;

/// The parts of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) header: Rect,
    /// The headings of a list, if they fit.
    pub(super) headings: Option<Rect>,
    /// The rows of a list.
    pub(super) list: Rect,
    /// The preview of the chosen row.
    pub(super) preview: Option<Rect>,
    /// The area of a text: all rows between header and footer.
    pub(super) body: Rect,
    pub(super) footer: Rect,
}

impl Layout {
    /// The parts of a screen of this size.
    pub(super) fn of(columns: u16, rows: u16) -> Self {
        let screen = Rect::new(0, 0, columns, rows);
        let part = |x: u16, y: u16, width: u16, height: u16| {
            Rect::new(x, y, width, height).intersection(screen)
        };
        let body = part(0, 1, columns, rows.saturating_sub(2));
        let (mut list, preview) = if columns >= FOR_TWO {
            let left = columns / 20 * 11;
            (part(0, 1, left, body.height), Some(part(left + 2, 1, columns, body.height)))
        } else if rows >= FOR_BELOW {
            let above = body.height / 2;
            // A line separates them.
            let below = part(0, 2 + above, columns, body.height - above - 1);
            (part(0, 1, columns, above), Some(below))
        } else {
            (body, None)
        };
        let headings = (rows >= FOR_HEADINGS).then(|| {
            let headings = Rect { height: 1, ..list };
            list = part(list.x, list.y + 1, list.width, list.height.saturating_sub(1));
            headings
        });
        let footer = part(0, rows.saturating_sub(1), columns, 1);
        Self { header: part(0, 0, columns, 1), headings, list, preview, body, footer }
    }

    /// The number of visible rows of a list.
    pub(super) fn list_rows(&self) -> usize {
        usize::from(self.list.height)
    }

    /// The number of visible rows of a text.
    pub(super) fn text_rows(&self) -> usize {
        usize::from(self.body.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_meet_on_any_screen() {
        for columns in 0..160 {
            for rows in 2..60 {
                let layout = Layout::of(columns, rows);
                let screen = Rect::new(0, 0, columns, rows);
                let Layout { header, headings, list, preview, body, footer } = layout;
                let mut parts = vec![header, list, footer];
                parts.extend(headings);
                parts.extend(preview);
                parts.retain(|part| !part.is_empty());
                for (at, part) in parts.iter().enumerate() {
                    assert_eq!(part.intersection(screen), *part, "{columns}x{rows}");
                    let meets = |other: &Rect| part.intersects(*other);
                    assert!(!parts[at + 1..].iter().any(meets), "{columns}x{rows}: {layout:?}");
                }
                assert!(body.is_empty() || list.height > 0, "{columns}x{rows}");
            }
        }
    }
}
