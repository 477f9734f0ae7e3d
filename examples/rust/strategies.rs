//! An agent's loop: a task, three strategies in branches of their own, the best one merged, and back.
//! Run it with `cargo run -p turntree --example strategies`.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use turntree::context::Role;
use turntree::local::{Repo, Session};

/// Takes a turn that says and writes something; an agent would call its model here.
fn work(session: &Session, said: &str, path: &str, content: &str) -> turntree::Result<()> {
    let mut turn = session.turn()?;
    let message = format!(r#"{{"role":"assistant","content":"{said}"}}"#);
    turn.push_message("main", Role::Assistant, message)?;
    turn.set(path, content.to_owned())?;
    turn.by("example", "no model").commit(said).map(drop)
}

fn main() -> turntree::Result<()> {
    let folder = std::env::temp_dir().join(format!("strategies-{}", std::process::id()));
    let repo = Repo::open_or_create(folder.join(".turntree"))?;
    let session = repo.session("parser")?;
    work(&session, "The parser is slow.", "files/src/parser.rs", "fn parse() {}\n")?;

    let begin = session.newest()?.expect("a turn was taken");
    for (name, plan) in [("cache", "keep tokens"), ("arena", "one arena"), ("simd", "wide reads")] {
        let strategy = session.fork(name, &begin)?;
        for step in 1..=3 {
            let content = format!("fn parse() {{ /* {plan}, step {step} */ }}\n");
            work(&strategy, plan, "files/src/parser.rs", &content)?;
        }
    }

    let best = repo.session("parser/arena")?;
    println!("merged: {:?}", session.merge(&best)?.kind);
    for snapshot in session.history()? {
        let snapshot = snapshot?;
        println!("turn {} {}", snapshot.turn(), snapshot.title());
    }
    println!("{} places say 'arena'", repo.search("arena")?.len());

    session.rewind().to_turn(1).plan()?.apply()?;
    print!(
        "went back to: {}",
        session.newest()?.expect("the way back").text("files/src/parser.rs")?
    );
    println!("took back: {:?}", repo.undo()?);
    std::fs::remove_dir_all(&folder)
        .map_err(|error| turntree::Error::io("remove the example", error))
}
