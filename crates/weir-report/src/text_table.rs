//! Tables as text: aligned columns that fit the terminal and break lines only between words.

use crate::text::{clip, length, wrapped};

/// Number of spaces between two columns of a table.
const GAP: usize = 2;

/// A table of texts.
#[derive(Debug)]
pub struct TextTable {
    columns: Vec<TextColumn>,
    rows: Vec<Vec<String>>,
}

/// A column and its limits.
#[derive(Debug, Clone, Copy)]
pub struct TextColumn {
    heading: &'static str,
    width_max: usize,
    /// Minimum width to which a narrow terminal may truncate the cells; 0 if it may not.
    width_cut: usize,
    is_number: bool,
}

impl TextColumn {
    /// Creates a column whose cells are truncated to `width_max`.
    pub fn text(heading: &'static str, width_max: usize) -> Self {
        Self {
            heading,
            width_max,
            width_cut: 0,
            is_number: false,
        }
    }

    /// Creates a column of numbers, aligned to the right.
    pub fn number(heading: &'static str) -> Self {
        Self {
            is_number: true,
            ..Self::text(heading, usize::MAX)
        }
    }

    /// Lets a narrow terminal truncate the cells, to no less than this width.
    #[must_use]
    pub fn cut(self, width_cut: usize) -> Self {
        Self { width_cut, ..self }
    }
}

impl TextTable {
    /// Creates a table without rows.
    pub fn new(columns: &[TextColumn]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column. Cells must not contain control characters.
    pub fn row(&mut self, cells: &[&str]) {
        let cells = cells.iter().zip(&self.columns);
        let cells = cells.map(|(cell, column)| clip(cell, column.width_max));
        self.rows.push(cells.collect());
    }

    /// Returns the lines of the table.
    ///
    /// If they would be longer than `width`, cells are truncated where allowed, then wrapped
    /// between words. If even that does not help, each row becomes a list with a line for each
    /// cell.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let headings = self.columns.iter().map(|column| column.heading.to_owned());
        let heading: Vec<String> = headings.collect();
        let rows: Vec<&Vec<String>> = [&heading].into_iter().chain(&self.rows).collect();
        let mut widths = self.each_column(|at| widest(&rows, at, length));
        let width = width.unwrap_or(usize::MAX);
        if total(&widths) > width {
            let words = self.each_column(|at| widest(&rows, at, longest_word));
            match self.shrunk(&widths, &words, width) {
                Some(shrunk) => widths = shrunk,
                None => return self.lists(width),
            }
        }
        rows.iter()
            .flat_map(|cells| self.row_lines(cells, &widths))
            .collect()
    }

    fn each_column(&self, of: impl Fn(usize) -> usize) -> Vec<usize> {
        (0..self.columns.len()).map(of).collect()
    }

    /// Returns column widths that fit into `width`, or `None` if a word would not fit. Truncates
    /// cells first, then wraps texts, then numbers; each step shrinks the widest column.
    fn shrunk(&self, widths: &[usize], words: &[usize], width: usize) -> Option<Vec<usize>> {
        let cuts = self.columns.iter().zip(widths);
        let cuts: Vec<usize> = cuts
            .map(|(column, width)| match column.width_cut {
                0 => *width,
                cut => cut.max(length(column.heading)).min(*width),
            })
            .collect();
        let words = words.iter().zip(&cuts).map(|(word, cut)| *word.min(cut));
        let words: Vec<usize> = words.collect();
        let texts = self.each_column(|at| match self.columns[at].is_number {
            true => cuts[at],
            false => words[at],
        });
        let mut shrunk = widths.to_vec();
        for least in [cuts, texts, words] {
            while total(&shrunk) > width {
                let can_shrink = |at: &usize| shrunk[*at] > least[*at];
                let Some(at) = (0..shrunk.len())
                    .filter(can_shrink)
                    .max_by_key(|at| shrunk[*at])
                else {
                    break;
                };
                shrunk[at] -= 1;
            }
        }
        (total(&shrunk) <= width).then_some(shrunk)
    }

