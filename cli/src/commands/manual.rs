//! `manual`: writes the manual pages of all commands.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use turntree::Error;

use super::Verb;
use crate::program::invocation::Invocation;
use crate::program::parser;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::render::count;

/// What roff writes before a text: a straight apostrophe, with which examples can be copied.
const APOSTROPHE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Write the manual pages
///
/// One page for each command, such as turntree-log.1, and turntree.1, which lists them. Pages of an
/// earlier version in DIR are replaced. 'man' reads the pages in share/man/man1 next to a bin
/// directory of PATH.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree manual ~/.local/share/man/man1
  turntree manual pages && man ./pages/turntree-log.1")]
pub(crate) struct Manual {
    /// The directory for the pages; created if it does not exist
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
}

impl Verb for Manual {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let failed = |path: &Path| {
            let message = format!("write {}", path.display());
            move |error| Error::io(message, error)
        };
        fs::create_dir_all(&self.dir).map_err(failed(&self.dir))?;
        let mut whole = parser::whole().disable_help_subcommand(true);
        whole.build();
        let pages = pages(&whole).map_err(failed(&self.dir))?;
        for (name, page) in &pages {
            let path = self.dir.join(name);
            fs::write(&path, page).map_err(failed(&path))?;
        }
        let (dir, written) = (self.dir.display().to_string(), pages.len() as u64);
        if run.out.json {
            run.out.record(&json::ManualRecord { dir, pages: written })?;
        } else {
            writeln!(run.out, "{} in {dir}", count(written, "page"))?;
        }
        Ok(Answer::Yes)
    }
}

/// The names and bytes of the pages of a command and its subcommands; hidden ones have none.
fn pages(command: &clap::Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    // The page of the program describes them, as its help does.
    let hidden = |arg: clap::Arg| if arg.is_global_set() { arg.hide(true) } else { arg };
    let command = command.clone().mut_args(hidden);
    let man = Man::new(command.clone()).manual("turntree");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    let shown = || command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let is_root = command.get_display_name().is_none_or(|name| !name.contains('-'));
    if shown().next().is_some() && !is_root {
        man.render_subcommands_section(&mut page)?;
    }
    let more = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    as_typed(&more).to_writer(&mut page)?;
    let mut found = vec![(man.get_filename(), once(&page))];
    for verb in shown() {
        found.extend(pages(verb)?);
    }
    Ok(found)
}

/// The page with only the first definition of an apostrophe: each section begins with one.
fn once(page: &[u8]) -> Vec<u8> {
    let page = String::from_utf8_lossy(page);
    let (first, rest) = page.split_once(APOSTROPHE).unwrap_or(("", &page));
    format!("{first}{APOSTROPHE}{}", rest.replace(APOSTROPHE, "")).into_bytes()
}

/// Text with its lines as they are. A line at the margin that ends with a colon begins a section.
fn as_typed(text: &str) -> Roff {
    let mut roff = Roff::new();
    let is_heading = |line: &str| line.ends_with(':') && !line.starts_with(' ');
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let mut lines = block.trim_matches('\n').lines().peekable();
        if let Some(heading) = lines.next_if(|line| is_heading(line)) {
            roff.control("SH", [heading.trim_end_matches(':').to_uppercase().as_str()]);
        } else {
            roff.control("PP", []);
        }
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::{Roff, as_typed};

    #[test]
    fn examples_keep_their_lines_and_headings_become_sections() {
        let text = "Examples:\n  turntree log -n 5\n  turntree log '.x'\n\nTry it";
        let typed: Roff = as_typed(text);
        let page = typed.render();
        let (sections, end) = page.split_once(".PP\n").unwrap();
        assert!(sections.contains(".SH EXAMPLES\n.nf\n  turntree log \\-n 5\n"), "{page}");
        assert!(end.contains("Try it"), "{page}");
    }
}
