//! The `turntree` program.

fn main() -> std::process::ExitCode {
    turntree_cli::main()
}
