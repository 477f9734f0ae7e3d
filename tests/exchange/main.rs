//! The exchange: formats, import, rendering, git and agents, one file a module of `exchange`.

mod adopt;
mod adopt_compressed;
mod adopt_opencode;
mod allocation;
mod codesign;
mod codesign_chats;
mod codesign_database;
mod compare;
mod context_chef;
mod follow;
mod git_export;
mod git_import;
mod git_tags;
mod import;
mod import_hostile;
mod import_recorded;
mod import_turns;
mod ollm;
mod ollm_directories;
mod prompts;
mod render;
mod render_page;
mod resume;
mod spiral;
mod swarm;
mod swarm_vectors;
