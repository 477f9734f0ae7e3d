//! The program: its verbs, its servers, its hooks and its stories.

mod adopting;
mod clients;
mod exploration;
mod faults;
mod git_hook;
mod going_out;
mod here;
mod hook;
mod hook_late;
mod hook_live;
mod maintenance;
mod mcp;
mod old_spellings;
mod ollm;
mod permissions;
mod redacting;
mod resume;
mod rollback_intent;
mod secrets;
mod serve;
mod serve_page;
mod sessions;
mod stories;
mod usage;
mod workflows;
mod worktrees;