    /// Returns the lines of a row, several if cells are wrapped.
    fn row_lines(&self, cells: &[String], widths: &[usize]) -> Vec<String> {
        let wrapped: Vec<Vec<String>> = cells
            .iter()
            .zip(self.columns.iter().zip(widths))
            .map(|(cell, (column, width))| match column.width_cut {
                0 if length(cell) > *width => wrapped(cell, *width),
                0 => vec![cell.clone()],
                _ => vec![clip(cell, *width)],
            })
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let line = |number: usize| {
            let cells = wrapped.iter().zip(self.columns.iter().zip(widths));
            let cells = cells.map(|(lines, (column, width))| {
                let text = lines.get(number).map_or("", String::as_str);
                aligned(text, length(text), *width, column.is_number)
            });
            let cells: Vec<String> = cells.collect();
            cells.join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    /// Returns a list for each row: its cells, below each other.
    fn lists(&self, width: usize) -> Vec<String> {
        let names = self.columns.iter().map(|column| length(column.heading));
        let at = names.max().unwrap_or(0) + GAP;
        let mut lines = Vec::new();
        for (number, cells) in self.rows.iter().enumerate() {
            if number > 0 {
                lines.push(String::new());
            }
            for (cell, column) in cells.iter().zip(&self.columns) {
                if cell.is_empty() {
                    continue;
                }
                let name = aligned(column.heading, length(column.heading), at, false);
                let parts = wrapped(cell, width.saturating_sub(at).max(1));
                let heads = [name].into_iter().chain(std::iter::repeat(" ".repeat(at)));
                lines.extend(heads.zip(parts).map(|(head, part)| head + &part));
            }
        }
        lines
    }
}

/// Pads a text that is `shown` characters wide with spaces up to the width of its column.
pub(crate) fn aligned(text: &str, shown: usize, width: usize, is_number: bool) -> String {
    let space = " ".repeat(width.saturating_sub(shown));
    match is_number {
        true => space + text,
        false => text.to_owned() + &space,
    }
}

/// Returns the length of a line with these columns.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn widest(rows: &[&Vec<String>], at: usize, of: fn(&str) -> usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(at));
    cells.map(|cell| of(cell)).max().unwrap_or(0)
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(length).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(&[
            TextColumn::text("name", 20),
            TextColumn::number("count"),
            TextColumn::text("file", 40).cut(8),
            TextColumn::text("remark", usize::MAX),
        ]);
        table.row(&["short", "7", "a.xml", "nothing to say"]);
        table.row(&[
            "longer-name",
            "1234",
            "directory/with/a/long/name.xml",
            "see the notes below the table",
        ]);
        table
    }

    #[test]
    fn columns_are_aligned_if_they_fit() {
        let expected = "\
name         count  file                            remark
short            7  a.xml                           nothing to say
longer-name   1234  directory/with/a/long/name.xml  see the notes below the table";
        assert_eq!(table().lines(None).join("\n"), expected);
        assert_eq!(table().lines(Some(81)).join("\n"), expected);
    }

    #[test]
    fn cells_are_truncated_before_others_are_wrapped() {
        let expected = "\
name         count  file                       remark
short            7  a.xml                      nothing to say
longer-name   1234  directory/with/a/long/na…  see the notes below the table";
        assert_eq!(table().lines(Some(76)).join("\n"), expected);
        let expected = "\
name         count  file      remark
short            7  a.xml     nothing
                              to say
longer-name   1234  directo…  see the
                              notes
                              below the
                              table";
        assert_eq!(table().lines(Some(39)).join("\n"), expected);
    }

    #[test]
    fn rows_become_lists_if_words_do_not_fit() {
        let expected = "\
name    short
count   7
file    a.xml
remark  nothing to say

name    longer-name
count   1234
file    directory/with/a/long/name.xml
remark  see the notes
        below the table";
        assert_eq!(table().lines(Some(24)).join("\n"), expected);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = TextTable::new(&[TextColumn::text("a", 9), TextColumn::text("b", 9)]);
        table.row(&["猫", "x"]);
        table.row(&["abc", "y"]);
        assert_eq!(table.lines(None).join("\n"), "a    b\n猫   x\nabc  y");
    }

    proptest! {
        #[test]
        fn no_word_is_broken(
            rows in proptest::collection::vec(
                proptest::collection::vec("([a-z]{1,14} ?){0,6}", 3),
                1..6,
            ),
            width in 10_usize..100,
        ) {
            let mut table = TextTable::new(&[
                TextColumn::text("one", 200),
                TextColumn::number("two"),
                TextColumn::text("three", usize::MAX),
            ]);
            for row in &rows {
                let cells: Vec<&str> = row.iter().map(String::as_str).collect();
                table.row(&cells);
            }
            let lines = table.lines(Some(width));
            let shown = lines.iter().flat_map(|line| line.split_whitespace());
            let mut shown: Vec<&str> = shown.collect();
            let has_word = |word: &&str| !["one", "two", "three"].contains(word);
            shown.retain(has_word);
            let mut words: Vec<&str> = rows.iter().flatten()
                .flat_map(|cell| cell.split_whitespace()).filter(|word| has_word(word)).collect();
            shown.sort_unstable();
            words.sort_unstable();
            prop_assert_eq!(shown, words);
            for line in &lines {
                let is_one_word = line.split_whitespace().count() <= 2;
                prop_assert!(length(line) <= width || is_one_word, "{}", line);
            }
        }
    }
}
